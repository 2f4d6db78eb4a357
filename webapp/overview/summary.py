"""Totals over nodes that name what they leave out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from webapp.fleet.nodes import STATES, Node, State, count_by_state
from webapp.measurement import Engine, Measurement


@dataclass(frozen=True)
class Total:
    """A sum over those nodes, or engines, that reported the value."""

    #: None where none of them reported it.
    value: float | None
    #: How many reported it, of how many.
    counted: int
    of: int
    #: Reason -> how many were left out for it.
    left_out: tuple[tuple[str, int], ...]
    #: What they are.
    thing: str = "node"

    @property
    def note(self) -> str:
        """Which nodes the sum is of: "11 of 12 nodes; 1 stale"."""
        if not self.left_out:
            return f"all {self.thing}s" if self.of != 1 else f"the one {self.thing}"
        return f"{self.counted:,} of {self.of:,} {self.thing}{'s' if self.of != 1 else ''}; {self.left_out_note}"

    @property
    def left_out_note(self) -> str:
        """What the sum is not of: "1 stale, 2 not reported"."""
        return ", ".join(f"{count} {reason}" for reason, count in self.left_out)


@dataclass(frozen=True)
class Summary:
    """The fleet in one line."""

    nodes: int
    by_state: dict[State, int]
    #: Cores kept busy, and cores there are, both over the nodes that reported both.
    cores_used: Total
    cores: Total
    memory_used: Total
    memory: Total
    #: Engines on the nodes whose numbers are young enough; the total names the other nodes.
    engines: int
    engines_by_node: Total
    #: Requests waiting, over the engines that report them, and how many do.
    waiting: float | None
    waiting_engines: int


def total(nodes: Iterable[Node], values: Sequence[float | None], thing: str = "node", place: str = "{}") -> Total:
    """The sum of what is known of `values`, each of which comes from the node at its place.

    `place` says where what is left out is, given that node's state: "on {} nodes".
    """
    known = [value for value in values if value is not None]
    left_out: Counter[str] = Counter()
    if len(known) < len(values):
        left_out.update(_reason(node, place) for node, value in zip(nodes, values) if value is None)
    order = [*(place.format(state) for state in STATES), _NOT_REPORTED, _OLD]
    reasons = sorted(left_out.items(), key=lambda item: order.index(item[0]))
    return Total(sum(known) if known else None, len(known), len(values), tuple(reasons), thing)


_NOT_REPORTED, _OLD = "not reported", "with old numbers"


def _reason(node: Node, place: str) -> str:
    if node.state in ("stale", "gone"):
        return place.format(node.state)
    return _NOT_REPORTED if node.numbers else _OLD


def cores_used(measurement: Measurement) -> float | None:
    """Cores kept busy on a node."""
    load = measurement.load
    return None if load.cpu_percent is None or load.cpus is None else load.cpu_percent / 100 * load.cpus


def load_per_core(measurement: Measurement) -> float | None:
    """The one-minute load average divided by the cores."""
    load = measurement.load
    return None if load.load1 is None or load.cpus is None else load.load1 / load.cpus


def by_model(engines: Sequence[Engine]) -> list[tuple[str, list[Engine]]]:
    """The engines of each model, by its name; those that name none come last, under ""."""
    found: dict[str, list[Engine]] = {}
    for engine in engines:
        found.setdefault(engine.model or "", []).append(engine)
    return sorted(found.items(), key=lambda item: (not item[0], item[0]))


def waiting(engines: Sequence[Engine]) -> tuple[float | None, int]:
    """Requests waiting, and how many engines report them; None where none does."""
    known = [engine.requests.waiting for engine in engines if engine.requests.waiting is not None]
    return (sum(known) if known else None), len(known)


class _Share(NamedTuple):
    """What one node adds to the totals, read at once: of ten thousand, reaching each measurement is what takes time."""

    cores_used: float | None = None
    cores: float | None = None
    memory_used: float | None = None
    memory: float | None = None
    engines: float | None = None
    waiting: float | None = None
    waiting_engines: int = 0

    @classmethod
    def of(cls, measurement: Measurement) -> _Share:
        load = measurement.load
        return cls(
            cores_used(measurement),
            load.cpus if load.cpu_percent is not None else None,
            load.memory_used_bytes,
            load.memory_total_bytes if load.memory_used_bytes is not None else None,
            len(measurement.engines),
            *waiting(measurement.engines),
        )


def summarise(nodes: Sequence[Node]) -> Summary:
    """The fleet in one line; each total says which nodes it is of."""
    shares = [_Share.of(numbers) if (numbers := node.numbers) else _Share() for node in nodes]
    engines = total(nodes, [share.engines for share in shares])
    queued = [share.waiting for share in shares if share.waiting is not None]
    return Summary(
        nodes=len(nodes),
        by_state=count_by_state(nodes),
        cores_used=total(nodes, [share.cores_used for share in shares]),
        cores=total(nodes, [share.cores for share in shares]),
        memory_used=total(nodes, [share.memory_used for share in shares]),
        memory=total(nodes, [share.memory for share in shares]),
        engines=int(engines.value or 0),
        engines_by_node=engines,
        waiting=sum(queued) if queued else None,
        waiting_engines=sum(share.waiting_engines for share in shares),
    )
