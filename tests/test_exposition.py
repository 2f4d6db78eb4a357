"""/metrics: accepted by Prometheus' own tools, escaped, without anything old."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse

from tests.answers import exposed
from tests.strategies import measurements
from webapp import exposition, heartbeat
from webapp.exposition import Counters
from webapp.fields import LARGEST_WHOLE
from webapp.fleet.registry import Registry
from webapp.heartbeat import Reading
from webapp.measurement import Engine, Measurement
from webapp.metrics import HEARTBEAT_AGE, METRICS, UP

GOLDEN = Path(__file__).parent / "golden" / "metrics.txt"


def samples(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value for family in parse(text) for sample in family.samples
    }


def names(text: str) -> set[str]:
    return {name for name, _ in samples(text)}


def counters(registry: Registry) -> tuple[Counters, ...]:
    return (Counters("enginehouse_heartbeats_total", "Heartbeats received.", "outcome", registry.heartbeats),)


def promtool(text: str) -> None:
    program = shutil.which("promtool")
    assert program, "promtool is missing: apt-get install prometheus"
    check = subprocess.run([program, "check", "metrics"], input=text.encode(), capture_output=True, timeout=30)
    complaints = [
        line for line in check.stderr.decode().splitlines() if "metric names should not contain abbreviated units" not in line
    ]
    assert (check.returncode in (0, 3), complaints) == (True, [])


def test_the_whole_exposition_is_as_reviewed(registry, beat, request):
    beat("cpu-07")
    beat('rack 14" C:\\new\nx{y="1"} 2', agent="agent-b")
    text = exposed(registry.nodes(), counters(registry))
    if request.config.getoption("--update-golden"):
        GOLDEN.write_text(text, "utf-8")
    assert text == GOLDEN.read_text("utf-8")
    promtool(text)


@pytest.mark.parametrize("name", ['rack 14" C:\\new\nx{y="1"} 2', "é'tab\t模型💥", "a//b", "{}", "\\n", '"', "\\", "a\rb"])
def test_a_hostile_name_stays_one_label_value(registry, beat, name):
    """T88, T89"""
    beat(name)
    text = exposed(registry.nodes())
    assert {labels["node"] for family in parse(text) for sample in family.samples for labels in [sample.labels]} == {name}
    promtool(text)


def test_openmetrics_is_written_when_asked_for(registry, beat):
    beat("n1")
    text = exposed(registry.nodes(), counters(registry), openmetrics=True)
    families = {family.name: family for family in parse_openmetrics(text)}
    assert families["enginehouse_heartbeats"].type == "counter"
    assert text.endswith("# EOF\n")


def test_a_silent_node_keeps_no_number_and_says_it_is_down(registry, clock, beat):
    """T91"""
    beat("n1", load={"cpu_percent": 97.0})
    clock.advance(59)
    young = samples(exposed(registry.nodes()))
    assert young[("llmgw_node_cpu_utilization_percent", (("node", "n1"),))] == 97
    assert young[("llmgw_node_up", (("node", "n1"),))] == 1
    clock.advance(2)
    old = exposed(registry.nodes())
    assert names(old) == {"llmgw_node_up", "llmgw_node_heartbeat_age_seconds"}
    assert samples(old)[("llmgw_node_up", (("node", "n1"),))] == 0
    clock.advance(600)
    assert names(exposed(registry.nodes())) == names(old)


def test_no_sample_carries_a_timestamp(registry, clock, beat):
    """T94"""
    beat("n1")
    clock.advance(45)
    text = exposed(registry.nodes())
    assert all(sample.timestamp is None for family in parse(text) for sample in family.samples)
    assert samples(text)[("llmgw_node_heartbeat_age_seconds", (("node", "n1"),))] == 45


def test_unknown_is_no_series_and_zero_is_a_series(registry, beat):
    """T68"""
    beat("n1", load={"cpu_percent": None, "load1": 0.0}, engines=())
    text = exposed(registry.nodes())
    assert "llmgw_node_cpu_utilization_percent" not in names(text)
    assert samples(text)[("llmgw_node_load", (("node", "n1"), ("window", "1m")))] == 0
    assert not any(name.startswith("llmgw_shard") for name in names(text))


def test_an_engine_is_in_one_state_and_its_error_is_in_no_label(registry, beat):
    """T92"""
    error = "read tcp 10.0.0.1:51442->10.0.0.2:80"
    for state in ("running", "orphaned"):
        beat("n1", engines=(Engine(id="e", state=state, metrics_error=error),))
        text = exposed(registry.nodes())
        reported = {labels: value for (name, labels), value in samples(text).items() if name == "llmgw_shard_state"}
        assert reported == {(("node", "n1"), ("shard", "e"), ("state", state)): 1.0}
        assert "51442" not in text


def test_a_family_is_together_though_nodes_report_different_things(registry, beat):
    beat("a", disks=())
    beat("b", engines=(), agent="b")
    beat("c", agent="c")
    heads = [line.split()[2] for line in exposed(registry.nodes()).splitlines() if line.startswith("# TYPE")]
    assert len(heads) == len(set(heads))


def test_a_family_is_whole_however_many_nodes_are_written_at_once(registry, beat, clock, monkeypatch):
    beat("old")
    clock.advance(61)
    for number in range(7):
        beat(f"n{number}", agent=f"agent-{number}", **({"engines": ()} if number % 3 else {"disks": ()}))
    whole = exposed(registry.nodes())
    for at_once in (1, 2, 3):
        monkeypatch.setattr(exposition, "_AT_ONCE", at_once)
        assert exposed(registry.nodes()) == whole


@given(st.lists(st.none() | st.floats(allow_nan=False, allow_infinity=False) | st.integers(0, LARGEST_WHOLE)))
@example([9.5e15, 1e16, 1e15, -0.0, 5e-324, 0.00001, 10.0, 0.05])
def test_numbers_that_are_written_together_lose_nothing(values):
    """As Prometheus reads them."""
    texts = exposition.all_written(values)
    assert [None if text == "null" else type(value)(text) for text, value in zip(texts, values)] == values


@settings(max_examples=60)
@given(st.lists(measurements, max_size=5))
def test_each_series_is_what_its_row_reads(fleet: list[Measurement]):
    registry = Registry(wall=lambda: 1_796_000_000.0, clock=lambda: 50.0)
    expected = {}
    for number, one in enumerate(fleet):
        one = replace(one, node=f"n{number}", agent=replace(one.agent, id=str(number)), load=replace(one.load, age_s=None))
        one = replace(one, host=replace(one.host, uptime_s=None))
        registry.accept(Reading(one, ()))
        for row in METRICS:
            for labels, value in row.read(one, 1_796_000_000.0):
                shown = (("node", one.node), *((label, text) for label, text in labels if text))
                expected[row.name, tuple(sorted(shown))] = value
    found = samples(exposed(registry.nodes()))
    assert {key: value for key, value in found.items() if key[0] not in (UP.name, HEARTBEAT_AGE.name)} == expected


@settings(max_examples=60)
@given(measurements)
def test_whatever_a_node_reports_reads_back_from_its_exposition(measurement: Measurement):
    """The way to Prometheus and back, by the same rows."""
    registry = Registry(wall=lambda: 1_796_000_000.0, clock=lambda: 50.0)
    measurement = replace(measurement, load=replace(measurement.load, age_s=None), host=replace(measurement.host, uptime_s=None))
    registry.accept(Reading(measurement, ()))
    text = exposed(registry.nodes())
    message: dict = {"node": measurement.node}
    rows = {(row.name, row.fixed): row for row in METRICS}
    for family in parse(text):
        for sample in family.samples:
            fixed = tuple(
                (label, value) for label, value in sample.labels.items() if label in ("window", "resource", "kind", "state")
            )
            if row := rows.get((sample.name, fixed)):
                row.put(message, sample.labels, sample.value, 1_796_000_000.0)
    back = heartbeat.from_mapping(message).measurement
    for row in METRICS:
        there = dict(row.read(measurement, 1_796_000_000.0))
        again = dict(row.read(back, 1_796_000_000.0))
        assert again.keys() == there.keys()
        assert list(again.values()) == pytest.approx([there[labels] for labels in again])
