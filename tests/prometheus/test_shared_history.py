"""One answer for all viewers, continued by its missing tail."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from tests.history_contract import rows
from tests.prometheus.test_copies import Clock, at_once
from webapp.history import Answer, HistoryUnavailable, Range, Series, Span
from webapp.metrics import Metric
from webapp.prometheus.copies import Copies
from webapp.prometheus.shared_history import SharedHistory

CPU, MEMORY = rows("llmgw_node_cpu_utilization_percent", "llmgw_node_memory_used_bytes")


class Truth:
    """A history of which each value is its time; keeps what it was asked for."""

    name = "Prometheus at http://p"

    def __init__(self) -> None:
        self.asked: list[Range] = []
        self.value: Callable[[float], float | None] = lambda time: time
        self.warnings: tuple[str, ...] = ()
        self.failure: HistoryUnavailable | None = None
        self.unheard: list[Span] = []

    def series(self, metrics: Sequence[Metric], range: Range, *, node: str = "", model: str = "") -> Answer:
        self.asked.append(range)
        if self.failure:
            raise self.failure
        lines = [Series(metric, (("node", node),), [self.value(time) for time in range.times]) for metric in metrics]
        known = tuple(line for line in lines if any(value is not None for value in line.values))
        spans = tuple(span for span in self.unheard if span.start >= range.start and span.end <= range.end)
        return Answer(range, known, range.end, self.warnings, spans)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def truth() -> Truth:
    return Truth()


@pytest.fixture
def shared(truth: Truth, clock: Clock) -> SharedHistory:
    return SharedHistory(truth, Copies(truth.name, clock=clock, spawn=at_once), clock=clock)


def hour(clock: Clock, step: float = 15.0) -> Range:
    end = clock.now // step * step
    return Range(end - 3600, end, step)


def test_viewers_within_one_step_share_one_query(shared: SharedHistory, truth: Truth, clock: Clock) -> None:
    answers = [shared.series([CPU], hour(clock), node="a") for _ in range(50)]
    assert len(truth.asked) == 1
    assert all(answer is answers[0] for answer in answers)


def test_when_our_clock_is_set_back_the_answer_is_not_that_of_the_future(truth: Truth, clock: Clock) -> None:
    wall = Clock()
    shared = SharedHistory(truth, Copies(truth.name, clock=clock, spawn=at_once), clock=wall)
    shared.series([CPU], hour(wall), node="a")
    wall.advance(-1800)
    clock.advance(60)
    answer = shared.series([CPU], hour(wall), node="a")
    assert (answer.range, list(answer.series[0].values)) == (hour(wall), hour(wall).times)


def test_a_refresh_asks_for_the_missing_tail_alone(shared: SharedHistory, truth: Truth, clock: Clock) -> None:
    for _ in range(40):
        answer = shared.series([CPU, MEMORY], hour(clock), node="a")
        assert answer.range == hour(clock)
        for series in answer.series:
            assert list(series.values) == answer.range.times
        clock.advance(15)
    assert len(truth.asked[0].times) == 241
    assert {len(asked.times) for asked in truth.asked[1:]} == {8}


def test_what_began_and_what_ended_keeps_its_place(shared: SharedHistory, truth: Truth, clock: Clock) -> None:
    began = clock.now + 40
    truth.value = lambda time: time if time > began else None
    for _ in range(20):
        ended = shared.series([CPU], hour(clock), node="a").range.end - 90
        clock.advance(15)
    truth.value = lambda time: time if began < time < ended else None
    clock.advance(500)
    answer = shared.series([CPU], hour(clock), node="a")
    assert len(truth.asked[-1].times) < 60
    assert [list(series.values) for series in answer.series] == [[truth.value(time) for time in answer.range.times]]


def test_late_samples_are_taken_in(shared: SharedHistory, truth: Truth, clock: Clock) -> None:
    hidden = clock.now - 60
    truth.value = lambda time: time if time < hidden else None
    shared.series([CPU], hour(clock), node="a")
    truth.value = lambda time: time
    clock.advance(15)
    (series,) = shared.series([CPU], hour(clock), node="a").series
    assert None not in series.values


def test_all_is_asked_again_now_and_then(shared: SharedHistory, truth: Truth, clock: Clock) -> None:
    for _ in range(130):
        shared.series([CPU], hour(clock), node="a")
        clock.advance(15)
    assert [len(asked.times) for asked in truth.asked].count(241) == 3


def test_an_old_copy_says_its_age_and_why(shared: SharedHistory, truth: Truth, clock: Clock) -> None:
    first = shared.series([CPU], hour(clock), node="a")
    truth.failure = HistoryUnavailable("Prometheus at http://p did not answer within 3 s")
    clock.advance(40)
    answer = shared.series([CPU], hour(clock), node="a")
    assert answer.warnings == ("Prometheus at http://p did not answer within 3 s; this is from 40 s ago",)
    assert (answer.range, answer.series, answer.as_of) == (first.range, first.series, first.as_of)
    truth.failure = None
    clock.advance(40)
    assert shared.series([CPU], hour(clock), node="a").warnings == ()
    assert len(truth.asked[-1].times) < 20


def test_a_partial_answer_is_shown_and_not_continued(shared: SharedHistory, truth: Truth, clock: Clock) -> None:
    """T104."""
    truth.warnings = ("store X unavailable",)
    truth.value = lambda time: None
    assert shared.series([CPU], hour(clock), node="a").warnings == ("store X unavailable",)
    truth.warnings, truth.value = (), lambda time: time
    clock.advance(15)
    (series,) = shared.series([CPU], hour(clock), node="a").series
    assert None not in series.values


def test_a_time_in_which_nobody_listened_outlives_the_refreshes(shared: SharedHistory, truth: Truth, clock: Clock) -> None:
    start = clock.now // 15 * 15
    shared.series([CPU], hour(clock), node="a")
    clock.advance(600)
    truth.value = lambda time: None if start < time < start + 570 else time
    truth.unheard = [Span(start, start + 570, "away")]
    for _ in range(10):
        answer = shared.series([CPU], hour(clock), node="a")
        assert answer.unheard == (Span(start, start + 570, "away"),)
        clock.advance(15)
    clock.advance(4000)
    assert shared.series([CPU], hour(clock), node="a").unheard == ()


def test_a_past_moment_is_kept_apart_from_now(shared: SharedHistory, truth: Truth, clock: Clock) -> None:
    past = Range(clock.now // 15 * 15 - 90_000, clock.now // 15 * 15 - 86_400, 15.0)
    for _ in range(5):
        assert shared.series([CPU], past, node="a").range == past
        assert shared.series([CPU], hour(clock), node="a").range == hour(clock)
        clock.advance(15)
    assert truth.asked.count(past) == 1


def test_a_long_range_is_asked_on_a_coarser_grid(shared: SharedHistory, truth: Truth, clock: Clock) -> None:
    """T101: seven days at 10 s would be 60,481 points."""
    answer = shared.series([CPU], Range(-604_800, 0, 10.0), node="a")
    assert truth.asked == [answer.range]
    assert answer.range.step == 3600
    assert len(answer.range.times) <= 250
