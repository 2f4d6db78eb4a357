"""Which engines there are on this node: declared ones, and those that their command lines give away.

An engine is known by an id that outlives its processes: declared, or made from kind, model and port.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from webapp.agent.clock import Clock
from webapp.agent.engines.command_line import Recognised
from webapp.agent.engines.command_lines import CommandLines
from webapp.agent.engines.declared import Declared
from webapp.agent.engines.kinds import kind_named
from webapp.agent.engines.leaders import Leaders
from webapp.agent.engines.pidstat import Stat
from webapp.agent.engines.processes import Scan

#: Longest id that is made of kind, model and port, in characters; a longer one is cut.
_LONGEST_ID = 200


@dataclass
class Tracked:
    """One engine as the agent knows it."""

    id: str
    kind: str | None
    model: str | None
    port: int | None
    declared: bool
    #: The leader's pid; of an engine found by its orphans, the process group.
    pid: int | None = None
    #: The leader's start time; None if the leader was gone before it was seen.
    start: int | None = None
    pgrp: int = 0
    session: int = 0
    #: Path of the model's file or directory, where the command line has one.
    model_file: str | None = None

    def led_by(self, leader: Stat) -> None:
        self.pid, self.start, self.pgrp, self.session = leader.pid, leader.start, leader.pgrp, leader.session

    def alive(self, processes: Mapping[int, Stat]) -> bool:
        """Whether its leader is there and is not a zombie."""
        stat = processes.get(self.pid or 0)
        return stat is not None and stat.start == self.start and not stat.dead


class Engines:
    """Finds engines, pass after pass."""

    def __init__(
        self,
        proc: Path,
        declared: Sequence[Declared] = (),
        discover: bool = True,
        named_cgroup: Callable[[str], frozenset[int]] = lambda name: frozenset(),
        clock: Clock | None = None,
        own_pid: int = 0,
    ) -> None:
        """`named_cgroup`: pids of the unit or container of that name."""
        self._proc = proc
        self._declared = declared
        self._discover = discover
        self._leaders = Leaders(proc, named_cgroup)
        self._lines = CommandLines(proc, declared, clock or Clock(), own_pid)
        self._tracked: dict[str, Tracked] = {}
        #: Processes that belonged to an engine in the pass before.
        self._owned: set[tuple[int, int]] = set()

    def find(self, scan: Scan) -> list[Tracked]:
        """All engines that may have processes now, declared ones first. Those that ended meanwhile are among them."""
        self._lines.read(scan.processes)
        for declared in self._declared:
            self._find_declared(declared, scan)
        self._drop_found_again(scan.processes)
        if self._discover:
            self._find_recognised(scan.processes)
        return list(self._tracked.values())

    def keep(self, members: Mapping[str, Sequence[Stat]]) -> None:
        """Forgets engines without members that nobody declared."""
        self._owned = {stat.key for stats in members.values() for stat in stats}
        for id, tracked in list(self._tracked.items()):
            if not tracked.declared and not members.get(id):
                del self._tracked[id]

    def orphans(self, processes: Mapping[int, Stat], owned: Iterable[int]) -> list[Tracked]:
        """Engines that only their workers' titles give away, `owned` being the pids that belong to known ones."""
        if not self._discover or not self._lines.titled:
            return []
        taken = set(owned)
        found = []
        for pid, kind in self._lines.titled.items():
            stat = processes.get(pid)
            if stat is None or pid in taken or stat.dead or stat.pgrp in processes:
                continue
            id = f"{kind.name}-orphaned-{stat.pgrp}"
            if id not in self._tracked:
                tracked = Tracked(id, kind.name, None, None, False, stat.pgrp, None, stat.pgrp, stat.session)
                found.append(self._tracked.setdefault(id, tracked))
        return found

    def _find_declared(self, declared: Declared, scan: Scan) -> None:
        tracked = self._tracked.get(declared.id)
        if tracked is None:
            tracked = Tracked(declared.id, declared.kind, declared.model, declared.port, declared=True)
            self._tracked[declared.id] = tracked
        if tracked.alive(scan.processes):
            return
        matching = [pid for pid, ids in self._lines.matched.items() if declared.id in ids]
        leader = self._leaders.find(declared, scan, matching, self._lines.recognised)
        if leader is None:
            if tracked.pid is None and declared.pid:  # gone before it was seen; its group may live
                tracked.pid = tracked.pgrp = tracked.session = declared.pid
            return
        tracked.led_by(leader)
        recognised = self._lines.recognised.get(leader.pid)
        if recognised:
            tracked.kind = declared.kind or recognised.kind
            tracked.model = declared.model or recognised.model
            tracked.port = declared.port or recognised.port
            tracked.model_file = self._model_file(leader.pid, recognised)

    def _drop_found_again(self, processes: Mapping[int, Stat]) -> None:
        """Drops engines that were found before the operator's pidfile or pattern led to them, or to a process above."""
        led = {tracked.pid: tracked for tracked in self._tracked.values() if tracked.declared and tracked.alive(processes)}
        for tracked in list(self._tracked.values()):
            stat = processes.get(tracked.pid or 0)
            if tracked.declared or stat is None or stat.start != tracked.start:
                continue
            recognised = stat.pid in self._lines.recognised
            if stat.pid in led or (recognised and self._below_declared(stat, processes, led)):
                del self._tracked[tracked.id]

    def _find_recognised(self, processes: Mapping[int, Stat]) -> None:
        """Follows the processes whose command lines start engines, oldest first so that ids stay."""
        led = {tracked.pid: tracked for tracked in self._tracked.values() if tracked.alive(processes)}
        for pid in sorted(self._lines.recognised, key=lambda pid: (processes[pid].start, pid)):
            stat = processes[pid]
            if stat.dead or pid in led or self._inside(stat, processes, led):
                continue
            recognised = self._lines.recognised[pid]
            tracked = self._named(recognised, stat, processes)
            tracked.led_by(stat)
            led[pid] = tracked

    def _inside(self, stat: Stat, processes: Mapping[int, Stat], led: Mapping[int | None, Tracked]) -> bool:
        """Whether a process is only a part of an engine: a forked copy, or below a declared leader."""
        if stat.forked and stat.key in self._owned:
            return True  # a copy does not become a leader when its parents die
        recognised = self._lines.recognised[stat.pid]
        if any(self._lines.recognised.get(above.pid) == recognised for above in ancestors(stat, processes)):
            return True
        return self._below_declared(stat, processes, led)

    def _below_declared(self, stat: Stat, processes: Mapping[int, Stat], led: Mapping[int | None, Tracked]) -> bool:
        """Whether a declared engine that is no router is led from above; it learns what it does not know."""
        recognised = self._lines.recognised[stat.pid]
        for parent in ancestors(stat, processes):
            above = led.get(parent.pid)
            kind = kind_named(above.kind) if above else None
            if above and above.declared and not (kind and kind.router):
                above.kind = above.kind or recognised.kind
                above.model = above.model or recognised.model
                above.port = above.port or recognised.port
                return True
        return False

    def _named(self, recognised: Recognised, stat: Stat, processes: Mapping[int, Stat]) -> Tracked:
        """The engine that this command line starts: the one that had its id before, else a new one.

        A router's children get a random port each time, so their ids have the router's.
        """
        router = self._lines.recognised.get(stat.ppid)
        kind = kind_named(router.kind) if router else None
        port = router.port if router and kind and kind.router else recognised.port
        id = _short(
            "-".join(str(part).replace("/", "_") for part in (recognised.kind, recognised.model, port) if part is not None)
        )
        for number in range(1, 1000):
            wanted = id if number == 1 else f"{id}-{number}"
            known = self._tracked.get(wanted)
            if known is None:
                break
            if not known.declared and not known.alive(processes):
                self._step_aside(known)
                break
        tracked = Tracked(wanted, recognised.kind, recognised.model, recognised.port, declared=False)
        tracked.model_file = self._model_file(stat.pid, recognised)
        self._tracked[wanted] = tracked
        return tracked

    def _model_file(self, pid: int, recognised: Recognised) -> str | None:
        """The absolute path of the model that a command line names, if it names one by path."""
        path = recognised.path
        if path and not path.startswith("/"):
            try:
                path = os.path.normpath(os.path.join(os.readlink(f"{self._proc}/{pid}/cwd"), path))
            except OSError:
                return None
        return path

    def _step_aside(self, old: Tracked) -> None:
        """What is left of an engine whose id a new leader takes."""
        old.id = f"{old.id}-orphaned-{old.pgrp}"
        self._tracked[old.id] = old


def _short(id: str) -> str:
    """An id that a heartbeat can carry, with room for what is put behind it: an engine whose id is too long would be lost.

    >>> _short("vllm-Qwen_Qwen3-8B-8000"), len(_short("m" * 3000))
    ('vllm-Qwen_Qwen3-8B-8000', 209)
    """
    return id if len(id) <= _LONGEST_ID else f"{id[:_LONGEST_ID]}-{zlib.crc32(id.encode('utf-8', 'replace')):08x}"


def ancestors(stat: Stat, processes: Mapping[int, Stat]) -> Iterator[Stat]:
    """Parents of a process, the nearest first; at most 64, so that a broken /proc ends too."""
    for _ in range(64):
        parent = processes.get(stat.ppid)
        if parent is None:
            return
        yield parent
        stat = parent
