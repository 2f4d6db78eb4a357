"""A node's hour as one file."""

from __future__ import annotations

import re

import plotly.graph_objects as go
import pytest

from tests.answers import HOSTILE, Page
from webapp.app import create_app
from webapp.charts.figure import figure
from webapp.history import HistoryUnavailable
from webapp.history.embedded import EmbeddedHistory
from webapp.history.ranges import recent
from webapp.measurement import Engine, Host
from webapp.metrics import CHARTS
from webapp.views import blocks


@pytest.fixture
def client(registry, store, wall):
    return create_app(registry, EmbeddedHistory(store, clock=wall), wall=wall).test_client()


def fill(store, registry, wall, name):
    known = registry.node(name).measurement
    store.fill((known, wall() - 600 + second) for second in range(0, 600, 10))


def test_the_report_is_one_file_that_asks_for_nothing(client, registry, store, wall, beat):
    beat("cpu-07")
    fill(store, registry, wall, "cpu-07")
    answer = client.get("/reports/cpu-07")
    assert answer.headers["Content-Disposition"] == 'attachment; filename="cpu-07-report.html"'
    page = Page(answer.text)
    assert not [tag for name, tag in page.tags if {"src", "href"} & set(tag)]
    assert answer.text.count("Plotly.newPlot(") >= 6
    assert "default-src 'none'" in page.all("meta")[1]["content"]
    assert "llama-3.1-8b" in page.text


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_stays_text_in_the_report(client, registry, store, wall, beat, name):
    """T118, T134"""
    beat(name, host=Host(labels={name: name}, cpu_model=name), engines=(Engine(id=name, model=name, cpu_cores=1.0),))
    fill(store, registry, wall, name)
    link = next(a["href"] for a in Page(client.get("/").text).all("a") if a["href"].startswith("/nodes/"))
    report = next(a["href"] for a in Page(client.get(link).text).all("a") if a["href"].startswith("/reports/"))
    answer = client.get(report)
    assert answer.status_code == 200
    text = re.sub(r"<script>/\*.*?</script>", "", answer.text, count=1, flags=re.DOTALL)
    page = Page(text)
    assert not {"img", "svg"} & {tag for tag, _ in page.tags}
    assert not [tag for _, tag in page.tags if any(key.startswith("on") for key in tag)]
    assert len(page.all("script")) == text.count("Plotly.newPlot(")


def test_the_report_of_a_node_without_a_history_still_has_its_numbers(registry, beat, wall):
    class Away:
        def series(self, metrics, range, *, node="", model=""):
            raise HistoryUnavailable("Prometheus at http://p:9090 did not answer within 3 s")

    beat("n1")
    answer = create_app(registry, Away(), wall=wall).test_client().get("/reports/n1")
    assert answer.status_code == 200
    assert "did not answer within 3 s" in answer.text
    assert "43 % of 64" in answer.text


def test_the_reports_figures_are_ones_that_plotly_knows(registry, store, wall, beat):
    beat("cpu-07")
    fill(store, registry, wall, "cpu-07")
    answer = EmbeddedHistory(store, clock=wall).series(blocks.metrics_of(CHARTS), recent("15m", wall()), node="cpu-07")
    for chart in CHARTS:
        go.Figure(figure(chart, answer))
