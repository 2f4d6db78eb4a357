"""One fast pass over /proc/<pid>/stat of all processes, with its own timestamp.

Nothing slow is read here: a pass that takes long compares readings of different moments.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from webapp.agent.pidstat import Stat, parse_stat
from webapp.agent.proc import ProcError


class Scan(NamedTuple):
    """All processes at one moment."""

    #: Seconds on the monotonic clock.
    taken: float
    processes: Mapping[int, Stat]
    #: Processes that are there but can't be read: other users' under hidepid, or in an unknown form.
    unreadable: frozenset[int]


def read_stat(path: str) -> bytes:
    """Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, 2048)
    finally:
        os.close(descriptor)


class Processes:
    """Scans a /proc. Remembers the bytes of the pass before: most processes slept and need no parsing."""

    def __init__(self, proc: Path, read: Callable[[str], bytes] = read_stat) -> None:
        self._proc = proc
        self._read = read
        self._before: dict[int, tuple[str, bytes, Stat]] = {}

    def scan(self, taken: float) -> Scan:
        """All processes now; `taken` is the moment at which the pass starts. Raises OSError if there is no /proc.

        A process that vanished during the pass is not there; one that may not be read is counted.
        """
        before, after = self._before, {}
        read = self._read
        found: dict[int, Stat] = {}
        unreadable = set()
        for name in os.listdir(self._proc):
            if not name.isdigit():
                continue
            pid = int(name)
            known = before.get(pid)
            path = known[0] if known else f"{self._proc}/{name}/stat"
            try:
                data = read(path)
            except (FileNotFoundError, ProcessLookupError):
                continue  # reaped between two system calls
            except OSError:
                unreadable.add(pid)
                continue
            if known and known[1] == data:
                after[pid] = known
                found[pid] = known[2]
            elif data:
                try:
                    stat = parse_stat(data)
                except ProcError:
                    unreadable.add(pid)
                    continue
                after[pid] = (path, data, stat)
                found[pid] = stat
        self._before = after
        return Scan(taken, found, frozenset(unreadable))
