"""Real programs for live tests: started on a free port, stopped with the test."""

from __future__ import annotations

import re
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

ENGINEHOUSE = [sys.executable, "-m", "webapp.cli"]
AGENT = [sys.executable, "-m", "webapp.agent"]

#: An engine that keeps the given share of one core busy, in slices of 20 ms.
BURNER = """
import sys, time
share = float(sys.argv[1])
while True:
    until = time.perf_counter() + 0.02 * share
    while time.perf_counter() < until: pass
    time.sleep(0.02 * (1 - share))
"""


@contextmanager
def running(command: list[str], log: Path, **more: object) -> Iterator[subprocess.Popen[bytes]]:
    """The program, its output in `log`; killed at the end if it is still there."""
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, **more)  # type: ignore[call-overload]
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()


@contextmanager
def control_plane(log: Path, *flags: str, command: str = "serve") -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """Its address and its process."""
    with running([*ENGINEHOUSE, command, "--listen", "127.0.0.1:0", *flags], log) as process:
        yield eventually(lambda: said_address(log, process), "the control plane to print its address"), process


def said_address(log: Path, process: subprocess.Popen[bytes]) -> str | None:
    """The address that a control plane has printed; fails if it has ended."""
    text = log.read_text("utf-8", "replace")
    assert process.poll() is None, f"ended with {process.returncode}: {text}"
    found = re.search(r"is at (http://\S+)", text)
    return found.group(1) if found else None


def eventually(question: Callable[[], T | None], wanted: str, patience_s: float = 30.0) -> T:
    """The first answer that is not None or False; fails when patience ends."""
    end = time.monotonic() + patience_s
    while True:
        answer = question()
        if answer is not None and answer is not False:
            return answer
        assert time.monotonic() < end, f"waited {patience_s:.0f} s in vain for {wanted}"
        time.sleep(0.1)


def children_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text("utf-8").split()]


def has_ended(pid: int) -> bool:
    """Whether the process is gone, or is only waiting for a parent to take note."""
    try:
        return Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def fetch(url: str, headers: dict[str, str] | None = None) -> str:
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers or {}), timeout=10) as answer:
        return answer.read().decode()


def sample(url: str, series: str) -> float | None:
    """A sample of /metrics by its name and labels as they are written."""
    found = re.search(rf"^{re.escape(series)} (\S+)$", fetch(url + "/metrics"), re.MULTILINE)
    return float(found.group(1)) if found else None
