"""Totals that name what they leave out, and concerns with the worst first."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from webapp import formats
from webapp.measurement import Disk, Engine, Requests
from webapp.overview import concerns
from webapp.overview.summary import summarise


def test_a_total_says_which_nodes_it_is_of(registry, clock, beat):
    beat("gone", agent="g")
    clock.advance(900)
    beat("stale", agent="s")
    clock.advance(61)
    beat("old", agent="o", load={"age_s": 61.0})
    beat("mute", agent="m", load={"cpu_percent": None})
    beat("reporting", agent="t", load={"cpu_percent": 50.0, "cpus": 10})
    summary = summarise(registry.nodes())
    assert (summary.cores_used.value, summary.cores.value) == (5.0, 10)
    assert summary.cores_used.note == "1 of 5 nodes; 1 stale, 1 gone, 1 not reported, 1 with old numbers"
    assert summary.memory_used.note == "2 of 5 nodes; 1 stale, 1 gone, 1 with old numbers"


def test_a_total_that_no_node_reported_is_unknown_not_zero(registry):
    summary = summarise(registry.nodes())
    assert summary.cores_used.value is None
    assert summary.waiting is None


def test_a_total_of_measured_zeros_is_zero(registry, beat):
    beat("n1", load={"cpu_percent": 0.0})
    assert summarise(registry.nodes()).cores_used.value == 0.0


def test_the_worst_is_named_first(registry, clock, beat):
    beat("a-gone", agent="g")
    clock.advance(1000)
    beat("b-full", agent="f", disks=(Disk("/models", "/dev/sdb", "xfs", 100, 91, 9),), load={"cpu_percent": 96.0})
    beat("c-orphan", agent="o", engines=(Engine(id="chat", state="orphaned"),))
    found = [(one.node, one.level, one.text) for one in concerns.of(registry.nodes())]
    assert found == [
        ("b-full", "critical", "CPU 96 %"),
        ("c-orphan", "critical", "engine chat is orphaned"),
        ("a-gone", "warning", "gone for 16 min"),
        ("b-full", "warning", "disk /models 91 %"),
    ]


def test_concerns_of_one_level_are_in_the_order_of_the_nodes_numbers(registry, beat):
    for name in ("cpu-111", "cpu-45"):
        beat(name, agent=name, load={"cpu_percent": 99.0})
    assert [one.node for one in concerns.of(registry.nodes())] == ["cpu-45", "cpu-111"]


def test_many_requests_that_wait_on_a_node_are_a_concern(registry, beat):
    """From where the map marks them on; a batch may queue by the hundred."""
    for name, waiting in (("a", 29.0), ("b", 30.0), ("c", 100.0)):
        engines = (Engine(id="e", requests=Requests(waiting - 1)), Engine(id="f", requests=Requests(1.0)), Engine(id="g"))
        beat(name, agent=name, engines=engines)
    assert [(one.node, one.level, one.text) for one in concerns.of(registry.nodes())] == [
        ("b", "warning", "30 requests waiting"),
        ("c", "warning", "100 requests waiting"),
    ]


def test_a_calm_fleet_has_no_concern(registry, beat):
    beat("n1")
    assert concerns.of(registry.nodes()) == []


@given(st.floats(min_value=1e-12, max_value=1e15))
def test_no_value_but_zero_is_written_as_zero(value: float):
    for written in (
        formats.number(value),
        formats.number(value, 2),
        formats.percent(value),
        formats.bytes_(value),
        formats.rate(value),
    ):
        assert written.split(" ")[0] not in ("0", "0.0", "0.00")
