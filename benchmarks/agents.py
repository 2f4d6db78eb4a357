"""What an agent costs on its node: beside a compiled scan, psutil and node_exporter."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import psutil

from benchmarks.programs import ROOT, Running, free_port, running
from benchmarks.report import Row, median
from benchmarks.sampling import compiled, idle_processes, passes
from webapp.agent.command import all_sensors
from webapp.agent.engines.processes import Processes
from webapp.agent.engines.stat_files import allow_more_files
from webapp.agent.sampler import Sampler

PROCESSES, ROUNDS = 2000, 5
BEATS, BEAT_SECONDS = 12, 1.0

#: What a pass of the agent reads of each process.
_FIELDS = ["pid", "ppid", "name", "status", "create_time", "cpu_times", "memory_info", "num_threads"]


def run() -> list[Row]:
    return [*_pass(), *_as_it_runs()]


def _pass() -> list[Row]:
    allow_more_files()
    with tempfile.TemporaryDirectory() as folder, idle_processes(PROCESSES):
        program = Path(folder) / "scan"
        subprocess.run(["cc", "-O2", "-o", program, ROOT / "benchmarks" / "scan.c"], check=True)
        processes = Processes(Path("/proc"))
        sampler = Sampler("bench", sensors=all_sensors(Path("/proc"), Path("/sys")))
        processes.scan(0.0)
        sampler.measure()
        c, scan, whole, theirs = [], [], [], []
        for _ in range(ROUNDS):
            c.append(compiled(program))
            scan.append(passes(lambda: processes.scan(0.0)))
            whole.append(passes(sampler.measure))
            began = time.process_time()
            list(psutil.process_iter(_FIELDS))
            theirs.append(1e6 * (time.process_time() - began))
    found = f"{PROCESSES:,} processes"
    peer = f"compiled scan: {median(c) / 1000:.1f} ms"
    return [
        Row(
            f"scan of {found}",
            f"{median(scan) / 1000:.1f} ms",
            "<= 2 x",
            median(scan) <= 2 * median(c),
            peer,
            f"{median(scan) / median(c):.2f} x",
        ),
        Row(
            f"whole measurement of {found}",
            f"{median(whole) / 1000:.1f} ms",
            "-",
            None,
            peer,
            f"{median(whole) / median(c):.2f} x",
        ),
        Row(
            f"scan of {found}, beside psutil",
            f"{median(scan) / 1000:.1f} ms",
            ">= 5 x faster",
            median(theirs) >= 5 * median(scan),
            f"psutil.process_iter: {median(theirs) / 1000:.0f} ms",
            f"{median(theirs) / median(scan):.0f} x faster",
        ),
    ]


def _as_it_runs() -> list[Row]:
    """Both read every second instead of every tenth, so that a minute is enough."""
    exporter = shutil.which("prometheus-node-exporter")
    port = free_port()
    with idle_processes(300), tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "webapp.agent", "--server", "http://127.0.0.1:9", "--interval", str(BEAT_SECONDS)]
        process = subprocess.Popen([*command, "--data-dir", folder, "--log-level", "error"], cwd=ROOT)
        agent = Running(process, 0)  # type: ignore[arg-type]
        try:
            with running(
                [exporter or "node_exporter", f"--web.listen-address=127.0.0.1:{port}", "--log.level=error"], port
            ) as theirs:
                time.sleep(3)
                before = agent.cpu_seconds(), theirs.cpu_seconds()
                for _ in range(BEATS):
                    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
                        answer.read()
                    time.sleep(BEAT_SECONDS)
                mine = 1e3 * (agent.cpu_seconds() - before[0]) / BEATS
                peer = 1e3 * (theirs.cpu_seconds() - before[1]) / BEATS
                memory, their_memory = agent.rss_bytes() / 2**20, theirs.rss_bytes() / 2**20
        finally:
            process.terminate()
            process.wait(20)
    return [
        Row(
            "agent with 300 processes, CPU a beat",
            f"{mine:.1f} ms = {mine / 100:.2f} % of a core at 10 s",
            "less",
            mine < peer,
            f"node_exporter: {peer:.1f} ms a scrape",
            f"{peer / mine:.1f} x less",
        ),
        Row(
            "its resident memory",
            f"{memory:.1f} MiB",
            "<= 30 MB",
            memory * 2**20 <= 30e6,
            f"node_exporter: {their_memory:.1f} MiB",
            f"{their_memory / memory:.1f} x less",
        ),
    ]
