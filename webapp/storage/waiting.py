"""What was heard and is not yet written. Requests add to it, the store's thread takes from it."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from webapp.measurement import Measurement
from webapp.storage.samples import Sample

#: Samples that wait for a disk that refuses: 20 s of 1,000 nodes that report each second; some 10 MB.
MOST_WAITING = 20_000


class Entry(NamedTuple):
    """A sample that waits to be written."""

    node: str
    #: Unix time of the measurement.
    time: float
    #: CLOCK_BOOTTIME at which it was heard.
    heard: float
    sample: Sample


class Latest(NamedTuple):
    """The last that was heard of a node."""

    measurement: Measurement
    measured_at: float
    #: Wall clock, boot and CLOCK_BOOTTIME of the machine that heard it.
    heard_at: float
    boot: str
    boottime: float
    #: The heartbeat that carried it, where it was at hand.
    message: bytes | None


@dataclass
class Taken:
    """What one commit writes: first the nodes to forget, then the rest."""

    forgets: set[str] = field(default_factory=set)
    latest: dict[str, Latest] = field(default_factory=dict)
    entries: deque[Entry] = field(default_factory=deque)
    #: Unix time from which samples were left out, None if none were.
    lost_from: float | None = None


class Waiting:
    """Bounded; where it is full, the oldest samples are left out and counted. Safe to use from many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._now = Taken()
        #: Samples that were left out.
        self.dropped = 0

    def add(self, entry: Entry, latest: Latest) -> None:
        with self._lock:
            self._now.entries.append(entry)
            self._now.latest[entry.node] = latest
            self._trim()

    def forget(self, name: str) -> None:
        with self._lock:
            self._leave_out({name})
            self._now.forgets.add(name)

    def oldest(self) -> float | None:
        """CLOCK_BOOTTIME at which the oldest sample was heard, None if none waits."""
        with self._lock:
            return self._now.entries[0].heard if self._now.entries else None

    def take(self) -> Taken:
        with self._lock:
            taken, self._now = self._now, Taken()
            return taken

    def give_back(self, taken: Taken) -> None:
        """Takes back what could not be written; what was forgotten since then stays forgotten."""
        with self._lock:
            since, self._now = self._now, taken
            self._leave_out(since.forgets)
            self._now.forgets |= since.forgets
            self._now.latest |= since.latest
            self._now.entries.extend(since.entries)
            if self._now.lost_from is None:
                self._now.lost_from = since.lost_from
            self._trim()

    def _leave_out(self, names: Iterable[str]) -> None:
        if names:
            self._now.entries = deque(entry for entry in self._now.entries if entry.node not in names)
            for name in names:
                self._now.latest.pop(name, None)

    def _trim(self) -> None:
        while len(self._now.entries) > MOST_WAITING:
            left_out = self._now.entries.popleft()
            self.dropped += 1
            if self._now.lost_from is None:
                self._now.lost_from = left_out.time
