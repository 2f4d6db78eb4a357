"""Which engines have a cgroup of their own, and the cores that it counts.

A cgroup is an engine's own if it names a unit or a container and neither another engine nor the agent is in it.
Its counter has the time of every process that ever ran there, however short it lived.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from webapp.agent.engines.cgroups import Cgroup, Cgroups, cpu_seconds, members
from webapp.agent.engines.discovery import Tracked

#: Seconds after which a leader's cgroup is read again: a process may be moved.
_READ_AGAIN_S = 60.0


class OwnCgroups:
    """Remembers the cgroup of each leader and the counter before."""

    def __init__(self, cgroups: Cgroups, own_pid: int) -> None:
        self._cgroups = cgroups
        self._own_pid = own_pid
        self._known: dict[tuple[int, int], tuple[Cgroup | None, float]] = {}
        self._counters: dict[tuple[str, str], tuple[float, float]] = {}
        #: Unit or container by engine, whether or not it is the engine's own.
        self.units: dict[str, str] = {}

    def named(self, name: str) -> frozenset[int]:
        """Pids of the unit or container of that name."""
        cgroup = self._cgroups.named(name)
        return (members(cgroup) if cgroup else None) or frozenset()

    def find(self, engines: Sequence[Tracked], now: float) -> dict[str, tuple[Cgroup, frozenset[int]]]:
        """Own cgroup and its pids, by engine; engines without one are absent. `now`: seconds, monotonic."""
        leaders = {engine.id: (engine.pid, engine.start) for engine in engines if engine.pid and engine.start is not None}
        self._known = {key: entry for key, entry in self._known.items() if key in leaders.values()}
        cgroups = {}
        for id, (pid, start) in leaders.items():
            cgroup = self._of(pid or 0, start or 0, now)
            if cgroup:
                cgroups[id] = cgroup
        self.units = {id: cgroup.unit for id, cgroup in cgroups.items()}
        found = {}
        for id, cgroup in cgroups.items():
            if any(other != id and _nested(cgroup, cgroups[other]) for other in cgroups):
                continue
            pids = members(cgroup)
            if pids and self._own_pid not in pids:
                found[id] = (cgroup, pids)
        return found

    def _of(self, pid: int, start: int, now: float) -> Cgroup | None:
        known = self._known.get((pid, start))
        if known is None or now - known[1] > _READ_AGAIN_S:
            # A leader that is gone keeps the cgroup that it had.
            cgroup = self._cgroups.of(pid) or (known[0] if known else None)
            known = self._known[pid, start] = (cgroup, now)
        return known[0]

    def cores(self, own: Mapping[str, tuple[Cgroup, frozenset[int]]], clock: float) -> dict[str, float]:
        """Cores by engine since the call before; absent at the first one and where nothing is counted.

        `clock`: seconds on the monotonic clock, at which the counters are read.
        """
        counters: dict[tuple[str, str], tuple[float, float]] = {}
        found = {}
        for id, (cgroup, _) in own.items():
            seconds = cpu_seconds(cgroup)
            if seconds is None:
                continue
            key = (id, cgroup.path)
            counters[key] = (seconds, clock)
            before = self._counters.get(key)
            if before and clock > before[1] and seconds >= before[0]:
                found[id] = (seconds - before[0]) / (clock - before[1])
        self._counters = counters
        return found


def _nested(one: Cgroup, other: Cgroup) -> bool:
    return (
        one.directory == other.directory or one.directory in other.directory.parents or other.directory in one.directory.parents
    )
