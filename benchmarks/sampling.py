"""What the agent costs on a node: against a compiled scan of the same files, and at its usual pace.

    python benchmarks/sampling.py [PROCESSES]

Starts PROCESSES (2,000) idle processes, then takes turns between passes of the agent and of benchmarks/scan.c;
then lets the agent as a whole measure 300 processes and counts its CPU time and resident memory.
"""

from __future__ import annotations

import os
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from webapp.agent.command import all_sensors  # noqa: E402
from webapp.agent.engines.processes import Processes  # noqa: E402
from webapp.agent.engines.stat_files import allow_more_files  # noqa: E402
from webapp.agent.sampler import Sampler  # noqa: E402

PASSES = 20
ROUNDS = 7


@contextmanager
def idle_processes(count: int) -> Iterator[None]:
    """Forks until there are `count` processes on the machine."""
    here = sum(name.isdigit() for name in os.listdir("/proc"))
    children = []
    for _ in range(max(0, count - here)):
        pid = os.fork()
        if pid == 0:
            signal.pause()
            os._exit(0)
        children.append(pid)
    try:
        yield
    finally:
        for pid in children:
            os.kill(pid, signal.SIGKILL)
        for pid in children:
            os.waitpid(pid, 0)


def compiled(program: Path) -> float:
    """Microseconds of CPU that one pass of the C program takes."""
    shown = subprocess.run([program, str(PASSES)], capture_output=True, text=True, check=True).stdout
    return float(shown.split()[2])


def passes(work) -> float:
    """Microseconds of CPU that one call takes."""
    started = time.process_time()
    for _ in range(PASSES):
        work()
    return (time.process_time() - started) / PASSES * 1e6


def compare(count: int) -> None:
    allow_more_files()
    with tempfile.TemporaryDirectory() as directory, idle_processes(count):
        program = Path(directory) / "scan"
        subprocess.run(["cc", "-O2", "-o", program, ROOT / "benchmarks" / "scan.c"], check=True)
        processes = Processes(Path("/proc"))
        sampler = Sampler("bench", sensors=all_sensors(Path("/proc"), Path("/sys")))
        processes.scan(0.0)
        sampler.measure()
        rounds = [(compiled(program), passes(lambda: processes.scan(0.0)), passes(sampler.measure)) for _ in range(ROUNDS)]
        c, scan, whole = (statistics.median(column) for column in zip(*rounds))
        found = len(processes.scan(0.0).processes)
    print(f"{found} processes, microseconds of CPU a pass (median of {ROUNDS} x {PASSES})")
    print(f"  compiled scan        {c:9.0f}")
    print(f"  agent: scan          {scan:9.0f}   {scan / c:.2f} x")
    print(f"  agent: whole sample  {whole:9.0f}   {whole / c:.2f} x")


def as_it_runs(count: int, seconds: float = 12.0) -> None:
    """The agent as a process of its own, beating every second instead of every tenth."""
    with idle_processes(count), tempfile.TemporaryDirectory() as directory:
        arguments = ["--server", "http://127.0.0.1:9", "--interval", "1", "--data-dir", directory, "--log-level", "error"]
        agent = subprocess.Popen([sys.executable, "-m", "webapp.agent", *arguments], cwd=ROOT)
        try:
            time.sleep(4)
            before, started = cpu_seconds(agent.pid), time.monotonic()
            time.sleep(seconds)
            per_beat = (cpu_seconds(agent.pid) - before) / (time.monotonic() - started)
            resident = next(
                line for line in Path(f"/proc/{agent.pid}/status").read_text().split("\n") if line.startswith("VmRSS")
            )
        finally:
            agent.terminate()
            agent.wait()
    print(f"the agent with {count} processes: {per_beat * 1000:.1f} ms of CPU a beat = {per_beat * 10:.3f} % of a core at 10 s")
    print(f"  resident memory {int(resident.split()[1]) / 1024:.1f} MiB")


def cpu_seconds(pid: int) -> float:
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    compare(int(sys.argv[1]) if len(sys.argv) > 1 else 2000)
    as_it_runs(300)
