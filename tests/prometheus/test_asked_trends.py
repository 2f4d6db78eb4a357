"""The lines of the last hour from real servers."""

from __future__ import annotations

import pytest

from tests.history_contract import BUSY, ENDED, LATE, Recording
from tests.prometheus.test_copies import at_once
from webapp.overview.asked_trends import AskedTrends
from webapp.overview.trends import STEP_SECONDS, STEPS, Trends
from webapp.prometheus.copies import Copies
from webapp.prometheus.history import PrometheusHistory
from webapp.prometheus.queries import PrometheusServer
from webapp.prometheus.session import access
from webapp.prometheus.shared_history import SharedHistory

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("server", ["prometheus_url", "victoria_url"])
def test_the_lines_are_those_that_heartbeats_draw(server: str, recording: Recording, request: pytest.FixtureRequest) -> None:
    """Steps that were heard in whole differ by a letter at most: scrapes see fewer moments than heartbeats."""
    now = recording.end // STEP_SECONDS * STEP_SECONDS + 1
    heard = Trends()
    for at, measurement in recording.heartbeats:
        heard.add(measurement, at)
    history = PrometheusHistory(PrometheusServer(access(request.getfixturevalue(server))), clock=lambda: now)
    shared = SharedHistory(history, Copies("p", spawn=at_once), clock=lambda: now)
    asked = AskedTrends(shared, Copies("p", spawn=at_once))
    for node in (BUSY, LATE, ENDED):
        reported, own = asked.of(node, now), heard.of(node, now - STEP_SECONDS)
        assert len(reported.cpu) == len(reported.memory) == STEPS
        for ours, theirs in ((own.cpu, reported.cpu), (own.memory, reported.memory)):
            known = [(a, b) for a, b in zip(ours, theirs) if "-" not in (a, b)]
            assert len(known) > 10
            assert max(abs(ord(a) - ord(b)) for a, b in known) <= 2
            assert sum(("-" in (a, b)) and a != b for a, b in zip(ours, theirs)) <= 2
    assert asked.problem(now) == ""
