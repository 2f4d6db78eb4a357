"""The quick reader says what the tolerant one says, whatever comes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import measurements
from webapp import heartbeat, schema
from webapp.heartbeat import HeartbeatRefused
from webapp.measurement import Measurement

WHOLE = json.loads(
    """{"schema": "heartbeat_v1", "node": "cpu-07", "demo": true, "gpu_error": "no driver",
    "agent": {"id": "a", "boot": "b", "sequence": 7, "version": "0.1", "interval_s": 10.0, "sent_at": 1796012548.3},
    "host": {"address": "10.0.0.7", "uptime_s": 5.5, "labels": {"rack": "b2"}},
    "load": {"age_s": 0.02, "cpu_percent": 43.2, "cpus": 64, "load1": 3, "memory_total_bytes": 274877906944},
    "limits": {"cpus": 2.5}, "pressure": {"cpu_some": 0.5},
    "disks": [{"mount": "/", "total_bytes": 5, "available_bytes": 3}, {"mount": "/models"}],
    "networks": [{"device": "eno1", "receive_bytes_per_second": 5e6}], "gpus": [{"id": "GPU-1", "index": 0}],
    "engines": [{"id": "e0", "model": "m", "pid": 42, "port": 8000, "requests": {"waiting": 3, "running": 5},
                 "members": [{"pid": 42, "ticks_now": 5}, {"pid": 43}]}, {"id": "e1", "declared": false}]}"""
)


def outcome(read: Any, body: bytes) -> Any:
    try:
        measurement, rejected, _, _ = read(body)
    except HeartbeatRefused as refusal:
        return str(refusal), refusal.field
    return measurement, rejected


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, item in inside for place in places(item, (*path, key)))]


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(max_size=300)
    | st.sampled_from(["e0", "", 0, 5.0]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["id", "pid", "mount", "x"]), inner, max_size=3),
    max_leaves=6,
)


@given(st.lists(st.tuples(st.sampled_from(places(WHOLE)[1:]), json_values), max_size=3))
def test_whatever_is_wrong_in_a_message_both_readers_say_the_same(changes: list[tuple[tuple[Any, ...], Any]]):
    message = json.loads(json.dumps(WHOLE))
    for place, value in changes:
        part = message
        try:
            for key in place[:-1]:
                part = part[key]
            part[place[-1]] = value
        except (KeyError, IndexError, TypeError):
            pass  # an earlier change took that place away
    body = json.dumps(message).encode()
    assert outcome(schema.read, body) == outcome(heartbeat.read, body)


@given(measurements)
def test_a_message_without_fault_is_read_at_once_and_kept(measurement: Measurement):
    body = heartbeat.write(measurement)
    reading = schema.read(body)
    assert reading.measurement == measurement == reading.measurement
    assert reading.rejected == ()
    assert heartbeat.write(reading.measurement) == body


def test_the_message_comes_along_only_where_it_has_no_fault():
    body = json.dumps(WHOLE).encode()
    assert schema.read(body).message == body
    assert schema.read(body.replace(b"43.2", b"143.2")).message is None


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b"[]",
        b'{"node":" "}',
        b'{"node":"a"',
        b'{"node":"a","x":"\xff"}',
        b'{"node":"a","x":' + b"[" * 40 + b"]" * 40 + b"}",
        b'{"node":"a","x":"' + b"[" * 40 + b'\\"' + b"]" * 9 + b'"}',
        b'{"node":"a\\u0000b"}',
        b'{"node":"a\\uD800b"}',
        b'{"node":"a\\ud83d\\ude00"}',
        b'{"node":"a","load":{"load1":NaN}}',
        b'{"node":"a","load":{"cpus":4,"cpus":null}}',
        b'{"node":"a","load":{"cpus":4.0}}',
        b'{"node":"a","load":{"cpus":1e3,"load1":1E+2}}',
        b'{"node":"a","load":{"load1":1e400,"load5":-0}}',
        b'{"node":"a","load":{"cpus":' + b"1" * 5000 + b"}}",
        b'\xef\xbb\xbf{"node":"a"}',
    ],
)
def test_odd_messages_are_read_as_the_tolerant_reader_does(body: bytes):
    assert outcome(schema.read, body) == outcome(heartbeat.read, body)
