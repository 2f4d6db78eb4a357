"""The Grafana dashboard asks for metrics that exist, in PromQL that Prometheus answers. Grafana itself is not run."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import requests

from tests.history_contract import Recording
from webapp.metrics import CHARTS, HEARTBEAT_AGE, UP, families

DASHBOARD = json.loads((Path(__file__).parents[2] / "deploy" / "grafana" / "enginehouse.json").read_text("utf-8"))
QUERIES = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]
KNOWN = {*families(), UP.name, HEARTBEAT_AGE.name}


def test_every_chart_has_a_panel_of_its_own():
    drawn = [panel for panel in DASHBOARD["panels"] if panel["type"] == "timeseries"]
    assert [panel["title"] for panel in drawn] == [chart.title for chart in CHARTS]
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])


def test_no_panel_lies_on_another_or_beyond_the_edge():
    taken = [
        (x, y)
        for place in (panel["gridPos"] for panel in DASHBOARD["panels"])
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(set(taken)) == len(taken)
    assert max(x for x, _ in taken) < 24


@pytest.mark.parametrize("query", QUERIES)
def test_a_panel_asks_for_metrics_of_the_table(query: str):
    named = set(re.findall(r"\bllmgw_\w+", query))
    assert named
    assert named <= KNOWN


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.slow
def test_prometheus_answers(query: str, prometheus_url: str, samples: dict[str, list[str]], recording: Recording):
    asked = {"query": query.replace("$node", ".*"), "time": recording.end - 30}
    answer = requests.post(f"{prometheus_url}/api/v1/query", data=asked, timeout=30).json()
    assert answer["status"] == "success", answer
    recorded = set(re.findall(r"\bllmgw_\w+", query)) <= set(samples)
    assert answer["data"]["result"] or not recorded
