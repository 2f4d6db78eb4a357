"""One rendering for all who look at the same block."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

from webapp.views.compression import Body

Memory = TypeVar("Memory")


def share_seconds(nodes: int) -> float:
    """For how long the rendering of a fleet is handed out: small ones cost little, and are made anew each time.

    >>> share_seconds(100), share_seconds(1_000), share_seconds(10_000)
    (0.0, 1.0, 5.0)
    """
    return min(5.0, nodes / 1000) if nodes > 100 else 0.0


class Rendering(NamedTuple):
    """A block's HTML, and seconds for which others may get it too."""

    body: Body
    share_s: float


@dataclass
class _Place(Generic[Memory]):
    memory: Memory | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)
    body: Body | None = None
    until: float = 0.0


class Shared(Generic[Memory]):
    """Renderings by what they depend on. Who asks while one is made waits for it instead of making another."""

    def __init__(self, most: int = 64, clock: Callable[[], float] = time.monotonic) -> None:
        """`most`: renderings kept; the one that was not asked for longest goes first."""
        self._most = most
        self._clock = clock
        self._lock = threading.Lock()
        self._places: OrderedDict[object, _Place[Memory]] = OrderedDict()

    def get(self, key: object, make: Callable[[Memory | None], tuple[Rendering, Memory]]) -> Body:
        """`make` gets what it handed over at its last call for this key, None at the first."""
        with self._lock:
            place = self._places.setdefault(key, _Place())
            self._places.move_to_end(key)
            while len(self._places) > self._most:
                self._places.popitem(last=False)
        with place.lock:
            if place.body is None or self._clock() >= place.until:
                (place.body, share_s), place.memory = make(place.memory)
                place.until = self._clock() + share_s
            return place.body
