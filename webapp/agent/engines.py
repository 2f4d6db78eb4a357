"""Which engines there are on this node: declared ones, and those that their command lines give away.

An engine is known by an id that outlives its processes: declared, or made from kind, model and port.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from webapp.agent.declared import Declared
from webapp.agent.engine_kinds import EngineKind, Recognised, kind_named, recognise, titled
from webapp.agent.leaders import Leaders
from webapp.agent.pidstat import Stat, parse_cmdline
from webapp.agent.proc import read_or_empty
from webapp.agent.processes import Scan


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
    ) -> None:
        """`named_cgroup`: pids of the unit or container of that name."""
        self._proc = proc
        self._declared = declared
        self._discover = discover
        self._leaders = Leaders(proc, named_cgroup)
        #: By pid: the process as it was when its command line was read.
        self._seen: dict[int, Stat] = {}
        self._recognised: dict[int, Recognised] = {}
        self._commands: dict[int, set[str]] = {}
        self._titled: dict[int, EngineKind] = {}
        self._tracked: dict[str, Tracked] = {}

    def find(self, scan: Scan) -> list[Tracked]:
        """All engines that may have processes now, declared ones first. Those that ended meanwhile are among them."""
        self._read_command_lines(scan.processes)
        for declared in self._declared:
            self._find_declared(declared, scan)
        if self._discover:
            self._find_recognised(scan.processes)
        return list(self._tracked.values())

    def keep(self, members: Mapping[str, Sequence[Stat]]) -> None:
        """Forgets engines without members that nobody declared."""
        for id, tracked in list(self._tracked.items()):
            if not tracked.declared and not members.get(id):
                del self._tracked[id]

    def orphans(self, processes: Mapping[int, Stat], owned: Iterable[int]) -> list[Tracked]:
        """Engines that only their workers' titles give away, `owned` being the pids that belong to known ones."""
        if not self._discover or not self._titled:
            return []
        taken = set(owned)
        found = []
        for pid, kind in self._titled.items():
            stat = processes.get(pid)
            if stat is None or pid in taken or stat.dead or stat.pgrp in processes:
                continue
            id = f"{kind.name}-orphaned-{stat.pgrp}"
            if id not in self._tracked:
                tracked = Tracked(id, kind.name, None, None, False, stat.pgrp, None, stat.pgrp, stat.session)
                found.append(self._tracked.setdefault(id, tracked))
        return found

    def _read_command_lines(self, processes: Mapping[int, Stat]) -> None:
        """Reads those of new processes, and again after an exec."""
        seen = self._seen
        for pid, stat in processes.items():
            known = seen.get(pid)
            if known is stat:
                continue
            seen[pid] = stat
            if known and known.start == stat.start and known.comm == stat.comm and known.image == stat.image:
                continue
            self._forget(pid)
            if stat.pgrp == 0 and not stat.rss:
                continue  # a kernel thread
            kind = titled(stat.comm.decode("utf-8", "replace"))
            if kind:
                self._titled[pid] = kind
            self._read_command_line(pid)
        for pid in seen.keys() - processes.keys():
            del seen[pid]
            self._forget(pid)

    def _forget(self, pid: int) -> None:
        self._recognised.pop(pid, None)
        self._commands.pop(pid, None)
        self._titled.pop(pid, None)

    def _read_command_line(self, pid: int) -> None:
        arguments = parse_cmdline(read_or_empty(f"{self._proc}/{pid}/cmdline", 32768))
        recognised = recognise(arguments)
        if recognised:
            self._recognised[pid] = recognised
        line = " ".join(arguments)
        matched = {engine.id for engine in self._declared if engine.command and engine.command.search(line)}
        if matched:
            self._commands[pid] = matched

    def _find_declared(self, declared: Declared, scan: Scan) -> None:
        tracked = self._tracked.get(declared.id)
        if tracked is None:
            tracked = Tracked(declared.id, declared.kind, declared.model, declared.port, declared=True)
            self._tracked[declared.id] = tracked
        if tracked.alive(scan.processes):
            return
        matching = [pid for pid, ids in self._commands.items() if declared.id in ids]
        leader = self._leaders.find(declared, scan, matching, self._recognised)
        if leader is None:
            if tracked.pid is None and declared.pid:  # gone before it was seen; its group may live
                tracked.pid = tracked.pgrp = tracked.session = declared.pid
            return
        tracked.led_by(leader)
        told = self._recognised.get(leader.pid)
        if told:
            tracked.kind = declared.kind or told.kind
            tracked.model = declared.model or told.model
            tracked.port = declared.port or told.port
            tracked.model_file = self._model_file(leader.pid, told)

    def _find_recognised(self, processes: Mapping[int, Stat]) -> None:
        """Follows the processes whose command lines start engines, oldest first so that ids stay."""
        led = {tracked.pid: tracked for tracked in self._tracked.values() if tracked.alive(processes)}
        for pid in sorted(self._recognised, key=lambda pid: (processes[pid].start, pid)):
            stat = processes[pid]
            if stat.dead or pid in led or self._inside(stat, processes, led):
                continue
            told = self._recognised[pid]
            tracked = self._named(told, stat, processes)
            tracked.led_by(stat)
            led[pid] = tracked

    def _inside(self, stat: Stat, processes: Mapping[int, Stat], led: Mapping[int | None, Tracked]) -> bool:
        """Whether a process is only a part of an engine above it: a forked copy, or below a declared leader."""
        told = self._recognised[stat.pid]
        parent = processes.get(stat.ppid)
        for _ in range(64):
            if parent is None:
                return False
            if self._recognised.get(parent.pid) == told:
                return True
            above = led.get(parent.pid)
            kind = kind_named(above.kind) if above else None
            if above and above.declared and not (kind and kind.router):
                above.kind = above.kind or told.kind
                above.model = above.model or told.model
                above.port = above.port or told.port
                return True
            parent = processes.get(parent.ppid)
        return False

    def _named(self, told: Recognised, stat: Stat, processes: Mapping[int, Stat]) -> Tracked:
        """The engine that this command line starts: the one that had its id before, else a new one.

        A router's children get a random port each time, so the router's stands in their ids.
        """
        router = self._recognised.get(stat.ppid)
        kind = kind_named(router.kind) if router else None
        port = router.port if router and kind and kind.router else told.port
        id = "-".join(str(part).replace("/", "_") for part in (told.kind, told.model, port) if part is not None)
        for number in range(1, 1000):
            wanted = id if number == 1 else f"{id}-{number}"
            known = self._tracked.get(wanted)
            if known is None:
                break
            if not known.declared and not known.alive(processes):
                self._step_aside(known)
                break
        tracked = Tracked(wanted, told.kind, told.model, told.port, declared=False)
        tracked.model_file = self._model_file(stat.pid, told)
        self._tracked[wanted] = tracked
        return tracked

    def _model_file(self, pid: int, told: Recognised) -> str | None:
        """The absolute path of the model that a command line names, if it names one by path."""
        path = told.path
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
