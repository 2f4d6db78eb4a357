"""Shares of something limited, each with the thresholds at which it calls for attention."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

from webapp import formats
from webapp.measurement import Disk, Gpu, Measurement
from webapp.overview.summary import Total, load_per_core

Level = Literal["normal", "warning", "critical"]


class Thresholds(NamedTuple):
    """Percent from which on a share calls for attention."""

    warning: float
    critical: float


#: Of what is in trouble when it is full.
NEARLY_FULL = Thresholds(85, 95)
#: Of the load average: tasks per hundred cores.
QUEUEING = Thresholds(150, 300)
#: Of what may well be full, as it is there to be used.
NEVER = Thresholds(float("inf"), float("inf"))


#: Not a share: requests that wait on one node.
WAITING = Thresholds(30, 100)


@dataclass(eq=False)  # frozen, it would take three times as long to make: each look makes three of each node
class Gauge:
    """What a bar shows: how full, the words beside it, and the exact figures for its title."""

    percent: float
    #: Makes text and title: most gauges are only asked whether they call for attention.
    words: Callable[[], tuple[str, str]]
    thresholds: Thresholds

    @cached_property
    def _words(self) -> tuple[str, str]:
        return self.words()

    @property
    def text(self) -> str:
        return self._words[0]

    @property
    def title(self) -> str:
        return self._words[1]

    @property
    def warning(self) -> float:
        return self.thresholds.warning

    @property
    def critical(self) -> float:
        return self.thresholds.critical

    @property
    def level(self) -> Level:
        warning, critical = self.thresholds
        if self.percent >= critical:
            return "critical"
        return "warning" if self.percent >= warning else "normal"

    @property
    def fill(self) -> float:
        """Percent of the track that is filled; a load above all cores fills it."""
        return round(min(100.0, self.percent), 1)


def cpu(measurement: Measurement) -> Gauge | None:
    load = measurement.load
    percent = load.cpu_percent
    if percent is None:
        return None

    def words() -> tuple[str, str]:
        of = f" of {load.cpus}" if load.cpus else ""
        busy = f"{formats.number(percent / 100 * load.cpus, 2)} of {load.cpus} cores busy" if load.cpus else "cores not known"
        over = f", over {formats.duration(load.interval_s)}" if load.interval_s else ""
        return f"{formats.percent(percent)} %{of}", f"{percent:.2f} % of all cores; {busy}{over}"

    return Gauge(percent, words, NEARLY_FULL)


def memory(measurement: Measurement) -> Gauge | None:
    load = measurement.load
    return _bytes_gauge(load.memory_used_bytes, load.memory_total_bytes, "used", NEARLY_FULL)


def container_memory(measurement: Measurement) -> Gauge | None:
    """Of the agent's own container; never mixed with the host's."""
    limits = measurement.limits
    return _bytes_gauge(limits.memory_used_bytes, limits.memory_bytes, "of the container's limit used", NEARLY_FULL)


def disk(disk: Disk) -> Gauge | None:
    """Used of what ordinary users may use, as df has it."""
    available, total = disk.available_bytes, disk.total_bytes
    if available is None or total is None:
        return None
    used = disk.used_bytes if disk.used_bytes is not None else total - available
    if used + available <= 0:
        return None
    percent = 100 * used / (used + available)

    def words() -> tuple[str, str]:
        left = f"{formats.exact_bytes(available)} left of {formats.exact_bytes(total)}"
        return _of_bytes(used, total), f"{disk.mount}: {percent:.1f} % used; {left}"

    return Gauge(percent, words, NEARLY_FULL)


def fullest_disk(measurement: Measurement) -> tuple[Disk, Gauge] | None:
    """The fullest disk, of those that report their use."""
    found = [(one, gauge) for one in measurement.disks if (gauge := disk(one)) is not None]
    return max(found, key=lambda known: known[1].percent, default=None)


def gpu(gpu: Gpu) -> Gauge | None:
    percent = gpu.utilization_percent
    if percent is None:
        return None
    return Gauge(percent, lambda: (f"{formats.percent(percent)} %", f"{percent:.1f} % busy"), NEVER)


def gpu_memory(gpu: Gpu) -> Gauge | None:
    return _bytes_gauge(gpu.memory_used_bytes, gpu.memory_total_bytes, "used", NEVER)


def load(measurement: Measurement) -> Gauge | None:
    """Load average of a minute per core; a full bar is one task a core."""
    share, cores, load1 = load_per_core(measurement), measurement.load.cpus, measurement.load.load1
    if share is None or load1 is None:
        return None

    def words() -> tuple[str, str]:
        return f"{load1:.2f} / {formats.plural(cores or 0, 'core')}", f"{load1:.2f} tasks on {cores} cores: {share:.2f} a core"

    return Gauge(100 * share, words, QUEUEING)


def of_totals(used: Total, total: Total, unit: Literal["cores", "bytes"]) -> Gauge | None:
    """A bar of the whole fleet."""
    if used.value is None or not total.value:
        return None
    if unit == "bytes":
        return _bytes_gauge(used.value, total.value, "used", NEARLY_FULL)
    busy, cores = used.value, total.value
    percent = 100 * busy / cores
    return Gauge(percent, lambda: (f"{formats.number(busy)} of {cores:,.0f} cores", f"{percent:.1f} % of all cores"), NEARLY_FULL)


def _bytes_gauge(used: float | None, total: float | None, word: str, thresholds: Thresholds) -> Gauge | None:
    if used is None or not total:
        return None
    percent = 100 * used / total

    def words() -> tuple[str, str]:
        exact = f"{formats.exact_bytes(used)} of {formats.exact_bytes(total)}"
        return _of_bytes(used, total), f"{percent:.1f} % {word}: {exact}"

    return Gauge(percent, words, thresholds)


def _of_bytes(used: float, total: float) -> str:
    unit = formats.byte_unit(total)
    return f"{formats.bytes_in(used, unit)} / {formats.bytes_in(total, unit)} {unit}"
