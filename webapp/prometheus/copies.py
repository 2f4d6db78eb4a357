"""The last good answers of a source that may be slow or fail, shared by all viewers.

However many ask for the same thing, the source is asked once; a bounded number of threads ask it at all, and
whoever waits does so for a bounded time. A source that fails is left alone for a while, and the reason is given.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from webapp.history import HistoryUnavailable
from webapp.prometheus.answers import QueryRefused

log = logging.getLogger(__name__)

T = TypeVar("T")

#: After a failure the source is left alone for this long, then twice as long, up to the last.
PAUSES_SECONDS = (2.0, 4.0, 8.0, 15.0)

#: A copy this young is as good as a new one.
_MOMENT_SECONDS = 2.0


class NotYet(HistoryUnavailable):
    """The source is being asked; asking again in a second or two may bring the answer."""


@dataclass(frozen=True)
class Copy(Generic[T]):
    """A value, how old it is in seconds, and why it is not newer ("" if it is as new as was wanted)."""

    value: T
    age_s: float
    reason: str = ""


@dataclass
class _Entry(Generic[T]):
    #: The last good value, and the last one, which may be incomplete.
    good: T | None = None
    last: T | None = None
    renewed: float = float("-inf")
    asked: float = float("-inf")
    refusal: QueryRefused | None = None
    flight: threading.Event | None = None


@dataclass(frozen=True)
class Renewal(Generic[T]):
    """What asking brought; a value that is not `good` is shown, and not kept as the last good copy."""

    value: T
    good: bool = True


class Copies(Generic[T]):
    """Copies by key. Safe to use from many threads."""

    def __init__(
        self,
        name: str,
        *,
        patience: float = 1.0,
        threads: int = 4,
        most_waiting: int = 6,
        most_kept: int = 128,
        most_pending: int = 64,
        clock: Callable[[], float] = time.monotonic,
        spawn: Callable[[Callable[[], None]], None] | None = None,
    ) -> None:
        """`name` is what messages call the source; `patience` in seconds: the longest wait of a caller."""
        self._name = name
        self._patience = patience
        self._threads = threads
        self._most_waiting = most_waiting
        self._most_kept = most_kept
        self._most_pending = most_pending
        self._clock = clock
        self._spawn = spawn or _spawn
        self._lock = threading.Lock()
        self._entries: OrderedDict[Hashable, _Entry[T]] = OrderedDict()
        self._pending: deque[Callable[[], None]] = deque()
        self._working = 0
        self._waiting = 0
        self._slow = False
        self._failure: HistoryUnavailable | None = None
        self._failures = 0
        self._paused_until = float("-inf")

    def get(self, key: Hashable, is_fresh: Callable[[T], bool], renew: Callable[[T | None], Renewal[T]]) -> Copy[T]:
        """The copy for `key`; renewed from the last good one if it is not fresh.

        Raises QueryRefused, NotYet, or, where there is no copy, HistoryUnavailable with the reason.
        """
        with self._lock:
            entry = self._entry(key)
            if entry.last is not None and is_fresh(entry.last):
                return Copy(entry.last, self._clock() - entry.renewed)
            wants_worker = self._launch(entry, renew)
            flight = self._queued(entry)
        if wants_worker:
            self._hire()
        if flight is not None:
            self._await(flight)
        with self._lock:
            return self._copy(entry, is_fresh)

    def _queued(self, entry: _Entry[T]) -> threading.Event | None:
        """What to wait for, with a place among those who wait; None where nobody should wait, or too many do."""
        if entry.flight is None or self._slow or self._waiting >= self._most_waiting:
            return None
        self._waiting += 1
        return entry.flight

    def _await(self, flight: threading.Event) -> None:
        is_done = flight.wait(self._patience)
        with self._lock:
            self._waiting -= 1
            self._slow = self._slow or not is_done

    def _entry(self, key: Hashable) -> _Entry[T]:
        entry = self._entries.setdefault(key, _Entry())
        self._entries.move_to_end(key)
        while len(self._entries) > self._most_kept:
            self._entries.popitem(last=False)
        return entry

    def _launch(self, entry: _Entry[T], renew: Callable[[T | None], Renewal[T]]) -> bool:
        """Have the entry renewed, unless it is under way or the source is left alone; True: one more worker is wanted."""
        now = self._clock()
        # While it fails, one flight at a time finds out whether it still does.
        held = now < self._paused_until or (self._failure is not None and self._working > 0)
        if entry.flight is not None or held or len(self._pending) >= self._most_pending:
            return False
        if entry.refusal is not None and now - entry.asked < PAUSES_SECONDS[-1]:
            return False
        flight = entry.flight = threading.Event()
        entry.asked = now
        self._pending.append(lambda: self._fly(entry, flight, renew))
        wants_worker = self._working < self._threads
        self._working += wants_worker
        return wants_worker

    def _hire(self) -> None:
        try:
            self._spawn(self._work)
        except RuntimeError:  # no thread to be had; the next one that is asked for does the work
            with self._lock:
                self._working -= 1

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._pending:
                    self._working -= 1
                    return
                fly = self._pending.popleft()
            fly()

    def _fly(self, entry: _Entry[T], flight: threading.Event, renew: Callable[[T | None], Renewal[T]]) -> None:
        with self._lock:
            began = self._clock()
            if began < self._paused_until:  # it failed while this one was waiting
                entry.flight = None
                flight.set()
                return
        renewal: Renewal[T] | None = None
        failure: HistoryUnavailable | None = None
        try:
            renewal = renew(entry.good)
        except HistoryUnavailable as error:
            failure = error
        except Exception as error:
            log.exception("%s: its answer could not be used", self._name)
            failure = HistoryUnavailable(f"{self._name} answered with something that could not be used")
            failure.__cause__ = error
        with self._lock:
            now = self._clock()
            entry.refusal = failure if isinstance(failure, QueryRefused) else None
            if renewal is not None:
                entry.last = renewal.value
                entry.renewed = now
                if renewal.good:
                    entry.good = renewal.value
            self._judge(failure, now, took=now - began)
            entry.flight = None
            flight.set()

    def _judge(self, failure: HistoryUnavailable | None, now: float, took: float) -> None:
        self._slow = took > self._patience
        if failure is None or isinstance(failure, QueryRefused):
            if self._failure is not None:
                log.info("%s answers again", self._name)
            self._failure, self._failures = None, 0
            return
        if self._failure is None:
            log.warning("%s", failure)
        self._failure = failure
        self._paused_until = now + PAUSES_SECONDS[min(self._failures, len(PAUSES_SECONDS) - 1)]
        self._failures += 1

    def _copy(self, entry: _Entry[T], is_fresh: Callable[[T], bool]) -> Copy[T]:
        now = self._clock()
        if entry.refusal is not None:
            raise entry.refusal
        value = entry.last
        # Another viewer may have asked a moment before this one's grid moved on.
        if value is not None and (is_fresh(value) or (self._failure is None and now - entry.renewed < _MOMENT_SECONDS)):
            return Copy(value, now - entry.renewed)
        if self._failure is not None:
            reason: HistoryUnavailable = self._failure
        elif entry.flight is not None:
            reason = NotYet(f"{self._name} was asked {now - entry.asked:.0f} s ago and has not answered yet")
        else:
            reason = NotYet(f"{self._name} has too many queries waiting")
        if value is None:
            raise reason
        return Copy(value, now - entry.renewed, str(reason))


def _spawn(work: Callable[[], None]) -> None:
    threading.Thread(target=work, name="copies", daemon=True).start()
