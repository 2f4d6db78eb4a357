"""What changed in the fleet in the last hour: nodes lost and back, engines started, stopped and orphaned."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from webapp.fleet.nodes import Node
from webapp.measurement import Measurement

Kind = Literal["joined", "lost", "back", "started", "stopped", "orphaned"]

KEEP_SECONDS = 3600.0

#: However much changes, this many are kept.
MOST_EVENTS = 2_000


@dataclass(frozen=True)
class Event:
    """One change; `at` is a Unix time."""

    at: float
    kind: Kind
    node: str
    engine: str = ""
    model: str = ""

    @property
    def text(self) -> str:
        """What happened, without the node's name."""
        if not self.engine:
            return {"joined": "joined", "lost": "lost", "back": "back"}.get(self.kind, self.kind)
        return f"{self.engine} {self.kind}"


class Events:
    """Compares each measurement with the one before it, and states with those before. Safe to use from many threads."""

    def __init__(self, wall: Callable[[], float]) -> None:
        self._wall = wall
        self._lock = threading.Lock()
        self._events: deque[Event] = deque(maxlen=MOST_EVENTS)
        self._engines: dict[str, dict[str, tuple[str, str, float | None]]] = {}
        self._lost: set[str] = set()

    def know(self, measurement: Measurement) -> None:
        """Start from what was known before a restart: nothing of it is news."""
        with self._lock:
            self._engines[measurement.node] = _engines(measurement, 0.0)

    def add(self, measurement: Measurement, measured_at: float) -> None:
        """Take in what a node reported; `measured_at` is a Unix time."""
        node, now = measurement.node, _engines(measurement, measured_at)
        with self._lock:
            before = self._engines.get(node)
            self._engines[node] = now
            if before is None:
                self._events.append(Event(measured_at, "joined", node))
                return
            if node in self._lost:
                self._lost.discard(node)
                self._events.append(Event(measured_at, "back", node))
            for id in now.keys() | before.keys():
                self._compare(measured_at, node, id, before.get(id), now.get(id))

    def _compare(
        self,
        at: float,
        node: str,
        id: str,
        before: tuple[str, str, float | None] | None,
        now: tuple[str, str, float | None] | None,
    ) -> None:
        def tell(kind: Kind, model: str) -> None:
            self._events.append(Event(at, kind, node, id, model))

        if now is None or (now[1] == "dead" and before and before[1] != "dead"):
            if before and before[1] != "dead":
                tell("stopped", before[0])
        elif before is None or (before[1] == "dead" and now[1] != "dead"):
            tell("started", now[0])
        elif now[1] == "orphaned" != before[1]:
            tell("orphaned", now[0])
        elif before[2] and now[2] and now[2] - before[2] > 5:  # the same id, another process
            tell("stopped", before[0])
            tell("started", now[0])

    def watch(self, nodes: Iterable[Node]) -> None:
        """Look which nodes fell silent since the last look."""
        now = self._wall()
        silent = [node for node in nodes if node.state in ("stale", "gone")]
        with self._lock:
            for node in silent:
                if node.name not in self._lost:
                    self._lost.add(node.name)
                    if now - node.heard_at < KEEP_SECONDS:
                        self._events.append(Event(node.heard_at, "lost", node.name))

    def forget(self, node: str) -> None:
        with self._lock:
            self._engines.pop(node, None)
            self._lost.discard(node)

    def recent(self) -> Sequence[Event]:
        """The last hour's, newest first."""
        since = self._wall() - KEEP_SECONDS
        with self._lock:
            return sorted((event for event in self._events if event.at >= since), key=lambda event: -event.at)


def _engines(measurement: Measurement, measured_at: float) -> dict[str, tuple[str, str, float | None]]:
    """Id -> model, state, and Unix time of the start."""
    return {
        engine.id or "": (
            engine.model or "",
            engine.state or "running",
            measured_at - engine.started_s_ago if engine.started_s_ago is not None and measured_at else None,
        )
        for engine in measurement.engines
    }
