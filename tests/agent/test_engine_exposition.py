"""Engines' metrics pages, as captured and as invented."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from webapp.agent.engines.exposition import MOST_SERIES, Page, fullest, total
from webapp.agent.engines.metric_names import ENGINE_METRIC_NAMES, EngineNames, Series

FIXTURES = Path(__file__).parent.parent / "fixtures" / "engine_metrics"


def page_of(kind: str, text: str | bytes) -> Page:
    page = Page(ENGINE_METRIC_NAMES[kind])
    page.feed((text if isinstance(text, bytes) else text.encode()).split(b"\n"))
    return page


def reported(kind: str, text: str | bytes) -> dict[str, float | None]:
    names = ENGINE_METRIC_NAMES[kind]
    page = page_of(kind, text)
    return {
        what: fullest(page.values(sums)) if what == "kv_cache" else total(page.values(sums), names.copies)
        for what, sums in names.values.items()
    }


@pytest.mark.parametrize(
    ("file", "kind", "waiting", "running", "kv_cache", "prompt_tokens", "generation_tokens"),
    [
        ("vllm-0.32.0-idle.txt", "vllm", 0, 0, 0, 0, 0),
        ("vllm-0.32.0-busy.txt", "vllm", 20, 2, 0.002931118710307823, 432, 1997),
        ("vllm-0.32.0-after.txt", "vllm", 0, 0, 0, 1166, 10222),
        ("vllm-0-ray.txt", "vllm", 0, 0, 5.882698982295764e-05, 58, 300),
        ("llama.cpp-11549-busy.txt", "llama.cpp", 4, 1, None, 20, 192),
        ("llama.cpp-11549-after.txt", "llama.cpp", 0, 0, None, 32, 748),
        ("sglang-0.5.23.txt", "sglang", 7, 14, 0.58, 10240, 3600),
        ("sglang-0.5.23-priority.txt", "sglang", 7, 14, 0.58, 10240, 3600),
        ("sglang-0.4.txt", "sglang", 2826, 162, None, None, None),
        ("tgi.txt", "tgi", 0, 0, None, 662, None),
        ("lmdeploy-0.18.0.txt", "lmdeploy", 3, 6, 0.62, 0, 0),
        ("triton.txt", "triton", 0, None, None, None, None),
        ("triton-trtllm.txt", "triton", 1, 1, 0.4, None, None),
    ],
)
def test_a_captured_page_tells_what_stands_on_it(file, kind, waiting, running, kv_cache, prompt_tokens, generation_tokens):
    page = (FIXTURES / file).read_bytes()
    assert reported(kind, page) == {
        "waiting": waiting,
        "running": running,
        "kv_cache": kv_cache,
        "prompt_tokens": prompt_tokens,
        "generation_tokens": generation_tokens,
    }
    assert page_of(kind, page).unusable == 0


def test_a_broken_line_costs_its_value_only():
    """T98"""
    page = "llamacpp:n_busy_slots_per_decode -nan\nllamacpp:requests_deferred\nllamacpp:requests_processing 2\n"
    assert reported("llama.cpp", page)["running"] == 2
    assert reported("llama.cpp", page)["waiting"] is None
    assert page_of("llama.cpp", page).unusable == 1
    assert page_of("llama.cpp", page).quoted == ["llamacpp:requests_deferred"]


@pytest.mark.parametrize("value", ["NaN", "-nan", "+Inf", "-1", "1e999", "", "x", "1_0", "1 x", "1e19"])
def test_a_value_that_says_nothing_is_unknown(value):
    page = f"llamacpp:requests_deferred {value}\nllamacpp:requests_processing 2\n"
    assert reported("llama.cpp", page)["waiting"] is None
    assert reported("llama.cpp", page)["running"] == 2
    assert page_of("llama.cpp", page).unusable == 1


@pytest.mark.parametrize("spelling", ["vllm:{}", "vllm_{}", "ray_vllm:{}", "ray_vllm_{}"])
def test_a_name_that_was_rewritten_on_its_way_is_known(spelling):
    assert reported("vllm", spelling.format("num_requests_waiting") + " 3")["waiting"] == 3


def test_two_spellings_of_one_name_are_not_added():
    assert reported("vllm", "vllm_num_requests_waiting 3\nvllm:num_requests_waiting 3")["waiting"] == 3


def test_ranks_are_added_in_queues_and_the_fullest_cache_counts():
    page = """
vllm:num_requests_waiting{engine="0",model_name="m"} 3
vllm:num_requests_waiting{engine="1",model_name="m"} 4
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.25
vllm:kv_cache_usage_perc{engine="1",model_name="m"} 0.75
"""
    assert reported("vllm", page)["waiting"] == 7
    assert reported("vllm", page)["kv_cache"] == 0.75


def test_pipeline_stages_that_count_the_same_requests_are_not_added():
    page = """
sglang:num_queue_reqs{tp_rank="0",pp_rank="0"} 3
sglang:num_queue_reqs{tp_rank="0",pp_rank="1"} 3
sglang:num_queue_reqs{tp_rank="4",pp_rank="0"} 5
"""
    assert reported("sglang", page)["waiting"] == 8


def test_one_rank_without_a_value_makes_the_sum_unknown():
    page = 'vllm:num_requests_waiting{engine="0"} 3\nvllm:num_requests_waiting{engine="1"} NaN\n'
    assert reported("vllm", page)["waiting"] is None


def test_requests_that_wait_before_the_engine_are_added():
    page = "lmdeploy:num_requests_waiting 3\nlmdeploy:num_api_requests_waiting 2\n"
    assert reported("lmdeploy", page)["waiting"] == 5
    assert reported("lmdeploy", "lmdeploy:num_requests_waiting 3\n")["waiting"] == 3


def test_the_name_of_today_counts_before_the_old_one():
    page = "vllm:gpu_cache_usage_perc 0.5\nvllm:kv_cache_usage_perc 0.25\n"
    assert reported("vllm", page)["kv_cache"] == 0.25


def test_times_of_creation_are_not_counts():
    page = "vllm:prompt_tokens_total 5\nvllm:prompt_tokens_created 1.796e9\nvllm:num_requests_waiting_created 1.796e9\n"
    assert reported("vllm", page)["prompt_tokens"] == 5
    assert reported("vllm", page)["waiting"] is None
    assert page_of("vllm", page).unusable == 0


def test_a_cache_that_is_more_than_full_is_a_misread():
    assert reported("vllm", "vllm:kv_cache_usage_perc 43.7")["kv_cache"] is None
    assert reported("vllm", "vllm:kv_cache_usage_perc 1.0000001")["kv_cache"] == 1.0


def test_braces_quotes_and_blanks_inside_labels_end_nothing():
    page = '  vllm:num_requests_waiting {model_name="a} 9 \\"{,\\\\" , engine = "0",} 4 1796000000000 \r\n'
    assert reported("vllm", page)["waiting"] == 4


def test_an_exemplar_behind_the_value_is_passed_over():
    assert reported("vllm", 'vllm:prompt_tokens_total 7 # {trace_id="a"} 1 2')["prompt_tokens"] == 7


def test_a_line_with_broken_labels_spoils_its_value_even_under_a_selector():
    page = 'sglang:num_queue_reqs{priority="} 3\nsglang:num_queue_reqs{priority=""} 4\n'
    assert reported("sglang", page)["waiting"] is None


def test_a_name_with_endless_series_is_unknown_and_does_not_fill_the_memory():
    page = "\n".join(f'vllm:num_requests_waiting{{engine="{number}"}} 1' for number in range(MOST_SERIES + 10))
    assert reported("vllm", page)["waiting"] is None
    assert len(page_of("vllm", page).values(ENGINE_METRIC_NAMES["vllm"].waiting)) <= MOST_SERIES + 1


@given(st.lists(st.binary(max_size=60), max_size=6), st.sampled_from(sorted(ENGINE_METRIC_NAMES)))
def test_no_bytes_break_the_reader(tails, kind):
    names = ENGINE_METRIC_NAMES[kind]
    starts = [sums[0][0].name.encode() for sums in names.values.values() if sums]
    lines = [starts[index % len(starts)] + tail for index, tail in enumerate(tails)] + tails
    for value in reported(kind, b"\n".join(lines)).values():
        assert value is None or (math.isfinite(value) and value >= 0)


LABELS = st.dictionaries(
    st.from_regex(r"[a-zA-Z][a-zA-Z0-9_]{0,6}", fullmatch=True), st.text(st.characters(codec="utf-8"), max_size=8), max_size=3
)
SAMPLES = st.dictionaries(
    LABELS.map(lambda labels: tuple(sorted(labels.items()))), st.floats(0, 1e18, allow_nan=False), min_size=1, max_size=4
)


@given(SAMPLES)
def test_a_well_formed_page_is_read_as_the_official_parser_reads_it(samples):
    names = EngineNames(waiting=((Series("x:waiting"),),))

    def escaped(text: str) -> str:
        return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")

    text = "# TYPE x:waiting gauge\n" + "".join(
        "x:waiting{" + ",".join(f'{name}="{escaped(value)}"' for name, value in labels) + f"}} {number!r}\n"
        for labels, number in samples.items()
    )
    page = Page(names)
    page.feed(text.encode().split(b"\n"))
    (family,) = text_string_to_metric_families(text)
    expected = {tuple(sorted(sample.labels.items())): sample.value for sample in family.samples}
    assert {labels[1:]: value for labels, value in page.values(names.waiting).items()} == expected
