"""A node as pages, /metrics and the API see it, and the one rule that says how alive it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

from webapp.fields import Rejection
from webapp.fleet.notes import Note
from webapp.measurement import FRESH_FOR_SECONDS, Measurement

State = Literal["fresh", "late", "stale", "gone"]
STATES: tuple[State, ...] = ("fresh", "late", "stale", "gone")

#: The interval that is assumed of an agent that states none.
USUAL_INTERVAL_SECONDS = 10.0

#: A node silent for longer than this is gone.
GONE_AFTER_SECONDS = 900.0


def state(seconds_since_heartbeat: float, interval: float) -> State:
    """The one rule; every bound belongs to the better state.

    fresh up to two intervals and two seconds, late up to a minute, stale up to a quarter of an hour, then gone.

    >>> [state(silence, 10.0) for silence in (22.0, 22.1, 60.0, 60.1, 900.0, 900.1)]
    ['fresh', 'late', 'late', 'stale', 'stale', 'gone']
    """
    if seconds_since_heartbeat > GONE_AFTER_SECONDS:
        return "gone"
    if seconds_since_heartbeat > FRESH_FOR_SECONDS:
        return "stale"
    return "late" if seconds_since_heartbeat > 2 * interval + 2 else "fresh"


@dataclass(frozen=True)
class Conflict:
    """Another agent that uses a node's name: its identity, the address it sent from, and how long ago."""

    agent_id: str
    source: str
    seconds_ago: float
    #: Whether an admin has given it the name, which it takes with its next heartbeat.
    is_heir: bool = False


class Node(NamedTuple):
    """What is known of one node at one moment. A tuple, since a fleet of them is made at each look, three times as fast."""

    name: str
    measurement: Measurement
    state: State
    #: Seconds since its last heartbeat.
    heard_s: float
    #: Seconds since its last measurement was taken.
    measured_s: float
    #: Unix times on this machine's clock.
    heard_at: float
    first_heard_at: float
    interval_s: float = USUAL_INTERVAL_SECONDS
    #: The node's wall clock minus this machine's, in seconds; network delay included.
    clock_offset_s: float | None = None
    #: Address that its heartbeats come from.
    source: str = ""
    rejected: tuple[Rejection, ...] = ()
    conflict: Conflict | None = None
    #: Why it drains, if an admin said so.
    note: Note | None = None

    @property
    def unanswered_s(self) -> float | None:
        """Seconds for which our answers have not reached the agent, though it is heard; None while they do."""
        answered = self.measurement.agent.answered_s_ago
        if answered is None or self.state not in ("fresh", "late") or answered <= 3 * self.interval_s + 5:
            return None
        return answered

    @property
    def measured_at(self) -> float:
        """Unix time of its last measurement, on this machine's clock."""
        return self.heard_at + self.heard_s - self.measured_s

    @property
    def numbers(self) -> Measurement | None:
        """The measurement while it is young enough to be shown as true."""
        return self.measurement if self.measured_s <= FRESH_FOR_SECONDS else None


class Fleet(Protocol):
    """Where pages take nodes from: the registry, or Prometheus."""

    def nodes(self) -> list[Node]:
        """Every known node, by name."""
        ...

    def node(self, name: str) -> Node | None: ...


def count_by_state(nodes: Iterable[Node]) -> dict[State, int]:
    """How many nodes are in each state; every state is there."""
    counted = Counter(node.state for node in nodes)
    return {name: counted[name] for name in STATES}
