"""What changes in a fleet that doesn't report here: each look at it is compared with the one before."""

from __future__ import annotations

from collections.abc import Iterable

from webapp.fleet.nodes import Node
from webapp.overview.events import Events


class Looks:
    """Tells `events` what changed from one look to the next. For one thread."""

    def __init__(self, events: Events) -> None:
        self._events = events
        #: Nodes of the look before; None before the first.
        self._before: set[str] | None = None
        #: Nodes whose engines are known.
        self._known: set[str] = set()

    def look(self, nodes: Iterable[Node]) -> None:
        """Nothing is news at the first look, but that a node fell silent in the last hour.

        Of a node that is late some engines may be out of sight already: what it runs is compared while it is fresh.
        """
        found = {node.name: node for node in nodes}
        for name, node in found.items():
            if node.state != "fresh":
                continue
            if name not in self._known and (self._before is None or name in self._before):
                self._events.know(node.measurement)
            self._known.add(name)
            self._events.add(node.measurement, node.heard_at)
        self._events.watch(found.values())
        for name in (self._before or set()) - found.keys():
            self._events.forget(name)
            self._known.discard(name)
        self._before = set(found)
