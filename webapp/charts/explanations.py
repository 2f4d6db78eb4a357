"""What exactly a chart shows: each metric's meaning, source, and the PromQL that asks a Prometheus for the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from webapp.history import Range
from webapp.lens import Chart, Metric
from webapp.metrics import families
from webapp.prometheus.promql import selector


@dataclass(frozen=True)
class Explanation:
    """One metric of a chart."""

    name: str
    help: str
    unit: str
    #: Where the node's agent reads it.
    source: str
    promql: str
    #: Where the Prometheus in use draws it itself; "" without one.
    url: str = ""


class Queries(Protocol):
    """Who knows how a metric is asked for."""

    def promql(self, metric: Metric, step: float, *, node: str = "", model: str = "") -> str | None: ...

    def graph_url(self, metric: Metric, range: Range, *, node: str = "", model: str = "") -> str | None: ...


class OurNames:
    """The metrics by the names under which our /metrics has them, for whoever scrapes it."""

    def promql(self, metric: Metric, step: float, *, node: str = "", model: str = "") -> str | None:
        labels = metric.fixed + ((("node", node),) if node else ()) + ((("model", model),) if model else ())
        return selector(metric.name, labels)

    def graph_url(self, metric: Metric, range: Range, *, node: str = "", model: str = "") -> str | None:
        return None


def explain(chart: Chart, range: Range, queries: Queries, *, node: str = "", model: str = "") -> list[Explanation]:
    """One entry a row of the table that the chart draws."""
    rows = families()
    return [
        Explanation(
            metric.name + ("{" + ",".join(f'{label}="{value}"' for label, value in metric.fixed) + "}" if metric.fixed else ""),
            metric.help,
            metric.unit,
            metric.source,
            queries.promql(metric, range.step, node=node, model=model) or "",
            queries.graph_url(metric, range, node=node, model=model) or "",
        )
        for name in chart.families
        for metric in rows[name]
    ]
