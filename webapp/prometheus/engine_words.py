"""How each kind of engine says its requests, tokens and KV cache in its own metrics.

vLLM, SGLang, llama.cpp, TGI, TEI, LMDeploy, TensorRT-LLM and Triton; their output is captured in tests/fixtures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from webapp.prometheus.words import Word, gauge, rate


@dataclass(frozen=True)
class _Kind:
    """How one kind of engine says requests and tokens; {…} holds matchers of its own."""

    name: str
    waiting: str
    running: str = ""
    kv_cache: str = ""
    prompt: str = ""
    generated: str = ""
    model: str = "model_name"
    #: Label of the parts (data-parallel ranks) that a queue is the sum of.
    rank: str = ""
    many: bool = False


_KINDS = (
    _Kind(
        "vllm",
        "vllm:num_requests_waiting",
        "vllm:num_requests_running",
        "vllm:kv_cache_usage_perc|vllm:gpu_cache_usage_perc",
        "vllm:prompt_tokens_total",
        "vllm:generation_tokens_total",
        rank="engine",
    ),
    _Kind(
        "sglang",  # with priorities on it exports the total and its parts: the total has no priority
        'sglang:num_queue_reqs{priority="", }',
        'sglang:num_running_reqs{priority="", }',
        "sglang:token_usage",
        "sglang:prompt_tokens_total",
        "sglang:generation_tokens_total",
        rank="dp_rank",
    ),
    _Kind(
        "llamacpp",
        "llamacpp:requests_deferred",
        "llamacpp:requests_processing",
        "llamacpp:kv_cache_usage_ratio",
        "llamacpp:prompt_tokens_total",
        "llamacpp:tokens_predicted_total",
        model="",
    ),
    _Kind(
        "tgi",
        "tgi_queue_size",
        "tgi_batch_current_size",
        "",
        "tgi_request_input_length_sum",
        "tgi_request_generated_tokens_sum",
        model="",
    ),
    _Kind("tei", "te_queue_size", prompt="te_request_input_length_sum", model=""),
    _Kind(
        "lmdeploy",
        "lmdeploy:num_requests_waiting",
        "lmdeploy:num_requests_running",
        "lmdeploy:gpu_cache_usage_perc",
        "lmdeploy:prompt_tokens_total",
        "lmdeploy:generation_tokens_total",
        rank="engine",
    ),
    _Kind(
        "trtllm",
        "trtllm_num_requests_waiting",
        "trtllm_num_requests_running",
        "trtllm_kv_cache_utilization",
        "trtllm_prompt_tokens_total",
        "trtllm_generation_tokens_total",
    ),
    _Kind(
        "triton",
        'nv_trt_llm_request_metrics{request_type="waiting", }|nv_inference_pending_request_count',
        'nv_trt_llm_request_metrics{request_type="scheduled", }',
        'nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="fraction", }',
        model="model",
        many=True,
    ),
)


def _engines() -> Iterator[Word]:
    for kind in _KINDS:
        for row, names in (("queue_depth", kind.waiting), ("requests_running", kind.running)):
            yield from _word(kind, row, [_summed(gauge, name, more, kind) for name, more in _spelt(names)])
        for row, names in (("prompt_tokens_per_second", kind.prompt), ("generation_tokens_per_second", kind.generated)):
            yield from _word(kind, row, [_summed(rate, name, more, kind) for name, more in _spelt(names)])
        # Ranks share their load: the fullest cache is what holds requests back.
        fullest = [gauge(name, _ENGINE, more) for name, more in _spelt(kind.kv_cache)]
        yield from _word(kind, "kv_cache_usage_ratio", fullest)


_ENGINE = "$engine, $model"


def _summed(say: Callable[[str, str, str], str], name: str, more: str, kind: _Kind) -> str:
    return f"sum by ({_ENGINE}) ({say(name, f'{_ENGINE}, {kind.rank}', more)})" if kind.rank else say(name, _ENGINE, more)


def _spelt(names: str) -> Iterator[tuple[str, str]]:
    """Each name with its matchers, in each way in which it is spelt: some pipelines write `_` for `:`.

    >>> list(_spelt('a:b{c="", }|d'))
    [('a:b', 'c="", '), ('a_b', 'c="", '), ('d', '')]
    """
    for part in filter(None, names.split("|")):
        name, _, rest = part.partition("{")
        for spelling in dict.fromkeys((name, name.replace(":", "_"))):
            yield spelling, rest.removesuffix("}")


def _word(kind: _Kind, row: str, ways: list[str]) -> Iterator[Word]:
    if ways:
        yield Word((f"llmgw_shard_{row}", ()), " or ".join(ways), (), kind.name, kind.model, kind.many)


ENGINE_WORDS: tuple[Word, ...] = tuple(_engines())
