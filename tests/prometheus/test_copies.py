"""Many viewers, one slow source: bounded threads, bounded waits, the last good copy with its age."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from webapp.history import HistoryUnavailable
from webapp.prometheus.answers import QueryRefused
from webapp.prometheus.copies import Copies, Copy, NotYet, Renewal


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds


class Source:
    """Counts how often it is asked, and says what it is set to."""

    def __init__(self) -> None:
        self.asked = 0
        self.says: Any = "a"
        self.good = True

    def __call__(self, before: str | None) -> Renewal[str]:
        self.asked += 1
        if isinstance(self.says, Exception):
            raise self.says
        return Renewal(self.says, self.good)


def at_once(work: Callable[[], None]) -> None:
    work()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def source() -> Source:
    return Source()


@pytest.fixture
def copies(clock: Clock) -> Copies[str]:
    return Copies("Prometheus at http://p", clock=clock, spawn=at_once)


def stale(value: str) -> bool:
    return False


def test_a_fresh_copy_is_given_without_asking(copies: Copies[str], source: Source, clock: Clock) -> None:
    copies.get("k", stale, source)
    clock.advance(3)
    assert copies.get("k", lambda value: True, source) == Copy("a", 3.0)
    assert source.asked == 1


def test_a_failure_leaves_the_last_good_copy_with_its_age(copies: Copies[str], source: Source, clock: Clock) -> None:
    copies.get("k", stale, source)
    clock.advance(40)
    source.says = HistoryUnavailable("did not answer within 3 s")
    assert copies.get("k", stale, source) == Copy("a", 40.0, "did not answer within 3 s")


def test_without_a_copy_the_reason_is_raised(copies: Copies[str], source: Source) -> None:
    source.says = HistoryUnavailable("did not answer within 3 s")
    with pytest.raises(HistoryUnavailable, match="did not answer within 3 s"):
        copies.get("k", stale, source)


def test_a_source_that_fails_is_left_alone_for_longer_each_time(copies: Copies[str], source: Source, clock: Clock) -> None:
    """T110: no storm, whatever the number of viewers and pages."""
    source.says = HistoryUnavailable("away")
    for second in range(120):
        for key in range(50):
            with pytest.raises(HistoryUnavailable, match="away"):
                copies.get(key, stale, source)
        clock.advance(1)
        assert source.asked <= 4 + second / 15
    source.says = "back"
    clock.advance(15)
    assert copies.get(7, stale, source).value == "back"
    assert copies.get(8, stale, source).value == "back"


def test_a_refused_query_is_reported_and_disturbs_no_other(copies: Copies[str], source: Source, clock: Clock) -> None:
    """T110: 422 is the fault of one query."""
    source.says = QueryRefused("refused the query: parse error")
    for _ in range(10):
        with pytest.raises(QueryRefused, match="parse error"):
            copies.get("bad", stale, source)
    assert source.asked == 1
    source.says = "fine"
    assert copies.get("good", stale, source).value == "fine"
    clock.advance(15)
    assert copies.get("bad", stale, source).value == "fine"


def test_an_incomplete_value_is_shown_and_not_built_upon(copies: Copies[str], clock: Clock) -> None:
    """T104."""
    befores = []

    def renew(before: str | None) -> Renewal[str]:
        befores.append(before)
        return Renewal(f"value {len(befores)}", good=len(befores) != 2)

    for wanted in ("value 1", "value 2", "value 3"):
        assert copies.get("k", stale, renew).value == wanted
        clock.advance(15)
    assert befores == [None, "value 1", "value 1"]


def test_an_error_in_reading_an_answer_is_no_crash(copies: Copies[str], source: Source, caplog: Any) -> None:
    source.says = KeyError("x")
    with pytest.raises(HistoryUnavailable, match="Prometheus at http://p answered with something that could not be used"):
        copies.get("k", stale, source)
    assert "its answer could not be used" in caplog.text


def test_the_least_used_copies_are_dropped(clock: Clock, source: Source) -> None:
    copies: Copies[str] = Copies("p", clock=clock, spawn=at_once, most_kept=3)
    for key in (1, 2, 3, 1, 4):
        copies.get(key, lambda value: True, source)
    assert source.asked == 4
    copies.get(1, lambda value: True, source)
    assert source.asked == 4
    copies.get(2, lambda value: True, source)
    assert source.asked == 5


class Gate:
    """A source that answers when the test lets it."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.lock = threading.Lock()
        self.asked = self.inside = self.most_inside = 0

    def __call__(self, before: str | None) -> Renewal[str]:
        with self.lock:
            self.asked += 1
            self.inside += 1
            self.most_inside = max(self.most_inside, self.inside)
        assert self.open.wait(10)
        with self.lock:
            self.inside -= 1
        return Renewal("answer")


def test_fifty_viewers_ask_once() -> None:
    gate = Gate()
    copies: Copies[str] = Copies("p", patience=10, most_waiting=50)
    with ThreadPoolExecutor(50) as viewers:
        waiting = [viewers.submit(copies.get, "k", stale, gate) for _ in range(50)]
        gate.open.set()
        assert {future.result(10).value for future in waiting} == {"answer"}
    assert gate.asked == 1


def test_a_slow_source_holds_few_threads_and_few_viewers() -> None:
    """T142: whoever is not among the few that wait is answered at once."""
    gate = Gate()
    copies: Copies[str] = Copies("Prometheus at http://p", patience=0.05, most_waiting=2, threads=3)

    def look(page: int) -> str:
        try:
            return copies.get(page, stale, gate).value
        except NotYet as error:
            return str(error)

    with ThreadPoolExecutor(50) as viewers:
        said = list(viewers.map(look, range(50)))
        assert all("has not answered yet" in text for text in said)
        assert gate.most_inside <= 3
        gate.open.set()
    assert gate.most_inside <= 3


def test_a_source_known_to_be_slow_is_not_waited_for() -> None:
    """The first viewer finds out; the others get what there is, and the answer is there when they ask again."""
    gate = Gate()
    copies: Copies[str] = Copies("Prometheus at http://p", patience=0.05)
    with pytest.raises(NotYet):
        copies.get("k", stale, gate)
    copies._patience = 1000.0  # whoever waits now fails the test by its time limit
    with pytest.raises(NotYet, match=r"^Prometheus at http://p was asked \d+ s ago and has not answered yet$"):
        copies.get("k", stale, gate)
    gate.open.set()
