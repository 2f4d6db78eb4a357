"""What changed in a fleet that doesn't report here, from one look to the next."""

from __future__ import annotations

from dataclasses import replace

import pytest

from webapp.fleet.nodes import Node
from webapp.measurement import Engine, Measurement
from webapp.overview.events import Events
from webapp.overview.looks import Looks

A, B = Engine(id="a", model="m"), Engine(id="b", model="m")


@pytest.fixture
def look(wall):
    """Look at nodes, each by its name, state, seconds of silence and engines; what changed by then, the oldest first."""
    started = wall() - 500
    events = Events(wall)
    looks = Looks(events)

    def look(*seen: tuple[str, str, float, tuple[Engine, ...]]) -> list[str]:
        wall.advance(15)
        looks.look(
            Node(
                name=name,
                measurement=Measurement(
                    name, engines=tuple(replace(one, started_s_ago=wall() - silence - started) for one in engines)
                ),
                state=state,
                heard_s=silence,
                measured_s=silence,
                heard_at=wall() - silence,
                first_heard_at=wall() - silence,
            )
            for name, state, silence, engines in seen
        )
        return [f"{event.node} {event.text}" for event in reversed(events.recent())]

    return look


def test_nothing_is_news_at_the_first_look(look):
    assert look(("n1", "fresh", 5, (A, B))) == []
    assert look(("n1", "fresh", 5, (A, B))) == []


def test_an_engine_that_comes_or_goes_is_told_and_a_node_that_joins(look):
    look(("n1", "fresh", 5, (A,)))
    told = look(("n1", "fresh", 5, (B,)), ("n2", "fresh", 5, (A,)))
    assert sorted(told) == ["n1 a stopped", "n1 b started", "n2 joined"]


def test_a_node_that_falls_silent_is_lost_and_its_engines_did_not_stop(look):
    look(("n1", "fresh", 5, (A,)))
    look(("n1", "late", 40, ()))
    assert look(("n1", "stale", 70, ())) == ["n1 lost"]
    assert look(("n1", "fresh", 5, (A,))) == ["n1 lost", "n1 back"]


def test_what_a_node_runs_that_was_silent_at_the_first_look_did_not_start(look):
    assert look(("n1", "stale", 100, ())) == ["n1 lost"]
    assert look(("n1", "fresh", 5, (A,))) == ["n1 lost", "n1 back"]


def test_a_node_that_is_not_in_sight_any_more_is_forgotten(look):
    look(("n1", "fresh", 5, (A,)))
    look()
    assert look(("n1", "fresh", 5, ())) == ["n1 joined"]
