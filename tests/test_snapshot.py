"""resource_snapshot_v1, both ways."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webapp.agent.resource_snapshot import GpuWindows, to_mapping
from webapp.fleet import machine
from webapp.measurement import Agent, Disk, Engine, Gpu, Host, Load, Measurement, Network, Requests
from webapp.snapshot import admission, read

MEASUREMENT = Measurement(
    node="gpu-1",
    agent=Agent(version="0.1.0"),
    host=Host(kernel="6.1", cpu_model="a CPU"),
    load=Load(
        cpu_percent=43.25,
        cpus=64,
        load1=3.1,
        load5=2.9,
        load15=2.5,
        memory_total_bytes=270553173721,
        memory_used_bytes=70553173720,
        memory_available_bytes=200000000001,
    ),
    disks=(Disk(mount="/", total_bytes=1000000000001, used_bytes=5, available_bytes=7),),
    networks=(
        Network("eth0", 1000.0, 0.0, 25e9),
        Network("eth1", 125000.0, 250000.0, None),
    ),
    gpus=(Gpu("GPU-a", 0, "L4", 37.0, 24 * 2**30, 2**30, 61.0, 50.5),),
    engines=(
        Engine(
            id="llama-0",
            model="m",
            kind="vllm",
            state="running",
            pid=42,
            port=8000,
            cpu_cores=5.3,
            memory_bytes=12345678901,
            requests=Requests(3.0, 0.0),
            kv_cache_usage_ratio=0.4,
        ),
    ),
)


def written(measurement: Measurement, windows: GpuWindows | None = None, instance_id: str = "i") -> dict:
    usage = (windows or GpuWindows(5000, 20)).add(measurement.gpus, 1000.0)
    message = to_mapping(measurement, instance_id=instance_id, timestamp_ms=1796000000000, gpu_windows=usage, gpu_window_ms=5000)
    return json.loads(json.dumps(message, allow_nan=False))


def test_a_measurement_comes_back_from_its_snapshot():
    snapshot, rejected = read(written(MEASUREMENT))
    assert rejected == ()
    back = machine.measurement(snapshot, "gpu-1")
    assert back == replace(MEASUREMENT, networks=MEASUREMENT.networks[::-1])  # the busiest comes first


_BYTES = st.none() | st.integers(1, 2**50)


@given(total=_BYTES, used=_BYTES, available=_BYTES, cpu=st.none() | st.floats(0, 100).map(lambda x: round(x, 3)))
def test_bytes_survive_the_way_through_mebibytes(total, used, available, cpu):
    used, available = (most and min(most, total or most) for most in (used, available))
    load = Load(cpu_percent=cpu, memory_total_bytes=total, memory_used_bytes=used, memory_available_bytes=available)
    assert machine.measurement(read(written(Measurement("n", load=load)))[0], "n").load == load


def test_every_field_of_the_protocol_is_there_and_unknown_is_null():
    message = written(Measurement("n", gpus=(Gpu("GPU-a", 0, "L4"),)))
    assert message["schema_version"] == "resource_snapshot_v1"
    assert set(message) >= {"agent_version", "instance_id", "timestamp_ms", "devices", "runtime", "capacity_hint"}
    assert message["devices"]["cpu"] == dict.fromkeys(("utilization_pct", "load1", "load5", "load15", "cores"))
    assert message["devices"]["memory"] == dict.fromkeys(("used_mb", "total_mb", "free_mb"))
    assert message["devices"]["network"] == []
    assert message["capacity_hint"] == {"memory_free_ratio": None, "admission_state": "unknown"}
    gpu = message["devices"]["gpu"][0]
    assert {
        name: gpu[name] for name in ("memory_used_mb", "memory_total_mb", "memory_free_mb", "utilization_pct")
    } == dict.fromkeys(("memory_used_mb", "memory_total_mb", "memory_free_mb", "utilization_pct"))
    assert gpu["utilization_sample_ok"] is False
    assert gpu["utilization_error"]


def test_an_instance_id_of_control_characters_is_still_strict_json():
    """T152"""
    assert written(MEASUREMENT, instance_id='n\t1\r"\\\ud800')["instance_id"].startswith('n\t1\r"\\')


def test_no_gpu_is_an_empty_list_and_a_failed_look_is_an_error_without_a_gpu():
    """T62"""
    assert written(Measurement("n"))["devices"]["gpu"] == []
    failed = written(Measurement("n", gpu_error="the GPU driver has not answered for 12 s"))["devices"]
    assert "gpu" not in failed
    assert failed["gpu_error"] == "the GPU driver has not answered for 12 s"
    assert machine.measurement(read({"devices": failed})[0], "n").gpu_error == "the GPU driver has not answered for 12 s"


def test_an_unknown_gpu_of_other_agents_is_a_reason_and_no_gpu():
    """T62"""
    row = {"index": None, "uuid": "unknown", "name": "unknown GPU", "utilization_error": "no nvidia-smi", "health": "error"}
    snapshot, _ = read({"devices": {"gpu": [row]}})
    assert (snapshot.gpus, snapshot.gpu_error) == ((), "no nvidia-smi")


def test_a_gpu_that_tells_no_memory_has_no_memory():
    """T55"""
    for gpu in ({"index": 0, "uuid": "GPU-a", "memory_total_mb": 0, "memory_used_mb": 0}, {"index": 0, "uuid": "GPU-a"}):
        found = machine.measurement(read({"devices": {"gpu": [gpu]}})[0], "n").gpus[0]
        assert (found.memory_total_bytes, found.memory_used_bytes) == (None, None)


def test_an_unknown_speed_is_unknown_however_it_is_written():
    """T53"""
    for speed in (-1, 0, None, "N/A"):
        message = {"devices": {"network": [{"iface": "eth0", "rx_mbps": 8, "tx_mbps": 0, "speed_mbps": speed}]}}
        found = machine.measurement(read(message)[0], "n").networks[0]
        assert (found.receive_bytes_per_second, found.transmit_bytes_per_second, found.speed_bits_per_second) == (1e6, 0.0, None)


@pytest.mark.parametrize(
    "hostile",
    [
        {},
        {"devices": None},
        {"devices": "N/A", "runtime": 5, "capacity_hint": [], "timestamp_ms": "soon"},
        {"devices": {"cpu": [], "memory": "x", "network": {}, "gpu": "none", "disk": [1]}},
        {"devices": {"gpu": [None, {}, {"index": True}, {"uuid": 5, "index": -1}]}},
        {"devices": {"cpu": {"utilization_pct": float("nan"), "load1": True}}, "timestamp_ms": 10**400},
        {"devices": {"memory": {"total_mb": 0, "free_mb": 0}}},
    ],
)
def test_whatever_is_wrong_costs_only_itself(hostile):
    snapshot, _ = read({"instance_id": "i", **hostile})
    assert snapshot.instance_id == "i"
    assert machine.measurement(snapshot, "n").load == Load()
    assert snapshot.admission_state == "unknown"


def test_what_is_more_than_its_whole_is_left_out_and_named():
    """As in a heartbeat."""
    memory = {"total_mb": 100, "used_mb": 101, "free_mb": 1e12}
    disk = [{"mount": "/", "total_mb": 10, "used_mb": 11, "available_mb": 10}]
    gpu = [{"index": 0, "memory_total_mb": 8, "memory_used_mb": 9, "memory_free_mb": 8}]
    snapshot, rejected = read({"devices": {"memory": memory, "disk": disk, "gpu": gpu}})
    assert [path for path, _ in rejected] == [
        "devices.memory.used_mb",
        "devices.memory.free_mb",
        "devices.disk[0].used_mb",
        "devices.gpu[0].memory_used_mb",
    ]
    measured = machine.measurement(snapshot, "n")
    assert (measured.load.memory_used_bytes, measured.load.memory_available_bytes) == (None, None)
    assert measured.disks[0].used_bytes is None
    assert measured.gpus[0].memory_used_bytes is None
    assert (snapshot.memory_free_ratio, snapshot.admission_state) == (None, "unknown")


def test_an_agent_that_states_no_admission_is_judged_by_its_numbers():
    reported = {"devices": {"cpu": {"utilization_pct": 97}, "memory": {"total_mb": 100, "free_mb": 50}}}
    assert read(reported)[0].admission_state == "degraded"
    assert read({**reported, "capacity_hint": {"admission_state": "accepting"}})[0].admission_state == "accepting"


def test_admission_needs_the_values_that_decide_it():
    assert admission(0.0499, 99.0) == "rejecting"
    assert admission(None, 10.0) == "unknown"
    assert admission(1.0, None) == "unknown"
    assert admission(1.0, 100.0) == "degraded"


def test_utilisation_is_reported_over_the_window():
    windows = GpuWindows(1000, 3)
    for at, percent in ((0, 10.0), (200, 30.0), (400, 50.0)):
        usage = windows.add([Gpu("GPU-a", utilization_percent=percent)], at)["GPU-a"]
    assert (usage.current, usage.average, usage.highest, usage.samples) == (50.0, 30.0, 50.0, 3)
    usage = windows.add([Gpu("GPU-a", utilization_percent=70.0)], 600)["GPU-a"]
    assert (usage.samples, usage.average) == (3, 50.0)
    usage = windows.add([Gpu("GPU-a")], 3000)["GPU-a"]
    assert (usage.current, usage.average, usage.highest, usage.samples) == (None, None, None, 0)
    assert windows.add([], 3000) == {}
