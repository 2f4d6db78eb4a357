"""Finds the leader of a declared engine: by pid, pidfile, command pattern, port, unit or container."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path

from webapp.agent.engines.command_line import Recognised
from webapp.agent.engines.declared import Declared
from webapp.agent.engines.pidstat import Stat
from webapp.agent.engines.processes import Scan
from webapp.agent.engines.sockets import holders, listeners
from webapp.agent.machine.proc import read_or_empty

#: Seconds between two looks at all open descriptors, or all cgroups, for one engine that was not found there.
_LOOK_AGAIN_S = 30.0


class Leaders:
    """Remembers what it looked at, so that an engine that is not there costs little."""

    def __init__(self, proc: Path, named_cgroup: Callable[[str], frozenset[int]]) -> None:
        self._proc = proc
        self._named_cgroup = named_cgroup
        #: Declared id -> start time of the process that once had the declared pid.
        self._bound: dict[str, int] = {}
        #: Declared id -> the sockets that were searched for in vain, and when.
        self._searched: dict[str, tuple[frozenset[int], float]] = {}

    def find(
        self, declared: Declared, scan: Scan, matching: Collection[int], recognised: Mapping[int, Recognised]
    ) -> Stat | None:
        """The leader as it runs now. `matching`: pids whose command lines match the declared pattern."""
        if declared.pid:
            return self._by_pid(declared, declared.pid, scan)
        if declared.pidfile:
            pid = read_or_empty(declared.pidfile, 64).strip()
            return _alive(scan, int(pid)) if pid.isdigit() and len(pid) < 10 else None
        if declared.command:
            return _first(scan, matching, recognised)
        if declared.unit or declared.container:
            return self._by_cgroup(declared, scan, recognised)
        return self._by_port(declared, scan)

    def _by_pid(self, declared: Declared, pid: int, scan: Scan) -> Stat | None:
        """The process that had this pid first: a later one of the same pid is a stranger."""
        stat = _alive(scan, pid)
        if stat is None or self._bound.setdefault(declared.id, stat.start) != stat.start:
            return None
        return stat

    def _by_cgroup(self, declared: Declared, scan: Scan, recognised: Mapping[int, Recognised]) -> Stat | None:
        if self._lately(declared.id, frozenset(), scan):
            return None
        return _first(scan, self._named_cgroup(declared.unit or declared.container or ""), recognised)

    def _by_port(self, declared: Declared, scan: Scan) -> Stat | None:
        """The oldest process that holds a socket listening there: workers inherit sockets."""
        inodes = frozenset(listeners(self._proc, declared.port or 0))
        if not inodes or self._lately(declared.id, inodes, scan):
            return None
        return _first(scan, holders(self._proc, scan.processes, set(inodes)), {})

    def _lately(self, id: str, looked_for: frozenset[int], scan: Scan) -> bool:
        """Whether the same was looked for a short while ago; if not, notes that it is looked for now."""
        before = self._searched.get(id)
        if before and before[0] == looked_for and 0 <= scan.taken - before[1] < _LOOK_AGAIN_S:
            return True
        self._searched[id] = (looked_for, scan.taken)
        return False


def _alive(scan: Scan, pid: int) -> Stat | None:
    stat = scan.processes.get(pid)
    return None if stat is None or stat.dead else stat


def _first(scan: Scan, pids: Iterable[int], recognised: Mapping[int, Recognised]) -> Stat | None:
    """The oldest living one; one that starts an engine before a shell that started it."""
    alive = [stat for stat in (_alive(scan, pid) for pid in pids) if stat]
    return min(alive, key=lambda stat: (stat.pid not in recognised, stat.start, stat.pid), default=None)
