"""Range queries, answered from the store."""

import json
import math
import sqlite3
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from webapp.history import LOOKBACK_SECONDS, HistoryUnavailable, Range, Span
from webapp.history.embedded import EmbeddedHistory
from webapp.measurement import Disk, Engine, Gpu, Load, Measurement, Network, Pressure, Requests
from webapp.metrics import METRICS, families
from webapp.storage.samples import COLUMNS, Layout, sample
from webapp.storage.store import Store

FAMILIES = families()
(CPU,) = FAMILIES["llmgw_node_cpu_utilization_percent"]
(CORES,) = FAMILIES["llmgw_node_cpus"]
(QUEUE,) = FAMILIES["llmgw_shard_queue_depth"]
(STARTED,) = FAMILIES["llmgw_shard_start_time_seconds"]
(ENGINE_CPU,) = FAMILIES["llmgw_shard_cpu_cores"]

#: A multiple of all steps used here.
START = 1_800_000_000.0


@pytest.fixture
def store():
    store = Store(None, commit_every=None, clock=lambda: START, boottime=lambda: 0.0)
    yield store
    store.close()


@pytest.fixture
def history(store):
    return EmbeddedHistory(store, clock=lambda: START + 9)


@pytest.fixture
def keep(store):
    def keep(at, cpu=None, node="cpu-07", cpus=None, engines=()):
        store.record(Measurement(node, load=Load(cpu_percent=cpu, cpus=cpus), engines=engines), START + at)
        store.commit()

    return keep


def values(answer, **labels):
    (series,) = [one for one in answer.series if labels.items() <= dict(one.labels).items()]
    return list(series.values)


def test_a_point_is_the_latest_sample_and_a_silence_is_a_gap(history, keep):
    """T113: points that are absent must not be joined by a line."""
    for at, cpu in ((0, 10), (15, 20), (30, 30), (600, 40), (615, 50)):
        keep(at, cpu)
    answer = history.series([CPU], Range(START, START + 615, 15), node="cpu-07")
    assert values(answer) == [10, 20, 30, 30, 30, *[None] * 35, 40, 50]
    assert answer.series[0].labels == (("node", "cpu-07"),)
    assert answer.as_of == START + 9


def test_an_unknown_value_is_a_gap_at_once(history, keep):
    keep(0, 10)
    keep(10, None, cpus=4)
    answer = history.series([CPU], Range(START, START + 15, 15), node="cpu-07")
    assert values(answer) == [10, None]


def test_zero_is_not_a_gap(history, keep):
    keep(0, 0.0)
    assert values(history.series([CPU], Range(START, START, 15), node="cpu-07")) == [0.0]


def test_a_long_step_gives_the_mean_of_what_was_known_in_it(history, keep):
    for at, cpu in ((-50, 10), (-40, None), (0, 20), (10, 99)):
        keep(at, cpu)
    assert values(history.series([CPU], Range(START, START + 60, 60), node="cpu-07")) == [15, 99]


def test_a_queue_shows_its_largest_depth_in_the_step_and_at_least_in_the_lookback(history, keep):
    for at, waiting in ((-29, 7.0), (-20, 1.0), (-10, None), (0, 0.0)):
        keep(at, engines=(Engine(id="e", model="m", requests=Requests(waiting=waiting)),))
    for step in (15, 60):
        assert values(history.series([QUEUE], Range(START, START, step), node="cpu-07")) == [7]


def test_cores_are_the_latest_even_with_a_long_step(history, keep):
    keep(-50, cpus=8)
    keep(-10, cpus=4)
    assert values(history.series([CORES], Range(START, START + 60, 60), node="cpu-07")) == [4, None]


def test_an_engine_that_stopped_ends_in_a_gap_while_its_node_goes_on(history, keep):
    keep(0, 1, engines=(Engine(id="a", model="m", cpu_cores=2.0), Engine(id="b", model="m", cpu_cores=3.0)))
    keep(15, 1, engines=(Engine(id="b", model="m", cpu_cores=4.0),))
    answer = history.series([CPU, ENGINE_CPU], Range(START, START + 15, 15), node="cpu-07")
    assert values(answer, shard="a") == [2, None]
    assert values(answer, shard="b") == [3, 4]


def test_the_time_of_a_start_is_exact_to_the_second(history, keep):
    keep(0, engines=(Engine(id="a", model="m", started_s_ago=1_234_567.0),))
    assert values(history.series([STARTED], Range(START, START, 15), node="cpu-07")) == [START - 1_234_567]


def test_a_model_is_answered_from_all_nodes_and_without_other_models(history, keep):
    keep(0, node="a", engines=(Engine(id="x", model="m", cpu_cores=1.0), Engine(id="y", model="other", cpu_cores=9.0)))
    keep(0, node="b", engines=(Engine(id="x", model="m", cpu_cores=2.0),))
    keep(0, node="c", engines=(Engine(id="x", model="other", cpu_cores=9.0),))
    answer = history.series([CPU, ENGINE_CPU], Range(START, START, 15), model="m")
    assert [series.labels for series in answer.series] == [
        (("node", "a"), ("shard", "x"), ("model", "m")),
        (("node", "b"), ("shard", "x"), ("model", "m")),
    ]


def test_a_node_nobody_knows_has_no_series(history):
    assert history.series([CPU], Range(START, START, 15), node="nobody").series == ()


@pytest.mark.parametrize("question", [{}, {"node": "a", "model": "b"}])
def test_a_question_is_about_a_node_or_a_model(history, question):
    with pytest.raises(ValueError):
        history.series([CPU], Range(START, START, 15), **question)


def test_time_without_a_control_plane_is_reported(history, store):
    answer = history.series([CPU], Range(START - 60, START, 15), node="cpu-07")
    assert answer.unheard == (Span(START - 60, START, "no control plane ran"),)


def test_a_history_that_cannot_be_written_warns(history, store, keep):
    store.problem = "The history cannot be written: the disk is full."
    assert history.series([CPU], Range(START, START, 15), node="a").warnings == (store.problem,)


def test_a_history_that_cannot_be_read_says_so(history, store, monkeypatch):
    def rows(*_):
        raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr(store.archive, "rows", rows)
    with pytest.raises(HistoryUnavailable, match=r"^The history cannot be read: disk I/O error\.$"):
        history.series([CPU], Range(START, START, 15), node="a")


def test_a_layout_that_names_rows_this_version_lacks_is_read_without_them():
    nodes = '["",[],[["llmgw_node_gone",[]],["llmgw_node_cpus",[]]]]'
    columns = f'[{nodes},["engines",["shard","new_label"],[["llmgw_shard_cpu_cores",[]]]]]'
    layout = Layout(columns, '[[[]],[["e","x"]]]')
    blob = sample(Measurement("n", load=Load(cpu_percent=1.0, cpus=64, load1=2.0))).numbers[:12]
    found = {
        column.metric.name: (column.labels, list(numbers)) for column, numbers in layout.read([blob], {CORES.key, ENGINE_CPU.key})
    }
    assert found == {
        "llmgw_node_cpus": ((), [64.0]),
        "llmgw_shard_cpu_cores": ((("shard", "e"), ("new_label", "x")), [2.0]),
    }


number = some.none() | some.floats(0, 1e15)
bytes_ = some.none() | some.integers(0, 2**50)
name = some.none() | some.text(max_size=5)
measurements = some.builds(
    Measurement,
    node=some.just("n"),
    load=some.builds(Load, cpu_percent=number, cpus=bytes_, load1=number, load5=number, memory_total_bytes=bytes_),
    pressure=some.builds(Pressure, cpu_some=number, io_full=number),
    disks=some.lists(
        some.builds(Disk, mount=some.text(max_size=5), total_bytes=bytes_), max_size=3, unique_by=lambda d: d.mount
    ).map(tuple),
    networks=some.lists(some.builds(Network, device=some.text(max_size=3), receive_bytes_per_second=number), max_size=1).map(
        tuple
    ),
    gpus=some.lists(some.builds(Gpu, id=some.text(max_size=3), name=name, power_watts=number), max_size=1).map(tuple),
    engines=some.lists(
        some.builds(Engine, id=some.text(max_size=5), model=name, cpu_cores=number, memory_bytes=bytes_, started_s_ago=number),
        max_size=3,
        unique_by=lambda engine: engine.id,
    ).map(tuple),
)


@given(measurements)
def test_what_is_read_from_a_blob_is_what_the_metric_table_reads(measurement):
    items, numbers = sample(measurement)
    layout = Layout(COLUMNS, json.dumps(items))
    found = {
        (column.metric.key, column.labels): values[0]
        for column, values in layout.read([numbers], {metric.key for metric in METRICS})
        if not math.isnan(values[0])
    }
    wanted = {(metric.key, labels): value for metric in METRICS for labels, value in metric.read(measurement, 0.0)}
    assert found.keys() == wanted.keys()
    for key, value in wanted.items():
        sign = -1 if key[0][0] == "llmgw_shard_start_time_seconds" else 1
        assert found[key] * sign == pytest.approx(value, rel=1e-7, abs=1.0 if sign < 0 else 1e-40)


@settings(deadline=timedelta(seconds=5))
@given(
    some.lists(some.tuples(some.integers(-200, 400), some.none() | some.integers(0, 100)), max_size=30),
    some.sampled_from([5, 10, 15, 30, 60, 120]),
    some.sampled_from([CPU, CORES, QUEUE]),
)
def test_each_point_is_what_the_protocol_says(samples, step, metric):
    samples = sorted(dict(samples).items())
    store = Store(None, commit_every=None, clock=lambda: START, boottime=lambda: 0.0)
    for at, value in samples:
        engine = Engine(id="e", model="m", requests=Requests(waiting=value))
        store.record(Measurement("n", load=Load(cpu_percent=value, cpus=value), engines=(engine,)), START + at)
    store.commit()
    range = Range(START, START + 240, step)
    answer = EmbeddedHistory(store).series([metric], range, node="n")
    store.close()

    def point(at):
        if metric.over_time == "max" or (metric.over_time == "mean" and step > LOOKBACK_SECONDS):
            width = max(step, LOOKBACK_SECONDS)
            known = [value for moment, value in samples if at - width < moment <= at and value is not None]
            if not known:
                return None
            return max(known) if metric.over_time == "max" else pytest.approx(sum(known) / len(known))
        latest = [value for moment, value in samples if moment <= at and moment >= at - LOOKBACK_SECONDS]
        return latest[-1] if latest else None

    expected = [point(at - START) for at in range.times]
    assert (list(answer.series[0].values) if answer.series else [None] * len(expected)) == expected
