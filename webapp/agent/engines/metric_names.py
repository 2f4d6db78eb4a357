"""Which of an engine's own metrics hold its queue, its KV cache and its tokens: a table, one row a kind.

A new kind of engine, or a new name for an old metric, is a line here.
"""

from __future__ import annotations

from typing import NamedTuple


class Series(NamedTuple):
    """The series of one name whose labels have these values; "" is also the value of a label that is missing."""

    name: str
    where: tuple[tuple[str, str], ...] = ()


#: Series that are added. The first one must be there; the others count where they are.
Sum = tuple[Series, ...]


class Endpoint(NamedTuple):
    """Where metrics are asked for, on the engine's own host."""

    path: str = "/metrics"
    #: None: the port of the engine itself.
    port: int | None = None


class EngineNames(NamedTuple):
    """One kind of engine. Of each tuple of sums the first that is there counts: today's name, then older ones."""

    waiting: tuple[Sum, ...] = ()
    running: tuple[Sum, ...] = ()
    #: A gauge from 0 to 1; of several ranks the fullest counts.
    kv_cache: tuple[Sum, ...] = ()
    #: Counters.
    prompt_tokens: tuple[Sum, ...] = ()
    generation_tokens: tuple[Sum, ...] = ()
    #: Tokens are counted when their request ends, so that their rate means something over a while only.
    counts_at_end: bool = False
    #: Asked in this order; the next one only where the one before has no metrics.
    endpoints: tuple[Endpoint, ...] = (Endpoint(),)
    #: Labels that tell apart copies of one count, not parts of it.
    copies: tuple[str, ...] = ()
    #: How metrics are switched on.
    switch: str = ""
    #: Why an engine of this kind that runs may not answer in time.
    late: str = ""
    #: What this kind of engine means by a status, as (status, meaning).
    says: tuple[tuple[int, str], ...] = ()

    @property
    def values(self) -> dict[str, tuple[Sum, ...]]:
        """The sums by what they measure."""
        return {
            "waiting": self.waiting,
            "running": self.running,
            "kv_cache": self.kv_cache,
            "prompt_tokens": self.prompt_tokens,
            "generation_tokens": self.generation_tokens,
        }


def _total(*names: str, **where: str) -> Sum:
    selector = tuple(where.items())
    return tuple(Series(name, selector) for name in names)


#: Put before a name by those who pass metrics on: Ray Serve.
PREFIXES = ("", "ray_")

ENGINE_METRIC_NAMES: dict[str, EngineNames] = {
    # https://docs.vllm.ai/en/latest/usage/metrics/ ; gpu_cache_usage_perc until 0.9, removed in 0.12.
    "vllm": EngineNames(
        waiting=(_total("vllm:num_requests_waiting"),),
        running=(_total("vllm:num_requests_running"),),
        kv_cache=(_total("vllm:kv_cache_usage_perc"), _total("vllm:gpu_cache_usage_perc")),
        prompt_tokens=(_total("vllm:prompt_tokens_total"),),
        generation_tokens=(_total("vllm:generation_tokens_total"),),
        switch="start without --disable-log-stats",
    ),
    # With priority scheduling the total (priority="") comes beside its parts. Every pipeline stage counts the same
    # requests. A grammar in compilation and the two hand-over queues of split prefill and decode are waiting too.
    # https://docs.sglang.ai/references/production_metrics.html
    "sglang": EngineNames(
        waiting=(
            _total(
                "sglang:num_queue_reqs",
                "sglang:num_grammar_queue_reqs",
                "sglang:num_prefill_bootstrap_queue_reqs",
                "sglang:num_decode_prealloc_queue_reqs",
                priority="",
            ),
        ),
        running=(_total("sglang:num_running_reqs", priority=""),),
        kv_cache=(_total("sglang:token_usage", priority=""),),
        prompt_tokens=(_total("sglang:prompt_tokens_total"),),
        generation_tokens=(_total("sglang:generation_tokens_total"),),
        counts_at_end=True,
        copies=("pp_rank", "moe_ep_rank"),
        switch="start with --enable-metrics",
    ),
    # kv_cache_usage_ratio until May 2025. Prompt tokens leave out what came from the cache.
    # https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md
    "llama.cpp": EngineNames(
        waiting=(_total("llamacpp:requests_deferred"),),
        running=(_total("llamacpp:requests_processing"),),
        kv_cache=(_total("llamacpp:kv_cache_usage_ratio"),),
        prompt_tokens=(_total("llamacpp:prompt_tokens_total"),),
        generation_tokens=(_total("llamacpp:tokens_predicted_total"),),
        counts_at_end=True,
        switch="start with --metrics",
        # Seen with 10 parallel requests on 2 cores: no answer until the first of them had ended.
        late="its requests may hold all of its HTTP threads, see --threads-http",
        says=((400, "a router; its models answer on ports of their own"), (503, "the model is loading")),
    ),
    # Tokens are sums of histograms.
    # https://huggingface.co/docs/text-generation-inference/reference/metrics
    "tgi": EngineNames(
        waiting=(_total("tgi_queue_size"),),
        running=(_total("tgi_batch_current_size"),),
        prompt_tokens=(_total("tgi_request_input_length_sum"),),
        generation_tokens=(_total("tgi_request_generated_tokens_sum"),),
        counts_at_end=True,
        endpoints=(Endpoint(), Endpoint(port=9000)),
    ),
    "tei": EngineNames(
        waiting=(_total("te_queue_size"),),
        prompt_tokens=(_total("te_request_input_length_sum"),),
        counts_at_end=True,
        endpoints=(Endpoint(), Endpoint(port=9000)),
    ),
    # Requests wait before the engine and inside it.
    "lmdeploy": EngineNames(
        waiting=(_total("lmdeploy:num_requests_waiting", "lmdeploy:num_api_requests_waiting"),),
        running=(_total("lmdeploy:num_requests_running"),),
        kv_cache=(_total("lmdeploy:gpu_cache_usage_perc"),),
        prompt_tokens=(_total("lmdeploy:prompt_tokens_total"),),
        generation_tokens=(_total("lmdeploy:generation_tokens_total"),),
        switch="start without --disable-metrics",
    ),
    # Its /metrics is JSON.
    "trtllm": EngineNames(
        waiting=(_total("trtllm_num_requests_waiting"),),
        running=(_total("trtllm_num_requests_running"),),
        kv_cache=(_total("trtllm_kv_cache_utilization"),),
        prompt_tokens=(_total("trtllm_prompt_tokens_total"),),
        generation_tokens=(_total("trtllm_generation_tokens_total"),),
        endpoints=(Endpoint("/prometheus/metrics"),),
    ),
    # With the TensorRT-LLM backend, else with any.
    # https://docs.nvidia.com/deeplearning/triton-inference-server/user-guide/docs/user_guide/metrics.html
    "triton": EngineNames(
        waiting=(
            _total("nv_trt_llm_request_metrics", request_type="waiting"),
            _total("nv_inference_pending_request_count"),
        ),
        running=(_total("nv_trt_llm_request_metrics", request_type="scheduled"),),
        kv_cache=(_total("nv_trt_llm_kv_cache_block_metrics", kv_cache_block_type="fraction"),),
        endpoints=(Endpoint(port=8002),),
        switch="start with --allow-metrics=true",
    ),
}

#: Kinds that are never asked, and why.
UNASKED: dict[str, str] = {
    "llama.cpp-router": "a router; its models are asked on ports of their own",
    "llama-cpp-python": "llama-cpp-python has no metrics of its own",
    "ollama": "ollama has no metrics of its own",
    "ollama-runner": "ollama has no metrics of its own",
}
