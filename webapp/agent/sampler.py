"""The one place that puts a Measurement together."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from webapp.agent import memory
from webapp.agent.clock import Clock
from webapp.agent.cpu import Busy, CpuMeter
from webapp.agent.declared import Declared
from webapp.agent.disks import Disks
from webapp.agent.engine_report import EngineReports
from webapp.agent.host import HostFacts
from webapp.agent.proc import CpuTimes, parse_loadavg, parse_meminfo, parse_stat, read_or_empty
from webapp.agent.processes import Processes, Scan
from webapp.measurement import Limits, Load, Measurement, Pressure


class Sample(NamedTuple):
    """A measurement, and when it was taken: seconds on the boot clock. Its age is set when it is sent."""

    measurement: Measurement
    taken: float


class Sensors(NamedTuple):
    """What measures the parts of a machine that not every machine has. None: not measured."""

    networks: Any = None
    pressures: Any = None
    #: Called with the roots of /proc and /sys.
    limits: Any = None
    gpus: Any = None
    engine_metrics: Any = None
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
        processes: Processes | None = None,
    ) -> None:
        """`page_size` in bytes and clock `ticks` a second: this kernel's if not given."""
        self._node = node
        self._proc = proc
        self._sys = sys
        self._clock = clock or Clock()
        self._sensors = sensors or Sensors()
        self._processes = processes or Processes(proc)
        self._host = HostFacts(proc, labels or {})
        self._disks = self._sensors.disks or Disks(proc)
        ticks = ticks or os.sysconf("SC_CLK_TCK")
        self._cpu = CpuMeter(ticks)
        self._engines = EngineReports(
            proc,
            sys,
            declared=declared,
            discover=discover,
            sensors=self._sensors,
            clock=self._clock,
            page_size=page_size or os.sysconf("SC_PAGE_SIZE"),
            ticks=ticks,
            own_pid=os.getpid() if own_pid is None else own_pid,
        )
        self._before: float | None = None

    def measure(self) -> Sample:
        """Everything about the machine now. Fast files are read first, together; slow ones afterwards."""
        taken, monotonic = self._clock.boottime(), self._clock.monotonic()
        elapsed_s = None if self._before is None else monotonic - self._before
        self._before = monotonic
        times = parse_stat(read_or_empty(self._proc / "stat"))
        scan = self._processes.scan(monotonic)
        busy = self._cpu.measure(times, elapsed_s)
        load = self._load(times, busy, scan, elapsed_s)
        host = self._host.measure()
        gpus = self._sensors.gpus.measure() if self._sensors.gpus else None
        engines, model_files = self._engines.measure(scan, busy, host.uptime_s or taken, gpus)
        sensors = self._sensors
        measurement = Measurement(
            self._node,
            host=host,
            load=load,
            limits=sensors.limits(self._proc, self._sys) if sensors.limits else Limits(),
            disks=self._disks.measure(model_files),
            networks=tuple(sensors.networks.measure(elapsed_s))[:64] if sensors.networks else (),
            gpus=tuple(gpus.gpus)[:64] if gpus else (),
            gpu_error=gpus.error if gpus else None,
            pressure=sensors.pressures.measure(elapsed_s) if sensors.pressures else Pressure(),
            engines=engines,
        )
        return Sample(measurement, taken)

    def _load(self, times: CpuTimes, busy: Busy | None, scan: Scan, elapsed_s: float | None) -> Load:
        averages = parse_loadavg(read_or_empty(self._proc / "loadavg", 256))
        meminfo = parse_meminfo(read_or_empty(self._proc / "meminfo", 65536))
        arc = memory.parse_arcstats(read_or_empty(self._proc / "spl" / "kstat" / "zfs" / "arcstats", 65536))
        load = Load(
            interval_s=elapsed_s,
            cpu_percent=busy.percent if busy else None,
            cpus=times.cpus,
            load1=averages.load1,
            load5=averages.load5,
            load15=averages.load15,
            unreadable_processes=len(scan.unreadable),
        )
        return dataclasses.replace(load, **memory.measure(meminfo, arc))
