"""Why a part of a chart is empty."""

from __future__ import annotations

import pytest

from tests.history_contract import BUSY, ENDED, LATE, SILENT, Recording, aligned, rows
from webapp.history.extent import extent
from webapp.prometheus.history import PrometheusHistory
from webapp.prometheus.queries import PrometheusServer
from webapp.prometheus.session import access

pytestmark = pytest.mark.slow

CPU = rows("llmgw_node_cpu_utilization_percent")


@pytest.mark.parametrize(
    ("node", "begins", "ends"),
    [(BUSY, "", ""), (SILENT, "", ""), (LATE, "nothing before ", ""), (ENDED, "", "ended "), ("x", "no such", "")],
)
def test_each_emptiness_has_its_words(prometheus_url: str, recording: Recording, node: str, begins: str, ends: str) -> None:
    history = PrometheusHistory(PrometheusServer(access(prometheus_url)))
    answer = history.series(CPU, aligned(recording, 15), node=node)
    said = extent(answer, [CPU[0].name])
    assert said.startswith(begins)
    assert ends in said
    assert bool(said) == bool(begins or ends)
