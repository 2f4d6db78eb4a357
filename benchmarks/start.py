"""How long until it answers, and what an agent loads."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.programs import ROOT, control_plane
from benchmarks.report import Row, median

ROUNDS = 5


def run() -> list[Row]:
    return [_answers(), _agent()]


def _answers() -> Row:
    took = []
    for _ in range(ROUNDS):
        with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
            began = time.monotonic()
            with control_plane(Path(folder)) as ours:
                ours.get("/healthz")
                took.append(time.monotonic() - began)
    return Row("`enginehouse serve` answers", f"{median(took):.2f} s", "< 1 s", median(took) < 1)


def _agent() -> Row:
    """The statement alone, in interpreters that have imported nothing; compiled before, as an installer leaves it."""
    code = "import time; began = time.perf_counter(); import webapp.agent.command; print(time.perf_counter() - began)"
    with tempfile.TemporaryDirectory(dir="/var/tmp") as compiled:
        environment = {name: text for name, text in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        environment["PYTHONPYCACHEPREFIX"] = compiled
        command = [sys.executable, "-S", "-c", code]
        took = [
            1e3 * float(subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True).stdout)
            for _ in range(1 + 4 * ROUNDS)
        ]
    spent = median(took[1:])  # the first one compiles
    return Row("`import webapp.agent.command`", f"{spent:.0f} ms", "< 60 ms", spent < 60)
