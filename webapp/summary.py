"""Totals over nodes that name what they leave out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from webapp.measurement import Engine, Measurement
from webapp.nodes import STATES, Node, State, count_by_state


@dataclass(frozen=True)
class Total:
    """A sum over the nodes, or other things, that told the value."""

    #: None where no node told it.
    value: float | None
    counted: int
    nodes: int
    #: Reason -> how many nodes were left out for it.
    left_out: tuple[tuple[str, int], ...]
    #: What is counted.
    thing: str = "node"

    @property
    def note(self) -> str:
        """Which nodes the sum is of: "11 of 12 nodes; 1 stale"."""
        if not self.left_out:
            return f"all {self.thing}s" if self.nodes != 1 else f"the one {self.thing}"
        return f"{self.counted:,} of {self.nodes:,} {self.thing}{'s' if self.nodes != 1 else ''}; {self.left_out_note}"

    @property
    def left_out_note(self) -> str:
        """What the sum is not of: "1 stale, 2 not known"."""
        return ", ".join(f"{count} {reason}" for reason, count in self.left_out)


@dataclass(frozen=True)
class Summary:
    """The fleet in one line."""

    nodes: int
    by_state: dict[State, int]
    #: Cores kept busy, and cores there are, both over the nodes that told both.
    cores_used: Total
    cores: Total
    memory_used: Total
    memory: Total
    engines: int
    engines_told: Total
    #: Requests waiting over the engines that told it.
    waiting: float | None
    waiting_engines: int


def added(known: Sequence[float], of: int, left_out: Counter[str], order: Sequence[str], thing: str = "node") -> Total:
    """The sum of what is known of so many things; `order`: which reason to leave one out comes first."""
    ordered = sorted(left_out.items(), key=lambda item: order.index(item[0]))
    return Total(sum(known, 0.0) if known else None, len(known), of, tuple(ordered), thing)


def _total(nodes: Sequence[Node], told: Sequence[float | None]) -> Total:
    """The sum of what the nodes told."""
    known = [one for one in told if one is not None]
    left_out: Counter[str] = Counter()
    if len(known) < len(nodes):
        left_out.update(_why_left_out(node) for node, one in zip(nodes, told) if one is None)
    return added(known, len(nodes), left_out, (*STATES, "not known", "with old numbers"))


def _why_left_out(node: Node) -> str:
    if node.state in ("stale", "gone"):
        return node.state
    return "not known" if node.numbers else "with old numbers"


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
    """Requests waiting, and how many engines told them; None where none did."""
    told = [queued for engine in engines if (queued := engine.requests.waiting) is not None]
    return (sum(told) if told else None), len(told)


class _Told(NamedTuple):
    """What the summary needs of one node, read at once: of a large fleet, to find it in memory is what takes time."""

    cores_used: float | None = None
    cores: float | None = None
    memory_used: float | None = None
    memory: float | None = None
    engines: float | None = None
    waiting: float | None = None
    waiting_engines: int = 0


def _told(measurement: Measurement) -> _Told:
    load = measurement.load
    return _Told(
        cores_used(measurement),
        load.cpus if load.cpu_percent is not None else None,
        load.memory_used_bytes,
        load.memory_total_bytes if load.memory_used_bytes is not None else None,
        len(measurement.engines),
        *waiting(measurement.engines),
    )


def summarise(nodes: Sequence[Node]) -> Summary:
    """The fleet in one line; each total says which nodes it is of."""
    told = [_Told() if (numbers := node.numbers) is None else _told(numbers) for node in nodes]
    engines = _total(nodes, [one.engines for one in told])
    queued = [one.waiting for one in told if one.waiting is not None]
    return Summary(
        nodes=len(nodes),
        by_state=count_by_state(nodes),
        cores_used=_total(nodes, [one.cores_used for one in told]),
        cores=_total(nodes, [one.cores for one in told]),
        memory_used=_total(nodes, [one.memory_used for one in told]),
        memory=_total(nodes, [one.memory for one in told]),
        engines=int(engines.value or 0),
        engines_told=engines,
        waiting=sum(queued) if queued else None,
        waiting_engines=sum(one.waiting_engines for one in told),
    )
