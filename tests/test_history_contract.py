"""The embedded history keeps the contract that Prometheus keeps too."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.history_contract import HistoryContract, Recording, record
from webapp.history import History
from webapp.history.embedded import EmbeddedHistory
from webapp.storage.store import Store

END = 1_800_003_600.0


class TestEmbeddedHistory(HistoryContract):
    @pytest.fixture
    def recording(self) -> Recording:
        return record(END)

    @pytest.fixture
    def history(self, recording: Recording) -> Iterator[History]:
        store = Store(None, commit_every=None, clock=lambda: END, boottime=lambda: 0.0)
        for at, measurement in recording.heartbeats:
            store.record(measurement, at)
        store.commit()
        yield EmbeddedHistory(store, clock=lambda: END)
        store.close()
