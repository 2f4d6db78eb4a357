"""Proportional set size of engines: their memory with each shared page counted once in all.

The kernel walks all page tables of a process to compute it, and holds up the process's own mapping of memory
meanwhile. So it is read in a thread of its own, rarely, and the more rarely the longer it takes.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from webapp.agent.clock import Clock
from webapp.agent.engines.pidstat import parse_smaps_rollup
from webapp.agent.machine.proc import read
from webapp.agent.patience import started

#: Seconds between two rounds, at least; and how many times its own duration a round is apart from the next.
_PAUSE_S = 30.0
_PAUSE_RATIO = 1000.0

#: A value older than this is not reported.
_FRESH_FOR_S = 60.0

#: The walk over a process with more resident memory than this takes too long.
_LARGEST_BYTES = 64 * 2**30


class Proportional:
    """Keeps the last value of each engine."""

    def __init__(self, proc: Path, clock: Clock) -> None:
        self._proc = proc
        self._clock = clock
        self._values: dict[str, tuple[int, float]] = {}
        self._next = 0.0
        self._thread: threading.Thread | None = None

    def refresh(self, engines: Mapping[str, Sequence[tuple[int, int]]]) -> None:
        """Starts a round if one is due. `engines`: pid and resident bytes of all members. Returns at once."""
        if not engines or self._clock.boottime() < self._next or (self._thread and self._thread.is_alive()):
            return
        thread = threading.Thread(target=self.read, args=(dict(engines),), name="pss", daemon=True)
        self._thread = thread if started(thread) else None

    def read(self, engines: Mapping[str, Sequence[tuple[int, int]]]) -> None:
        """Reads all engines now. One with a member that can't be read is left out: a part would be no sum."""
        started = self._clock.boottime()
        values = {}
        for id, members in engines.items():
            total = self._sum(members)
            if total is not None:
                values[id] = (total, self._clock.boottime())
        self._values = values
        took = self._clock.boottime() - started
        self._next = started + took + max(_PAUSE_S, took * _PAUSE_RATIO)

    def _sum(self, members: Sequence[tuple[int, int]]) -> int | None:
        total = 0
        for pid, resident in members:
            if resident == 0:
                continue
            if resident > _LARGEST_BYTES:
                return None
            try:
                size = parse_smaps_rollup(read(f"{self._proc}/{pid}/smaps_rollup", 65536))
            except OSError:
                if (self._proc / str(pid)).exists():
                    return None
                continue  # it ended meanwhile
            if size is None:
                return None
            total += size
        return total

    def latest(self, engine_id: str) -> int | None:
        """Bytes; None when not read or no longer fresh."""
        value = self._values.get(engine_id)
        return value[0] if value and self._clock.boottime() - value[1] <= _FRESH_FOR_S else None
