"""What the templates of the models' blocks get, and which charts a model has."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from webapp.api import BadParameter
from webapp.charts.palette import colour_index
from webapp.fleet.nodes import Node
from webapp.history import History
from webapp.metrics import CHARTS, Chart, families
from webapp.overview import paging
from webapp.overview.model_selection import COLUMNS, ModelSelection
from webapp.overview.models import Model, everything, model, models
from webapp.views import blocks

#: Label that names a line of a model's chart -> what the page calls it. All lines are one without a label.
BY = {"": "summed", "node": "a line a node"}


def index(nodes: Sequence[Node], order: ModelSelection) -> dict[str, Any]:
    """The totals are of all engines; the table shows the models that were selected."""
    found = models(nodes)
    return {
        "models": order.apply(found),
        "known": len(found),
        "all": everything(nodes),
        "nodes": len(nodes),
        "nameless": sum(not engine.model for node in nodes for engine in node.measurement.engines),
        "order": order,
        "columns": COLUMNS.all,
    }


def one(nodes: Iterable[Node], name: str, query: Mapping[str, str]) -> dict[str, Any]:
    """A model, and the engines on the page of its table that an address asks for."""
    found = model(nodes, name)
    part = paging.part(paging.page_of(query.get("page", "")), len(found.placed))
    return {"model": found, "part": part, "placed": part.of(found.placed)}


def by_of(query: Mapping[str, str]) -> str:
    """How a model's charts are to be split; summed where an address asks for nothing that exists."""
    by = query.get("by", "")
    return by if by in BY else ""


def charts_of(by: str) -> list[Chart]:
    """The charts of one model: those that can be split by model, summed or with a line a node."""
    return [
        replace(chart, by=by, title=_title(chart, by), whole=(), rest_title="", stacked=bool(by) and chart.together == "sum")
        for chart in CHARTS
        if chart.by == "model"
    ]


def _title(chart: Chart, by: str) -> str:
    title = chart.title.removesuffix(" by model")
    return f"{title}, fullest engine" if chart.together == "max" and not by else title


def cards(
    history: History, found: Model, range: str, by: str, now: float, colour_of: Callable[[str], int] = colour_index
) -> dict[str, Any]:
    """One card a chart, from one question to the history."""
    wanted = [chart for chart in charts_of(by) if not chart.optional or _tells(found, chart)]
    return {"range": range, "by": by, "subject": {"model": found.name, "by": by or None}} | blocks.cards(
        history, wanted, range, now, colour_of, model=found.name
    )


def _tells(found: Model, chart: Chart) -> bool:
    rows = families()
    return any(
        dict(labels).get("model") == found.name
        for node in found.nodes
        for name in chart.metrics
        for metric in rows[name]
        for labels, _ in metric.read(node.measurement, node.heard_at)
    )


def wanted_chart(query: Mapping[str, str]) -> Chart:
    """The chart that an address asks for, of a node or of a model. Raises BadParameter."""
    key, metric = query.get("chart", ""), query.get("metric", "")
    if metric:
        if metric not in families():
            raise BadParameter("metric", metric, "the name of a metric")
        return Chart(metric, metric, families()[metric][0].unit, (metric,))
    known = {chart.key: chart for chart in (charts_of(by_of(query)) if query.get("model") else CHARTS)}
    if key not in known:
        raise BadParameter("chart", key, " or ".join(known))
    return known[key]
