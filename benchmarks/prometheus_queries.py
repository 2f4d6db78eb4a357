"""How often Prometheus is asked while 1 or 50 viewers watch a node page for five minutes, and what an answer costs.

    python benchmarks/prometheus_queries.py

Starts a real Prometheus over an hour of made-up history on loopback; the clock is moved, so that five minutes
pass in seconds. Each viewer asks for all charts of the page every 15 s, at a moment of its own.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.report import Row
from tests.history_contract import BUSY, record
from tests.prometheus.conftest import backfill, scraped
from tests.prometheus.promlab import prometheus
from webapp.charts.figure import figure
from webapp.history import Range
from webapp.metrics import CHARTS, METRICS
from webapp.prometheus.copies import Copies
from webapp.prometheus.history import PrometheusHistory
from webapp.prometheus.queries import PrometheusServer, Result
from webapp.prometheus.session import access
from webapp.prometheus.shared_history import SharedHistory

CHARTED = [metric for metric in METRICS if any(metric.name in chart.families for chart in CHARTS)]


class CountingServer(PrometheusServer):
    """Counts its queries, their points and their time."""

    ranges = instants = points = 0
    seconds = 0.0

    def query(self, promql: str, at: float | None = None) -> Result:
        self.instants += 1
        return super().query(promql, at)

    def query_range(self, promql: str, range: Range) -> Result:
        began = time.perf_counter()
        result = super().query_range(promql, range)
        self.seconds += time.perf_counter() - began
        self.ranges += 1
        self.points += sum(len(series.samples) for series in result.series)
        return result


def watch(url: str, end: float, viewers: int, minutes: int = 5) -> CountingServer:
    now = end - 60 * minutes
    server = CountingServer(access(url))
    history = PrometheusHistory(server, clock=lambda: now)
    shared = SharedHistory(history, Copies(server.name, clock=lambda: now), clock=lambda: now)
    looks = sorted(
        end - 60 * minutes + random.Random(viewer).random() * 15 + 15 * turn
        for viewer in range(viewers)
        for turn in range(4 * minutes)
    )
    for now in looks:
        until = now // 15 * 15
        shared.series(CHARTED, Range(until - 3600, until, 15.0), node=BUSY)
    return server


def run() -> list[Row]:
    """All charts of a node's page from Prometheus: its own time, and ours beside it."""
    end = time.time() // 60 * 60 - 60
    with tempfile.TemporaryDirectory() as directory:
        backfill(scraped(record(end, hours=1.2)), Path(directory))
        with prometheus(Path(directory)) as url:
            server = CountingServer(access(url))
            history = PrometheusHistory(server, clock=lambda: end)
            whole = []
            for _ in range(20):
                began, theirs = time.perf_counter(), server.seconds
                answer = history.series(CHARTED, Range(end - 3600, end, 15.0), node=BUSY)
                for chart in CHARTS:
                    figure(chart, answer)
                whole.append(1e3 * (time.perf_counter() - began - (server.seconds - theirs)))
            queries = server.ranges / 20
            fifty = watch(url, end, 50)
    theirs_ms = 1e3 * server.seconds / server.ranges
    ours = sorted(whole)[len(whole) // 2]
    return [
        Row(
            f"{len(CHARTS)} charts x 1 h from Prometheus",
            f"{ours:.1f} ms beside Prometheus' {theirs_ms:.0f} ms, in {queries:.0f} query",
            "< 30 ms, one query",
            ours < 30 and queries == 1,
        ),
        Row(
            "queries while 50 viewers watch it for 5 min",
            f"{fifty.ranges} of {fifty.points / fifty.ranges:,.0f} points",
            "-",
            peer=f"one a chart and look: {50 * 20 * len(CHARTS):,}",
            ratio=f"{50 * 20 * len(CHARTS) / fifty.ranges:,.0f} x fewer",
        ),
    ]


def main() -> None:
    end = time.time() // 60 * 60 - 60
    with tempfile.TemporaryDirectory() as directory:
        backfill(scraped(record(end, hours=1.2)), Path(directory))
        with prometheus(Path(directory)) as url:
            print(f"one page: {len(CHARTS)} charts, {len(CHARTED)} metrics; 5 minutes, a look every 15 s")
            print(f"{'viewers':>8} {'looks':>6} {'range queries':>14} {'instant':>8} {'points a query':>15} {'ms a query':>11}")
            for viewers in (1, 50):
                server = watch(url, end, viewers)
                each = server.points / server.ranges, 1000 * server.seconds / server.ranges
                print(
                    f"{viewers:>8} {viewers * 20:>6} {server.ranges:>14} {server.instants:>8} {each[0]:>15.0f} {each[1]:>11.1f}"
                )
            whole = CountingServer(access(url))
            history = PrometheusHistory(whole, clock=lambda: end)
            for _ in range(20):
                history.series(CHARTED, Range(end - 3600, end, 15.0), node=BUSY)
            print(f"the whole hour: {whole.points / 20:.0f} points in {1000 * whole.seconds / 20:.1f} ms")


if __name__ == "__main__":
    main()
