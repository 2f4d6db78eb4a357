"""Command lines of all processes, each read once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from webapp.agent.clock import Clock
from webapp.agent.engines.command_line import Recognised, recognise
from webapp.agent.engines.declared import Declared
from webapp.agent.engines.kinds import EngineKind, titled
from webapp.agent.engines.pidstat import Stat, parse_cmdline, parse_environ
from webapp.agent.machine.proc import read_or_empty
from webapp.agent.patience import Patience


class CommandLines:
    """Remembers what the command lines of living processes say about engines."""

    def __init__(self, proc: Path, declared: Sequence[Declared], clock: Clock, own_pid: int) -> None:
        """`own_pid`: the agent, whose own command line may hold a pattern or a name."""
        self._own_pid = own_pid
        self._proc = proc
        self._declared = declared
        #: By pid: the process as it was when its command line was read.
        self._seen: dict[int, Stat] = {}
        #: By pid: processes whose command lines are still to be read.
        self._unread: dict[int, Stat] = {}
        #: The kernel keeps a reader waiting while it changes the process's memory: for ever if that hangs.
        self._answers: Patience[Stat, tuple[Recognised | None, frozenset[str]]]
        self._answers = Patience(self._read_command_line, clock, 0.5, "command-lines")
        #: By pid: processes that start engines.
        self.recognised: dict[int, Recognised] = {}
        #: By pid: declared engines whose pattern the command line matches.
        self.matched: dict[int, frozenset[str]] = {}
        #: By pid: workers that a title gives away.
        self.titled: dict[int, EngineKind] = {}

    def read(self, processes: Mapping[int, Stat]) -> None:
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
            if pid == self._own_pid or (stat.pgrp == 0 and not stat.rss):
                continue  # ourselves, or a kernel thread
            kind = titled(stat.comm.decode("utf-8", "replace"))
            if kind:
                self.titled[pid] = kind
            self._unread[pid] = stat
        for pid in seen.keys() - processes.keys():
            del seen[pid]
            self._forget(pid)
        if self._unread:
            self._read_unread()

    def _read_unread(self) -> None:
        """What is not read in time is looked at again in the next pass."""
        self._answers.ask_all(self._unread.values())
        for stat in list(self._unread.values()):
            answer = self._answers.answers.get(stat)
            if answer is None:
                continue
            del self._unread[stat.pid]
            recognised, matched = answer.value
            if recognised:
                self.recognised[stat.pid] = recognised
            if matched:
                self.matched[stat.pid] = matched
        self._answers.forget(but=self._unread.values())

    def _forget(self, pid: int) -> None:
        self._unread.pop(pid, None)
        self.recognised.pop(pid, None)
        self.matched.pop(pid, None)
        self.titled.pop(pid, None)

    def _read_command_line(self, process: Stat) -> tuple[Recognised | None, frozenset[str]]:
        """The engine that a process starts, and the declared engines whose pattern it matches."""
        directory = f"{self._proc}/{process.pid}"
        arguments = parse_cmdline(read_or_empty(f"{directory}/cmdline", 32768))

        def environment(names: Sequence[str]) -> dict[str, str]:
            return parse_environ(read_or_empty(f"{directory}/environ", 131072), names)

        line = " ".join(arguments)
        matched = frozenset(engine.id for engine in self._declared if engine.command and engine.command.search(line))
        return recognise(arguments, environment), matched
