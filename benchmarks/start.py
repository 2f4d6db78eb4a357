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
    """Of an interpreter that imports the agent, less one that imports nothing; compiled before, as an installer leaves it."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as compiled:
        environment = {name: text for name, text in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        environment["PYTHONPYCACHEPREFIX"] = compiled

        def took(code: str) -> float:
            began = time.monotonic()
            subprocess.run([sys.executable, "-S", "-c", code], cwd=ROOT, env=environment, check=True)
            return time.monotonic() - began

        took("import webapp.agent.command")
        pairs = [(took("import webapp.agent.command"), took("pass")) for _ in range(4 * ROUNDS)]
    spent = 1e3 * (median(with_agent for with_agent, _ in pairs) - median(alone for _, alone in pairs))
    return Row("`import webapp.agent.command`", f"{spent:.0f} ms", "< 60 ms", spent < 60)
