"""What becomes of a heartbeat, by what is known of its node. Changes nothing: the registry acts on it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from webapp.fleet.record import Echo, Record
from webapp.measurement import FRESH_FOR_SECONDS, Measurement

#: Messages that came late come within this time of each other.
LATEST_TOGETHER_SECONDS = 5.0

#: "replayed": seen before, or late. "forgotten": its node was, while it was under way. "taken": the name belongs to another
#: agent that is alive. "twin": two machines have one identity, as copies of one disk do.
Verdict = Literal["accepted", "replayed", "forgotten", "taken", "twin"]


def judge(
    measurement: Measurement,
    arrived: float,
    known: Record | None,
    forgotten: float | None,
    silence: Callable[[Record, float], float],
) -> Verdict:
    """`known`: its node; `forgotten`: when that was; `silence`: for how many seconds a node was not heard at a moment.

    All times are on the registry's clock.
    """
    if forgotten is not None and forgotten >= arrived:
        return "forgotten"
    if known is None:
        return "accepted"
    is_same_agent = measurement.agent.id == known.measurement.agent.id
    if not is_same_agent and not _is_heir(known, measurement) and silence(known, arrived) <= FRESH_FOR_SECONDS:
        return "taken"
    if known.echo is not None and _is_twin(known, known.echo, measurement, arrived):
        return "twin"
    return "replayed" if _is_replay(known, measurement) else "accepted"


def echo(known: Record, measurement: Measurement, arrived: float) -> Echo | None:
    """What to remember of the run that a message that was replayed belongs to, to tell whether it goes on."""
    boot, sequence = measurement.agent.boot, measurement.agent.sequence
    if not boot or sequence is None or boot not in known.past_boots or (known.echo and known.echo.boot == boot):
        return known.echo
    return Echo(boot, sequence, arrived)


def _is_heir(known: Record, measurement: Measurement) -> bool:
    """Whether an admin has given the name to its agent."""
    return bool(measurement.agent.id) and measurement.agent.id == known.heir


def _is_twin(known: Record, first: Echo, measurement: Measurement, arrived: float) -> bool:
    """Whether a run that was taken for ended goes on. A single message of it, or a heap of them at once, only came late."""
    boot, sequence = measurement.agent.boot, measurement.agent.sequence
    if sequence is None or first.boot != boot or boot not in known.past_boots:
        return False
    return sequence > first.sequence and arrived - first.arrived >= LATEST_TOGETHER_SECONDS


def _is_replay(known: Record, measurement: Measurement) -> bool:
    """Whether a message was seen before, or belongs to a run of the agent that has ended."""
    boot, sequence = measurement.agent.boot, measurement.agent.sequence
    if boot is None or sequence is None:
        return False
    if boot == known.measurement.agent.boot:
        return sequence <= (known.measurement.agent.sequence or 0)
    return boot in known.past_boots
