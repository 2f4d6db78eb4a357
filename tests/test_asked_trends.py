"""The lines of the cluster page where the fleet comes from a Prometheus."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from webapp.app import create_app
from webapp.history import Answer, HistoryUnavailable, Series
from webapp.metrics import families
from webapp.overview.asked_trends import AskedTrends
from webapp.overview.trends import CPU, STEP_SECONDS, STEPS, TOTAL, USED, Trend, Trends
from webapp.prometheus.copies import Copies

NOW = 1_800_000_000.0


class Source:
    """A history of two nodes that counts how often it is asked, and may refuse."""

    def __init__(self) -> None:
        self.asked = []
        self.failure: HistoryUnavailable | None = None

    def series(self, metrics, range, *, node="", model=""):
        self.asked.append((range, node))
        if self.failure:
            raise self.failure
        rows = families()
        lines = {CPU: 50.0, USED: 30.0, TOTAL: 120.0}
        half = [None] * (STEPS // 2)
        series = [
            Series(rows[name][0], (("node", node),), values)
            for name, value in lines.items()
            for node, values in (("a", [value] * STEPS), ("b", half + [value] * (STEPS - len(half))))
        ]
        return Answer(range, tuple(series), range.end)


class Later:
    """Work that is done when the test says so."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[], None]] = []

    def __call__(self, work: Callable[[], None]) -> None:
        self.waiting.append(work)

    def do(self) -> None:
        while self.waiting:
            self.waiting.pop()()


@pytest.fixture
def source() -> Source:
    return Source()


@pytest.fixture
def later() -> Later:
    return Later()


@pytest.fixture
def trends(source, later, clock) -> AskedTrends:
    return AskedTrends(source, Copies("p", patience=0.0, threads=1, clock=clock, spawn=later))


def test_nobody_waits_and_all_nodes_come_with_one_question(trends, source, later):
    assert trends.of("a", NOW) == trends.of("b", NOW) == Trend("", "")
    assert trends.problem(NOW) == ""
    later.do()
    assert trends.of("a", NOW) == Trend("m" * STEPS, "g" * STEPS)
    assert trends.of("b", NOW) == Trend("-" * 15 + "m" * 15, "-" * 15 + "g" * 15)
    assert trends.of("c", NOW) == Trend("", "")
    ((range, node),) = source.asked
    assert (range.end, range.step, len(range.times), node) == (NOW, STEP_SECONDS, STEPS, "")


def test_it_is_asked_again_when_a_step_has_passed(trends, source, later):
    trends.of("a", NOW)
    later.do()
    trends.of("a", NOW + STEP_SECONDS - 1)
    assert not later.waiting
    assert trends.of("a", NOW + STEP_SECONDS).cpu == "m" * (STEPS - 1) + "-"
    later.do()
    assert trends.of("a", NOW + STEP_SECONDS).cpu == "m" * STEPS
    assert len(source.asked) == 2


def test_lines_end_where_the_answers_ended_and_the_page_says_why(trends, source, later, clock):
    trends.of("a", NOW)
    later.do()
    source.failure = HistoryUnavailable("Prometheus at http://p did not answer within 3 s")
    trends.of("a", NOW + 3 * STEP_SECONDS)
    later.do()
    clock.advance(3 * STEP_SECONDS)
    assert trends.of("a", NOW + 3 * STEP_SECONDS).cpu == "m" * (STEPS - 3) + "---"
    assert "did not answer within 3 s" in trends.problem(NOW + 3 * STEP_SECONDS)


def test_where_nothing_was_ever_answered_the_page_says_why(registry, history, beat, trends, source, later):
    source.failure = HistoryUnavailable("Prometheus at http://p refused the query")
    beat("a")
    client = create_app(registry, history, trends=trends, wall=lambda: NOW).test_client()
    assert "of the last hour" not in client.get("/").text
    later.do()
    assert (
        "The lines of the last hour are missing or end early: Prometheus at http://p refused the query." in client.get("/").text
    )


def test_lines_that_come_with_heartbeats_have_no_such_problem():
    assert Trends().problem(NOW) == ""
