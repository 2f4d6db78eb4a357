"""The one place that puts a Measurement together."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from webapp.agent.clock import Clock
from webapp.agent.engines.declared import Declared
from webapp.agent.engines.metrics import EngineMetrics
from webapp.agent.engines.processes import Processes, Scan
from webapp.agent.engines.report import EngineReports
from webapp.agent.machine import load
from webapp.agent.machine.cpu import CpuMeter
from webapp.agent.machine.disks import Disks
from webapp.agent.machine.gpu import Gpus
from webapp.agent.machine.host import HostFacts
from webapp.agent.machine.network import Networks
from webapp.agent.machine.pressure import Pressures
from webapp.agent.machine.proc import parse_stat, read_or_empty
from webapp.measurement import Host, Limits, Measurement, Pressure


class Sample(NamedTuple):
    """A measurement, and when it was taken: seconds on the boot clock. Its age is set when it is sent."""

    measurement: Measurement
    taken: float


class Sensors(NamedTuple):
    """What measures the parts of a machine beside CPU, memory and processes. None: not measured."""

    networks: Networks | None = None
    pressures: Pressures | None = None
    #: Called with the roots of /proc and /sys.
    limits: Callable[[Path, Path], Limits] | None = None
    gpus: Gpus | None = None
    engine_metrics: EngineMetrics | None = None
    disks: Disks | None = None


class Sampler:
    """Measures one machine, reading after reading. Rates are unknown in the first."""

    def __init__(
        self,
        node: str,
        proc: Path = Path("/proc"),
        sys: Path = Path("/sys"),
        *,
        declared: Sequence[Declared] = (),
        discover: bool = True,
        labels: Mapping[str, str] | None = None,
        sensors: Sensors | None = None,
        clock: Clock | None = None,
        page_size: int | None = None,
        ticks: int | None = None,
        own_pid: int | None = None,
    ) -> None:
        """`page_size` in bytes and clock `ticks` a second: this kernel's if not given."""
        self._node = node
        self._proc = proc
        self._sys = sys
        self._clock = clock or Clock()
        self._sensors = sensors or Sensors()
        self._processes = Processes(proc)
        self._host = HostFacts(proc, labels or {})
        ticks = ticks or os.sysconf("SC_CLK_TCK")
        self._ticks = ticks
        self._cpu = CpuMeter(ticks)
        self._engines = EngineReports(
            proc,
            sys,
            declared=declared,
            discover=discover,
            metrics=self._sensors.engine_metrics,
            clock=self._clock,
            page_size=page_size or os.sysconf("SC_PAGE_SIZE"),
            ticks=ticks,
            own_pid=_own_pid(proc) if own_pid is None else own_pid,
        )
        self._before: float | None = None

    def measure(self) -> Sample:
        """Everything about the machine now. Counters are read first, together; what may take a while afterwards."""
        taken, monotonic = self._clock.boottime(), self._clock.monotonic()
        elapsed_s = None if self._before is None else monotonic - self._before
        self._before = monotonic
        times = parse_stat(read_or_empty(self._proc / "stat"))
        scan = self._processes.scan(monotonic)
        busy = self._cpu.measure(times, elapsed_s)
        sensors = self._sensors
        networks = sensors.networks.measure(elapsed_s) if sensors.networks else ()
        pressure = sensors.pressures.measure(elapsed_s) if sensors.pressures else Pressure()
        now = dataclasses.replace(load.measure(self._proc, times, busy, elapsed_s), unreadable_processes=_unreadable(scan))
        host = self._host.measure()
        gpus = sensors.gpus.measure() if sensors.gpus else None
        engines, model_files = self._engines.measure(scan, busy, self._uptime_s(host, scan, taken), gpus)
        measurement = Measurement(
            self._node,
            host=host,
            load=now,
            limits=sensors.limits(self._proc, self._sys) if sensors.limits else Limits(),
            disks=sensors.disks.measure(model_files) if sensors.disks else (),
            networks=tuple(networks)[:64],
            gpus=tuple(gpus.gpus)[:64] if gpus else (),
            gpu_error=gpus.error if gpus else None,
            pressure=pressure,
            engines=engines,
        )
        return Sample(measurement, taken)

    def _uptime_s(self, host: Host, scan: Scan, taken: float) -> float:
        """The clock that processes' start times are on.

        /proc/uptime, unless processes started later than it says: lxcfs shows a container's there.
        """
        newest = max((stat.start for stat in scan.processes.values()), default=0)
        if host.uptime_s is None or newest > (host.uptime_s + 1) * self._ticks:
            return taken
        return host.uptime_s


def _unreadable(scan: Scan) -> int | None:
    """How many processes can't be read; None if some are hidden (hidepid=2), since then nobody knows how many.

    Every pid namespace has a process 1, so where it does not show, others may be hidden too.
    """
    if scan.unreadable or 1 in scan.processes:
        return len(scan.unreadable)
    return None


def _own_pid(proc: Path) -> int:
    """This process's pid in the namespace of `proc`, which may be the host's."""
    try:
        return int(os.readlink(proc / "self"))
    except (OSError, ValueError):
        return os.getpid()
