"""Real processes: a killed leader, workers with sessions of their own, a listening socket, a real Python of each version."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.agent.test_sender import OK, serve  # noqa: F401 - a fixture
from webapp import heartbeat
from webapp.agent.engines.declared import declared
from webapp.agent.sampler import Sampler, Sensors
from webapp.measurement import Engine

pytestmark = pytest.mark.live

#: Starts one worker in its own group and one in a session of its own, and says their pids.
LEADER = """
import os, sys, time

def worker(apart):
    pid = os.fork()
    if pid == 0:
        if apart:
            os.setsid()
        time.sleep(60)
        os._exit(0)
    return pid

print(worker(False), worker(True), flush=True)
time.sleep(60)
"""


@pytest.fixture
def start():
    """start(code) -> a Python process in a session of its own, killed afterwards with all that it started."""
    started: list[subprocess.Popen[str]] = []

    def run(code: str) -> subprocess.Popen[str]:
        process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, start_new_session=True)
        started.append(process)
        return process

    yield run
    for process in started:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.communicate()


def eventually(true: Callable[[], bool]) -> None:
    ends = time.monotonic() + 20
    while not true():
        assert time.monotonic() < ends
        time.sleep(0.02)


def one(sampler: Sampler) -> Engine:
    (engine,) = sampler.measure().measurement.engines
    return engine


def test_an_engine_whose_leader_is_killed_is_orphaned_until_its_last_worker_ends(start, tmp_path):
    leader = start(LEADER)
    near, apart = map(int, leader.stdout.readline().split())
    sampler = Sampler("n", sys=tmp_path, declared=declared([{"id": "a", "pid": leader.pid}]), discover=False)
    try:
        eventually(lambda: os.getsid(apart) == apart)
        found = one(sampler)
        assert (found.state, sorted(process.pid for process in found.members)) == ("running", sorted([leader.pid, near, apart]))
        assert found.memory_bytes == found.memory_anonymous_bytes + found.memory_file_bytes + found.memory_shared_bytes
        assert 0 <= found.started_s_ago < 60
        leader.kill()
        leader.wait()
        found = one(sampler)
        assert (found.state, sorted(process.pid for process in found.members)) == ("orphaned", sorted([near, apart]))
        os.kill(near, signal.SIGKILL)
        eventually(lambda: one(sampler).processes == 1)
        assert one(sampler).state == "orphaned"
    finally:
        os.kill(apart, signal.SIGKILL)
    eventually(lambda: one(sampler).state == "dead")


def test_whoever_listens_on_a_port_is_found(start, tmp_path):
    code = (
        "import socket, time; s = socket.create_server(('127.0.0.1', 0)); print(s.getsockname()[1], flush=True); time.sleep(60)"
    )
    engine = start(code)
    port = int(engine.stdout.readline())
    sampler = Sampler("n", sys=tmp_path, declared=declared([{"id": "a", "port": port}]), discover=False)
    assert one(sampler).pid == engine.pid
    with socket.create_connection(("127.0.0.1", port)):
        assert one(sampler).pid == engine.pid


def test_shared_memory_is_reported_proportionally(start, tmp_path):
    engine = start("import time; x = b'x' * 30_000_000; print(flush=True); time.sleep(60)")
    engine.stdout.readline()
    sampler = Sampler("n", sys=tmp_path, declared=declared([{"id": "a", "pid": engine.pid}]), sensors=Sensors(), discover=False)
    eventually(lambda: one(sampler).memory_proportional_bytes is not None)
    found = one(sampler)
    assert 30_000_000 < found.memory_proportional_bytes <= found.memory_bytes * 1.05


def pythons() -> list[str]:
    """Every CPython from 3.9 on that this machine has."""
    named = [shutil.which(f"python3.{minor}") for minor in range(9, 16)]
    others = sorted(Path.home().glob(".pyenv/versions/3.*/bin/python"))
    found = {}
    for python in [sys.executable, *filter(None, named), *map(str, others)]:
        shown = subprocess.run([python, "-c", "import sys; print(*sys.version_info[:2])"], capture_output=True, text=True)
        version = tuple(map(int, shown.stdout.split()))
        if version >= (3, 9):
            found.setdefault(version, python)
    return [found[version] for version in sorted(found)]


@pytest.mark.parametrize("python", pythons())
def test_the_agent_runs_on_every_python_of_this_machine(serve, tmp_path, python):  # noqa: F811
    server = serve(OK)
    arguments = ["--server", server.url, "--once", "--data-dir", str(tmp_path), "--node", "cpu-07"]
    root = str(Path(__file__).parent.parent.parent)
    done = subprocess.run(
        [python, "-S", "-W", "error", "-m", "webapp.agent", *arguments], cwd=root, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
    reading = heartbeat.read(server.asked[0][3])
    assert reading.rejected == ()
    assert reading.measurement.load.cpu_percent is not None
