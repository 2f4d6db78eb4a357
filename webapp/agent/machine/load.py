"""CPU, load averages and memory: the part of a measurement that is read each time."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from webapp.agent.machine import memory
from webapp.agent.machine.cpu import Busy
from webapp.agent.machine.proc import CpuTimes, parse_loadavg, parse_meminfo, read_or_empty
from webapp.measurement import Load


def measure(proc: Path, times: CpuTimes, busy: Busy | None, elapsed_s: float | None) -> Load:
    """The load now. `times` and `busy` were read before, `elapsed_s` seconds after the reading before; None: it was the first."""
    averages = parse_loadavg(read_or_empty(proc / "loadavg", 256))
    meminfo = parse_meminfo(read_or_empty(proc / "meminfo", 65536))
    arc = memory.parse_arcstats(read_or_empty(proc / "spl" / "kstat" / "zfs" / "arcstats", 65536))
    load = Load(
        interval_s=elapsed_s,
        cpu_percent=busy.percent if busy else None,
        cpus=times.cpus,
        load1=averages.load1,
        load5=averages.load5,
        load15=averages.load15,
    )
    return dataclasses.replace(load, **memory.measure(meminfo, arc))
