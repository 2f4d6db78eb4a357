"""What is made once for all who look at the same thing."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Value = TypeVar("Value")
Memory = TypeVar("Memory")


def share_seconds(nodes: int) -> float:
    """For how long the rendering of a fleet is handed out: small ones cost little, and are made anew each time.

    >>> share_seconds(100), share_seconds(1_000), share_seconds(10_000)
    (0.0, 1.0, 5.0)
    """
    return min(5.0, nodes / 1000) if nodes > 100 else 0.0


@dataclass(frozen=True)
class Made(Generic[Value, Memory]):
    """What was made, the seconds for which others may get it too, and what the next making is given."""

    value: Value
    share_s: float
    memory: Memory


@dataclass
class _Place(Generic[Value, Memory]):
    made: Made[Value, Memory] | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)
    until: float = 0.0


class Shared(Generic[Value, Memory]):
    """What is made for many, by what it depends on.

    While it is made anew, others get the one before for as long again as it was meant for; without one they wait.
    """

    def __init__(self, most: int = 64, clock: Callable[[], float] = time.monotonic) -> None:
        """`most`: values kept; the one that was not asked for longest goes first."""
        self._most = most
        self._clock = clock
        self._lock = threading.Lock()
        self._places: OrderedDict[object, _Place[Value, Memory]] = OrderedDict()

    def get(self, key: object, make: Callable[[Memory | None], Made[Value, Memory]]) -> Value:
        """`make` gets what it handed over at its last call for this key, None at the first."""
        place = self._place(key)
        before = place.made
        if before is not None and self._clock() >= place.until + before.share_s:
            before = None
        if not place.lock.acquire(blocking=before is None):
            assert before is not None
            return before.value
        try:
            if place.made is None or self._clock() >= place.until:
                with in_turn(wait=before is None) as is_mine:
                    if before is not None and not is_mine:
                        return before.value
                    place.made = make(place.made.memory if place.made else None)
                place.until = self._clock() + place.made.share_s
            return place.made.value
        finally:
            place.lock.release()

    def _place(self, key: object) -> _Place[Value, Memory]:
        with self._lock:
            place = self._places.setdefault(key, _Place())
            self._places.move_to_end(key)
            while len(self._places) > self._most:
                self._places.popitem(last=False)
            return place


@contextmanager
def in_turn(*, wait: bool = True) -> Iterator[bool]:
    """One thread makes something at a time: two take as long for both, and leave heartbeats less. None waits for long.

    Tells whether it is this thread's turn.
    """
    is_mine = _TURN.acquire(timeout=_LONGEST_TURN_SECONDS) if wait else _TURN.acquire(blocking=False)
    try:
        yield is_mine
    finally:
        if is_mine:
            _TURN.release()


_TURN = threading.RLock()  # to make a table, what all tables have in common is made
_LONGEST_TURN_SECONDS = 1.0
