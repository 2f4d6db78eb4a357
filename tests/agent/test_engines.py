"""Engines on a machine whose /proc the tests write: found, declared, orphaned, dead, restarted."""

from __future__ import annotations

import types

import pytest

from webapp import heartbeat
from webapp.agent.sampler import Sensors
from webapp.measurement import Engine, Requests

VLLM = "vllm serve Qwen/Qwen3-8B --port 8001"


def engines(sampler) -> dict[str, Engine]:
    return {engine.id: engine for engine in sampler.measure().measurement.engines}


def pids(engine: Engine) -> list[int]:
    return sorted(process.pid for process in engine.members)


def test_the_first_reading_has_no_rates(machine):
    machine.process(4200, cpu=500, command=VLLM)
    found = engines(machine.sampler())["vllm-Qwen_Qwen3-8B-8001"]
    assert (found.cpu_cores, found.members[0].cpu_cores, found.members[0].ticks_before) == (None, None, None)
    assert (found.model, found.port, found.state, found.processes) == ("Qwen/Qwen3-8B", 8001, "running", 1)


@pytest.mark.parametrize("length", [245, 3000])
def test_an_engine_with_a_long_model_name_is_not_lost(machine, length):
    """Its id, which is made of that, was longer than a heartbeat takes, and an engine without an id is dropped."""
    machine.process(4200, command=f"vllm serve {'m' * length}a --port 8001")
    machine.process(4300, command=f"vllm serve {'m' * length}b --port 8001")
    measurement = machine.sampler().measure().measurement
    read = heartbeat.read(heartbeat.write(measurement)).measurement
    assert [engine.pid for engine in read.engines] == [4200, 4300]


def test_a_group_lives_on_without_its_leader(machine):
    """T38: no /proc/4200; deltas of 300 and 200 ticks in 10 s"""
    machine.process(4201, pgrp=4200, cpu=1000, rss=100)
    machine.process(4202, pgrp=4200, cpu=1000, rss=200)
    sampler = machine.sampler({"id": "a", "pid": 4200})
    sampler.measure()
    machine.clock.advance(10)
    machine.process(4201, pgrp=4200, cpu=1300, rss=100)
    machine.process(4202, pgrp=4200, cpu=1200, rss=200)
    found = engines(sampler)["a"]
    assert (found.state, found.cpu_cores, found.memory_bytes) == ("orphaned", 0.5, 300 * 4096)


def test_a_reused_pid_does_not_inherit_the_engine(machine):
    """T40"""
    machine.process(4200, start=1000, cpu=100, command=VLLM)
    sampler = machine.sampler({"id": "a", "pid": 4200})
    assert engines(sampler)["a"].state == "running"
    machine.clock.advance(10)
    machine.process(4200, comm="bash", start=990_000, cpu=700, command="bash")
    found = engines(sampler)["a"]
    assert (found.state, found.processes, found.cpu_cores, found.pid) == ("dead", 0, None, None)


def test_a_killed_api_server_leaves_an_orphaned_engine(machine):
    """T41: its workers hold the GPU"""
    machine.process(4200, command=VLLM)
    machine.process(4201, comm="VLLM::EngineCor", ppid=4200, pgrp=4200)
    gpus = types.SimpleNamespace(gpus=(), error=None, memory_by_pid={4201: 90 * 2**30, 7: 5})
    sampler = machine.sampler(sensors=Sensors(gpus=types.SimpleNamespace(measure=lambda: gpus)))
    assert engines(sampler)["vllm-Qwen_Qwen3-8B-8001"].state == "running"
    machine.end(4200)
    machine.process(4201, comm="VLLM::EngineCor", ppid=1, pgrp=4200)
    found = engines(sampler)["vllm-Qwen_Qwen3-8B-8001"]
    assert (found.state, found.model, found.gpu_memory_bytes) == ("orphaned", "Qwen/Qwen3-8B", 90 * 2**30)


def test_a_zombie_leader_with_living_members_is_orphaned_too(machine):
    machine.process(4200, command=VLLM)
    machine.process(4201, ppid=4200, pgrp=4200)
    sampler = machine.sampler()
    sampler.measure()
    machine.process(4200, state="Z", rss=0)
    assert engines(sampler)["vllm-Qwen_Qwen3-8B-8001"].state == "orphaned"


def test_an_engine_restarted_beside_its_orphans_keeps_its_id(machine):
    machine.process(4200, command=VLLM)
    machine.process(4201, comm="VLLM::EngineCor", ppid=4200, pgrp=4200)
    sampler = machine.sampler()
    sampler.measure()
    machine.end(4200)
    machine.process(4201, comm="VLLM::EngineCor", ppid=1, pgrp=4200)
    machine.process(5000, command=VLLM, start=2000)
    found = engines(sampler)
    assert {id: (engine.state, pids(engine)) for id, engine in found.items()} == {
        "vllm-Qwen_Qwen3-8B-8001": ("running", [5000]),
        "vllm-Qwen_Qwen3-8B-8001-orphaned-4200": ("orphaned", [4201]),
    }


def test_orphans_from_before_the_agent_are_known_by_their_titles(machine):
    machine.process(4201, comm="VLLM::EngineCor", ppid=1, pgrp=4200)
    machine.process(4202, comm="VLLM::Worker", ppid=4201, pgrp=4200)
    sampler = machine.sampler()
    found = engines(sampler)["vllm-orphaned-4200"]
    assert (found.state, found.kind, found.model, pids(found)) == ("orphaned", "vllm", None, [4201, 4202])
    machine.end(4201)
    machine.end(4202)
    assert engines(sampler) == {}


def test_an_engine_of_zombies_is_dead(machine):
    """T37: its time stands still, which does not mean that it idles"""
    machine.process(4200, command=VLLM)
    sampler = machine.sampler()
    sampler.measure()
    machine.clock.advance(10)
    machine.process(4200, state="Z", threads=1, rss=0)
    assert engines(sampler)["vllm-Qwen_Qwen3-8B-8001"].state == "dead"


def test_a_process_whose_first_thread_has_ended_still_holds_its_memory(machine):
    """The kernel reports 0 pages of such a process, and what it holds with each thread that lives."""
    machine.process(4200, state="Z", threads=3, rss=0, command=VLLM, status="Name:\tvllm\nState:\tZ (zombie)\n")
    machine.write("4200/task/4200/status", "Name:\tvllm\nState:\tZ (zombie)\n")
    sampler = machine.sampler()
    assert engines(sampler)["vllm-Qwen_Qwen3-8B-8001"].memory_bytes is None
    machine.write("4200/task/4201/status", "Name:\tvllm\nRssAnon:\t6 kB\nRssFile:\t3 kB\nRssShmem:\t1 kB\n")
    assert engines(sampler)["vllm-Qwen_Qwen3-8B-8001"].memory_bytes == 10240


def test_an_engine_that_ended_is_gone(machine):
    machine.process(4200, command=VLLM)
    sampler = machine.sampler()
    sampler.measure()
    machine.end(4200)
    assert engines(sampler) == {}


def test_a_restarted_engine_has_the_same_id_and_no_rate_of_its_old_life(machine):
    machine.process(4200, cpu=9000, command=VLLM)
    sampler = machine.sampler()
    sampler.measure()
    machine.end(4200)
    machine.clock.advance(10)
    machine.process(5000, cpu=50, start=2000, command=VLLM)
    assert engines(sampler)["vllm-Qwen_Qwen3-8B-8001"].cpu_cores == 0.05


def test_an_engine_that_a_script_starts_with_exec_is_found(machine):
    machine.process(4200, comm="sh", command="sh start.sh")
    sampler = machine.sampler()
    assert engines(sampler) == {}
    machine.process(4200, comm="vllm", command=VLLM)
    assert list(engines(sampler)) == ["vllm-Qwen_Qwen3-8B-8001"]


def test_a_forked_copy_of_a_leader_is_its_member(machine):
    machine.process(4200, command=VLLM)
    machine.process(4201, ppid=4200, pgrp=4200, command=VLLM)
    machine.process(4202, ppid=4201, pgrp=4202, command=VLLM)
    assert {id: pids(engine) for id, engine in engines(machine.sampler()).items()} == {
        "vllm-Qwen_Qwen3-8B-8001": [4200, 4201, 4202]
    }


def test_a_router_has_an_engine_for_each_model_with_an_id_that_stays(machine):
    """Children of llama-server's router get a random port each time."""
    machine.process(10, comm="llama-server", command="llama-server --models-dir /models --port 9000")
    machine.process(
        11, comm="llama-server", ppid=10, pgrp=10, command="llama-server --port 40001 --alias qwen --model /models/q.gguf"
    )
    machine.process(
        12, comm="llama-server", ppid=10, pgrp=10, command="llama-server --port 40002 --alias smol --model /models/s.gguf"
    )
    sampler = machine.sampler()
    found = engines(sampler)
    assert {id: (engine.kind, engine.model, engine.port, pids(engine)) for id, engine in found.items()} == {
        "llama.cpp-router-9000": ("llama.cpp-router", None, 9000, [10]),
        "llama.cpp-qwen-9000": ("llama.cpp", "qwen", 40001, [11]),
        "llama.cpp-smol-9000": ("llama.cpp", "smol", 40002, [12]),
    }
    machine.end(11)
    machine.process(
        13, comm="llama-server", ppid=10, pgrp=10, command="llama-server --port 40003 --alias qwen --model /models/q.gguf"
    )
    assert engines(sampler)["llama.cpp-qwen-9000"].port == 40003


def test_two_engines_alike_have_two_ids(machine):
    """Two containers with networks of their own, one port"""
    machine.process(10, command=VLLM, start=1)
    machine.process(20, command=VLLM, start=2)
    sampler = machine.sampler()
    assert {id: pids(engine) for id, engine in engines(sampler).items()} == {
        "vllm-Qwen_Qwen3-8B-8001": [10],
        "vllm-Qwen_Qwen3-8B-8001-2": [20],
    }
    machine.end(10)
    assert {id: pids(engine) for id, engine in engines(sampler).items()} == {"vllm-Qwen_Qwen3-8B-8001-2": [20]}


def test_a_declared_engine_beats_the_found_one_and_learns_from_it(machine):
    machine.process(4100, comm="sh", command="sh run-qwen.sh")
    machine.process(4200, ppid=4100, pgrp=4100, command=VLLM)
    sampler = machine.sampler({"id": "qwen", "model": "qwen3", "command": "run-qwen"})
    (found,) = engines(sampler).values()
    assert (found.id, found.model, found.kind, found.port, found.declared, pids(found)) == (
        "qwen",
        "qwen3",
        "vllm",
        8001,
        True,
        [4100, 4200],
    )


def test_a_pattern_prefers_the_engine_to_the_shell_that_names_it(machine):
    machine.process(4100, comm="sh", command="sh -c vllm_serve_Qwen", start=1)
    machine.process(4200, command=VLLM, start=2)
    assert engines(machine.sampler({"id": "q", "command": "serve.Qwen"}))["q"].pid == 4200


def test_a_declared_engine_that_does_not_run_is_reported_as_dead(machine):
    machine.process(2, comm="kthreadd", ppid=0, pgrp=0, cpu=500)
    machine.process(15, comm="ksoftirqd/0", ppid=2, pgrp=0, cpu=500)
    found = engines(machine.sampler({"id": "a", "model": "m", "command": "no such thing"}))["a"]
    assert (found.state, found.processes, found.cpu_cores, found.memory_bytes) == ("dead", 0, None, None)


def test_a_pidfile_is_followed_through_restarts(machine, tmp_path):
    machine.process(10, command="python engine.py")
    machine.process(20, command="python engine.py")
    pidfile = tmp_path / "engine.pid"
    sampler = machine.sampler({"id": "a", "pidfile": str(pidfile)})
    assert engines(sampler)["a"].state == "dead"
    pidfile.write_text("10\n")
    assert engines(sampler)["a"].pid == 10
    machine.end(10)
    pidfile.write_text("20\n")
    assert engines(sampler)["a"].pid == 20
    machine.end(20)
    pidfile.write_bytes(b"\xff" * 5000)
    assert engines(sampler)["a"].state == "dead"


def test_whoever_listens_on_the_declared_port_leads(machine):
    machine.process(10, command="python engine.py", start=1)
    machine.process(11, ppid=10, pgrp=10, command="python engine.py", start=2)
    machine.process(12, command="python other.py", start=0)
    for pid in (10, 11):
        (machine.proc / str(pid) / "fd").mkdir()
        (machine.proc / str(pid) / "fd" / "3").symlink_to("socket:[4711]")
    machine.write(
        "net/tcp", "  sl  local\n   0: 0100007F:1F40 00000000:0000 0A 0:0 00:00000000 0     0        0 4711 1 0 100 0\n"
    )
    found = engines(machine.sampler({"id": "a", "port": 8000}))["a"]
    assert (found.pid, pids(found)) == (10, [10, 11])


def test_a_unit_is_an_engine_of_its_own(machine):
    cgroup = "/system.slice/qwen.service"
    machine.process(4100, comm="sh", command="sh start.sh", start=1, cgroup=cgroup)
    machine.process(4200, ppid=4100, pgrp=4100, command=VLLM, start=2, cgroup=cgroup)
    machine.process(4300, ppid=1, command="double-forked worker", start=3)
    machine.cgroup(cgroup, 4100, 4200, 4300, usage_usec=1_000_000)
    sampler = machine.sampler()
    found = engines(sampler)["vllm-Qwen_Qwen3-8B-8001"]
    assert (found.unit, found.membership, pids(found)) == ("qwen.service", "cgroup", [4100, 4200, 4300])
    machine.clock.advance(10)
    machine.cgroup(cgroup, 4100, 4200, 4300, usage_usec=16_000_000)
    assert engines(sampler)["vllm-Qwen_Qwen3-8B-8001"].cpu_cores == 1.5


@pytest.mark.parametrize(
    "cgroup", ["/user.slice/user-1000.slice/session-3.scope", "/system.slice/ssh.service", "/", "/init.scope"]
)
def test_a_cgroup_that_anybody_shares_is_no_engines(machine, cgroup):
    machine.process(4200, command=VLLM, cgroup=cgroup)
    machine.process(7, command="an editor")
    machine.cgroup(cgroup, 4200, 7, usage_usec=0)
    found = engines(machine.sampler())["vllm-Qwen_Qwen3-8B-8001"]
    assert (found.membership, found.unit, pids(found)) == ("group", None, [4200])


def test_a_container_with_two_engines_or_the_agent_in_it_is_nobodys_own(machine):
    path = "/system.slice/docker-" + "0123456789ab" + "c" * 52 + ".scope"
    machine.process(10, command=VLLM, cgroup=path)
    machine.process(20, command="vllm serve other", cgroup=path)
    machine.cgroup(path, 10, 20)
    found = engines(machine.sampler())
    assert {(engine.membership, engine.unit) for engine in found.values()} == {("group", "container 0123456789ab")}
    machine.end(20)
    machine.cgroup(path, 10)
    assert engines(machine.sampler())["vllm-Qwen_Qwen3-8B-8001"].membership == "cgroup"
    machine.cgroup(path, 10, 555)
    assert engines(machine.sampler(own_pid=555))["vllm-Qwen_Qwen3-8B-8001"].membership == "group"


def test_a_declared_unit_or_container_is_found_by_name(machine):
    machine.process(10, command="python engine.py")
    machine.process(20, command="python engine.py")
    machine.cgroup("/system.slice/mine.service", 10)
    machine.cgroup("/docker/" + "ab" * 32, 20)
    found = engines(machine.sampler({"id": "u", "unit": "mine"}, {"id": "c", "container": "abababab"}))
    assert (found["u"].pid, found["c"].pid) == (10, 20)


def test_members_whose_memory_is_misread_do_not_poison_the_sum(machine):
    """T32"""
    machine.process(4200, command=VLLM, rss="-3")
    machine.process(4201, ppid=4200, pgrp=4200, rss="18446744073709551613")
    machine.process(4202, ppid=4200, pgrp=4200, rss=100)
    found = engines(machine.sampler())["vllm-Qwen_Qwen3-8B-8001"]
    assert found.memory_bytes == 409_600
    assert {process.pid: process.memory_bytes for process in found.members} == {4200: None, 4201: None, 4202: 409_600}


def test_memory_is_split_only_where_every_member_can_be_read(machine):
    status = "Name:\tx\nRssAnon:\t 300 kB\nRssFile:\t 90 kB\nRssShmem:\t 10 kB\n"
    machine.process(4200, command=VLLM, rss=100, status=status)
    found = engines(machine.sampler())["vllm-Qwen_Qwen3-8B-8001"]
    assert (found.memory_bytes, found.memory_anonymous_bytes, found.memory_file_bytes, found.memory_shared_bytes) == (
        400 * 1024,
        300 * 1024,
        90 * 1024,
        10 * 1024,
    )
    machine.process(4201, ppid=4200, pgrp=4200, rss=50)
    found = engines(machine.sampler())["vllm-Qwen_Qwen3-8B-8001"]
    assert (found.memory_bytes, found.memory_anonymous_bytes) == (400 * 1024 + 50 * 4096, None)


def test_a_name_of_any_bytes_is_shown(machine):
    """T04"""
    machine.process(4200, comm=b"\xff\xfe\xc3\x28", command=VLLM)
    assert engines(machine.sampler())["vllm-Qwen_Qwen3-8B-8001"].members[0].command == "\ufffd\ufffd\ufffd("


def test_nothing_is_looked_for_when_discovery_is_off(machine):
    machine.process(4200, command=VLLM)
    machine.process(4201, comm="VLLM::EngineCor")
    assert engines(machine.sampler(discover=False)) == {}


def test_kernel_threads_have_no_command_line_to_read(machine):
    machine.write("2/stat", "2 (kthreadd) S 0 0 0 0 -1 2129984 0 0 0 0 0 8 0 0 20 0 1 0 5 0 0 18446744073709551615 0 0\n")
    machine.write("2/cmdline", VLLM.replace(" ", "\0"))
    assert engines(machine.sampler()) == {}


def test_what_an_engine_says_of_itself_is_added_to_what_is_measured(machine):
    machine.process(4200, command=VLLM)
    asked = []
    reading = types.SimpleNamespace(
        requests=Requests(waiting=3.0, running=2.0),
        kv_cache_usage_ratio=0.4,
        prompt_tokens_per_second=None,
        generation_tokens_per_second=7.0,
        metrics_error=None,
    )
    metrics = types.SimpleNamespace(wait=lambda seconds: True, refresh=asked.extend, latest=lambda engine_id: reading)
    found = engines(machine.sampler(sensors=Sensors(engine_metrics=metrics)))["vllm-Qwen_Qwen3-8B-8001"]
    assert (found.requests.waiting, found.kv_cache_usage_ratio, found.generation_tokens_per_second) == (3.0, 0.4, 7.0)
    assert [engine.id for engine in asked] == ["vllm-Qwen_Qwen3-8B-8001"]


def test_the_busiest_processes_of_a_large_engine_are_reported(machine):
    machine.process(4200, command=VLLM)
    for pid in range(5000, 5100):
        machine.process(pid, ppid=4200, pgrp=4200)
    sampler = machine.sampler()
    sampler.measure()
    machine.clock.advance(10)
    machine.process(5099, ppid=4200, pgrp=4200, cpu=500)
    found = engines(sampler)["vllm-Qwen_Qwen3-8B-8001"]
    assert (found.processes, len(found.members), found.members[0].pid, found.cpu_cores) == (101, 64, 5099, 0.5)


def test_an_engine_in_a_container_is_named_by_its_environment(machine):
    machine.process(10, comm="text-generation", command="text-generation-launcher")
    machine.write("10/environ", "HF_TOKEN=secret\0MODEL_ID=a/b\0PORT=80\0")
    assert list(engines(machine.sampler())) == ["tgi-a_b-80"]


def test_a_forked_copy_does_not_become_the_leader_when_the_leader_dies(machine):
    machine.process(4200, command=VLLM)
    machine.process(4201, ppid=4200, pgrp=4200, command=VLLM, forked=True)
    sampler = machine.sampler()
    sampler.measure()
    machine.end(4200)
    machine.process(4201, ppid=1, pgrp=4200, forked=True)
    found = engines(sampler)["vllm-Qwen_Qwen3-8B-8001"]
    assert (found.state, pids(found)) == ("orphaned", [4201])


@pytest.mark.slow
def test_a_node_full_of_engines_fits_into_a_heartbeat(machine):
    for number in range(300):
        machine.process(10_000 + number, command=f"vllm serve {'m' * 200}{number} --port {20_000 + number}")
        for worker in range(4):
            machine.process(100_000 + 10 * number + worker, comm="x" * 15, ppid=10_000 + number, pgrp=10_000 + number)
    measurement = machine.sampler().measure().measurement
    assert len(measurement.engines) == 256
    assert len(heartbeat.write(measurement)) < heartbeat.LARGEST_BODY_BYTES
    assert heartbeat.read(heartbeat.write(measurement)).rejected == ()


def test_a_declared_engine_takes_over_what_was_found_before(machine, tmp_path):
    machine.process(4100, command="sh run.sh")
    machine.process(4200, ppid=4100, pgrp=4100, command=VLLM)
    pidfile = tmp_path / "pid"
    sampler = machine.sampler({"id": "qwen", "pidfile": str(pidfile)})
    assert {id: engine.state for id, engine in engines(sampler).items()} == {"qwen": "dead", "vllm-Qwen_Qwen3-8B-8001": "running"}
    pidfile.write_text("4200")
    assert {id: pids(engine) for id, engine in engines(sampler).items()} == {"qwen": [4200]}
    machine.process(4300, ppid=4100, pgrp=4100, command="vllm serve other")
    assert list(engines(sampler)) == ["qwen", "vllm-other-8000"]


def test_the_agents_own_command_line_matches_no_pattern(machine):
    machine.process(999_999, command="python -m webapp.agent --node vllm-1")
    assert engines(machine.sampler({"id": "a", "command": "vllm"}))["a"].state == "dead"
