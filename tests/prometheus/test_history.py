"""PrometheusHistory against real servers."""

from __future__ import annotations

import pytest

from tests.history_contract import HistoryContract
from tests.prometheus.conftest import SCRAPE_SECONDS
from webapp.history import History
from webapp.promapi import PrometheusServer
from webapp.prometheus import PrometheusHistory
from webapp.promhttp import access


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
