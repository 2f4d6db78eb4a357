"""The fleet as Prometheus text.

Written family by family at each scrape: hundreds of values are read, written and put between their labels in a few
steps that take the whole list. No timestamps, so that Prometheus marks a series stale as soon as it is left out.
https://prometheus.io/docs/instrumenting/exposition_formats/
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import chain, compress
from operator import attrgetter
from typing import Any, Protocol

import msgspec

from webapp.fleet.nodes import Node
from webapp.metrics import HEARTBEAT_AGE, METRICS, UP, Labels, Metric, families

TEXT = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"

#: A node with more is rare; a fleet of nodes with fewer isn't counted in full.
_MOST_SERIES_A_NODE = 100

#: Nodes whose lines are made together: many, so that each step is one for all; few, so that heartbeats don't wait long.
_AT_ONCE = 500

#: As JSON writes what is not known.
_UNKNOWN = "null"

_FAMILIES = tuple(families().values())


@lru_cache(32_768)  # nearly all are asked for again at the next scrape
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
    return str(int(value)) if abs(value) < 1e16 else repr(float(value))


def all_written(values: Sequence[float | None]) -> list[str]:
    """The numbers as JSON has them, which Prometheus reads as well: in a tenth of the time that one by one takes.

    >>> all_written([0.5, 64.0, 3, None])
    ['0.5', '64.0', '3', 'null']
    """
    return msgspec.json.encode(values)[1:-1].decode().split(",") if values else []


def head(name: str, help: str, kind: str) -> str:
    """The lines before a family's series."""
    return f"# HELP {name} {help}\n# TYPE {name} {kind}\n"


#: What stands before the lines of each family of the table, but for the last line's end.
_HEADS = {
    name: head(name, help, "gauge")[:-1].encode()
    for name, help in ((UP.name, UP.help), (HEARTBEAT_AGE.name, HEARTBEAT_AGE.help), *((row.name, row.help) for row in METRICS))
}


class _Owners:
    """What families have a series each of: some nodes, or all their disks, or all their engines, ..."""

    def __init__(self, each: str, labels: Labels, nodes: Sequence[Node], starts: Sequence[str]) -> None:
        """`starts`: the labels of each node up to its name."""
        self._items: list[Any] = [node.measurement for node in nodes]
        self._nodes = nodes
        #: The labels of each up to the node's name.
        self.starts = starts
        if each:
            found = list(map(attrgetter(each), self._items))
            self._items = list(chain.from_iterable(found))
            if self._items:
                self._nodes = [node for node, items in zip(nodes, found) for _ in items]
                self.starts = [start for start, items in zip(starts, found) for _ in items]
        self._names = labels
        #: What each is called: a text where there is one label, a tuple where there are more.
        self._texts = list(map(attrgetter(*(field for _, field in labels)), self._items)) if labels else []
        self._parts: dict[str, Sequence[Any]] = {"": self._items}
        self._ends: dict[Labels, list[str]] = {}

    def __len__(self) -> int:
        return len(self._items)

    def values(self, row: Metric) -> list[float | None]:
        part, _, last = row.path.rpartition(".")
        if part not in self._parts:
            self._parts[part] = list(map(attrgetter(part), self._items))
        found = list(map(attrgetter(last), self._parts[part]))
        if row.ago:
            return [None if value is None else round(node.measured_at - value) for node, value in zip(self._nodes, found)]
        return found

    def ends(self, fixed: Labels) -> list[str]:
        """The labels after the node's name: those that are always the same, and those of the item."""
        if not self._names:
            return [self._end(fixed, ())] * len(self._items)
        if fixed not in self._ends:
            # Written once for those that are called the same: most nodes have a / and an eth0.
            several = len(self._names) > 1
            ends = {texts: self._end(fixed, texts if several else (texts,)) for texts in set(self._texts)}
            self._ends[fixed] = [ends[texts] for texts in self._texts]
        return self._ends[fixed]

    def _end(self, fixed: Labels, texts: tuple[Any, ...]) -> str:
        own = ((label, str(text)) for (label, _), text in zip(self._names, texts) if text is not None)
        labels = _labels(chain(fixed, own))
        return f",{labels}}} " if labels else "} "


def _family(rows: Sequence[Metric], owners: _Owners) -> bytes:
    """All series of a family: those of the first owner, then those of the next one. Each begins a line."""
    read = [(row, owners.values(row)) for row in rows]
    told = [(row, values) for row, values in read if any(value is not None for value in values)]
    if not told:
        return b""
    return _lines(
        rows[0].name,
        _in_turn([owners.starts for _ in told]),
        _in_turn([owners.ends(row.fixed) for row, _ in told]),
        _in_turn([all_written(values) for _, values in told]),
    )


def _in_turn(lists: Sequence[Sequence[str]]) -> Sequence[str]:
    """The first of each list, then the second of each.

    >>> _in_turn([["a", "b"], ["1", "2"]])
    ['a', '1', 'b', '2']
    """
    if len(lists) == 1:
        return lists[0]
    found = [""] * (len(lists) * len(lists[0]))
    for place, one in enumerate(lists):
        found[place :: len(lists)] = one
    return found


def _lines(name: str, starts: Sequence[str], ends: Sequence[str], numbers: Sequence[str]) -> bytes:
    """A line for each number that is known."""
    if _UNKNOWN in numbers:
        known = [number != _UNKNOWN for number in numbers]
        starts, ends, numbers = (list(compress(parts, known)) for parts in (starts, ends, numbers))
    # Joined all at once: quicker than to write line by line.
    pieces = [f"\n{name}"] * (4 * len(numbers))
    pieces[1::4], pieces[2::4], pieces[3::4] = starts, ends, numbers
    return "".join(pieces).encode()


def within(nodes: Sequence[Node], most_series: int) -> Sequence[Node]:
    """The first of the nodes whose series, with two more each, stay within the limit."""
    if len(nodes) * _MOST_SERIES_A_NODE <= most_series:
        return nodes
    so_far = 0
    for index, node in enumerate(nodes):
        so_far += 2 + (sum(1 for row in METRICS for _ in row.read(node.numbers, 0.0)) if node.numbers is not None else 0)
        if so_far > most_series:
            return nodes[:index]
    return nodes


def pieces(nodes: Sequence[Node], counters: Iterable[Family] = (), *, openmetrics: bool = False) -> list[bytes]:
    """Everything that a scrape gets, in pieces: to put together and copy what may be fifty megabytes holds up heartbeats."""
    found: dict[str, list[bytes]] = {name: [] for name in _HEADS}
    for start in range(0, len(nodes), _AT_ONCE):
        _add(nodes[start : start + _AT_ONCE], found)
    parts: list[bytes] = []
    for name, lines in found.items():
        if any(lines):
            parts += (_HEADS[name], *lines, b"\n")
    parts.extend(counter.text(openmetrics).encode() for counter in counters)
    if openmetrics:
        parts.append(b"# EOF\n")
    return parts


def _add(nodes: Sequence[Node], found: Mapping[str, list[bytes]]) -> None:
    """Add the text of some nodes to that of each family."""
    starts = [f'{{node="{escaped(node.name)}"' for node in nodes]
    up = [int(node.state in ("fresh", "late")) for node in nodes]
    ages = [round(1000 * node.heard_s) / 1000 for node in nodes]  # much faster than to round to three digits
    for row, values in ((UP, up), (HEARTBEAT_AGE, ages)):
        found[row.name].append(_lines(row.name, starts, ["} "] * len(nodes), all_written(values)))
    young = [node.numbers is not None for node in nodes]
    nodes, starts = list(compress(nodes, young)), list(compress(starts, young))
    owners: dict[tuple[str, Labels], _Owners] = {}
    for rows in _FAMILIES:
        those = rows[0].each, rows[0].labels
        if those not in owners:
            owners[those] = _Owners(*those, nodes, starts)
        if len(owners[those]):
            found[rows[0].name].append(_family(rows, owners[those]))


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
