"""The Grafana dashboard, from the table of charts: a panel a chart. `make docs` writes it to enginehouse.json here."""

from __future__ import annotations

import json
from typing import Any

from webapp.metrics import CHARTS, Chart

_UNITS = {
    "% of all cores": "percent",
    "% of the time": "percent",
    "ratio": "percentunit",
    "bytes": "bytes",
    "bytes/s": "binBps",
    "W": "watt",
    "°C": "celsius",
}

_SOURCE = {"type": "prometheus", "uid": "${source}"}

_CORES = "max by (node) (llmgw_node_cpus)"
_CORES_USED = f"max by (node) (llmgw_node_cpu_utilization_percent) / 100 * on (node) {_CORES}"

#: Title, unit, PromQL. `max by` merges control planes that export the same node.
_TOTALS = (
    ("Nodes heard", "short", "count(max by (node) (llmgw_node_up) == 1)"),
    ("Nodes silent", "short", "count(max by (node) (llmgw_node_up) == 0) or vector(0)"),
    ("Cores used", "percentunit", f"sum({_CORES_USED}) / sum({_CORES})"),
    (
        "Memory used",
        "percentunit",
        "sum(max by (node) (llmgw_node_memory_used_bytes)) / sum(max by (node) (llmgw_node_memory_bytes))",
    ),
    ("Engines", "short", 'count(max by (node, shard, model) (llmgw_shard_state{state="running"}) == 1)'),
    ("Requests waiting", "short", "sum(max by (node, shard, model) (llmgw_shard_queue_depth))"),
)


def dashboard() -> dict[str, Any]:
    """The dashboard as Grafana imports it: totals of the fleet, then a panel a chart for the nodes that are chosen."""
    width = 24 // len(_TOTALS)
    panels = [
        {
            "id": 1 + number,
            "type": "stat",
            "title": title,
            "datasource": _SOURCE,
            "gridPos": {"h": 4, "w": width, "x": width * number, "y": 0},
            "fieldConfig": {"defaults": {"unit": unit}, "overrides": []},
            "targets": [{"refId": "A", "expr": promql, "instant": True}],
        }
        for number, (title, unit, promql) in enumerate(_TOTALS)
    ]
    panels += [
        _panel(chart, 1 + len(_TOTALS) + number, {"h": 8, "w": 8, "x": 8 * (number % 3), "y": 4 + 8 * (number // 3)})
        for number, chart in enumerate(CHARTS)
    ]
    return {
        "uid": "enginehouse",
        "title": "Enginehouse",
        "tags": ["llm"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {
            "list": [
                {"name": "source", "type": "datasource", "query": "prometheus", "label": "Prometheus"},
                {
                    "name": "node",
                    "type": "query",
                    "label": "Node",
                    "datasource": _SOURCE,
                    "query": {"query": "label_values(llmgw_node_up, node)", "refId": "node"},
                    "refresh": 2,
                    "sort": 1,
                    "multi": True,
                    "includeAll": True,
                    "allValue": ".*",
                    "current": {"text": ["All"], "value": ["$__all"]},
                },
            ]
        },
        "panels": panels,
    }


def _panel(chart: Chart, id: int, place: dict[str, int]) -> dict[str, Any]:
    targets = [
        {"refId": chr(ord("A") + number), "expr": _drawn(chart, family), "legendFormat": _legend(chart)}
        for number, family in enumerate(chart.metrics)
    ]
    overrides = []
    if chart.limit:
        legend = f"{{{{node}}}} {chart.limit_title}"
        targets.append({"refId": "L", "expr": f'max by (node) ({chart.limit}{{node=~"$node"}})', "legendFormat": legend})
        dashed = {"id": "custom.lineStyle", "value": {"fill": "dash", "dash": [8, 8]}}
        overrides.append({"matcher": {"id": "byFrameRefID", "options": "L"}, "properties": [dashed]})
    drawing: dict[str, Any] = {"spanNulls": False, "showPoints": "never"}
    if chart.stacked:
        drawing |= {"stacking": {"mode": "normal"}, "fillOpacity": 40}
    scale: dict[str, Any] = {"unit": _UNITS.get(chart.unit, "short"), "min": 0, "custom": drawing}
    if chart.top is not None:
        scale["max"] = chart.top
    return {
        "id": id,
        "type": "timeseries",
        "title": chart.title,
        "description": chart.unit,
        "datasource": _SOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": scale, "overrides": overrides},
        "options": {"tooltip": {"mode": "multi", "sort": "desc"}},
        "targets": targets,
    }


def _drawn(chart: Chart, family: str) -> str:
    matchers = ",".join(['node=~"$node"', *(f'{label}="{value}"' for label, value in chart.where)])
    if chart.by == "model":  # engines are told apart before those of one model are joined
        return f"{chart.together} by (model) (max by (node, shard, model) ({family}{{{matchers}}}))"
    return f"max by (node{', ' + chart.by if chart.by else ''}) ({family}{{{matchers}}})"


def _legend(chart: Chart) -> str:
    if chart.by == "model":
        return "{{model}}"
    return "{{node}}" + (f" {{{{{chart.by}}}}}" if chart.by else "")


def text() -> str:
    """The file."""
    return json.dumps(dashboard(), indent=1, ensure_ascii=False) + "\n"
