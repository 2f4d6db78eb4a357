"""What every history must answer, whatever keeps it.

Subclass `HistoryContract` with the fixtures `recording`, a `record(...)`, and `history`, which took it in.

The fleet is recorded once: heartbeats every 10 s for an hour, of nodes that work, fall silent, start late, and
have names that are made to break queries. The answer that is wanted follows from the recording alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from webapp.heartbeat import from_mapping
from webapp.history import LOOKBACK_SECONDS, Answer, History, Range, Series
from webapp.measurement import Measurement
from webapp.metrics import METRICS, Metric

BUSY = "gpu-1"
SILENT = "cpu-07"
HOSTILE = 'n1"} or vector(1) or x{y="\\ \n 模型</script>'
LATE = "new-1"
ENDED = "old-1"


@dataclass
class Recording:
    """Heartbeats by Unix time, in order."""

    start: float
    end: float
    heartbeats: list[tuple[float, Measurement]] = field(default_factory=list)

    def of(self, node: str, metric: Metric) -> dict[tuple[tuple[str, str], ...], list[tuple[float, float]]]:
        """The samples of each series of a node: labels -> (time, value)."""
        found: dict[tuple[tuple[str, str], ...], list[tuple[float, float]]] = {}
        for at, measurement in self.heartbeats:
            if measurement.node == node:
                for labels, value in metric.read(measurement, at):
                    found.setdefault(tuple(sorted(labels)), []).append((at, value))
        return found


def record(end: float, *, hours: float = 1.0, interval: float = 10.0) -> Recording:
    """An hour of a small fleet up to the Unix time `end`."""
    start = end - 3600 * hours
    recording = Recording(start, end)
    for index, node in enumerate((BUSY, SILENT, HOSTILE, LATE, ENDED)):
        for beat in range(round((end - start) / interval)):
            at = start + 1.3 + index * 1.7 + beat * interval
            passed = (at - start) / (end - start)
            if node == SILENT and 0.4 < passed < 0.5:
                continue
            if (node == LATE and passed < 0.5) or (node == ENDED and passed > 0.7):
                continue
            recording.heartbeats.append((at, _measurement(node, at - start, passed)))
    recording.heartbeats.sort(key=lambda entry: entry[0])
    return recording


def _measurement(node: str, at: float, passed: float) -> Measurement:
    wave = math.sin(at / 200)
    engines: list[dict[str, Any]] = [
        {
            "id": "llama-0",
            "model": "llama-3.1-8b",
            "cpu_cores": 4 + 3 * wave,
            "memory_bytes": 16 * 2**30 + round(at) * 1024,
            "processes": 4,
            "started_s_ago": 100 + at,
            "requests": {"waiting": float(round(at / 10) % 17 == 3) * 8, "running": 2},
            "kv_cache_usage_ratio": 0.5 + 0.4 * wave,
        }
    ]
    if passed > 0.3:  # an engine that starts while we look
        engines.append({"id": "qwen-1", "model": 'qwen "quoted"', "cpu_cores": 1.25, "memory_bytes": 8 * 2**30})
    message: dict[str, Any] = {
        "node": node,
        "agent": {"interval_s": 10.0},
        "load": {
            "cpu_percent": 50 + 40 * wave,
            "cpus": 64,
            "load1": 3 + wave,
            "load5": 3.0,
            "load15": 2.5,
            "memory_total_bytes": 256 * 2**30,
            "memory_used_bytes": 118 * 2**30 + round(at) * 4096,
        },
        "disks": [{"mount": "/", "total_bytes": 2**40, "available_bytes": 2**39 - round(at) * 4096}],
        "pressure": {"cpu_some": 0.0},
        "engines": engines,
    }
    return from_mapping(message).measurement


def rows(*names: str) -> list[Metric]:
    return [metric for metric in METRICS if metric.name in names]


CHARTED = rows(
    "llmgw_node_cpu_utilization_percent",
    "llmgw_node_cpus",
    "llmgw_node_memory_bytes",
    "llmgw_node_memory_used_bytes",
    "llmgw_node_load",
    "llmgw_node_disk_available_bytes",
    "llmgw_node_pressure_ratio",
    "llmgw_shard_cpu_cores",
    "llmgw_shard_memory_bytes",
    "llmgw_shard_queue_depth",
    "llmgw_shard_kv_cache_usage_ratio",
    "llmgw_shard_processes",
)


def aligned(recording: Recording, step: float) -> Range:
    return Range(recording.start // step * step + step, recording.end // step * step, step)


def points(series: Series, grid: Range) -> Iterator[tuple[float, float | None]]:
    assert len(series.values) == len(grid.times)
    return zip(grid.times, series.values, strict=True)


def own_labels(series: Series) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((name, text) for name, text in series.labels if name != "node"))


class HistoryContract:
    """Tests that any history passes after it took in `recording`."""

    #: How old a sample may be in this history beyond its heartbeat, in seconds: the scrape interval.
    late = 0.0

    @pytest.mark.parametrize("node", [BUSY, SILENT, HOSTILE, LATE, ENDED])
    def test_a_point_is_the_latest_sample_and_a_silence_is_a_gap(self, history: History, recording: Recording, node: str) -> None:
        grid = aligned(recording, 15)
        answer = history.series(CHARTED, grid, node=node)
        assert answer.range == grid
        wanted = [metric for metric in CHARTED if metric.over_time != "max"]
        compared = 0
        for metric in wanted:
            recorded = recording.of(node, metric)
            found = {own_labels(series): series for series in answer.series if series.metric == metric}
            assert set(found) == set(recorded)
            for labels, samples in recorded.items():
                for at, value in points(found[labels], grid):
                    self._check_latest(samples, at, value)
                    compared += value is not None
        assert compared > 100

    def _check_latest(self, samples: list[tuple[float, float]], at: float, value: float | None) -> None:
        recent = [sample for time, sample in samples if at - LOOKBACK_SECONDS - self.late <= time <= at]
        if value is None:
            surely = [time for time, _ in samples if at - LOOKBACK_SECONDS + self.late < time < at - self.late]
            assert not surely, f"a gap at {at} though samples came at {surely}"
        else:
            assert any(math.isclose(value, sample, rel_tol=1e-6) for sample in recent), f"{value} at {at} is none of {recent}"

    def test_the_latest_sample_is_no_older_than_it_must_be(self, history: History, recording: Recording) -> None:
        """While a node reports, a point follows its heartbeat at once, or one scrape later."""
        metric = rows("llmgw_node_memory_used_bytes")[0]
        grid = aligned(recording, 15)
        (series,) = history.series([metric], grid, node=BUSY).series
        samples = recording.of(BUSY, metric)[()]
        for at, value in points(series, grid):
            recent = [sample for time, sample in samples if at - 10 - self.late <= time <= at]
            if at > recording.start + 10 + self.late:
                assert value is not None
                assert any(math.isclose(value, sample, rel_tol=1e-6) for sample in recent)

    @pytest.mark.parametrize("step", [60.0, 300.0])
    def test_a_mean_is_over_the_step_before_the_point(self, history: History, recording: Recording, step: float) -> None:
        metric = rows("llmgw_node_cpu_utilization_percent")[0]
        grid = aligned(recording, step)
        (series,) = history.series([metric], grid, node=BUSY).series
        samples = recording.of(BUSY, metric)[()]
        for at, value in points(series, grid):
            within = [sample for time, sample in samples if at - step < time <= at]
            assert value is not None
            assert value == pytest.approx(sum(within) / len(within), abs=0.5 + self.late / 5)

    @pytest.mark.parametrize("step", [15.0, 300.0])
    def test_a_queue_shows_its_largest_value(self, history: History, recording: Recording, step: float) -> None:
        metric = rows("llmgw_shard_queue_depth")[0]
        grid = aligned(recording, step)
        (series,) = history.series([metric], grid, node=BUSY).series
        samples = recording.of(BUSY, metric)[(("model", "llama-3.1-8b"), ("shard", "llama-0"))]
        reach = max(step, LOOKBACK_SECONDS)
        for at, value in points(series, grid):
            widest = [sample for time, sample in samples if at - reach - self.late - 10 <= time <= at]
            surely = [sample for time, sample in samples if at - reach + self.late + 10 <= time <= at - self.late - 10]
            # A peak shorter than the scrape interval can be missed, never made up.
            assert value is not None
            assert value <= max(widest) * (1 + 1e-6)
            if not self.late:
                assert value >= max(surely, default=0.0) * (1 - 1e-6)

    def test_a_model_has_its_engines_on_all_nodes(self, history: History, recording: Recording) -> None:
        metric = rows("llmgw_shard_cpu_cores")[0]
        answer = history.series([metric], aligned(recording, 15), model='qwen "quoted"')
        assert {series.label("node") for series in answer.series} == {BUSY, SILENT, HOSTILE, LATE, ENDED}
        assert {own_labels(series) for series in answer.series} == {(("model", 'qwen "quoted"'), ("shard", "qwen-1"))}
        for series in answer.series:
            samples = recording.of(series.label("node"), metric)[own_labels(series)]
            for at, value in points(series, answer.range):
                self._check_latest(samples, at, value)

    def test_each_series_names_its_node_and_its_own_labels(self, history: History, recording: Recording) -> None:
        answer = history.series(rows("llmgw_node_load", "llmgw_shard_cpu_cores"), aligned(recording, 15), node=HOSTILE)
        assert {frozenset(series.labels) for series in answer.series} == {
            frozenset({("node", HOSTILE), ("window", "1m")}),
            frozenset({("node", HOSTILE), ("window", "5m")}),
            frozenset({("node", HOSTILE), ("window", "15m")}),
            frozenset({("node", HOSTILE), ("shard", "llama-0"), ("model", "llama-3.1-8b")}),
            frozenset({("node", HOSTILE), ("shard", "qwen-1"), ("model", 'qwen "quoted"')}),
        }

    def test_zero_is_a_value_and_unknown_is_none(self, history: History, recording: Recording) -> None:
        (series,) = history.series(rows("llmgw_node_pressure_ratio"), aligned(recording, 15), node=BUSY).series
        assert dict(series.labels) == {"node": BUSY, "resource": "cpu", "kind": "some"}
        assert set(series.values[5:]) == {0.0}

    @pytest.mark.parametrize("name", ["nobody", "", "gpu", "gpu-1 ", '"', "\\", "a\nb", "{", ".*"])
    def test_a_node_that_is_not_known_has_no_series(self, history: History, recording: Recording, name: str) -> None:
        if name:
            assert history.series(CHARTED, aligned(recording, 15), node=name).series == ()
        assert history.series(CHARTED, aligned(recording, 15), model=name or "none").series == ()

    def test_before_the_first_heartbeat_there_is_nothing(self, history: History, recording: Recording) -> None:
        grid = Range(recording.start // 60 * 60 - 7200, recording.start // 60 * 60 - 3600, 60)
        answer = history.series(CHARTED, grid, node=BUSY)
        assert answer.series == ()


def agree(one: Answer, other: Answer, slack: float) -> list[str]:
    """Where two answers on one grid differ by more than `slack` seconds of shift: sentences, none if they agree."""
    assert one.range == other.range
    reach = math.ceil(slack / one.range.step)
    by_labels = {(series.metric.key, frozenset(series.labels)): series for series in other.series}
    found = []
    if len(by_labels) != len(one.series):
        found.append(f"{len(one.series)} series against {len(by_labels)}")
    for series in one.series:
        twin = by_labels.get((series.metric.key, frozenset(series.labels)))
        if twin is None:
            found.append(f"{series.metric.name}{dict(series.labels)} is missing")
            continue
        for index, value in enumerate(series.values):
            near = twin.values[max(0, index - reach) : index + reach + 1]
            known = [number for number in near if number is not None]
            same = None in near if value is None else bool(known) and min(known) - 1e-9 <= value <= max(known) + 1e-9
            if not same:
                found.append(f"{series.metric.name}{dict(series.labels)} at {index}: {value} against {list(near)}")
    return found
