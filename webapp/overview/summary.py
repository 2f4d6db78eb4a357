"""Totals over nodes that name what they leave out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from webapp.fleet.nodes import STATES, Node, State, count_by_state
from webapp.measurement import Engine, Measurement


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


def total(nodes: Sequence[Node], value: Callable[[Measurement], float | None]) -> Total:
    """The sum of `value` over the nodes whose numbers are young enough and hold it."""
    summed: float | None = None
    counted = 0
    left_out: Counter[str] = Counter()
    for node in nodes:
        known = value(node.numbers) if node.numbers else None
        if known is not None:
            summed = (summed or 0.0) + known
            counted += 1
        elif node.state in ("stale", "gone"):
            left_out[node.state] += 1
        else:
            left_out["not known" if node.numbers else "with old numbers"] += 1
    order = [*STATES, "not known", "with old numbers"]
    return Total(summed, counted, len(nodes), tuple(sorted(left_out.items(), key=lambda item: order.index(item[0]))))


def cores_used(measurement: Measurement) -> float | None:
    """Cores kept busy on a node."""
    load = measurement.load
    return None if load.cpu_percent is None or load.cpus is None else load.cpu_percent / 100 * load.cpus


def load_per_core(measurement: Measurement) -> float | None:
    """The one-minute load average divided by the cores."""
    load = measurement.load
    return None if load.load1 is None or load.cpus is None else load.load1 / load.cpus


def engines_of(nodes: Sequence[Node]) -> list[tuple[Node, Engine]]:
    """Every engine of the nodes whose numbers are young enough, with its node."""
    return [(node, engine) for node in nodes if node.numbers for engine in node.numbers.engines]


def by_model(engines: Sequence[Engine]) -> list[tuple[str, list[Engine]]]:
    """The engines of each model, by its name; those that name none come last, under ""."""
    found: dict[str, list[Engine]] = {}
    for engine in engines:
        found.setdefault(engine.model or "", []).append(engine)
    return sorted(found.items(), key=lambda item: (not item[0], item[0]))


def waiting(engines: Sequence[Engine]) -> tuple[float | None, int]:
    """Requests waiting, and how many engines told them; None where none did."""
    told = [engine.requests.waiting for engine in engines if engine.requests.waiting is not None]
    return (sum(told) if told else None), len(told)


def summarise(nodes: Sequence[Node]) -> Summary:
    """The fleet in one line; each total says which nodes it is of."""
    engines = [engine for _, engine in engines_of(nodes)]
    queued, told = waiting(engines)
    return Summary(
        nodes=len(nodes),
        by_state=count_by_state(nodes),
        cores_used=total(nodes, cores_used),
        cores=total(nodes, lambda measurement: measurement.load.cpus if measurement.load.cpu_percent is not None else None),
        memory_used=total(nodes, lambda measurement: measurement.load.memory_used_bytes),
        memory=total(
            nodes,
            lambda measurement: measurement.load.memory_total_bytes if measurement.load.memory_used_bytes is not None else None,
        ),
        engines=len(engines),
        engines_told=total(nodes, lambda measurement: len(measurement.engines)),
        waiting=queued,
        waiting_engines=told,
    )
