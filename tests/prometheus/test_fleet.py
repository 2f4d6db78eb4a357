"""The fleet from real servers: the metric table read backwards."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.history_contract import BUSY, ENDED, HOSTILE, LATE, SILENT, Recording, record
from tests.prometheus.conftest import import_into_victoria, scraped
from tests.prometheus.promlab import victoria_metrics
from tests.prometheus.test_copies import Clock, at_once
from webapp.history import HistoryUnavailable
from webapp.measurement import Measurement
from webapp.metrics import METRICS
from webapp.prometheus.copies import Copies
from webapp.prometheus.fleet import PrometheusFleet
from webapp.prometheus.history import PrometheusHistory
from webapp.prometheus.queries import PrometheusServer, Result
from webapp.prometheus.session import access
from webapp.prometheus.vocabulary import Heartbeats

pytestmark = pytest.mark.slow


@pytest.fixture(params=["prometheus_url", "victoria_url"])
def url(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue(request.param))


def fleet_of(server: PrometheusServer, clock: Clock, vocabulary: Heartbeats | None = None) -> PrometheusFleet:
    vocabulary = vocabulary or Heartbeats()
    history = PrometheusHistory(server, vocabulary, clock=clock)
    return PrometheusFleet(server, vocabulary, history, Copies(server.name, clock=clock, spawn=at_once), clock=clock)


@pytest.fixture
def clock(recording: Recording) -> Clock:
    clock = Clock()
    clock.now = recording.end - 60
    return clock


@pytest.fixture
def fleet(url: str, clock: Clock) -> PrometheusFleet:
    return fleet_of(PrometheusServer(access(url)), clock)


def reported(measurement: Measurement) -> set[tuple[object, ...]]:
    """What the table says of a measurement; times of starts to the minute, since their second is rounded."""
    return {
        (metric.key, labels, round((value - 1e9) / 60) if metric.ago else round(value, 6))
        for metric in METRICS
        for labels, value in metric.read(measurement, 1e9)
    }


def test_every_node_is_there_with_its_state(fleet: PrometheusFleet) -> None:
    assert {node.name: node.state for node in fleet.nodes()} == {
        BUSY: "fresh",
        SILENT: "fresh",
        HOSTILE: "fresh",
        LATE: "fresh",
        ENDED: "gone",
    }
    assert fleet.notices() == []


def test_a_measurement_comes_back_as_it_was_sent(fleet: PrometheusFleet, recording: Recording, clock: Clock) -> None:
    """Measurement -> exposition -> Prometheus -> Measurement."""
    for name in (BUSY, HOSTILE):
        node = fleet.node(name)
        assert node is not None
        assert node.numbers is not None
        heard_at = pytest.approx(node.heard_at, abs=0.01)
        ((_, sent),) = [
            (at, measurement) for at, measurement in recording.heartbeats if measurement.node == name and at == heard_at
        ]
        assert reported(node.numbers) == reported(sent)
        assert node.rejected == ()
        assert node.heard_s == pytest.approx(clock.now - node.heard_at)
        assert [engine.id for engine in node.numbers.engines] == ["llama-0", "qwen-1"]


def test_a_past_moment_is_rebuilt(fleet: PrometheusFleet, recording: Recording) -> None:
    early = fleet.at(recording.start + 600)
    assert [node.name for node in early.nodes()] == sorted({BUSY, SILENT, HOSTILE, ENDED})
    node = early.node(BUSY)
    assert node is not None
    assert node.state == "fresh"
    assert node.heard_at <= recording.start + 600
    assert node.numbers is not None
    assert [engine.id for engine in node.numbers.engines] == ["llama-0"]
    silent = fleet.at(recording.start + 0.45 * 3600).node(SILENT)
    assert silent is not None
    assert silent.state == "stale"
    assert silent.numbers is None
    assert silent.heard_s == pytest.approx(180, abs=12)


def test_ages_grow_while_the_server_is_away(fleet: PrometheusFleet, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    before = fleet.node(BUSY)

    def away(*arguments: object) -> Result:
        raise HistoryUnavailable("Prometheus at http://p did not answer within 3 s")

    monkeypatch.setattr(fleet._server, "query", away)
    clock.advance(100)
    after = fleet.node(BUSY)
    assert before is not None
    assert after is not None
    assert after.heard_s == before.heard_s + 100
    assert (after.state, after.numbers) == ("stale", None)
    assert fleet.notices() == ["Prometheus at http://p did not answer within 3 s; the nodes are shown as they were 100 s ago."]


def test_without_any_answer_the_fleet_is_empty_and_says_why(clock: Clock) -> None:
    fleet = fleet_of(PrometheusServer(access("http://127.0.0.1:1")), clock)
    assert fleet.nodes() == []
    assert fleet.node(BUSY) is None
    assert fleet.notices() == ["Prometheus at http://127.0.0.1:1 can't be reached: connection refused."]


def test_a_server_without_our_series_says_what_was_asked(url: str, clock: Clock) -> None:
    fleet = fleet_of(PrometheusServer(access(url)), clock, Heartbeats('cluster="none"'))
    assert fleet.nodes() == []
    (notice,) = fleet.notices()
    assert "knows no node" in notice
    assert 'llmgw_node_heartbeat_age_seconds{exported_node="",cluster="none"}' in notice


class Counting(PrometheusServer):
    asked = 0

    def query(self, promql: str, at: float | None = None) -> Result:
        self.asked += 1
        return super().query(promql, at)


def test_a_cluster_page_costs_one_query_in_five_seconds(url: str, clock: Clock) -> None:
    server = Counting(access(url))
    fleet = fleet_of(server, clock)
    fleet.nodes()
    asked = server.asked
    for _ in range(50):
        fleet.nodes()
        fleet.node(BUSY)
        fleet.notices()
    assert server.asked == asked
    clock.advance(6)
    fleet.nodes()
    assert server.asked == asked + 1


def test_a_fleet_from_before_our_clock_was_set_back_is_not_taken_for_new(url: str, clock: Clock) -> None:
    server, wall = Counting(access(url)), Clock()
    wall.now = clock.now
    history = PrometheusHistory(server, Heartbeats(), clock=wall)
    fleet = PrometheusFleet(server, Heartbeats(), history, Copies(server.name, clock=clock, spawn=at_once), clock=wall)
    fleet.nodes()
    asked = server.asked
    clock.advance(60)
    wall.advance(-600)
    fleet.nodes()
    assert server.asked > asked


def test_a_server_that_holds_the_newest_samples_back_makes_no_node_late(tmp_path: Path) -> None:
    """VictoriaMetrics answers with what it knew 30 s ago."""
    recording = record(time.time(), hours=0.1)
    clock = Clock()
    with victoria_metrics(tmp_path) as url:
        import_into_victoria(scraped(recording), url)
        clock.now = time.time()
        node = fleet_of(PrometheusServer(access(url)), clock).node(BUSY)
    assert node is not None
    assert node.heard_s > 29
    assert (node.state, node.numbers is not None) == ("fresh", True)
