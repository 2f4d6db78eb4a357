"""What is made once for all who look at the same thing."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass
from typing import Generic, TypeVar

Value = TypeVar("Value")
Memory = TypeVar("Memory")


#: For how long one waits for something newer than what there is.
PATIENCE_SECONDS = 0.25

_LONGEST_TURN_SECONDS = 1.0


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
    #: On the clock: until when what was made is handed out.
    until: float = 0.0
    #: What is being made.
    making: Future[Value] | None = None


class Shared(Generic[Value, Memory]):
    """What is made for many, by what it depends on.

    Whoever finds that its time is over has it made anew, waits for it a moment, and then gets the one before. While it
    is being made, others get the one before at once. What is older than twice its time nobody gets: all wait.
    """

    def __init__(self, most: int = 64, clock: Callable[[], float] = time.monotonic, patience_s: float = PATIENCE_SECONDS) -> None:
        """`most`: values kept; the one that was not asked for longest goes first."""
        self._most = most
        self._clock = clock
        self._patience_s = patience_s
        self._lock = threading.Lock()
        self._places: OrderedDict[object, _Place[Value, Memory]] = OrderedDict()

    def get(self, key: object, make: Callable[[Memory | None], Made[Value, Memory]]) -> Value:
        """`make` gets what it handed over at its last call for this key, None at the first. Raises what `make` raises."""
        with self._lock:
            place = self._place(key)
            before, now = place.made, self._clock()
            if before is not None and now < place.until:
                return before.value
            if before is not None and now >= place.until + before.share_s:
                before = None
            is_new = place.making is None
            making = place.making = place.making or Future()
        if before is not None and not is_new:
            return before.value
        if before is None or _this_thread.is_making:
            if is_new:
                self._make(place, make, making)
            return making.result()
        # With the request's context: what is made may hold its addresses.
        threading.Thread(target=copy_context().run, args=(self._make, place, make, making), name="making", daemon=True).start()
        try:
            return making.result(self._patience_s)
        except TimeoutError:
            return before.value

    def _make(
        self, place: _Place[Value, Memory], make: Callable[[Memory | None], Made[Value, Memory]], making: Future[Value]
    ) -> None:
        try:
            with in_turn():
                made = make(place.made.memory if place.made else None)
        except Exception as error:
            with self._lock:
                place.making = None
            making.set_exception(error)
            return
        with self._lock:
            place.made, place.until, place.making = made, self._clock() + made.share_s, None
        making.set_result(made.value)

    def _place(self, key: object) -> _Place[Value, Memory]:
        place = self._places.setdefault(key, _Place())
        self._places.move_to_end(key)
        while len(self._places) > self._most:
            self._places.popitem(last=False)
        return place


class _Thread(threading.local):
    is_making = False


_this_thread = _Thread()
_turn = threading.Lock()


@contextmanager
def in_turn() -> Iterator[None]:
    """One thread makes something at a time: two take as long for both, and leave heartbeats less. None waits for long."""
    if _this_thread.is_making:  # to make a table, what all tables have in common is made
        yield
        return
    is_mine = _turn.acquire(timeout=_LONGEST_TURN_SECONDS)
    _this_thread.is_making = True
    try:
        yield
    finally:
        _this_thread.is_making = False
        if is_mine:
            _turn.release()
