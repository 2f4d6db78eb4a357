"""How busy all cores together were between two readings of /proc/stat."""

from __future__ import annotations

from typing import NamedTuple

from webapp.agent.machine.proc import CpuTimes


class Busy(NamedTuple):
    """What passed between two readings."""

    percent: float
    #: Clock ticks of all cores, all but idle and iowait.
    ticks: int


class CpuMeter:
    """Remembers the reading before. Steal counts as busy; guest time is inside user and nice."""

    def __init__(self, ticks: int) -> None:
        """`ticks`: clock ticks a second."""
        self._ticks = ticks
        self._before: CpuTimes | None = None

    def measure(self, now: CpuTimes, elapsed_s: float | None) -> Busy | None:
        """None at the first reading, when a counter went back, and when nothing passed.

        Also when more passed than the cores have time for: lxcfs and hotplug show garbage at times. Each
        reading is the baseline of the next.
        """
        before, self._before = self._before, now
        if before is None or before.total is None or before.idle is None or now.total is None or now.idle is None:
            return None
        total, idle = now.total - before.total, now.idle - before.idle
        if total <= 0 or not 0 <= idle <= total:
            return None
        if elapsed_s is not None and now.cpus:
            cores = max(now.cpus, before.cpus or 0)
            # Twice, since a virtual machine's ticks come late and in heaps.
            if total > 2 * (elapsed_s + 1) * cores * self._ticks:
                return None
        # Not 100.0 * busy / total, which rounds up past 100 where all were busy.
        return Busy(100.0 * ((total - idle) / total), total - idle)
