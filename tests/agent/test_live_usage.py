"""A real engine whose workers start and exit all the time: its cores against what the kernel says of it.

The truth is the engine's cgroup's cpu.stat where a cgroup can be made (version 2, as root), else the engine's own
getrusage of itself and of the children that it waited for.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from webapp.agent.engines.declared import declared
from webapp.agent.sampler import Sampler, Sensors

pytestmark = pytest.mark.live

#: Burns 20 ms at a time in a child, 10 ms in a grandchild and a little by itself, about half a core in all.
#: Answers each line on its input with its getrusage.
ENGINE = """
import os, resource, select, sys, time

def burn(seconds):
    ends = time.process_time() + seconds
    while time.process_time() < ends:
        pass

while True:
    child = os.fork()
    if child == 0:
        grandchild = os.fork()
        if grandchild == 0:
            burn(0.01)
            os._exit(0)
        burn(0.02)
        os.waitpid(grandchild, 0)
        os._exit(0)
    os.waitpid(child, 0)
    burn(0.005)
    if select.select([sys.stdin], [], [], 0.03)[0] and sys.stdin.readline():
        used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        print(sum(one.ru_utime + one.ru_stime for one in used), flush=True)
"""

SECONDS = 20
EVERY_S = 2.0


@pytest.fixture
def cgroup():
    """A cgroup of version 2 with the name of a service, or None where none can be made."""
    for root in (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/unified")):
        directory = root / f"enginehouse-test-{uuid.uuid4().hex[:8]}.service"
        if not (root / "cgroup.controllers").exists():
            continue
        try:
            directory.mkdir()
        except OSError:
            continue
        yield directory
        for _ in range(100):  # the kernel needs a moment to see that its processes are gone
            try:
                directory.rmdir()
            except OSError:
                time.sleep(0.05)
            else:
                return
        return
    yield None


@pytest.fixture
def engine(cgroup):
    process = subprocess.Popen(
        [sys.executable, "-c", ENGINE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    if cgroup:
        (cgroup / "cgroup.procs").write_text(str(process.pid))
    yield process
    os.killpg(process.pid, 9)
    process.communicate()


def truth(engine: subprocess.Popen[str], cgroup: Path | None) -> Callable[[], float]:
    """Reads the engine's CPU seconds."""

    def by_cgroup() -> float:
        assert cgroup
        return int((cgroup / "cpu.stat").read_text().split()[1]) / 1e6

    def by_rusage() -> float:
        assert engine.stdin
        assert engine.stdout
        engine.stdin.write("\n")
        engine.stdin.flush()
        return float(engine.stdout.readline())

    return by_cgroup if cgroup else by_rusage


def test_an_engine_of_short_lived_workers_is_within_2_percent_of_the_truth(engine, cgroup, tmp_path):
    """One agent sees the engine's cgroup, the other one only its processes."""
    table = declared([{"id": "churn", "pid": engine.pid}])
    by_processes = Sampler("n", sys=tmp_path, declared=table, sensors=Sensors(), discover=False)
    by_cgroup = Sampler("n", declared=table, sensors=Sensors(), discover=False)
    used = truth(engine, cgroup)
    for sampler in (by_processes, by_cgroup):
        sampler.measure()
    before = used()
    counted = {"group": 0.0, "cgroup": 0.0}
    ends = time.monotonic() + SECONDS
    while time.monotonic() < ends:
        time.sleep(EVERY_S)
        for sampler in (by_processes, by_cgroup):
            measurement = sampler.measure().measurement
            (seen,) = measurement.engines
            counted[seen.membership] += seen.cpu_cores * measurement.load.interval_s
    seconds = used() - before
    assert seconds > SECONDS * 0.2
    if cgroup is None:
        assert counted["group"] / 2 == pytest.approx(seconds, rel=0.02)  # both agents saw processes only
    else:
        assert counted["group"] == pytest.approx(seconds, rel=0.02)
        assert counted["cgroup"] == pytest.approx(seconds, rel=0.02)
