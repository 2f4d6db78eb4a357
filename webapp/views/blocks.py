"""What the templates of the blocks get: one function a block, for the page's first paint and for each refresh."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from webapp.charts.figure import figure
from webapp.charts.palette import colour_index
from webapp.fleet.instance import Instance
from webapp.fleet.nodes import Fleet, Node
from webapp.history import Answer, History, HistoryUnavailable
from webapp.history.extent import extent
from webapp.history.ranges import named, recent
from webapp.metrics import CHARTS, Chart, Metric, families
from webapp.overview import concerns, paging
from webapp.overview.events import KEEP_SECONDS, Event, Events
from webapp.overview.memory import segments
from webapp.overview.selection import COLUMNS, MEASURES, VIEWS, Selection, label_names_of, models_of
from webapp.overview.summary import Summary, cores_used, summarise
from webapp.overview.trends import NOTHING, Trend
from webapp.prometheus.alerts import Alert
from webapp.views.rows import Kept, Rows
from webapp.views.sharing import Made, Shared, share_seconds

#: Concerns that the cluster page lists above its nodes; the view of concerns lists all.
MOST_CONCERNS = 8

#: Events of the last hour that it lists there; the view of changes lists all.
MOST_EVENTS = 12

#: Steps of the last hour's lines that a quarter of an hour touches.
_QUARTER = 8


class _Whole(NamedTuple):
    """The fleet, and what is said about the whole of it."""

    nodes: Sequence[Node]
    firing: Sequence[Alert]
    summary: Summary
    concerns: list[concerns.Concern]
    models: list[str]
    label_names: list[str]


class LastHour(Protocol):
    """Where the lines of the last hour come from: `overview.trends`, or `overview.asked_trends`."""

    def of(self, node: str, now: float) -> Trend: ...

    def problem(self, now: float) -> str: ...


class Cluster:
    """The cluster page's block: the fleet now, with what became of it in the last hour."""

    def __init__(
        self,
        fleet: Fleet,
        trends: LastHour,
        events: Events,
        wall: Callable[[], float],
        alerts: Callable[[], Sequence[Alert]] = tuple,
        is_now: Callable[[], bool] = lambda: True,
    ) -> None:
        """`is_now`: whether the fleet that is shown is that of now; a past one has no hour before it."""
        self._fleet = fleet
        self._trends = trends
        self._events = events
        self._wall = wall
        self._alerts = alerts
        self._is_now = is_now
        self._shared: Shared[_Whole, None] = Shared(most=1)

    def nodes(self) -> Sequence[Node]:
        """The fleet that is shown; of a large one, up to some seconds old."""
        return self._whole().nodes

    def usual_range(self, nodes: Iterable[Node]) -> str:
        """The range that charts of these nodes begin with: an hour, or a quarter of one as long as nothing older is known.

        A new node would be a hair at the edge of an hour.
        """
        if not self._is_now():
            return "1h"
        now = self._wall()
        known = [levels for node in nodes if (levels := self._trends.of(node.name, now).cpu).strip("-")]
        return "15m" if known and not any(levels[:-_QUARTER].strip("-") for levels in known) else "1h"

    def _whole(self) -> _Whole:
        """What all selections have in common."""
        if not self._is_now():
            return self._made()

        def make(nothing: None) -> Made[_Whole, None]:
            whole = self._made()
            return Made(whole, share_seconds(len(whole.nodes)), None)

        return self._shared.get("now", make)

    def _made(self) -> _Whole:
        nodes = self._fleet.nodes()
        firing = self._alerts()
        return _Whole(nodes, firing, summarise(nodes), concerns.of(nodes, firing), models_of(nodes), label_names_of(nodes))

    def context(self, selection: Selection, kept: Kept | None = None) -> dict[str, Any]:
        """The summary is of the whole fleet; the table shows what was selected. `kept`: the rows of the rendering before."""
        whole = self._whole()
        now = self._wall()
        found = whole.concerns
        chosen = selection.apply(whole.nodes)
        is_now = self._is_now()
        happened = self._events.recent() if is_now else []
        groups = selection.grouped(chosen)
        part, part_groups = selection.rows(groups)
        listed: Sequence[concerns.Concern | Event] = ()
        if selection.view in ("concerns", "changes"):
            names = {node.name for node in chosen} if selection.filters else None
            of_all = found if selection.view == "concerns" else happened
            listed = [one for one in of_all if names is None or one.node in names]
            part = paging.part(selection.page, len(listed))
            listed = part.of(listed)
        alerting = Counter(alert.node for alert in whole.firing)

        def trend(node: Node) -> Trend:
            return self._trends.of(node.name, now) if is_now else NOTHING

        return {
            "summary": whole.summary,
            "concerns": found[:MOST_CONCERNS],
            "more_concerns": len(found) - MOST_CONCERNS if len(found) > MOST_CONCERNS else 0,
            "events": happened[:MOST_EVENTS],
            "more_events": len(happened) - MOST_EVENTS if len(happened) > MOST_EVENTS else 0,
            "listed": listed,
            "noticed_since": self._events.since if is_now and now - self._events.since < KEEP_SECONDS else None,
            "nodes": chosen,
            "groups": groups,
            "part": part,
            "part_groups": part_groups,
            "sizes": {value: len(members) for value, members in groups},
            "trend_problem": self._trends.problem(now) if is_now else "",
            "rows": Rows(kept or {}, selection, alerting, trend),
            "density": "names" if len(chosen) <= 150 else "cells" if len(chosen) <= 2_000 else "dots",
            "selection": selection,
            "columns": selection.shown_columns,
            "all_columns": COLUMNS.all,
            "measures": MEASURES,
            "views": VIEWS,
            "models": whole.models,
            "label_names": whole.label_names,
        }


def node(node: Node, residents: Sequence[Instance] = (), alerts: Sequence[Alert] = ()) -> dict[str, Any]:
    """`residents`: the instances on it. `alerts`: those that fire, of any node."""
    parts = segments(node.numbers) if node.numbers else []
    return {
        "node": node,
        "residents": residents,
        "alerts": [alert for alert in alerts if alert.node == node.name],
        "segments": parts,
        "rest_cores": rest_cores(node),
        "rest_memory": next((part.bytes for part in parts if part.key == "other"), None),
        "pressures": pressures(node),
    }


def pressures(node: Node) -> list[tuple[str, float, float | None]]:
    """Resource, and the shares of time in which some and in which all tasks waited for it."""
    if node.numbers is None:
        return []
    pressure = node.numbers.pressure
    rows = [
        ("CPU", pressure.cpu_some, None),
        ("memory", pressure.memory_some, pressure.memory_full),
        ("I/O", pressure.io_some, pressure.io_full),
    ]
    return [(resource, some, full) for resource, some, full in rows if some is not None]


def rest_cores(node: Node) -> float | None:
    """Cores that no engine kept busy: the node's less the engines'; None where one of them is not known."""
    numbers = node.numbers
    busy = cores_used(numbers) if numbers else None
    if numbers is None or busy is None or any(engine.cpu_cores is None for engine in numbers.engines):
        return None
    return max(0.0, busy - sum(engine.cpu_cores or 0.0 for engine in numbers.engines))


def range_name(query: Mapping[str, str], usual: str = "1h") -> str:
    """The range that an address asks for, the usual one where it asks for none; an hour where there is no such range."""
    name = query.get("range", usual)
    return name if named(name) else "1h"


def node_charts(
    history: History, node: Node, range: str, now: float, colour_of: Callable[[str], int] = colour_index
) -> dict[str, Any]:
    """One card a chart, from one question to the history. `colour_of`: a model's place in the palette."""
    wanted = [chart for chart in CHARTS if not chart.optional or _reports(node, chart)]
    return {"range": range, "subject": {"node": node.name}, **cards(history, wanted, range, now, colour_of, node=node.name)}


def cards(
    history: History,
    wanted: Sequence[Chart],
    range: str,
    now: float,
    colour_of: Callable[[str], int] = colour_index,
    *,
    node: str = "",
    model: str = "",
) -> dict[str, Any]:
    """The charts of a node or a model with their figures; a sentence where the history does not answer."""
    try:
        answer = history.series(metrics_of(wanted), recent(range, now), node=node, model=model)
    except HistoryUnavailable as error:
        return {"problem": str(error), "cards": [(chart, None) for chart in wanted], "answer": None}
    return {
        "problem": "",
        "cards": [(chart, _figure(chart, answer, colour_of)) for chart in wanted],
        "captions": {chart.key: extent(answer, chart.metrics) for chart in wanted if not chart.optional},
        "answer": answer,
    }


def _figure(chart: Chart, answer: Answer, colour_of: Callable[[str], int]) -> dict[str, Any] | None:
    """None where there is nothing to draw."""
    drawn = any(series.metric.name in chart.metrics and any(v is not None for v in series.values) for series in answer.series)
    return figure(chart, answer, colour_of) if drawn else None


def metrics_of(wanted: Sequence[Chart]) -> list[Metric]:
    """Every row that the charts need."""
    rows = families()
    names = dict.fromkeys(name for chart in wanted for name in chart.families)
    return [metric for name in names for metric in rows[name]]


def _reports(node: Node, chart: Chart) -> bool:
    rows = families()
    return any(True for name in chart.metrics for metric in rows[name] for _ in metric.read(node.measurement, node.heard_at))
