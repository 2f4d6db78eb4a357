"""Whole measurements of a machine whose /proc the tests write."""

from __future__ import annotations

import json
import os
import re
import threading
from pathlib import Path
from types import SimpleNamespace

from tests.agent.test_sender import OK, serve  # noqa: F401 - a fixture
from webapp import heartbeat
from webapp.agent.engines.metrics import EngineMetrics
from webapp.agent.machine.disks import Disks
from webapp.agent.machine.gpu import Gpus
from webapp.agent.sampler import Sampler, Sensors
from webapp.agent.sender import Sender
from webapp.measurement import Limits, Network, Pressure


def sent(measurement) -> dict:
    """The heartbeat as strict JSON."""
    return json.loads(heartbeat.write(measurement), parse_constant=lambda name: 1 / 0)


def test_the_first_reading_has_everything_but_rates(machine):
    machine.cpu(100, 300)
    load = sent(machine.sampler().measure().measurement)["load"]
    assert "cpu_percent" not in load
    assert "interval_s" not in load
    assert (load["cpus"], load["load1"], load["memory_used_bytes"]) == (4, 0.5, 4 * 2**30)


def test_the_second_reading_has_rates_over_the_time_awake(machine):
    """T71: 10 s awake, 6,690 s asleep, 1,000 ticks a core"""
    sampler = machine.sampler()
    first = sampler.measure()
    machine.clock.advance(10, asleep=6690)
    machine.cpu(400, 3600)
    second = sampler.measure()
    load = second.measurement.load
    assert (load.interval_s, load.cpu_percent) == (10.0, 10.0)
    assert second.taken - first.taken == 6700.0


def test_two_readings_in_one_tick_send_no_nan(machine):
    """T19"""
    sampler = machine.sampler()
    sampler.measure()
    sampler.measure()
    assert "cpu_percent" not in sent(sampler.measure().measurement)["load"]


def test_a_machine_without_counters_still_sends_cores_load_and_memory(machine):
    """T22"""
    machine.cpu(0, 0, cores=24)
    sampler = machine.sampler()
    for _ in range(3):
        load = sent(sampler.measure().measurement)["load"]
        machine.clock.advance(10)
    assert "cpu_percent" not in load
    assert (load["cpus"], load["load15"], load["memory_total_bytes"]) == (24, 0.3, 16 * 2**30)


def test_an_empty_meminfo_costs_memory_and_nothing_else(machine):
    """T26"""
    machine.write("meminfo", b"")
    load = sent(machine.sampler().measure().measurement)["load"]
    assert (load["cpus"], load["load1"]) == (4, 0.5)
    assert not any(name.startswith("memory") for name in load)


def test_a_core_that_leaves_is_reported_at_once(machine):
    """T16"""
    machine.cpu(120_000, 808_000, cores=8)
    sampler = machine.sampler()
    sampler.measure()
    machine.clock.advance(10)
    machine.cpu(120_150, 508_000, cores=4)
    load = sampler.measure().measurement.load
    assert (load.cpus, load.cpu_percent) == (4, None)


def test_a_machine_of_which_nothing_can_be_read_is_still_told(machine):
    for name in ("stat", "loadavg", "meminfo"):
        os.unlink(machine.proc / name)
    message = sent(machine.sampler().measure().measurement)
    assert message["node"] == "cpu-07"
    assert "cpus" not in message.get("load", {})


def test_the_age_of_an_engine_is_not_taken_from_a_containers_uptime(machine):
    """lxcfs shows the container's uptime beside the host's start times."""
    machine.clock.awake = 50_000.0
    machine.process(4200, command="vllm serve m", start=4_000_000)
    machine.write("uptime", "41000.00 1.0\n")
    assert machine.sampler().measure().measurement.engines[0].started_s_ago == 1000.0
    machine.write("uptime", "60.00 1.0\n")
    assert machine.sampler().measure().measurement.engines[0].started_s_ago == 10_000.0


def test_every_sensor_has_its_place(machine):
    asked = []
    sensors = Sensors(
        networks=SimpleNamespace(measure=lambda elapsed_s: asked.append(elapsed_s) or (Network("eth0"),)),
        pressures=SimpleNamespace(measure=lambda elapsed_s: asked.append(elapsed_s) or Pressure(cpu_some=0.5)),
        limits=lambda proc, sys: Limits(cpus=2.0),
        gpus=SimpleNamespace(measure=lambda: SimpleNamespace(gpus=(), error="no driver", memory_by_pid={})),
    )
    sampler = machine.sampler(sensors=sensors)
    sampler.measure()
    machine.clock.advance(10)
    measurement = sampler.measure().measurement
    assert asked == [None, None, 10.0, 10.0]
    assert (measurement.networks[0].device, measurement.pressure.cpu_some, measurement.limits.cpus) == ("eth0", 0.5, 2.0)
    assert (measurement.gpus, measurement.gpu_error) == ((), "no driver")


def test_what_is_slow_to_answer_does_not_stretch_the_time_between_two_counts(machine):
    """A disk that hangs, or an engine, holds one reading up by half a second and the next by nothing."""
    counted = []

    def take_a_while(model_files):
        machine.clock.advance(0.5)
        return ()

    sensors = Sensors(
        networks=SimpleNamespace(measure=lambda elapsed_s: counted.append((machine.clock.monotonic(), elapsed_s)) or ()),
        pressures=SimpleNamespace(measure=lambda elapsed_s: counted.append((machine.clock.monotonic(), elapsed_s)) or Pressure()),
        disks=SimpleNamespace(measure=take_a_while),
        gpus=SimpleNamespace(measure=lambda: take_a_while(()) or SimpleNamespace(gpus=(), error=None, memory_by_pid={})),
    )
    sampler = machine.sampler(sensors=sensors)
    sampler.measure()
    sensors.gpus.measure = lambda: SimpleNamespace(gpus=(), error=None, memory_by_pid={})
    sampler.measure()
    (before, _), _, (network, elapsed_s), (pressure, _) = counted
    assert network - before == pressure - before == elapsed_s


def test_this_machine_can_be_measured_without_any_argument():
    measurement = Sampler("here").measure().measurement
    assert measurement.load.cpus == len(re.findall("^cpu[0-9]", Path("/proc/stat").read_text(), re.MULTILINE))
    assert measurement.host.kernel == os.uname().release
    assert heartbeat.read(heartbeat.write(measurement)).rejected == ()


def test_a_machine_that_has_no_room_for_one_more_thread_is_measured_and_reported(machine, serve, monkeypatch):  # noqa: F811
    """The agent runs as the user of engines that leak threads, up to that user's limit of processes."""
    machine.process(4200, command="vllm serve Qwen/Qwen3-8B --port 8001")
    sensors = Sensors(disks=Disks(machine.proc), gpus=Gpus(machine.sys), engine_metrics=EngineMetrics())
    sampler = machine.sampler({"id": "a", "pid": 4200}, sensors=sensors)
    server = serve(OK)

    start = threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        if threading.current_thread() is not threading.main_thread():
            return start(thread)  # the server's
        raise RuntimeError("can't start new thread")

    sampler.measure()
    monkeypatch.setattr(threading.Thread, "start", refuse)
    machine.clock.advance(600)
    measurement = sampler.measure().measurement
    assert [engine.state for engine in measurement.engines] == ["running"]
    assert Sender(server.url).send(lambda address: heartbeat.write(measurement)) == 12.5
