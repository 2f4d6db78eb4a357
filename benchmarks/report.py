"""What a benchmark found: rows of one table, and the machine that they are of."""

from __future__ import annotations

import gc
import os
import platform
import shutil
import statistics
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

PACKAGES = (
    *("flask", "httptools", "msgspec", "uvloop", "plotly"),
    *("fastapi", "uvicorn", "pydantic", "psutil", "prometheus_client", "playwright"),
)
PROGRAMS = {
    "prometheus": ["prometheus", "--version"],
    "node_exporter": ["prometheus-node-exporter", "--version"],
    "chromium": ["chromium", "--version"],
    "cc": ["cc", "--version"],
}


@dataclass(frozen=True)
class Row:
    """One piece of work: ours beside a peer's in the same run."""

    work: str
    ours: str
    goal: str
    met: bool | None = None
    peer: str = "-"
    ratio: str = "-"

    @property
    def cells(self) -> tuple[str, ...]:
        return self.work, self.ours, self.peer, self.ratio, self.goal, {True: "yes", False: "**no**", None: "-"}[self.met]


HEAD = ("work", "ours", "peer", "ratio", "goal", "met")


def median(values: Iterable[float]) -> float:
    return statistics.median(values)


def percentile(values: Iterable[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def timed(function: Callable[[], object], times: int, clock: Callable[[], float]) -> list[float]:
    """Seconds of each call; the collector of garbage rests meanwhile, since whom it strikes is chance."""
    found = []
    for _ in range(times):
        gc.collect()
        gc.disable()
        began = clock()
        function()
        found.append(clock() - began)
        gc.enable()
    return found


def machine() -> list[str]:
    """The machine and the versions, a line each; nothing that names a place or a person."""
    model = next((line.partition(":")[2].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")), "unknown")
    memory = next((int(line.split()[1]) for line in _lines("/proc/meminfo") if line.startswith("MemTotal")), 0)
    versions = [f"{name} {_installed(name)}" for name in PACKAGES]
    programs = [f"{name} {_said(command)}" for name, command in PROGRAMS.items() if shutil.which(command[0])]
    system = f"Linux {platform.release()}, {platform.python_implementation()} {platform.python_version()}"
    return [
        f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC; {model}, {os.cpu_count()} cores, {memory / 2**20:.0f} GiB; {system}",
        ", ".join(versions),
        ", ".join(programs),
        f"load average when it began: {os.getloadavg()[0]:.1f}",
    ]


def _lines(path: str) -> list[str]:
    return Path(path).read_text("utf-8", "replace").splitlines()


def _installed(name: str) -> str:
    try:
        return version(name)
    except ImportError:
        return "not installed"


def _said(command: list[str]) -> str:
    """A program's version out of what it says of it."""
    shown = subprocess.run(command, capture_output=True, text=True, timeout=30)
    words = (shown.stdout or shown.stderr).split()
    return next((word.strip(",()") for word in words if word[:1].isdigit() and "." in word), "?")


def markdown(rows: Iterable[Row]) -> str:
    lines = [HEAD, ("---",) * len(HEAD), *(row.cells for row in rows)]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def table(rows: Iterable[Row]) -> str:
    """For a terminal."""
    cells = [HEAD, *(row.cells for row in rows)]
    widths = [min(60, max(len(row[column]) for row in cells)) for column in range(len(HEAD))]
    return "".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() + "\n" for row in cells)
