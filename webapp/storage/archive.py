"""What the ledger wrote, read back by any thread."""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from webapp.storage import database
from webapp.storage.samples import Layout

log = logging.getLogger(__name__)


class Rows(NamedTuple):
    """Samples of one node in one layout, oldest first."""

    layout: Layout
    times: list[float]
    blobs: list[bytes]


class NodeRow(NamedTuple):
    """A node as it was heard last; times are Unix times but for `boottime`."""

    name: str
    first_heard_at: float
    heard_at: float
    boot: str
    boottime: float
    measured_at: float
    message: bytes


class PastRow(NamedTuple):
    """A node as it was heard last up to a moment; times are Unix times."""

    name: str
    first_heard_at: float
    #: When it was heard last of all, and the message that it then sent.
    last_heard_at: float
    last_message: bytes
    #: Time, layout and numbers of its newest sample up to the moment; None where none is kept.
    measured_at: float | None
    layout: Layout
    numbers: bytes


class Archive:
    """Reads the file at `path`, on a connection a thread; without a path, `shared` under `lock`.

    Everything raises sqlite3.Error.
    """

    def __init__(self, path: Path | None, shared: sqlite3.Connection, lock: threading.RLock) -> None:
        self._path = path
        self._shared = shared
        self._lock = lock
        self._local = threading.local()
        self._connections: list[tuple[sqlite3.Connection, threading.Lock]] = []
        self._layouts: dict[int, Layout] = {}
        #: A reader met damage.
        self.damaged = False

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        if self._path is None:
            with self._lock:
                yield self._shared
            return
        if not hasattr(self._local, "connection"):
            self._local.connection, self._local.busy = database.open_for_reading(self._path), threading.Lock()
            self._connections.append((self._local.connection, self._local.busy))
        try:
            with self._local.busy:
                yield self._local.connection
        except sqlite3.Error as error:
            self.damaged = self.damaged or database.is_damage(error)
            raise

    def close(self) -> None:
        """Waits for readers; who comes later gets sqlite3.ProgrammingError."""
        for connection, busy in list(self._connections):
            with busy:
                connection.close()

    def nodes(self) -> list[NodeRow]:
        """In the order in which they were heard first."""
        with self._reading() as connection:
            rows = connection.execute(
                "SELECT name, first_heard, heard, boot, boottime, measured, message FROM nodes ORDER BY id"
            ).fetchall()
        return [NodeRow(*row) for row in rows]

    def rows(self, node: str, start: float, end: float) -> list[Rows]:
        """The samples of a node from `start` to `end`, Unix times, in runs of one layout."""
        with self._reading() as connection:
            found = connection.execute(
                "SELECT time, layout, numbers FROM samples"
                " WHERE node = (SELECT id FROM nodes WHERE name = ?) AND time BETWEEN ? AND ? ORDER BY time, id",
                (node, start, end),
            ).fetchall()
            runs: list[Rows] = []
            before = None
            for at, layout, numbers in found:
                if layout != before:
                    runs.append(Rows(self._layout(connection, layout), [], []))
                    before = layout
                runs[-1].times.append(at)
                runs[-1].blobs.append(numbers)
        return runs

    def as_of(self, moment: float, name: str | None = None) -> list[PastRow]:
        """Every node that was known at a Unix time, by name; of one name only, if one is given."""
        with self._reading() as connection:
            found = connection.execute(
                "SELECT name, first_heard, heard, message, time, layout, numbers FROM nodes LEFT JOIN samples ON samples.id ="
                " (SELECT id FROM samples AS earlier WHERE earlier.node = nodes.id AND earlier.time <= ?1"
                " ORDER BY earlier.time DESC, earlier.id DESC LIMIT 1)"
                " WHERE (time IS NOT NULL OR first_heard <= ?1) AND (?2 IS NULL OR name = ?2) ORDER BY name",
                (moment, name),
            ).fetchall()
            nothing = Layout("[]", "[]")
            return [
                PastRow(
                    known,
                    first_heard,
                    heard,
                    message,
                    time,
                    self._layout(connection, layout) if layout else nothing,
                    numbers or b"",
                )
                for known, first_heard, heard, message, time, layout, numbers in found
            ]

    def since(self) -> float | None:
        """Unix time from which on anything was heard, None where nothing ever was."""
        with self._reading() as connection:
            found = connection.execute("SELECT min(start) FROM listening").fetchone()[0]
            return None if found is None else float(found)

    def nodes_with_model(self, model: str, start: float, end: float) -> list[str]:
        """Names of the nodes that had an engine of the model at some time in the range."""
        with self._reading() as connection:
            runs = connection.execute(
                "SELECT name, layout FROM (SELECT node, since, layout,"
                " lead(since, 1, 1e18) OVER (PARTITION BY node ORDER BY since) AS until FROM runs)"
                " JOIN nodes ON nodes.id = node WHERE since <= ? AND until >= ? ORDER BY node, since",
                (end, start),
            ).fetchall()
            names = (name for name, layout in runs if model in self._layout(connection, layout).models)
            return list(dict.fromkeys(names))

    def unheard(self, start: float, end: float, after: str) -> list[tuple[float, float, str]]:
        """Start, end and reason of the times in the range in which nothing was kept; `after`: why not since then."""
        with self._reading() as connection:
            kept = connection.execute(
                'SELECT start, "end", before FROM listening WHERE "end" >= ? AND start <= ? ORDER BY start', (start, end)
            ).fetchall()
            later = connection.execute("SELECT before FROM listening WHERE start > ? ORDER BY start LIMIT 1", (end,)).fetchone()
        return _between(kept, start, end, later[0] if later else after)

    def _layout(self, connection: sqlite3.Connection, number: int) -> Layout:
        known = self._layouts.get(number)
        if known is None:
            row = connection.execute(
                'SELECT columns, items FROM layouts JOIN tables ON tables.id = "table" WHERE layouts.id = ?', (number,)
            ).fetchone()
            known = Layout(*row) if row else Layout("[]", "[]")
            if len(self._layouts) >= 20_000:
                self._layouts.clear()
            self._layouts[number] = known
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
