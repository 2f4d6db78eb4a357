"""Readings of the machine for the resource agent: cheap ones each second, engines and disks now and then.

A pass over all processes would cost more than everything else together, so that it is made only every
ENGINES_SECONDS; between two of them the last one is used.
"""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

from webapp import __version__
from webapp.agent.clock import Clock
from webapp.agent.machine import load
from webapp.agent.machine.cpu import CpuMeter
from webapp.agent.machine.gpu import Gpus
from webapp.agent.machine.network import Networks
from webapp.agent.machine.proc import parse_stat, read_or_empty
from webapp.agent.sampler import Sample, Sampler
from webapp.measurement import Agent, Load

#: Seconds between two looks at engines and disks.
ENGINES_SECONDS = 10.0


class Resources:
    """CPU, memory, network and GPUs at each call; rates are unknown in the first."""

    def __init__(
        self,
        proc: Path = Path("/proc"),
        sys: Path = Path("/sys"),
        *,
        everything: Sampler,
        networks: Networks,
        gpus: Gpus,
        clock: Clock | None = None,
        ticks: int | None = None,
    ) -> None:
        """`everything` measures engines and disks. `ticks`: clock ticks a second, this kernel's if not given."""
        self._proc = proc
        self._everything = everything
        self._networks = networks
        self._gpus = gpus
        self._clock = clock or Clock()
        self._cpu = CpuMeter(ticks or os.sysconf("SC_CLK_TCK"))
        self._before: float | None = None
        self._last: Sample | None = None

    def measure(self) -> Sample:
        """The machine now. Waits for no driver; once in ENGINES_SECONDS a moment for disks and engines."""
        if self._last is None or self._clock.boottime() - self._last.taken >= ENGINES_SECONDS:
            self._last = self._everything.measure()
        taken, monotonic = self._clock.boottime(), self._clock.monotonic()
        elapsed_s = None if self._before is None else monotonic - self._before
        self._before = monotonic
        gpus = self._gpus.measure()
        return Sample(
            dataclasses.replace(
                self._last.measurement,
                agent=Agent(version=__version__),
                load=self._load(elapsed_s),
                networks=tuple(self._networks.measure(elapsed_s)),
                gpus=gpus.gpus,
                gpu_error=gpus.error,
            ),
            taken,
        )

    def _load(self, elapsed_s: float | None) -> Load:
        times = parse_stat(read_or_empty(self._proc / "stat"))
        return load.measure(self._proc, times, self._cpu.measure(times, elapsed_s), elapsed_s)
