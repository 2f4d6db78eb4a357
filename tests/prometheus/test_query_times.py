"""How long Prometheus takes is exported on our own /metrics."""

from __future__ import annotations

import socket

import pytest

from webapp.history import HistoryUnavailable
from webapp.prometheus.queries import PrometheusServer
from webapp.prometheus.session import access
from webapp.telemetry import Telemetry


def count(telemetry: Telemetry, kind: str) -> str:
    name = f'enginehouse_prometheus_query_duration_seconds_count{{kind="{kind}"}} '
    return next((line.removeprefix(name) for line in telemetry.queries.text(False).splitlines() if line.startswith(name)), "0")


def test_each_query_is_timed_by_its_kind(prometheus_url):
    server, telemetry = PrometheusServer(access(prometheus_url, timeout=5.0)), Telemetry()
    server.observe = telemetry.queries.observe
    server.query("vector(1)")
    server.query("vector(2)")
    assert (count(telemetry, "instant"), count(telemetry, "range")) == ("2", "0")


def test_a_query_without_an_answer_is_timed_too():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        server, telemetry = PrometheusServer(access(f"http://127.0.0.1:{unused.getsockname()[1]}", timeout=1.0)), Telemetry()
    server.observe = telemetry.queries.observe
    with pytest.raises(HistoryUnavailable):
        server.query("vector(1)")
    assert count(telemetry, "instant") == "1"
