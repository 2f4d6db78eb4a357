"""What the registry knows of one node."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from webapp.fields import Rejection
from webapp.measurement import Measurement
from webapp.nodes import USUAL_INTERVAL_SECONDS
from webapp.transit import Transit


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
    #: Another agent under this name: its identity ("" for none), its address, and when it was refused.
    conflict: tuple[str, str, float] | None = None
    #: The agent that an admin has given the name to.
    heir: str = ""
    #: Runs of the agent that ended: their messages come late.
    past_boots: deque[str] = field(default_factory=lambda: deque(maxlen=16))
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


def generic(path: str) -> str:
    """A path without its indexes, so that the counter stays small.

    >>> generic("engines[3].members[0].pid"), generic("host.labels.rack")
    ('engines.members.pid', 'host.labels')
    """
    if path.startswith("host.labels"):
        return "host.labels"
    return "".join(part.partition("]")[2] if index else part for index, part in enumerate(path.split("[")))
