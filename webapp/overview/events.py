"""What changed in the fleet in the last hour: nodes lost and back, engines started, stopped and orphaned."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from webapp.fleet.nodes import Node
from webapp.measurement import Measurement

Kind = Literal["joined", "lost", "back", "started", "stopped", "orphaned"]

KEEP_SECONDS = 3600.0

#: A start that is later by more than this may be that of another process with the same id.
LATER_START_SECONDS = 5.0

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
            return self.kind
        return f"{self.engine} {self.kind}"


class _Running(NamedTuple):
    """What is remembered of an engine from one measurement to the next."""

    model: str
    state: str
    #: Unix time, None where the measurement doesn't say it.
    started_at: float | None
    age_s: float | None
    pid: int | None

    def replaced(self, before: _Running) -> bool:
        """Whether another process has the id. A start that moves while the age goes on is our clock, set right."""
        if not self.started_at or not before.started_at or self.started_at - before.started_at <= LATER_START_SECONDS:
            return False
        return self.pid != before.pid or (self.age_s or 0.0) <= (before.age_s or 0.0)


class Events:
    """Compares each measurement with the one before it, and states with those before. Safe to use from many threads."""

    def __init__(self, wall: Callable[[], float]) -> None:
        self._wall = wall
        self._lock = threading.Lock()
        self._events: deque[Event] = deque(maxlen=MOST_EVENTS)
        self._engines: dict[str, dict[str, _Running]] = {}
        self._lost: set[str] = set()
        #: The Unix time from which changes are noticed.
        self.since = wall()

    def know(self, measurement: Measurement) -> None:
        """Start from a measurement of before a restart: nothing in it is news."""
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

    def _compare(self, at: float, node: str, id: str, before: _Running | None, now: _Running | None) -> None:
        def tell(kind: Kind, model: str) -> None:
            self._events.append(Event(at, kind, node, id, model))

        if now is None or (now.state == "dead" and before and before.state != "dead"):
            if before and before.state != "dead":
                tell("stopped", before.model)
        elif before is None or (before.state == "dead" and now.state != "dead"):
            tell("started", now.model)
        elif now.state == "orphaned" != before.state:
            tell("orphaned", now.model)
        elif now.replaced(before):
            tell("stopped", before.model)
            tell("started", now.model)

    def watch(self, nodes: Iterable[Node]) -> None:
        """Note which nodes fell silent since the last call."""
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
        """The events of the last hour, newest first."""
        since = self._wall() - KEEP_SECONDS
        with self._lock:
            return sorted((event for event in self._events if event.at >= since), key=lambda event: -event.at)


def _engines(measurement: Measurement, measured_at: float) -> dict[str, _Running]:
    """Engines by their ids. `measured_at` is a Unix time, 0 where it isn't known."""
    return {
        engine.id or "": _Running(
            engine.model or "",
            engine.state or "running",
            measured_at - engine.started_s_ago if engine.started_s_ago is not None and measured_at else None,
            engine.started_s_ago,
            engine.pid,
        )
        for engine in measurement.engines
    }
