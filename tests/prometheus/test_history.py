"""PrometheusHistory against real servers."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.history_contract import BUSY, CHARTED, SILENT, HistoryContract, Recording, aligned, rows
from tests.prometheus.conftest import SCRAPE_SECONDS, backfill, scraped
from tests.prometheus.promlab import http_server, prometheus
from webapp.history import History, Range
from webapp.prometheus.history import PrometheusHistory
from webapp.prometheus.queries import PrometheusServer
from webapp.prometheus.session import access

pytestmark = pytest.mark.slow


class TestPrometheus(HistoryContract):
    late = SCRAPE_SECONDS

    @pytest.fixture
    def history(self, prometheus_url: str) -> History:
        return PrometheusHistory(PrometheusServer(access(prometheus_url)))


class TestVictoriaMetrics(HistoryContract):
    late = SCRAPE_SECONDS

    @pytest.fixture
    def history(self, victoria_url: str) -> History:
        return PrometheusHistory(PrometheusServer(access(victoria_url)))


class TestTwoControlPlanes(HistoryContract):
    """Agents send to two, one dies: one line a series, and no gap."""

    late = SCRAPE_SECONDS

    @pytest.fixture
    def history(self, planes_url: str) -> History:
        return PrometheusHistory(PrometheusServer(access(planes_url)))


@pytest.mark.parametrize("scope", [{"node": BUSY}, {"node": SILENT}, {"model": "llama-3.1-8b"}], ids=["busy", "silent", "model"])
def test_a_time_in_which_nobody_listened_is_not_taken_for_a_silence(
    deaf_url: str, recording: Recording, scope: dict[str, str]
) -> None:
    history = PrometheusHistory(PrometheusServer(access(deaf_url)))
    (span,) = history.series(CHARTED, aligned(recording, 15), **scope).unheard
    assert span.start == pytest.approx(recording.start + 1800, abs=46)
    assert span.end == pytest.approx(recording.start + 2100, abs=31)


def test_a_silent_node_is_not_a_time_in_which_nobody_listened(prometheus_url: str, recording: Recording) -> None:
    history = PrometheusHistory(PrometheusServer(access(prometheus_url)))
    assert history.series(CHARTED, aligned(recording, 15), node=SILENT).unheard == ()


def test_the_scrape_interval_is_found_from_the_samples(prometheus_url: str, recording: Recording) -> None:
    history = PrometheusHistory(PrometheusServer(access(prometheus_url)), clock=lambda: recording.end)
    assert history.scrape_interval(recording.end) == SCRAPE_SECONDS


def test_a_slow_scrape_leaves_no_gaps(recording: Recording, tmp_path: Path) -> None:
    """With a scrape a minute, a lookback of 30 s would show every other point as a gap."""
    backfill(scraped(recording, interval=60), tmp_path)
    with prometheus(tmp_path) as url:
        history = PrometheusHistory(PrometheusServer(access(url)), clock=lambda: recording.end)
        (series,) = history.series(rows("llmgw_node_cpus"), aligned(recording, 15), node=BUSY).series
    assert None not in series.values[10:]


def test_the_promql_can_be_copied_and_led_to(prometheus_url: str, recording: Recording) -> None:
    history = PrometheusHistory(PrometheusServer(access(prometheus_url)))
    metric = rows("llmgw_shard_queue_depth")[0]
    promql = history.promql(metric, 15, node='a"b')
    assert promql == 'max by (node, shard, model) (max_over_time(llmgw_shard_queue_depth{node="a\\"b",exported_node=""}[30s]))'
    assert history.promql(rows("llmgw_node_cpus")[0], 15, model="m") is None
    link = history.graph_url(metric, aligned(recording, 15), node="a&b")
    assert link is not None
    assert link.startswith(f"{prometheus_url}/graph?g0.expr=max+by+")
    assert "a%26b" in link


@pytest.fixture
def drawn() -> Iterator[Callable[..., Sequence[float | None]]]:
    """What a chart shows of samples that a server returns."""
    with contextlib.ExitStack() as stack:

        def drawn(grid: Range, *samples: list[Any]) -> Sequence[float | None]:
            item = {"metric": {"row": "0", "node": "n"}, "values": list(samples)}
            body = json.dumps({"status": "success", "data": {"resultType": "matrix", "result": [item]}}).encode()
            url = stack.enter_context(http_server(lambda request, form: (200, {"Content-Type": "application/json"}, body)))
            history = PrometheusHistory(PrometheusServer(access(url)), scrape_interval=15)
            return history.series(rows("llmgw_node_cpus"), grid, node="n").series[0].values

        yield drawn


def test_points_that_begin_a_step_early_are_put_by_their_time(drawn: Any) -> None:
    """T109: VictoriaMetrics rounds the start down."""
    grid = Range(1596513660, 1596513900, 60)
    assert drawn(grid, [1596513600, "0"], [1596513660, "1"], [1596513780, "3"], [1596513960, "6"]) == [1.0, None, 3.0, None, None]


def test_numbers_that_are_none_are_gaps(drawn: Any) -> None:
    """T103: values are texts; NaN, infinities, and points left out are gaps alike."""
    grid = Range(1767225600, 1767225660, 15)
    samples = [[1767225600, "1.5"], [1767225615, "NaN"], [1767225630.781, "+Inf"], [1767225645, "2"], [1767225660, "-Inf"]]
    assert drawn(grid, *samples) == [1.5, None, None, 2.0, None]
