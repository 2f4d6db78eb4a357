"""A machine whose /proc the tests write, and clocks that they move."""

from __future__ import annotations

import types
from pathlib import Path
from typing import Any

import pytest

from webapp.agent.clock import Clock
from webapp.agent.engines.declared import declared
from webapp.agent.machine.disks import Disks
from webapp.agent.sampler import Sampler, Sensors

TICKS = 100
PAGE = 4096


class FakeClock(Clock):
    def __init__(self) -> None:
        self.awake = 1_000.0
        self.asleep = 0.0
        self.wall_now = 1_796_000_000.0

    def monotonic(self) -> float:
        return self.awake

    def boottime(self) -> float:
        return self.awake + self.asleep

    def wall(self) -> float:
        return self.wall_now

    def advance(self, seconds: float, asleep: float = 0.0) -> None:
        self.awake += seconds
        self.asleep += asleep
        self.wall_now += seconds + asleep


def no_disks(path: str) -> Any:
    return types.SimpleNamespace(f_blocks=100, f_bfree=50, f_bavail=40, f_frsize=4096, f_bsize=4096)


class FakeMachine:
    """Writes files below `proc` and `sys`; `sampler` reads them."""

    def __init__(self, root: Path) -> None:
        self.proc, self.sys = root / "proc", root / "sys"
        self.proc.mkdir(parents=True)
        self.sys.mkdir()
        self.clock = FakeClock()
        self.write("loadavg", "0.50 0.40 0.30 1/100 4242\n")
        self.write("meminfo", "MemTotal: 16777216 kB\nMemFree: 8388608 kB\nMemAvailable: 12582912 kB\n")
        self.cpu(0, 0)

    def write(self, path: str, content: str | bytes) -> None:
        file = self.proc / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else content.encode())

    def cpu(self, busy: int, idle: int, cores: int = 4) -> None:
        lines = [f"cpu  {busy} 0 0 {idle} 0 0 0 0 0 0", *(f"cpu{number} 0 0 0 0 0 0 0 0 0 0" for number in range(cores))]
        self.write("stat", "\n".join(lines) + "\nintr 0\n")

    def process(
        self,
        pid: int,
        *,
        comm: str | bytes = "python3",
        state: str = "S",
        ppid: int = 1,
        pgrp: int | None = None,
        session: int | None = None,
        cpu: int = 0,
        reaped: int = 0,
        threads: int = 1,
        start: int = 1000,
        rss: int | str = 100,
        forked: bool = False,
        command: str | None = None,
        cgroup: str | None = None,
        status: str | None = None,
    ) -> None:
        """Times are ticks; the command line's words are separated by blanks."""
        name = comm if isinstance(comm, bytes) else comm.encode()
        flags = 4194560 + 64 * forked
        pgrp = pid if pgrp is None else pgrp
        session = pgrp if session is None else session
        rest = (
            f"{state} {ppid} {pgrp} {session} 0 -1 {flags} 10 0 0 0 {cpu} 0 {reaped} 0 20 0 {threads} 0"
            f" {start} 2147483648 {rss} 18446744073709551615 1 1 0 0 0 0 0 0 0 0 0 0 17 3 0 0 0 0 0 0 0 0 0 0 0 0 0\n"
        )
        self.write(f"{pid}/stat", b"%d (%b) %b" % (pid, name, rest.encode()))
        if command is not None:
            self.write(f"{pid}/cmdline", command.replace(" ", "\0") + "\0")
        if cgroup is not None:
            self.write(f"{pid}/cgroup", f"0::{cgroup}\n")
        if status is not None:
            self.write(f"{pid}/status", status)

    def end(self, pid: int) -> None:
        directory = self.proc / str(pid)
        for file in directory.iterdir():
            file.unlink()
        directory.rmdir()

    def cgroup(self, path: str, *pids: int, usage_usec: int | None = None) -> None:
        directory = self.sys / "fs" / "cgroup" / path.lstrip("/")
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "cgroup.procs").write_text("".join(f"{pid}\n" for pid in pids))
        if usage_usec is not None:
            (directory / "cpu.stat").write_text(f"usage_usec {usage_usec}\nuser_usec 0\n")

    def sampler(self, *tables: dict[str, Any], **more: Any) -> Sampler:
        sensors = more.pop("sensors", Sensors(disks=Disks(self.proc, no_disks)))
        more = {"page_size": PAGE, "ticks": TICKS, "own_pid": 999_999, **more}
        return Sampler("cpu-07", self.proc, self.sys, declared=declared(tables), sensors=sensors, clock=self.clock, **more)


@pytest.fixture
def machine(tmp_path):
    return FakeMachine(tmp_path)


@pytest.fixture
def fake_clock():
    return FakeClock()


@pytest.fixture
def captured():
    """Trees that were captured on real machines."""
    return Path(__file__).parent.parent / "fixtures" / "proc"
