"""The store's transactions: what is written in one commit, and what is removed with it."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from webapp import heartbeat
from webapp.storage.samples import COLUMNS, Items
from webapp.storage.waiting import Entry, Latest, Taken

#: The end of the time listened is written at least this often, in seconds.
LISTENING_SECONDS = 2.0

#: A control plane that did nothing for longer, in seconds, was stopped or its machine suspended.
STOPPED_SECONDS = 10.0

#: Nothing is removed for its time before the wall clock has gone along with the boot clock for so many seconds, to
#: within a minute: a machine may boot hours or years off, and be set right only then.
SETTLED_SECONDS = 600.0

#: Samples removed with one commit, at least; twice as many as were written, if that is more.
PRUNED_AT_ONCE = 2_000

#: Seconds between checkpoints, and between rounds of tidying.
TIDY_SECONDS = 60.0

#: A heartbeat larger than this is written anew, without what no field takes.
LARGEST_MESSAGE_BYTES = 65_536

#: Layouts held in memory.
_MOST_LAYOUTS = 50_000


class Now(NamedTuple):
    """The wall clock and CLOCK_BOOTTIME, in seconds."""

    wall: float
    boottime: float


class Ledger:
    """Writes to one database. Everything raises sqlite3.Error, and then nothing of the batch was written."""

    def __init__(self, connection: sqlite3.Connection, keep_seconds: float) -> None:
        self.connection = connection
        self._keep_seconds = keep_seconds
        self._forget_ids()
        self._listening = 0
        self._written = 0.0
        self._tried = 0.0
        self._tidied = 0.0
        #: Wall clock less boot clock, and since when that has stayed so on the boot clock.
        self._offset = 0.0
        self._settling_since = 0.0

    def begin(self, now: Now, before: str) -> None:
        """From now on there is somebody who listens; `before` says why nothing was kept until now."""
        self._listen(now.wall, now.wall, before)
        self._written = self._tried = self._tidied = self._settling_since = now.boottime
        self._offset = now.wall - now.boottime

    def write(self, batch: Taken, now: Now, why_lost: str) -> None:
        """One transaction; `why_lost` is the reason, should the batch lack samples."""
        quiet_since, self._tried = self._tried, now.boottime
        idle = not (batch.forgets or batch.entries or self._forgotten or batch.lost_from is not None)
        if idle and now.boottime - self._written < LISTENING_SECONDS:
            return
        self.connection.execute("BEGIN IMMEDIATE")
        try:
            self._forget(batch.forgets)
            self._keep_nodes(batch.latest)
            self._keep_samples(batch.entries, now.wall)
            self._keep_listening(batch, now, quiet_since, why_lost)
            settled = self._is_settled(now)
            most = max(PRUNED_AT_ONCE, 2 * len(batch.entries))
            if settled:
                self._prune(now.wall, most)
            self._prune_forgotten(most)
            if (tidy := now.boottime - self._tidied > TIDY_SECONDS) and settled:
                self._tidy(now.wall)
            self.connection.execute("COMMIT")
        except BaseException:
            self._forget_ids()
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK")
            raise
        self._written = now.boottime
        if tidy:
            self._tidied = now.boottime
            self._give_room_back()

    def close(self) -> None:
        self.connection.close()

    def _forget_ids(self) -> None:
        """What is known of the database is read anew."""
        self._nodes: dict[str, int] = {}
        self._layout_of: dict[int, int] = {}
        self._layouts: dict[Items, tuple[int, float]] = {}
        self._table = 0
        self._forgotten = True

    # Nodes

    def _keep_nodes(self, latest: Mapping[str, Latest]) -> None:
        known = []
        for name, (measurement, measured, heard, boot, boottime, message) in latest.items():
            if message is None or len(message) > LARGEST_MESSAGE_BYTES:
                message = heartbeat.write(measurement)
            if number := self._nodes.get(name):
                known.append((heard, boot, boottime, measured, message, number))
            else:
                self._nodes[name] = self._number(
                    "INSERT INTO nodes (name, first_heard, heard, boot, boottime, measured, message)"
                    " VALUES (?1, ?2, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (name) DO UPDATE SET heard = excluded.heard, boot ="
                    " excluded.boot, boottime = excluded.boottime, measured = excluded.measured, message = excluded.message",
                    *(name, heard, boot, boottime, measured, message),
                )
        self.connection.executemany(
            "UPDATE nodes SET heard = ?, boot = ?, boottime = ?, measured = ?, message = ? WHERE id = ?", known
        )

    def _forget(self, names: Iterable[str]) -> None:
        for name in names:
            self._nodes.pop(name, None)
            self.connection.execute("INSERT INTO forgotten SELECT id FROM nodes WHERE name = ?", (name,))
            self.connection.execute("DELETE FROM runs WHERE node = (SELECT id FROM nodes WHERE name = ?)", (name,))
            self.connection.execute("DELETE FROM nodes WHERE name = ?", (name,))
            self._forgotten = True

    # Samples

    def _keep_samples(self, entries: Iterable[Entry], now: float) -> None:
        rows = []
        for name, at, _, (items, numbers) in entries:
            node = self._nodes.get(name) or self._node(name)
            layout = self._layout(items, now)
            rows.append((node, at, layout, numbers))
            if self._layout_of.get(node) != layout:
                self._keep_run(node, at, layout)
        self.connection.executemany("INSERT INTO samples (node, time, layout, numbers) VALUES (?, ?, ?, ?)", rows)

    def _node(self, name: str) -> int:
        (self._nodes[name],) = self.connection.execute("SELECT id FROM nodes WHERE name = ?", (name,)).fetchone()
        return self._nodes[name]

    def _keep_run(self, node: int, at: float, layout: int) -> None:
        last = self.connection.execute("SELECT layout FROM runs WHERE node = ? ORDER BY since DESC LIMIT 1", (node,)).fetchone()
        if last is None or last[0] != layout:
            self.connection.execute("INSERT OR REPLACE INTO runs VALUES (?, ?, ?)", (node, at, layout))
        self._layout_of[node] = layout

    def _layout(self, items: Items, now: float) -> int:
        hour = now // 3600 * 3600
        known = self._layouts.get(items)
        if known and known[1] == hour:
            return known[0]
        if not self._table:
            self._table = self._number(
                "INSERT INTO tables (columns) VALUES (?) ON CONFLICT DO UPDATE SET columns = columns", COLUMNS
            )
        text = json.dumps(items, separators=(",", ":"))
        number = self._number(
            'INSERT INTO layouts ("table", items, used) VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET used = excluded.used',
            self._table,
            text,
            hour,
        )
        if len(self._layouts) >= _MOST_LAYOUTS:
            self._layouts.clear()
        self._layouts[items] = number, hour
        return number

    def _number(self, insert: str, *values: object) -> int:
        number = self.connection.execute(insert + " RETURNING id", values).fetchone()[0]
        assert isinstance(number, int)
        return number

    # Listening

    def _listen(self, start: float, end: float, before: str) -> None:
        self._listening = self._number('INSERT INTO listening (start, "end", before) VALUES (?, ?, ?)', start, end, before)

    def listened_since(self, at: float) -> None:
        """Says that the listening of now began at `at`, if that is earlier."""
        self.connection.execute("UPDATE listening SET start = min(start, ?) WHERE id = ?", (at, self._listening))

    def _keep_listening(self, batch: Taken, now: Now, quiet_since: float, why_lost: str) -> None:
        first_heard = batch.entries[0].heard if batch.entries else now.boottime
        if batch.lost_from is not None:
            start = batch.entries[0].time if batch.entries else now.wall
            self._end_listening(batch.lost_from)
            self._listen(start, now.wall, why_lost)
        elif first_heard - quiet_since > STOPPED_SECONDS:
            self._listen(now.wall - (now.boottime - first_heard), now.wall, "the control plane was stopped")
        else:
            self._end_listening(now.wall)

    def _end_listening(self, end: float) -> None:
        self.connection.execute('UPDATE listening SET "end" = max(start, ?) WHERE id = ?', (end, self._listening))

    # Removing

    def _is_settled(self, now: Now) -> bool:
        """Whether the wall clock can be believed."""
        offset = now.wall - now.boottime
        if abs(offset - self._offset) > 60:
            self._offset, self._settling_since = offset, now.boottime
        return now.boottime - self._settling_since >= SETTLED_SECONDS

    def _prune(self, now: float, most: int) -> None:
        """Removes samples past their time, oldest rows first; a few at once, so that no commit takes long."""
        oldest, latest = now - self._keep_seconds, now + 3600  # later than that: by a clock that was wrong
        head = self.connection.execute("SELECT time FROM samples ORDER BY id LIMIT 1").fetchone()
        if head and not oldest <= head[0] <= latest:
            self.connection.execute(
                "DELETE FROM samples WHERE id IN (SELECT id FROM samples ORDER BY id LIMIT ?) AND (time < ? OR time > ?)",
                (most, oldest, latest),
            )

    def _prune_forgotten(self, most: int) -> None:
        if self._forgotten:
            forgotten = self.connection.execute("SELECT node FROM forgotten LIMIT 1").fetchone()
            self._forgotten = forgotten is not None
            if forgotten:
                removed = self.connection.execute(
                    "DELETE FROM samples WHERE id IN (SELECT id FROM samples WHERE node = ? LIMIT ?)", (*forgotten, most)
                ).rowcount
                if removed < most:
                    self.connection.execute("DELETE FROM forgotten WHERE node = ?", forgotten)

    def _tidy(self, now: float) -> None:
        oldest = now - self._keep_seconds
        self.connection.execute(
            "DELETE FROM runs WHERE since < (SELECT max(since) FROM runs AS later WHERE later.node = runs.node AND since < ?)",
            (oldest,),
        )
        self.connection.execute(
            "DELETE FROM layouts WHERE used < ? AND id NOT IN (SELECT layout FROM runs)", (oldest - 7200,)
        )  # `used` may be an hour old, and so may the oldest sample that is left
        self.connection.execute('DELETE FROM listening WHERE "end" < ? AND id <> ?', (oldest, self._listening))

    def _give_room_back(self) -> None:
        """A checkpoint, so that a power cut costs a minute at most, and a smaller file if a quarter of it is free."""
        self.connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        (pages,) = self.connection.execute("PRAGMA page_count").fetchone()
        (free,) = self.connection.execute("PRAGMA freelist_count").fetchone()
        if free > pages // 4:
            self.connection.execute("PRAGMA incremental_vacuum(2000)").fetchall()
