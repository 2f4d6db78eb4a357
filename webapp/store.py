"""What survives a restart: the nodes with their last measurement, and their recent samples, in one SQLite file.

Requests hand over measurements with `record` and go on; one thread commits them each second. Readers have
connections of their own and never hold the writer up. When the disk is full or refuses, the samples wait in
memory, the oldest are left out and counted, `problem` says so, and all of it mends by itself.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from webapp import database, heartbeat
from webapp.database import StoreUnusable
from webapp.ledger import STOPPED_SECONDS, Batch, Entry, Ledger, NodeRow, Now
from webapp.measurement import Measurement
from webapp.samples import Layout, sample

__all__ = ["Heard", "Rows", "Store", "StoreUnusable", "StoredNode", "boot_id", "boottime"]

log = logging.getLogger(__name__)

#: Seconds between commits.
COMMIT_SECONDS = 1.0

#: Samples that wait for a disk that refuses: 20 s of 1,000 nodes that report each second; some 10 MB.
MOST_WAITING = 20_000

#: A heartbeat larger than this is written anew, without what no field takes.
LARGEST_MESSAGE_BYTES = 65_536

_FELL_BEHIND = "more was heard than the disk could take"


class Heard(NamedTuple):
    """When a heartbeat came: the wall clock, and a clock that no one sets and that counts through a suspend."""

    wall: float
    boot: str
    boottime: float


class _Latest(NamedTuple):
    measurement: Measurement
    measured_at: float
    heard: Heard
    message: bytes | None


class StoredNode(NamedTuple):
    """One node as the store remembers it."""

    measurement: Measurement
    #: Unix time of the measurement.
    measured_at: float
    #: Unix time of the first heartbeat.
    first_heard: float
    heard: Heard
    #: Seconds from the last heartbeat to now: exact if this machine has not been booted since.
    silent_s: float


class Rows(NamedTuple):
    """Samples of one node in one layout, oldest first."""

    layout: Layout
    times: list[float]
    blobs: list[bytes]


def boot_id() -> str:
    """The kernel's name for this boot."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("utf-8").strip()
    except OSError:
        return ""


def boottime() -> float:
    """Seconds since this boot, suspends included."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Store:
    """The file `history.sqlite` in `directory`, which this process owns until `close`; None keeps all in memory.

    `keep_hours` of samples are kept. With `commit_every` None nothing is committed but by `commit`.
    Raises StoreUnusable.
    """

    def __init__(
        self,
        directory: Path | None,
        *,
        keep_hours: float = 24.0,
        commit_every: float | None = COMMIT_SECONDS,
        clock: Callable[[], float] = time.time,
        boottime: Callable[[], float] = boottime,
        boot: str | None = None,
    ) -> None:
        self.path = directory / "history.sqlite" if directory else None
        self.keep_seconds = keep_hours * 3600
        self._clock, self._boottime, self._boot = clock, boottime, boot_id() if boot is None else boot
        self._owned = database.own_directory(directory) if directory else None
        #: What the operator must know about the start, or None.
        self.notice: str | None = None
        #: Why nothing can be kept at present, as a sentence for the page, or None.
        self.problem: str | None = None
        #: Measurements that were left out because the disk refused them for too long.
        self.dropped = 0

        self._lock = threading.Lock()  # guards what waits
        self._waiting: deque[Entry] = deque()
        self._latest: dict[str, _Latest] = {}
        self._forgets: set[str] = set()
        self._lost_from: float | None = None
        self._lost_why = _FELL_BEHIND

        self._writing = threading.RLock()  # guards the ledger
        self._damaged = False
        self._local = threading.local()
        self._readers: list[sqlite3.Connection] = []
        self._generation = 0
        self._layouts: dict[tuple[int, int], Layout] = {}
        try:
            self._ledger = self._open("no control plane ran")
        except StoreUnusable:
            if self._owned:
                self._owned.close()
            raise
        self._closed = False
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        if commit_every is not None:
            self._thread = threading.Thread(target=self._run, args=(commit_every,), name="store", daemon=True)
            self._thread.start()

    # Writing

    def record(self, measurement: Measurement, measured_at: float, message: bytes | None = None) -> None:
        """Keeps a measurement that has just been heard; `measured_at` is a Unix time. Never waits for the disk.

        `message` is the heartbeat that carried it, if that is at hand: writing it anew costs more than all else.
        """
        now = Heard(self._clock(), self._boot, self._boottime())
        entry = Entry(measurement.node, measured_at, now.boottime, sample(measurement))
        with self._lock:
            self._waiting.append(entry)
            self._latest[measurement.node] = _Latest(measurement, measured_at, now, message)
            self._trim()

    def forget(self, name: str) -> None:
        """Removes a node and its samples; what is recorded afterwards begins anew."""
        with self._lock:
            self._latest.pop(name, None)
            self._waiting = deque(entry for entry in self._waiting if entry.node != name)
            self._forgets.add(name)

    @property
    def write_lag_s(self) -> float:
        """Seconds for which the oldest sample has waited to be written."""
        with self._lock:
            return max(0.0, self._boottime() - self._waiting[0].heard) if self._waiting else 0.0

    def commit(self) -> None:
        """Writes what waits. The store's thread calls this each second; a test may do so itself."""
        with self._writing:
            with self._lock:
                entries, self._waiting = self._waiting, deque()
                latest, self._latest = self._latest, {}
                forgets, self._forgets = self._forgets, set()
                lost_from, self._lost_from = self._lost_from, None
            try:
                self._reopen_if_needed()
                self._ledger.write(Batch(forgets, self._rows(latest), entries, lost_from, self._lost_why), self._now())
            except (sqlite3.Error, StoreUnusable, OSError) as error:
                self._give_back(entries, latest, forgets, lost_from)
                self._refused(error)
                return
            if self.problem:
                log.warning("%s is written again; %d measurements were left out so far", self.path, self.dropped)
                self.problem = None
            self._lost_why = _FELL_BEHIND

    def _now(self) -> Now:
        return Now(self._clock(), self._boottime())

    def _rows(self, latest: dict[str, _Latest]) -> Iterator[NodeRow]:
        for name, (measurement, measured_at, heard, message) in latest.items():
            if message is None or len(message) > LARGEST_MESSAGE_BYTES:
                message = heartbeat.write(measurement)
            yield NodeRow(name, *heard, measured_at, message)

    def _give_back(
        self,
        entries: Iterable[Entry],
        latest: dict[str, _Latest],
        forgets: set[str],
        lost_from: float | None,
    ) -> None:
        with self._lock:
            again = set(self._forgets)
            self._waiting.extendleft(entry for entry in reversed(list(entries)) if entry.node not in again)
            for name, value in latest.items():
                if name not in again:
                    self._latest.setdefault(name, value)
            self._forgets |= forgets
            self._lost_from = lost_from if lost_from is not None else self._lost_from
            self._trim()

    def _trim(self) -> None:
        while len(self._waiting) > MOST_WAITING:
            left_out = self._waiting.popleft()
            self.dropped += 1
            if self._lost_from is None:
                self._lost_from = left_out.time

    def _refused(self, error: Exception) -> None:
        if isinstance(error, sqlite3.Error) and database.is_damage(error):
            self._damaged = True  # the next commit sets the file aside
        why = database.reason(error) if isinstance(error, sqlite3.Error) else str(error)
        if self.problem is None:
            log.error("%s cannot be written: %s", self.path, why)
        self.problem = f"The history cannot be written: {why}."
        self._lost_why = f"the history could not be written: {why}"

    def _open(self, before: str) -> Ledger:
        connection, notice = database.open_for_writing(self.path)
        self.notice = notice or self.notice
        self._generation += 1
        self._layouts = {}
        ledger = Ledger(connection, self.keep_seconds)
        try:
            ledger.begin(self._now(), before)
        except sqlite3.Error as error:
            connection.close()
            raise StoreUnusable(f"{self.path}: cannot be written: {database.reason(error)}") from error
        self._file = self.path.stat().st_ino if self.path else 0
        return ledger

    def _reopen_if_needed(self) -> None:
        """Starts a new file where this one is damaged, or was removed by somebody."""
        if self.path is None:
            return
        try:
            removed = self.path.stat().st_ino != self._file
        except FileNotFoundError:
            removed = True
        if not removed and not self._damaged:
            return
        self._ledger.close()
        if self._damaged and not removed:
            self.notice = database.set_aside(self.path, "damaged")
        elif removed:
            self.notice = f"The history was started anew: {self.path.name} was removed."
            log.error("%s was removed; the history starts anew", self.path)
        self._ledger = self._open("the history was lost")
        self._damaged = False

    def _run(self, every: float) -> None:
        while not self._stop.wait(every):
            try:
                self.commit()
            except Exception:  # the thread must outlive whatever one commit brings
                log.exception("%s: a commit failed", self.path)
                self.problem = "The history cannot be written: see the control plane's log."

    def close(self) -> None:
        """Writes what waits and gives the directory free."""
        if self._closed:
            return
        self._closed = True
        self._stop.set()
        if self._thread:
            self._thread.join()
        self.commit()
        with self._writing:
            for connection in self._readers:
                connection.close()
            self._ledger.close()  # the last one: it puts the write-ahead log back into the file
            if self._owned:
                self._owned.close()

    # Reading

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        """A connection for this thread. Raises sqlite3.Error."""
        if self.path is None:
            with self._writing:
                yield self._ledger.connection
            return
        if getattr(self._local, "generation", None) != self._generation:
            self._local.connection = database.open_for_reading(self.path)
            self._local.generation = self._generation
            self._readers.append(self._local.connection)
        try:
            yield self._local.connection
        except sqlite3.Error as error:
            self._damaged = self._damaged or database.is_damage(error)
            raise

    def nodes(self) -> list[StoredNode]:
        """Every node that was heard and not forgotten. Raises sqlite3.Error."""
        with self._reading() as connection:
            rows = connection.execute(
                "SELECT name, first_heard, heard, boot, boottime, measured, message FROM nodes ORDER BY id"
            ).fetchall()
        found = []
        for name, first_heard, wall, boot, heard, measured_at, message in rows:
            try:
                measurement = heartbeat.read(message).measurement
            except heartbeat.HeartbeatRefused as error:
                log.error("%s: the last measurement of %r cannot be read: %s", self.path, name, error)
                continue
            same_boot = bool(boot) and boot == self._boot
            silent = self._boottime() - heard if same_boot else self._clock() - wall
            found.append(StoredNode(measurement, measured_at, first_heard, Heard(wall, boot, heard), max(0.0, silent)))
        return found

    def rows(self, name: str, start: float, end: float) -> list[Rows]:
        """The samples of a node from `start` to `end`, Unix times, in runs of one layout. Raises sqlite3.Error."""
        with self._reading() as connection:
            generation = self._generation
            found = connection.execute(
                "SELECT time, layout, numbers FROM samples"
                " WHERE node = (SELECT id FROM nodes WHERE name = ?) AND time BETWEEN ? AND ? ORDER BY time, id",
                (name, start, end),
            ).fetchall()
            runs: list[Rows] = []
            before = None
            for at, layout, numbers in found:
                if layout != before:
                    runs.append(Rows(self._layout(connection, generation, layout), [], []))
                    before = layout
                runs[-1].times.append(at)
                runs[-1].blobs.append(numbers)
        return runs

    def nodes_with_model(self, model: str, start: float, end: float) -> list[str]:
        """Names of the nodes that had an engine of the model at some time in the range. Raises sqlite3.Error."""
        with self._reading() as connection:
            generation = self._generation
            runs = connection.execute(
                "SELECT name, layout FROM (SELECT node, since, layout,"
                " lead(since, 1, 1e18) OVER (PARTITION BY node ORDER BY since) AS until FROM runs)"
                " JOIN nodes ON nodes.id = node WHERE since <= ? AND until >= ? ORDER BY node, since",
                (end, start),
            ).fetchall()
            names = (name for name, layout in runs if model in self._layout(connection, generation, layout).models)
            return list(dict.fromkeys(names))

    def unheard(self, start: float, end: float) -> list[tuple[float, float, str]]:
        """Start, end and reason of the times in the range of which nothing was kept. Raises sqlite3.Error."""
        with self._reading() as connection:
            kept = connection.execute(
                'SELECT start, "end", before FROM listening WHERE "end" >= ? AND start <= ? ORDER BY start', (start, end)
            ).fetchall()
            later = connection.execute("SELECT before FROM listening WHERE start > ? ORDER BY start LIMIT 1", (end,)).fetchone()
        now = self._clock()
        after = later[0] if later else self._lost_why if self.problem else "no control plane ran"
        found = _between(kept, start, min(end, now - STOPPED_SECONDS), after)
        oldest = now - self.keep_seconds
        if start < oldest:
            found = [(max(since, oldest), until, why) for since, until, why in found if until > oldest]
            found.insert(0, (start, min(end, oldest), f"longer ago than the {self.keep_seconds / 3600:g} h that are kept"))
        return found

    def _layout(self, connection: sqlite3.Connection, generation: int, number: int) -> Layout:
        known = self._layouts.get((generation, number))
        if known is None:
            row = connection.execute(
                'SELECT columns, items FROM layouts JOIN tables ON tables.id = "table" WHERE layouts.id = ?', (number,)
            ).fetchone()
            known = Layout(*row) if row else Layout("[]", "[]")
            self._layouts[generation, number] = known
        return known


def _between(kept: Iterable[tuple[float, float, str]], start: float, end: float, after: str) -> list[tuple[float, float, str]]:
    """What lies between the spans that were kept, and after the last one.

    >>> _between([(100.0, 200.0, ""), (260.0, 300.0, "it was stopped")], 150.0, 290.0, "")
    [(200.0, 260.0, 'it was stopped')]
    """
    found = []
    at = start
    for since, until, before in kept:
        if since > at:
            found.append((at, since, before))
        at = max(at, until)
    if end > at:
        found.append((at, end, after))
    return found
