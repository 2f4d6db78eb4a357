"""Which nodes a reader wants to see, and in which order: all of it is in the page's address."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from urllib.parse import urlencode

from webapp import formats
from webapp.fleet.nodes import STATES, Node
from webapp.overview import gauges
from webapp.overview.paging import Part, page_of, part
from webapp.overview.sorting import Column, Columns, Order
from webapp.overview.summary import load_per_core, waiting

#: What the cluster page shows below the summary: key -> title.
VIEWS = {"table": "Table", "map": "Map", "concerns": "Concerns", "changes": "Changes"}


def _disk(node: Node) -> float | None:
    fullest = gauges.fullest_disk(node.numbers) if node.numbers else None
    return fullest[1].percent if fullest else None


def _memory(node: Node) -> float | None:
    gauge = gauges.memory(node.numbers) if node.numbers else None
    return gauge.percent if gauge else None


COLUMNS: Columns[Node] = Columns(
    Column("name", "Node", lambda node: formats.natural(node.name), descending=False),
    Column("state", "State", lambda node: STATES.index(node.state)),
    Column("age", "Heard", lambda node: node.heard_s),
    Column("cpu", "CPU", lambda node: node.numbers.load.cpu_percent if node.numbers else None),
    Column("memory", "RAM", _memory),
    Column("load", "Load / core", lambda node: load_per_core(node.numbers) if node.numbers else None),
    Column("disk", "Fullest disk", _disk),
    Column("engines", "Engines", lambda node: len(node.numbers.engines) if node.numbers else None),
    Column("queue", "Waiting", lambda node: waiting(node.numbers.engines)[0] if node.numbers else None),
)

#: What the map can colour its cells by: key -> title. Each is a column whose value is a share or a count.
MEASURES = {"cpu": "CPU", "memory": "RAM", "load": "Load per core", "disk": "Fullest disk", "queue": "Requests waiting"}

_SHARE = (0, 20, 40, 60, *gauges.NEARLY_FULL)

#: Where each measure's shades begin; the last two are the ones that call for attention.
_SHADES: dict[str, tuple[float, ...]] = {
    "cpu": _SHARE,
    "memory": _SHARE,
    "load": (0, 0.25, 0.5, 1, *(percent / 100 for percent in gauges.QUEUEING)),
    "disk": _SHARE,
    "queue": (0, 1, 4, 10, *gauges.WAITING),
}


@dataclass(frozen=True)
class Selection:
    """Filters and order. Values that mean nothing are dropped, so that an old link still shows nodes."""

    text: str = ""
    states: tuple[str, ...] = ()
    model: str = ""
    #: "name=value" each; a node must have them all.
    labels: tuple[str, ...] = ()
    sort: str = "name"
    descending: bool = False
    #: Name of the label by whose value rows are grouped; "" for one table.
    group: str = ""
    #: Keys of the columns that are shown beside the name; () for all.
    columns: tuple[str, ...] = ()
    view: str = "table"
    #: What the map's cells show.
    measure: str = "cpu"
    #: Which rows of the table, from 1.
    page: int = 1

    @classmethod
    def of(cls, query: Iterable[tuple[str, str]]) -> Selection:
        """The selection that an address's query asks for."""
        pairs = [(name, value[:300]) for name, value in query]
        last = dict(pairs)
        sort, descending = COLUMNS.order_of(last)
        return cls(
            text=last.get("q", "").strip(),
            states=tuple(state for state in STATES if ("state", state) in pairs),
            model=last.get("model", ""),
            labels=tuple(value for name, value in pairs if name == "label" and "=" in value),
            sort=sort,
            descending=descending,
            group=last.get("group", ""),
            columns=tuple(column.key for column in COLUMNS.all[1:] if column.key in last.get("columns", "").split(",")),
            view=last["view"] if last.get("view") in VIEWS else "table",
            measure=last["measure"] if last.get("measure") in MEASURES else "cpu",
            page=page_of(last.get("page", "")),
        )

    @property
    def arguments(self) -> dict[str, str | list[str]]:
        """The fewest parts of an address that ask for this selection."""
        found: dict[str, str | list[str]] = {
            "q": self.text,
            "state": list(self.states),
            "model": self.model,
            "label": list(self.labels),
            "group": self.group,
            "columns": ",".join(self.columns),
            "view": self.view if self.view != "table" else "",
            "measure": self.measure if self.measure != "cpu" else "",
            "page": str(self.page) if self.page > 1 else "",
        }
        return {name: value for name, value in found.items() if value} | COLUMNS.arguments(self.order)

    @property
    def query(self) -> str:
        """The arguments as a part of an address; starts with "?" unless it is empty."""
        return "?" + urlencode(self.arguments, doseq=True) if self.arguments else ""

    @property
    def filters(self) -> bool:
        """Whether any node may be left out."""
        return bool(self.text or self.states or self.model or self.labels)

    @property
    def order(self) -> Order:
        return Order(self.sort, self.descending)

    def sorted_by(self, key: str) -> Selection:
        """This selection after a click on a column's head."""
        sort, descending = COLUMNS.after_click(key, self.order)
        return replace(self, sort=sort, descending=descending, page=1)

    def with_label(self, name: str, value: str) -> Selection:
        """This selection with a label switched on or off."""
        label = f"{name}={value}"
        others = tuple(one for one in self.labels if one != label)
        return replace(self, labels=others if label in self.labels else (*others, label), page=1)

    def at_page(self, page: int) -> Selection:
        """This selection with other rows of the table."""
        return replace(self, page=page)

    @property
    def shown_columns(self) -> tuple[Column[Node], ...]:
        """The columns of the table, the name first."""
        return tuple(column for column in COLUMNS.all if not self.columns or column.key in ("name", *self.columns))

    def measured(self, node: Node) -> float | None:
        """The value that the map shows of a node: percent, load per core or requests."""
        value = COLUMNS[self.measure].value(node)
        return None if value is None else float(value)

    def step(self, value: float) -> int:
        """The map's shade of a value, from 0."""
        return max(0, sum(value >= start for start in _SHADES[self.measure]) - 1)

    def worded(self, value: float) -> str:
        """A value of the map in words."""
        if self.measure == "queue":
            return formats.plural(value, "request waiting", "requests waiting")
        return f"{value:.2f} tasks a core" if self.measure == "load" else f"{MEASURES[self.measure]} {formats.percent(value)} %"

    @property
    def steps(self) -> list[tuple[int, str]]:
        """The map's shades, each with the value at which it begins."""
        unit = "" if self.measure in ("queue", "load") else " %"
        return [(step, f"from {start:g}{unit}") for step, start in enumerate(_SHADES[self.measure])]

    def grouped(self, nodes: Sequence[Node]) -> list[tuple[str, list[Node]]]:
        """The nodes by their value of the grouping label, values in order, nodes without it last; [("", all)] ungrouped."""
        if not self.group:
            return [("", list(nodes))]
        groups: dict[str, list[Node]] = {}
        for node in nodes:
            groups.setdefault(node.measurement.host.labels.get(self.group, ""), []).append(node)
        return sorted(groups.items(), key=lambda item: (not item[0], formats.natural(item[0])))

    def rows(self, groups: Sequence[tuple[str, list[Node]]]) -> tuple[Part, list[tuple[str, list[Node]]]]:
        """The part of `grouped` that is on this page."""
        this = part(self.page, sum(len(members) for _, members in groups))
        shown = []
        so_far = 0
        for value, members in groups:
            if some := members[max(0, this.first - 1 - so_far) : max(0, this.last - so_far)]:
                shown.append((value, some))
            so_far += len(members)
        return this, shown

    def apply(self, nodes: Sequence[Node]) -> list[Node]:
        """The nodes that match, in order; those without a value to sort by come last."""
        return COLUMNS.sort(filter(self._matches, nodes), self.order)

    def _matches(self, node: Node) -> bool:
        if self.states and node.state not in self.states:
            return False
        labels = node.measurement.host.labels
        if not all(labels.get(label.partition("=")[0]) == label.partition("=")[2] for label in self.labels):
            return False
        engines = node.measurement.engines
        if self.model and not any(engine.model == self.model for engine in engines):
            return False
        if not self.text:
            return True
        words = [
            node.name,
            *labels.values(),
            *(engine.model or "" for engine in engines),
            *(engine.id or "" for engine in engines),
        ]
        return all(any(part in word.casefold() for word in words) for part in self.text.casefold().split())


def models_of(nodes: Iterable[Node]) -> list[str]:
    """The models that the nodes' engines serve, by name."""
    return sorted({engine.model for node in nodes for engine in node.measurement.engines if engine.model})


def label_names_of(nodes: Iterable[Node]) -> list[str]:
    """The names of the nodes' labels, in order."""
    return sorted({name for node in nodes for name in node.measurement.host.labels})
