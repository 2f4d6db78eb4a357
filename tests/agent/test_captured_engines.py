"""Two readings of a real machine under load: a vLLM engine and a llama.cpp engine on two cores."""

from __future__ import annotations

import os

import pytest

from tests.agent.conftest import FakeClock
from webapp.agent.engines.declared import declared
from webapp.agent.sampler import Sampler

#: Ends of the passes over the stat files: `taken_at`.
T0, T1 = 1796014449.225159, 1796014458.764127


@pytest.fixture
def reading(tmp_path, captured):
    """The measurement at t1, after one at t0."""
    clock = FakeClock()
    root = tmp_path / "proc"
    root.symlink_to(captured / "live" / "t0")
    tables = declared([{"id": "smol", "model": "smollm2", "kind": "llama.cpp", "port": 18081, "command": r"run_xll\.py"}])
    sampler = Sampler("vm", root, tmp_path / "sys", declared=tables, clock=clock, page_size=4096, ticks=100, own_pid=1)
    sampler.measure()
    root.unlink()
    os.symlink(captured / "live" / "t1", root)
    clock.advance(T1 - T0)
    return sampler.measure().measurement


def test_the_machine_was_busy_altogether(reading):
    assert reading.load.cpu_percent == pytest.approx(100.0)
    assert reading.load.cpus == 2


def test_each_engine_has_its_own_cores(reading):
    cores = {engine.id: engine.cpu_cores for engine in reading.engines}
    assert cores["vllm-tiny-a-18000"] == pytest.approx(1.509, abs=0.001)
    assert cores["smol"] == pytest.approx(0.438, abs=0.001)


def test_the_proof_of_each_number_is_there(reading):
    vllm = reading.engines[1]
    assert [(process.pid, process.command) for process in vllm.members] == [
        (21601, "VLLM::Worker"),
        (21564, "VLLM::EngineCor"),
        (21511, "vllm"),
        (21563, "python3"),
    ]
    worker = vllm.members[0]
    assert (worker.ticks_before, worker.ticks_now) == (4957 + 456, 5741 + 558)
    assert worker.cpu_cores == pytest.approx((worker.ticks_now - worker.ticks_before) / 100 / reading.load.interval_s)
    assert [round(process.cpu_cores, 3) for process in vllm.members] == [0.929, 0.512, 0.068, 0.0]


def test_what_the_command_line_tells_is_there(reading):
    smol, vllm = reading.engines
    assert (vllm.kind, vllm.model, vllm.port, vllm.pid, vllm.state, vllm.declared) == (
        "vllm",
        "tiny-a",
        18000,
        21511,
        "running",
        False,
    )
    assert (smol.kind, smol.model, smol.port, smol.pid, smol.declared) == ("llama.cpp", "smollm2", 18081, 21513, True)
    assert vllm.started_s_ago == pytest.approx(2636.96 - 2545.29, abs=0.01)


def test_memory_adds_up(reading):
    for engine in reading.engines:
        parts = (engine.memory_anonymous_bytes, engine.memory_file_bytes, engine.memory_shared_bytes)
        assert sum(parts) == engine.memory_bytes == sum(process.memory_bytes for process in engine.members)
    assert reading.engines[1].memory_bytes == pytest.approx((139235 + 3139 + 129676 + 404522) * 4096, rel=0.01)
