"""What is made once for many: who gets which, who waits, and for how long."""

from __future__ import annotations

import threading

import pytest
from flask import Flask, request

from tests.programs import eventually
from webapp.history import HistoryUnavailable
from webapp.views.compression import Body
from webapp.views.rows import Kept
from webapp.views.sharing import Made, Shared, share_seconds


def test_fifty_viewers_get_one_rendering():
    shared: Shared[Body, Kept] = Shared()
    begun = threading.Barrier(50)
    made: list[int] = []

    def make(kept):
        made.append(len(made))
        return Made(Body.of(f"rendering {len(made)}"), 3600.0, {})

    def view() -> None:
        begun.wait()
        assert shared.get("key", make).plain == b"rendering 1"

    viewers = [threading.Thread(target=view) for _ in range(50)]
    for viewer in viewers:
        viewer.start()
    for viewer in viewers:
        viewer.join()
    assert made == [0]


def test_what_is_shared_ends_with_its_time_and_belongs_to_its_key(clock):
    shared: Shared[Body, list[int]] = Shared(most=2, clock=clock)

    def make(memory):
        memory = [*(memory or []), 1]
        return Made(Body.of(str(len(memory))), share_seconds(500), memory)

    assert shared.get("a", make).plain == b"1"
    clock.advance(0.4)
    assert shared.get("a", make).plain == b"1"
    clock.advance(0.2)
    assert shared.get("a", make).plain == b"2"  # with what the first one left
    assert shared.get("b", make).plain == b"1"
    shared.get("c", make)
    assert shared.get("a", make).plain == b"1"  # forgotten: there was room for two


def _renewed_elsewhere(shared: Shared[str, None], clock, meanwhile) -> str:
    """Does `meanwhile` while what was shared as "old" is made anew for another thread; what that thread got."""
    shared.get("key", lambda nothing: Made("old", 1.0, None))
    clock.advance(1.5)
    begun, may_end = threading.Event(), threading.Event()

    def make(nothing):
        begun.set()
        assert may_end.wait(30)
        return Made("new", 1.0, None)

    found: list[str] = []
    other = threading.Thread(target=lambda: found.append(shared.get("key", make)))
    other.start()
    assert begun.wait(30)
    try:
        meanwhile()
    finally:
        may_end.set()
        other.join()
    return found[0]


def test_who_asks_while_it_is_made_anew_gets_the_one_before(clock):
    shared: Shared[str, None] = Shared(clock=clock, patience_s=30)

    def meanwhile():
        assert shared.get("key", lambda nothing: pytest.fail("it is being made")) == "old"

    assert _renewed_elsewhere(shared, clock, meanwhile) == "new"
    assert shared.get("key", lambda nothing: pytest.fail("it was made")) == "new"


def test_who_has_it_made_anew_waits_a_moment_only(clock):
    shared: Shared[str, None] = Shared(clock=clock, patience_s=0.01)
    may_end = threading.Event()

    def make(nothing):
        assert may_end.wait(30)
        return Made("new", 1.0, None)

    shared.get("key", lambda nothing: Made("old", 1.0, None))
    clock.advance(1.5)
    assert shared.get("key", make) == "old"
    may_end.set()
    eventually(lambda: shared.get("key", lambda nothing: pytest.fail("it was made")) == "new", "the new one")


def test_one_thing_is_made_at_a_time_and_nobody_waits_long_for_that(clock):
    shared: Shared[str, None] = Shared(clock=clock, patience_s=30)
    other: Shared[str, None] = Shared(clock=clock, patience_s=0.01)
    other.get("other", lambda nothing: Made("old", 2.0, None))
    clock.advance(1.0)

    def meanwhile():
        clock.advance(0.4)
        assert other.get("other", lambda nothing: Made("new", 1.0, None)) == "old"

    assert _renewed_elsewhere(shared, clock, meanwhile) == "new"
    eventually(lambda: other.get("other", lambda nothing: pytest.fail("it was made")) == "new", "its turn")


def test_what_is_made_anew_knows_the_request_that_it_is_made_for(clock):
    shared: Shared[str, None] = Shared(clock=clock, patience_s=30)
    app = Flask(__name__)
    for path in ("/first", "/second"):
        with app.test_request_context(path):
            assert shared.get("key", lambda nothing: Made(request.path, 1.0, None)) == path
        clock.advance(1.5)


def test_what_fails_to_be_made_anew_fails_for_who_waits_and_is_tried_again(clock):
    shared: Shared[str, None] = Shared(clock=clock, patience_s=30)
    shared.get("key", lambda nothing: Made("old", 1.0, None))
    clock.advance(1.5)

    def fail(nothing):
        raise HistoryUnavailable("Prometheus is away")

    with pytest.raises(HistoryUnavailable):
        shared.get("key", fail)
    assert shared.get("key", lambda nothing: Made("new", 1.0, None)) == "new"


def test_nobody_gets_one_that_is_older_than_twice_its_time(clock):
    shared: Shared[str, None] = Shared(clock=clock)
    got: list[str] = []
    waiting = threading.Thread(target=lambda: got.append(shared.get("key", lambda nothing: pytest.fail("it is being made"))))

    def meanwhile():
        clock.advance(0.6)
        waiting.start()

    assert _renewed_elsewhere(shared, clock, meanwhile) == "new"
    waiting.join()
    assert got == ["new"]
