"""What survives a restart: the nodes with their last measurement, and their recent samples, in one SQLite file.

Requests hand over measurements with `record` and go on; one thread commits them twice a second. Readers have
connections of their own and never hold the writer up. When the disk is full or refuses, the samples wait in
memory, the oldest are left out and counted, `problem` says so, and all of it mends by itself.
"""

from __future__ import annotations

import itertools
import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from webapp import schema
from webapp.fleet.listening import boottime
from webapp.heartbeat import HeartbeatRefused
from webapp.measurement import FRESH_FOR_SECONDS, Measurement
from webapp.storage import database
from webapp.storage.archive import Archive, NodeRow
from webapp.storage.database import StoreUnusable
from webapp.storage.ledger import STOPPED_SECONDS, Ledger, Now
from webapp.storage.samples import sample
from webapp.storage.waiting import Entry, Latest, Taken, Waiting

__all__ = ["Store", "StoreUnusable", "StoredNode"]

log = logging.getLogger(__name__)

#: Seconds between commits: with the time that one takes, what a kill may cost stays below two.
COMMIT_SECONDS = 0.5

_NOBODY = "no control plane ran"
_FELL_BEHIND = "more was heard than the disk could take"


class StoredNode(NamedTuple):
    """One node as the store remembers it. All times are Unix times."""

    measurement: Measurement
    measured_at: float
    first_heard_at: float
    heard_at: float
    #: Seconds from the last heartbeat to now: exact if this machine has not been booted since.
    silent_s: float
    #: Bytes of its last heartbeat.
    size: int


def boot_id() -> str:
    """The kernel's name for this boot, "" where it gives none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("utf-8").strip()
    except OSError:
        return ""


class Store:
    """One file, which this process owns until `close`; without a path all is kept in memory.

    With `commit_every` None nothing is committed but by `commit`. Raises StoreUnusable.
    """

    def __init__(
        self,
        path: Path | None,
        *,
        keep_seconds: float = 24 * 3600.0,
        commit_every: float | None = COMMIT_SECONDS,
        clock: Callable[[], float] = time.time,
        boottime: Callable[[], float] = boottime,
        boot: str | None = None,
    ) -> None:
        self.path = path
        self.keep_seconds = keep_seconds
        self._clock, self._boottime, self._boot = clock, boottime, boot_id() if boot is None else boot
        #: What the operator must know about the file, as sentences for the page, or None.
        self.notice: str | None = None
        #: Why nothing can be kept at present, as a sentence for the page, or None.
        self.problem: str | None = None
        self._why_lost = _FELL_BEHIND
        self._waiting = Waiting()
        self._writing = threading.RLock()  # guards the ledger
        self._damaged = False
        self._closed = False
        self._lock = database.own(path) if path else None
        try:
            self._ledger, self.archive = self._open(_NOBODY)
        except StoreUnusable:
            if self._lock:
                self._lock.close()
            raise
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        if commit_every is not None:
            self._thread = threading.Thread(target=self._run, args=(commit_every,), name="store", daemon=True)
            self._thread.start()

    def record(self, measurement: Measurement, measured_at: float, message: bytes | None = None) -> None:
        """Keeps a measurement that has just been heard; `measured_at` is a Unix time. Never waits for the disk.

        `message` is the heartbeat that carried it, if that is at hand: to write it anew costs more than all else.
        """
        heard = self._boottime()
        latest = Latest(measurement, measured_at, self._clock(), self._boot, heard, message)
        self._waiting.add(Entry(measurement.node, measured_at, heard, sample(measurement)), latest)

    def forget(self, name: str) -> None:
        """Removes a node and its samples; what is recorded afterwards begins anew."""
        self._waiting.forget(name)

    def fill(self, past: Iterable[tuple[Measurement, float]]) -> None:
        """Writes measurements with their times, each node's in order, as if this store had listened. For made-up fleets.

        Raises sqlite3.Error.
        """
        rest = iter(past)
        with self._writing:
            while batch := list(itertools.islice(rest, 5_000)):
                taken = Taken()
                for measurement, at in batch:
                    taken.entries.append(Entry(measurement.node, at, self._boottime(), sample(measurement)))
                    taken.latest[measurement.node] = Latest(measurement, at, at, "", 0.0, None)
                self._ledger.write(taken, self._now(), "")
                self._ledger.listened_since(min(at for _, at in batch))

    @property
    def dropped(self) -> int:
        """Measurements whose samples were left out because the disk refused them for too long."""
        return self._waiting.dropped

    @property
    def write_lag_s(self) -> float:
        """Seconds for which the oldest sample has waited to be written."""
        oldest = self._waiting.oldest()
        return 0.0 if oldest is None else max(0.0, self._boottime() - oldest)

    def commit(self) -> None:
        """Writes what waits. The store's thread calls this twice a second; a test may do so itself."""
        with self._writing:
            taken = self._waiting.take()
            try:
                self._reopen_if_needed()
                self._ledger.write(taken, self._now(), self._why_lost)
            except (sqlite3.Error, StoreUnusable, OSError) as error:
                self._waiting.give_back(taken)
                self._refused(error)
                return
            if self.problem:
                log.warning("%s is written again; %d samples were left out so far", self.path, self.dropped)
                self.problem = None
            self._why_lost = _FELL_BEHIND

    def _now(self) -> Now:
        return Now(self._clock(), self._boottime())

    def _refused(self, error: Exception) -> None:
        if isinstance(error, sqlite3.Error) and database.is_damage(error):
            self._damaged = True  # the next commit sets the file aside
        why = database.reason(error) if isinstance(error, sqlite3.Error) else str(error)
        if self.problem is None:
            log.error("%s cannot be written: %s", self.path, why)
        self.problem = f"The history cannot be written: {why}."
        self._why_lost = f"the history could not be written: {why}"

    def _open(self, before: str) -> tuple[Ledger, Archive]:
        connection, notice = database.open_for_writing(self.path)
        self.notice = notice or self.notice
        ledger = Ledger(connection, self.keep_seconds)
        try:
            ledger.begin(self._now(), before)
            self._file = self.path.stat().st_ino if self.path else 0
        except (sqlite3.Error, OSError) as error:
            connection.close()
            why = database.reason(error) if isinstance(error, sqlite3.Error) else error.strerror
            raise StoreUnusable(f"{self.path}: cannot be written: {why}") from error
        return ledger, Archive(self.path, connection, self._writing)

    def _reopen_if_needed(self) -> None:
        """Starts a new file where this one is damaged, or was removed by somebody."""
        if self.path is None:
            return
        try:
            removed = self.path.stat().st_ino != self._file
        except FileNotFoundError:
            removed = True
        if not (removed or self._damaged or self.archive.damaged):
            return
        self.archive.close()
        self._ledger.close()
        if removed:
            log.error("%s was removed; the history starts anew", self.path)
            self.notice = f"The history was started anew: {self.path.name} was removed."
        else:
            self.notice = database.set_aside(self.path, "damaged")
        self._ledger, self.archive = self._open("the history was lost")
        self._damaged = False

    def _run(self, every: float) -> None:
        while not self._stop.wait(every):
            try:
                self.commit()
            except Exception:  # the thread must outlive whatever one commit brings
                log.exception("%s: a commit failed", self.path)
                self.problem = "The history cannot be written: see the control plane's log."

    def close(self) -> None:
        """Writes what waits and gives the file free."""
        if self._closed:
            return
        self._closed = True
        self._stop.set()
        if self._thread:
            self._thread.join()
        self.commit()
        self.archive.close()
        self._ledger.close()  # the last one: it puts the write-ahead log back into the file
        if self._lock:
            self._lock.close()

    def nodes(self) -> list[StoredNode]:
        """Every node that was heard and not forgotten. Raises sqlite3.Error."""
        found = []
        for row in self.archive.nodes():
            try:
                measurement = schema.read(row.message).measurement
            except HeartbeatRefused as error:
                log.error("%s: the last measurement of %r cannot be read: %s", self.path, row.name, error)
                continue
            silent_s = self._silence(row)
            found.append(StoredNode(measurement, row.measured_at, row.first_heard_at, row.heard_at, silent_s, len(row.message)))
        return found

    def _silence(self, row: NodeRow) -> float:
        if row.boot and row.boot == self._boot:
            return max(0.0, self._boottime() - row.boottime)
        silence = self._clock() - row.heard_at
        return silence if silence >= 0 else FRESH_FOR_SECONDS + 1  # by a clock that is wrong: too long to be believed

    def unheard(self, start: float, end: float) -> list[tuple[float, float, str]]:
        """Start, end and reason of the times in the range of which nothing is kept. Raises sqlite3.Error."""
        now = self._clock()
        oldest = now - self.keep_seconds
        after = self._why_lost if self.problem else _NOBODY
        found = []
        if start < oldest:
            found.append((start, min(end, oldest), f"longer ago than the {self.keep_seconds / 3600:g} h that are kept"))
        spans = self.archive.unheard(max(start, oldest), min(end, now), after) if end > oldest else []
        # The last commit may be a little ago without anything being wrong.
        return found + [span for span in spans if span[0] < now - STOPPED_SECONDS]
