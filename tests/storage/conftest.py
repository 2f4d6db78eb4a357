"""Stores on real files, with clocks that stand still."""

import pytest

from webapp.storage.store import Store


class Clock:
    """A wall clock and a boot clock that stand still."""

    def __init__(self) -> None:
        self.wall = 1_800_000_000.0
        self.boottime = 5_000.0

    def advance(self, seconds: float) -> None:
        self.wall += seconds
        self.boottime += seconds


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def start(clock, tmp_path):
    """Starts a control plane's store in a directory, as often as a test wants."""
    stores = []

    def start(path=tmp_path / "data" / "fleet.db", boot="boot-1", **more):
        stores.append(
            Store(path, commit_every=None, clock=lambda: clock.wall, boottime=lambda: clock.boottime, boot=boot, **more)
        )
        return stores[-1]

    yield start
    for store in stores:
        store.close()


@pytest.fixture
def store(start):
    return start()
