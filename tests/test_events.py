"""What happened in the last hour: engines that came and went."""

from __future__ import annotations

import pytest

from webapp.measurement import Engine, Measurement
from webapp.overview.events import Events


def reported(*seen: tuple[float, float, int | None]) -> list[str]:
    """Kinds of the events of one engine, oldest first, that was `seen` at these Unix times with that age and pid."""
    events = Events(lambda: seen[-1][0])
    for at, age_s, pid in seen:
        events.add(Measurement("n1", engines=(Engine(id="e", model="m", started_s_ago=age_s, pid=pid),)), at)
    return [event.kind for event in reversed(events.recent())]


@pytest.mark.parametrize(("age_s", "pid"), [(4.0, 8), (4.0, None), (200.0, 8)])
def test_another_process_under_an_engines_id_is_a_stop_and_a_start(age_s, pid):
    before_pid = 7 if pid else None
    kinds = reported((1000.0, 100.0, before_pid), (1010.0 + age_s, age_s, pid))
    assert sorted(kinds[1:]) == ["started", "stopped"]


@pytest.mark.parametrize("step", [3600, 30, -3600])
def test_our_own_clock_that_is_set_right_starts_no_engine_anew(step):
    for pid in (7, None):
        kinds = reported((10_000.0, 100.0, pid), (10_010.0 + step, 110.0, pid))
        assert not {"started", "stopped"} & set(kinds)
