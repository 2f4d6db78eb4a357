"""One fast pass over /proc/<pid>/stat of all processes, with its own timestamp.

Nothing slow is read here: a pass that takes long compares readings of different moments.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from webapp.agent.engines.pidstat import Stat, parse_stat
from webapp.agent.engines.stat_files import StatFiles
from webapp.agent.machine.proc import ProcError


class Scan(NamedTuple):
    """All processes at one moment."""

    #: Seconds on the monotonic clock.
    taken: float
    processes: Mapping[int, Stat]
    #: Processes that are there but can't be read: other users' under hidepid, or in an unknown form.
    unreadable: frozenset[int]


class Processes:
    """Scans a /proc. Remembers the bytes of the pass before: most processes slept and need no parsing."""

    def __init__(self, proc: Path, files: StatFiles | None = None) -> None:
        self._proc = proc
        self._files = files or StatFiles(proc)
        self._before: dict[int, tuple[bytes, Stat]] = {}

    def scan(self, taken: float) -> Scan:
        """All processes now; `taken` is the moment at which the pass starts. Raises OSError if there is no /proc.

        A process that vanished during the pass is not there; one that may not be read is counted.
        """
        before = self._before
        after: dict[int, tuple[bytes, Stat]] = {}
        found: dict[int, Stat] = {}
        unreadable = set()
        read = self._files.read
        for name in os.listdir(self._proc):
            if not name.isdigit():
                continue
            pid = int(name)
            try:
                data = read(pid)
            except (FileNotFoundError, ProcessLookupError):
                continue  # reaped between two system calls
            except OSError:
                unreadable.add(pid)
                continue
            known = before.get(pid)
            if known and known[0] == data:
                after[pid] = known
                found[pid] = known[1]
            elif data:
                try:
                    stat = parse_stat(data)
                except ProcError:
                    unreadable.add(pid)
                    continue
                after[pid] = (data, stat)
                found[pid] = stat
        self._before = after
        self._files.keep(found)
        return Scan(taken, found, frozenset(unreadable))
