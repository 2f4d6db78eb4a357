"""The wire: tolerant reading, limits, and the way there and back."""

from __future__ import annotations

import contextlib
import json
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import measurements
from webapp import heartbeat
from webapp.heartbeat import HeartbeatRefused
from webapp.measurement import Measurement


def read(**message: Any) -> heartbeat.Reading:
    return heartbeat.read(json.dumps(message).encode())


def test_one_bad_field_costs_that_field_only():
    """T67"""
    reading = heartbeat.read(
        b'{"node":"n1","load":{"cpu_percent":12.5,"cpus":"many"},"gpus":"N/A","host":null,"disks":[{"path":"/"}]}'
    )
    assert reading.measurement.load.cpu_percent == 12.5
    assert reading.measurement.load.cpus is None
    assert [rejection.path for rejection in reading.rejected] == ["load.cpus", "disks[0]", "gpus"]


def test_the_rejection_says_what_came_and_what_was_wanted():
    assert read(node="n1", load={"cpu_percent": "high"}).rejected == (
        ("load.cpu_percent", "expected a number in percent of all cores, got 'high'"),
    )


def test_a_part_that_is_more_than_its_whole_is_unknown():
    """T25's kind, whoever measured: a bar of 300 %, sums and placement would take it for true."""
    reading = read(
        node="n1",
        load={"memory_total_bytes": 100, "memory_used_bytes": 300, "memory_available_bytes": 100, "cpus": 4},
        disks=[{"mount": "/", "total_bytes": 10, "available_bytes": 11}, {"mount": "/b", "total_bytes": 10, "used_bytes": 10}],
        gpus=[{"id": "g", "memory_total_bytes": 10, "memory_used_bytes": 30}],
    )
    measurement = reading.measurement
    assert (measurement.load.memory_used_bytes, measurement.load.memory_available_bytes) == (None, 100)
    assert [(disk.available_bytes, disk.used_bytes) for disk in measurement.disks] == [(None, None), (None, 10)]
    assert measurement.gpus[0].memory_used_bytes is None
    assert [path for path, _ in reading.rejected] == [
        "load.memory_used_bytes",
        "disks[0].available_bytes",
        "gpus[0].memory_used_bytes",
    ]


def test_what_is_reported_of_bad_fields_is_bounded():
    """A message of a few kilobytes, packed, would be answered with megabytes, which its node's page would show."""
    members = [{"pid": number, "cpu_cores": "x", "command": 1} for number in range(1, 60)]
    reading = read(node="n1", engines=[{"id": str(number), "members": members} for number in range(100)])
    assert len(reading.rejected) == 101
    assert reading.rejected[-1] == ("more", "11700 more fields were left out")
    reading = read(node="n1", host={"labels": {str(number): number for number in range(50_000)}})
    assert len(reading.rejected) == 65


@pytest.mark.parametrize("name", [None, "", "  ", "\u200b", "\u202e \ufeff", 7, True, [], "x" * 254])
def test_a_heartbeat_without_a_usable_name_is_refused(name: Any):
    with pytest.raises(HeartbeatRefused) as refusal:
        read(node=name)
    assert refusal.value.field == "node"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"null",
        b"{",
        b"\xff{}",
        b'{"node":' + b"[" * 40 + b"]" * 40 + b"}",
        b"[" * 100_000,
        b'{"x":' + b"1" * 5000 + b"}",
    ],
)
def test_a_body_that_is_no_object_is_refused_with_a_reason(body: bytes):
    """T145 and the deep or broken JSON of its kind"""
    with pytest.raises(HeartbeatRefused, match=r"body|JSON"):
        heartbeat.read(body)


def test_a_body_that_is_nested_too_deeply_is_refused_as_that():
    with pytest.raises(HeartbeatRefused, match="nested deeper than 32 levels"):
        heartbeat.read(b'{"node":"n","x":' + b"[" * 40 + b"]" * 40 + b"}")


@pytest.mark.parametrize(
    "body",
    [
        b'{"node":"n","x":' + b"[" * 50_000 + b"]" * 50_000 + b"}",
        b'{"node":"n","x":[' + b",".join([b"[" * 30 + b"]" * 30] * 2_000) + b"]}",
        b'{"node":"n","x":"' + b'\\"[' * 50_000 + b'"}',
        b'{"node":"' + b" " * 50_000 + b'"}',
        b'{"node":"n","host":{"labels":{"' + b"\\ud800" * 10_000 + b'":"v"}}}',
    ],
)
def test_no_body_takes_a_step_in_python_for_each_of_its_bytes(body: bytes):
    """A kilobyte of gzip held every other request for 0.7 s."""
    steps = 0

    def count(*_: Any) -> Any:
        nonlocal steps
        steps += 1
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        with contextlib.suppress(HeartbeatRefused):
            heartbeat.read(body)
    finally:
        sys.settrace(before)
    assert steps < 5_000


def test_a_body_over_the_limit_is_refused():
    with pytest.raises(HeartbeatRefused, match="at most 1048576"):
        heartbeat.read(b'{"node":"' + b"x" * 1024 * 1024 + b'"}')


@pytest.mark.parametrize(
    "value", ["NaN", "Infinity", "-Infinity", "1e999", "-1", "true", "false", '"12"', "100.1", "{}", "[]", "1" * 400]
)
def test_what_is_not_a_percentage_is_unknown(value: str):
    """T143, T146"""
    reading = heartbeat.read(b'{"node":"n1","load":{"cpu_percent":%s}}' % value.encode())
    assert reading.measurement.load.cpu_percent is None
    assert [rejection.path for rejection in reading.rejected] == ["load.cpu_percent"]


def test_a_count_beyond_64_bits_is_unknown():
    """T145"""
    assert read(node="n1", load={"memory_total_bytes": 2**64}).measurement.load.memory_total_bytes is None


def test_an_older_agent_that_sends_little_is_read():
    """T68"""
    reading = read(node="old1", load={"cpu_percent": 5})
    assert reading.rejected == ()
    assert reading.measurement.load.memory_total_bytes is None


def test_a_newer_agent_that_sends_more_is_read():
    reading = read(node="new1", load={"cpu_percent": 5, "cpu_flavour": "vanilla"}, quantum={"qubits": 3})
    assert reading.rejected == ()


def test_a_lone_surrogate_is_replaced():
    """T95"""
    reading = heartbeat.read(b'{"node":"n1","engines":[{"id":"e","model":"a\\ud800b"}]}')
    assert reading.measurement.engines[0].model == "a�b"


def test_a_second_engine_of_the_same_id_is_dropped():
    reading = read(node="n1", engines=[{"id": "e", "pid": 1}, {"id": "e", "pid": 2}, {"pid": 3}])
    assert [engine.pid for engine in reading.measurement.engines] == [1]
    assert [rejection.path for rejection in reading.rejected] == ["engines[1]", "engines[2]"]


def test_engines_beyond_the_limit_are_reported():
    reading = read(node="n1", engines=[{"id": str(number)} for number in range(300)])
    assert len(reading.measurement.engines) == 256
    assert reading.rejected[-1] == ("engines", "300 entries; the first 256 are kept")


@given(measurements)
def test_what_is_written_reads_back_the_same(measurement: Measurement):
    reading = heartbeat.read(heartbeat.write(measurement))
    assert reading.measurement == measurement
    assert reading.rejected == ()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["node", "load", "cpu_percent", "engines", "id", "requests", "x"]), inner, max_size=5)
    ),
    max_leaves=20,
)


@given(json_values)
def test_no_json_raises_anything_but_a_refusal(value: Any):
    body = json.dumps(value).encode()
    try:
        reading = heartbeat.read(body)
    except HeartbeatRefused:
        return
    assert heartbeat.read(heartbeat.write(reading.measurement)).measurement == reading.measurement


@given(st.binary(max_size=200))
def test_no_bytes_raise_anything_but_a_refusal(body: bytes):
    with pytest.raises(HeartbeatRefused):
        heartbeat.read(b"\xff" + body)
    with contextlib.suppress(HeartbeatRefused):
        heartbeat.read(body)
