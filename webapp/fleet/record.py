"""What the registry knows of one node."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

from webapp.fields import Rejection
from webapp.fleet.nodes import USUAL_INTERVAL_SECONDS
from webapp.fleet.transit import Transit
from webapp.measurement import Measurement

#: Messages that came late come within this time of each other.
LATEST_TOGETHER_SECONDS = 5.0


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


def is_replay(known: Record, measurement: Measurement) -> bool:
    """Whether a message was seen before, or belongs to a run of the agent that has ended."""
    boot, sequence = measurement.agent.boot, measurement.agent.sequence
    if boot is None or sequence is None:
        return False
    if boot == known.measurement.agent.boot:
        return sequence <= (known.measurement.agent.sequence or 0)
    return boot in known.past_boots


def is_twin(known: Record, measurement: Measurement, arrived: float) -> bool:
    """Whether a run that was taken for ended goes on: two machines have one identity, as copies of one disk do.

    A single message of it, or a heap of them at once, only came late.
    """
    boot, sequence = measurement.agent.boot, measurement.agent.sequence
    if not boot or sequence is None or boot not in known.past_boots:
        return False
    if known.echo is None or known.echo.boot != boot:
        known.echo = Echo(boot, sequence, arrived)
    return sequence > known.echo.sequence and arrived - known.echo.arrived >= LATEST_TOGETHER_SECONDS


def generic(path: str) -> str:
    """A path without its indexes, so that the counter stays small.

    >>> generic("engines[3].members[0].pid"), generic("host.labels.rack")
    ('engines.members.pid', 'host.labels')
    """
    if path.startswith("host.labels"):
        return "host.labels"
    return "".join(part.partition("]")[2] if index else part for index, part in enumerate(path.split("[")))
