"""Why a heartbeat is not taken in: the errors, in words for whoever runs the agents."""

from __future__ import annotations

from webapp.fleet.record import Record


class HeartbeatConflict(Exception):
    """The name belongs to another agent that is alive."""


class HeartbeatForgotten(Exception):
    """The node was forgotten while its heartbeat was under way."""


class FleetFull(Exception):
    """No room for one more node, or for so much of one."""


def forgotten(name: str) -> HeartbeatForgotten:
    return HeartbeatForgotten(f"node {name!r} was forgotten while this heartbeat was under way")


def conflict(known: Record, *, is_twin: bool) -> HeartbeatConflict:
    """`known`: the node whose name another agent uses, with an identity of its own or, a twin, with the same one."""
    place = known.source or "an unknown address"
    if not is_twin:
        return HeartbeatConflict(
            f"node {known.name!r} is reported by agent {known.measurement.agent.id} from {place}; "
            "give one of the two another name"
        )
    return HeartbeatConflict(
        f"node {known.name!r} is reported from {place} too, by an agent with the same "
        "identity; give one of the two another name, and a data directory of its own"
    )
