"""The fleet as it was at a past moment, rebuilt from what a history keeps."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Protocol

from webapp import formats, heartbeat
from webapp.fleet.nodes import USUAL_INTERVAL_SECONDS, Fleet, Node, state
from webapp.heartbeat import HeartbeatRefused
from webapp.history import HistoryUnavailable
from webapp.measurement import FRESH_FOR_SECONDS, Agent, Engine, Measurement
from webapp.metrics import METRICS
from webapp.storage.archive import PastRow
from webapp.storage.database import reason
from webapp.storage.samples import seven_digits
from webapp.storage.store import Store

#: Moments whose fleets are remembered.
_MOST_MOMENTS = 4

#: Where a past node's numbers come from, as its page says it.
SOURCE = "the history"

_ALL = {metric.key for metric in METRICS}


class BadMoment(ValueError):
    """A moment that can't be shown. The message is a sentence for the page."""


class TooLongAgo(HistoryUnavailable):
    """The history does not reach back to the moment; the message says how far it does."""


class PastFleet(Fleet, Protocol):
    """A fleet at a past moment."""

    def notices(self) -> list[str]:
        """What the reader must know about it, in sentences."""
        ...


class Past(Protocol):
    """A history that can say what the fleet was like."""

    def at(self, moment: float) -> PastFleet:
        """The fleet at a Unix time. Raises HistoryUnavailable."""
        ...


def moment_of(text: str, now: float) -> float:
    """The Unix time that an address names; without a zone it is UTC. Raises BadMoment.

    >>> moment_of("2027-01-15T08:00Z", 1.9e9), moment_of("2027-01-15T09:00:00+01:00", 1.9e9), moment_of("1800000000", 1.9e9)
    (1800000000.0, 1800000000.0, 1800000000.0)
    >>> moment_of("yesterday", 1.9e9)
    Traceback (most recent call last):
    webapp.history.past.BadMoment: at=yesterday can't be read: expected a time such as 2030-03-17T17:46Z.
    >>> moment_of("2040-01-01", 1.9e9)
    Traceback (most recent call last):
    webapp.history.past.BadMoment: 2040-01-01 00:00:00 UTC lies in the future; it is 2030-03-17 17:46:40 UTC here.
    """
    try:
        # An address that was typed by hand holds a bare "+", which arrives as a blank.
        found = float(text) if text.isdecimal() and len(text) <= 12 else _unix(text.strip().replace(" ", "+"))
        shown = formats.moment(found)
    except (ValueError, OverflowError, OSError):
        raise BadMoment(f"at={text[:60]} can't be read: expected a time such as {written(now // 60 * 60)}.") from None
    if found > now:
        raise BadMoment(f"{shown} lies in the future; it is {formats.moment(now)} here.")
    return found


def _unix(text: str) -> float:
    read = datetime.fromisoformat(text)
    return (read if read.tzinfo else read.replace(tzinfo=UTC)).timestamp()


def written(moment: float) -> str:
    """A moment as addresses hold it, to the minute where it is one.

    >>> written(1_800_000_000), written(1_800_000_012.7)
    ('2027-01-15T08:00Z', '2027-01-15T08:00:12Z')
    """
    at = datetime.fromtimestamp(moment, UTC)
    return at.strftime("%Y-%m-%dT%H:%MZ" if at.second == 0 else "%Y-%m-%dT%H:%M:%SZ")


class StoredPast:
    """A `Past` over the store of this process."""

    def __init__(self, store: Store, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._clock = clock
        self._lock = threading.Lock()
        self._known: OrderedDict[float, StoredFleet] = OrderedDict()

    def at(self, moment: float) -> StoredFleet:
        """See `Past.at`. Numbers have seven significant digits."""
        with self._lock:
            known = self._known.get(moment)
        if known is not None:
            return known
        try:
            self._check(moment)
            spans = [span for span in self._store.unheard(moment - 1, moment + 1) if span[0] <= moment < span[1]]
        except sqlite3.Error as error:
            raise HistoryUnavailable(f"The history cannot be read: {reason(error)}.") from error
        fleet = StoredFleet(self._store, moment, spans[-1][2] if spans else "")
        if moment < self._clock() - FRESH_FOR_SECONDS:  # nothing of that time is still under way
            with self._lock:
                self._known[moment] = fleet
                while len(self._known) > _MOST_MOMENTS:
                    self._known.popitem(last=False)
        return fleet

    def _check(self, moment: float) -> None:
        kept = self._clock() - self._store.keep_seconds
        since = self._store.archive.since()
        first = kept if since is None else max(kept, since)
        if moment < first:
            raise TooLongAgo(f"The history reaches back to {formats.moment(first)}; {formats.moment(moment)} was before that.")


class FurtherBack:
    """A `Past` that asks another one for what lies before its own."""

    def __init__(self, own: Past, other: Past) -> None:
        self._own = own
        self._other = other

    def at(self, moment: float) -> PastFleet:
        """See `Past.at`."""
        try:
            return self._own.at(moment)
        except TooLongAgo:
            return self._other.at(moment)


class StoredFleet:
    """A `PastFleet` from the store, read once."""

    def __init__(self, store: Store, moment: float, unheard: str) -> None:
        """`unheard`: why nobody listened then, "" if somebody did."""
        self._store = store
        self._moment = moment
        self._unheard = unheard
        self._all: list[Node] | None = None

    def nodes(self) -> list[Node]:
        if self._all is None:
            self._all = self._read(None)
        return self._all

    def node(self, name: str) -> Node | None:
        if self._all is not None:
            return next((node for node in self._all if node.name == name), None)
        return next(iter(self._read(name)), None)

    def notices(self) -> list[str]:
        if not self._unheard:
            return []
        return [f"Nobody was listening then ({self._unheard}): the nodes are shown as they were last heard."]

    def _read(self, name: str | None) -> list[Node]:
        """Raises HistoryUnavailable."""
        try:
            rows = self._store.archive.as_of(self._moment, name)
        except sqlite3.Error as error:
            raise HistoryUnavailable(f"The history cannot be read: {reason(error)}.") from error
        return [node for row in rows if (node := _node(row, self._moment, self._store.keep_seconds)) is not None]


def _node(row: PastRow, moment: float, keep_seconds: float) -> Node | None:
    try:
        measurement = _rebuilt(row)
    except HeartbeatRefused:  # a name that is no longer taken
        return None
    if row.measured_at is not None:
        heard_at = row.measured_at
    elif row.last_heard_at <= moment:
        heard_at = row.last_heard_at
    else:  # its samples of that time are gone: it was silent for at least as long as they are kept
        heard_at = max(row.first_heard_at, moment - keep_seconds)
    silence = max(0.0, moment - heard_at)
    interval = measurement.agent.interval_s or USUAL_INTERVAL_SECONDS
    return Node(
        name=row.name,
        measurement=measurement,
        state=state(silence, interval),
        heard_s=silence,
        measured_s=silence if row.measured_at is not None else max(silence, FRESH_FOR_SECONDS + 1),
        heard_at=heard_at,
        first_heard_at=min(row.first_heard_at, heard_at),
        interval_s=interval,
        source=SOURCE,
    )


def _rebuilt(row: PastRow) -> Measurement:
    """The sample as a measurement; what hardly ever changes is taken from the node's last message.

    Raises HeartbeatRefused.
    """
    message: dict[str, Any] = {"node": row.name}
    if row.measured_at is not None:
        for column, numbers in row.layout.read([row.numbers], _ALL):
            if (value := numbers[0]) == value:
                number = row.measured_at - value if column.metric.ago else seven_digits(value)
                column.metric.put(message, dict(column.labels), number, row.measured_at)
    measurement = heartbeat.from_mapping(message).measurement
    try:
        last = heartbeat.read(row.last_message).measurement
    except HeartbeatRefused:
        return measurement
    by_id = {engine.id: engine for engine in last.engines}
    return replace(
        measurement,
        host=replace(last.host, uptime_s=None, kernel=None),
        agent=Agent(interval_s=last.agent.interval_s),
        engines=tuple(_described(engine, by_id.get(engine.id)) for engine in measurement.engines),
        demo=last.demo,
    )


def _described(engine: Engine, last: Engine | None) -> Engine:
    """With what an engine's id stands for, so that it holds for the same id at any time."""
    return engine if last is None else replace(engine, kind=last.kind, port=last.port, unit=last.unit, declared=last.declared)
