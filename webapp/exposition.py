"""The fleet as Prometheus text.

A node's lines are made at the first scrape after its heartbeat and kept until the next one; a scrape joins those
that are young enough. No timestamps, so that Prometheus marks a series stale as soon as it is left out.
https://prometheus.io/docs/instrumenting/exposition_formats/
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from operator import attrgetter
from typing import Any, NamedTuple, Protocol, overload

from webapp.fleet.nodes import Node
from webapp.measurement import Measurement
from webapp.metrics import HEARTBEAT_AGE, UP, Contact, Labels, families

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


def _labels(labels: Iterable[tuple[str, str]]) -> str:
    return ",".join([f'{label}="{escaped(text)}"' for label, text in labels if text])


def _series(name: str, labels: Labels, value: float) -> str:
    return f"{name}{{{_labels(labels)}}} {written(value)}\n"


def written(value: float) -> str:
    """A number as it stands behind a series."""
    if isinstance(value, float) and not value.is_integer():
        return repr(value)
    return str(int(value)) if abs(value) < 1e15 else repr(float(value))


class _Row(NamedTuple):
    """A row of the table: the place of its family, its name, the labels that it fixes, as text, and whether it is a moment."""

    place: int
    name: str
    fixed: str
    ago: bool


class _Group(NamedTuple):
    """Rows that are read from the same items with the same labels, all values of an item at once."""

    each: str
    labels: tuple[tuple[str, str], ...]
    values: Callable[[Any], tuple[Any, ...]]
    rows: tuple[_Row, ...]


def _groups() -> tuple[_Group, ...]:
    found: dict[tuple[str, Labels], list[tuple[str, _Row]]] = {}
    for place, (name, metrics) in enumerate(_FAMILIES):
        for metric in metrics:
            fixed = f",{_labels(metric.fixed)}" if metric.fixed else ""
            found.setdefault((metric.each, metric.labels), []).append((metric.path, _Row(place, name, fixed, metric.ago)))
    return tuple(
        # A last path that is there twice: with one path alone the getter would give no tuple.
        _Group(each, labels, attrgetter(*(path for path, _ in rows), rows[-1][0]), tuple(row for _, row in rows))
        for (each, labels), rows in found.items()
    )


_GROUPS = _groups()


def render(measurement: Measurement, measured_at: float) -> tuple[str, ...]:
    """The lines of one node, an entry a family in the table's order; "" where nothing is known."""
    found = [""] * len(_FAMILIES)
    node = f'{{node="{escaped(measurement.node)}"'
    for each, names, values_of, rows in _GROUPS:
        for item in getattr(measurement, each) if each else (measurement,):
            end = "}"
            if names:
                own = _labels([(label, str(text)) for label, field in names if (text := getattr(item, field)) is not None])
                end = f",{own}}}" if own else end
            for (place, name, fixed, ago), value in zip(rows, values_of(item)):
                if value is None:
                    continue
                shown = written(round(measured_at - value)) if ago else str(value) if type(value) is int else written(value)
                found[place] += f"{name}{node}{fixed}{end} {shown}\n"
    return tuple(found)


class Lines(Sequence[str]):
    """What `render` gives, made when it is first asked for."""

    __slots__ = ("_measured_at", "_measurement", "_rendered")

    def __init__(self, measurement: Measurement, measured_at: float) -> None:
        self._measurement = measurement
        self._measured_at = measured_at
        self._rendered: tuple[str, ...] | None = None

    def _lines(self) -> tuple[str, ...]:
        if self._rendered is None:
            self._rendered = render(self._measurement, self._measured_at)
        return self._rendered

    def __len__(self) -> int:
        return len(_FAMILIES)

    def __iter__(self) -> Iterator[str]:
        return iter(self._lines())

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[str]: ...
    def __getitem__(self, place: int | slice) -> str | Sequence[str]:
        return self._lines()[place]


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
    for (name, rows), entries in zip(_FAMILIES, zip(*young)):
        if lines := "".join(entries):
            parts += (head(name, rows[0].help, "gauge"), lines)
    parts.extend(counter.text(openmetrics) for counter in counters)
    if openmetrics:
        parts.append("# EOF\n")
    return "".join(parts)


def head(name: str, help: str, kind: str) -> str:
    """The lines before a family's series."""
    return f"# HELP {name} {help}\n# TYPE {name} {kind}\n"


def _contact(row: Contact, nodes: Sequence[Node]) -> str:
    value = (lambda node: int(node.state in ("fresh", "late"))) if row is UP else (lambda node: round(node.heard_s, 3))
    return head(row.name, row.help, "gauge") + "".join(
        [f'{row.name}{{node="{escaped(node.name)}"}} {written(value(node))}\n' for node in nodes]
    )


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
