"""The fleet as Prometheus text.

A node's lines are made when its heartbeat arrives; a scrape joins those that are young enough. No timestamps,
so that Prometheus marks a series stale as soon as it is left out.
https://prometheus.io/docs/instrumenting/exposition_formats/
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Protocol

from webapp.measurement import Measurement
from webapp.metrics import HEARTBEAT_AGE, UP, Contact, Labels, families
from webapp.nodes import Node

TEXT = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"

#: A node with more is rare; a fleet of nodes with fewer isn't counted in full.
_MOST_SERIES_A_NODE = 100

_FAMILIES = tuple(families().items())


def escaped(value: str) -> str:
    """A label's value as it stands between quotes.

    >>> print(escaped('rack 14" C:\\\\new'))
    rack 14\\" C:\\\\new
    """
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _series(name: str, labels: Labels, value: float) -> str:
    text = ",".join(f'{label}="{escaped(text)}"' for label, text in labels if text)
    return f"{name}{{{text}}} {written(value)}\n"


def written(value: float) -> str:
    """A number as it stands behind a series."""
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(float(value))


def render(measurement: Measurement, measured_at: float) -> tuple[str, ...]:
    """The lines of one node, an entry a family in the table's order; "" where nothing is known."""
    node: Labels = (("node", measurement.node),)
    return tuple(
        "".join(_series(name, node + labels, value) for metric in rows for labels, value in metric.read(measurement, measured_at))
        for name, rows in _FAMILIES
    )


def within(nodes: Sequence[Node], most_series: int) -> Sequence[Node]:
    """The first of the nodes whose series, with two more each, stay within the limit."""
    if len(nodes) * _MOST_SERIES_A_NODE <= most_series:
        return nodes
    so_far = 0
    for index, node in enumerate(nodes):
        so_far += 2 + (sum(entry.count("\n") for entry in node.exposition) if node.numbers is not None else 0)
        if so_far > most_series:
            return nodes[:index]
    return nodes


def text(nodes: Sequence[Node], counters: Iterable[Family] = (), *, openmetrics: bool = False) -> str:
    """Everything that a scrape gets."""
    young = [node.exposition for node in nodes if node.numbers is not None and node.exposition]
    parts = [_contact(UP, nodes), _contact(HEARTBEAT_AGE, nodes)]
    for index, (name, rows) in enumerate(_FAMILIES):
        lines = "".join([entry[index] for entry in young])
        if lines:
            parts.append(head(name, rows[0].help, "gauge") + lines)
    parts.extend(counter.text(openmetrics) for counter in counters)
    if openmetrics:
        parts.append("# EOF\n")
    return "".join(parts)


def head(name: str, help: str, kind: str) -> str:
    """The lines before a family's series."""
    return f"# HELP {name} {help}\n# TYPE {name} {kind}\n"


def _contact(row: Contact, nodes: Sequence[Node]) -> str:
    value = (lambda node: float(node.state in ("fresh", "late"))) if row is UP else (lambda node: round(node.heard_s, 3))
    return head(row.name, row.help, "gauge") + "".join(_series(row.name, (("node", node.name),), value(node)) for node in nodes)


class Family(Protocol):
    """Series that aren't a node's."""

    def text(self, openmetrics: bool) -> str: ...


class Gauges:
    """One family of series whose values are told at each scrape; nothing at all while there are none."""

    def __init__(self, name: str, help: str, series: Callable[[], Iterable[tuple[Labels, float]]]) -> None:
        self._name = name
        self._help = help
        self._series = series

    def text(self, openmetrics: bool) -> str:
        lines = "".join(_series(self._name, labels, value) for labels, value in self._series())
        return head(self._name, self._help, "gauge") + lines if lines else ""


class Counters:
    """Our own counts, by one label."""

    def __init__(self, name: str, help: str, label: str, counts: Mapping[str, float] | Counter[str]) -> None:
        """`name` ends in _total."""
        self._name = name
        self._help = help
        self._label = label
        self._counts = counts

    def text(self, openmetrics: bool) -> str:
        # OpenMetrics names the family without the suffix that its samples carry.
        family = self._name.removesuffix("_total") if openmetrics else self._name
        lines = (_series(self._name, ((self._label, name),), count) for name, count in sorted(dict(self._counts).items()))
        return "".join(chain([head(family, self._help, "counter")], lines))
