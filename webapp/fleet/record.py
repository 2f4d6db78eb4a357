"""What the registry knows of one node."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

from webapp.fields import Rejection
from webapp.fleet.nodes import USUAL_INTERVAL_SECONDS
from webapp.fleet.transit import Transit
from webapp.measurement import Measurement

#: Bytes of all nodes' last heartbeats; what is kept of them takes up to seven times as much memory. A kilobyte of gzip
#: may be a megabyte, and names cost nothing.
LARGEST_FLEET_BYTES = 512 * 1024 * 1024

#: A heartbeat that is no larger finds room if its node is known, whatever others sent.
USUAL_BYTES = 16 * 1024


class Rival(NamedTuple):
    """Another agent that reported under a node's name and was refused, last at `refused` on the registry's clock."""

    agent_id: str  # "" if it has none
    source: str
    refused: float


class Echo(NamedTuple):
    """The first message of a run that was taken for ended, and when it arrived, on the registry's clock."""

    boot: str
    sequence: int
    arrived: float


@dataclass
class Record:
    """One node; `heard` and `measured` are on the registry's clock, `heard_at` and `first_heard_at` are Unix times."""

    name: str
    measurement: Measurement
    heard: float
    measured: float
    heard_at: float
    first_heard_at: float
    source: str
    rejected: tuple[Rejection, ...]
    clock_offset_s: float | None
    #: Bytes of the heartbeat that it was made of.
    size: int = 0
    #: What `Listening` had missed when it was heard.
    missed: float = 0.0
    rival: Rival | None = None
    #: The agent that an admin has given the name to.
    heir: str = ""
    #: Runs of the agent that ended: their messages come late.
    past_boots: deque[str] = field(default_factory=lambda: deque(maxlen=16))
    echo: Echo | None = None
    transit: Transit = field(default_factory=Transit)
    #: The agent's, in seconds; kept here, where each look at the fleet finds it.
    interval: float = field(init=False)

    def __post_init__(self) -> None:
        self.interval = self.measurement.agent.interval_s or USUAL_INTERVAL_SECONDS


class Records(dict[str, Record]):
    """Records by name, put in and taken out one by one; `bytes` are those of all their heartbeats."""

    def __init__(self, most_bytes: int = LARGEST_FLEET_BYTES) -> None:
        super().__init__()
        self.bytes = 0
        self._most_bytes = most_bytes

    def lack_room(self, name: str, size: int) -> bool:
        """Whether a heartbeat of so many bytes, from the node of that name, is too much."""
        known = self.get(name)
        before = known.size if known else 0
        is_usual = known is not None and size <= max(USUAL_BYTES, before)
        return self.bytes + size - before > self._most_bytes and not is_usual

    def __setitem__(self, name: str, record: Record) -> None:
        known = self.get(name)
        self.bytes += record.size - (known.size if known else 0)
        super().__setitem__(name, record)

    def __delitem__(self, name: str) -> None:
        self.bytes -= self[name].size
        super().__delitem__(name)

    def discard(self, name: str) -> bool:
        """Take a record out; False if there was none."""
        is_there = name in self
        if is_there:
            del self[name]
        return is_there


def generic(path: str) -> str:
    """A path without its indexes, so that the counter stays small.

    >>> generic("engines[3].members[0].pid"), generic("host.labels.rack")
    ('engines.members.pid', 'host.labels')
    """
    if path.startswith("host.labels"):
        return "host.labels"
    return "".join(part.partition("]")[2] if index else part for index, part in enumerate(path.split("[")))
