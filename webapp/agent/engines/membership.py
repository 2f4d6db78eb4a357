"""Which processes belong to which engine.

An engine that has a cgroup of its own owns what is in it. Otherwise a process belongs to, in this order:

1. the nearest leader among itself and its ancestors;
2. the engine that it belonged to in the pass before: a worker stays one when its parents die;
3. the engine whose leader led its process group, then its session. Only groups and sessions that the leader itself
   leads: an engine started by a script or a shell shares theirs with strangers;
4. the engine in whose process group it is an orphan: its parent is outside of the group.

A process is told by pid and start time. The kernel does not give a pid away while a group or session still bears
it, so a stranger under the leader's pid proves that the leader's group is gone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from webapp.agent.engines.pidstat import Stat


class Claim(NamedTuple):
    """What one engine claims: its leader, as it was when last seen, and the processes of its own cgroup."""

    id: str
    pid: int
    #: Start time of the leader; None if it was gone before it was ever seen.
    start: int | None
    #: The leader's process group and session when it was last seen.
    pgrp: int
    session: int
    cgroup: frozenset[int] | None = None


class Membership:
    """Assigns processes to engines, pass after pass."""

    def __init__(self, own_pid: int) -> None:
        """`own_pid`: the agent, which is part of no engine."""
        self._own_pid = own_pid
        #: Process -> the claim that it was assigned to.
        self._before: dict[tuple[int, int], Claim] = {}

    def assign(self, processes: Mapping[int, Stat], claims: Collection[Claim]) -> dict[str, list[Stat]]:
        """Members by engine, each engine there, processes by pid."""
        members: dict[str, list[Stat]] = {claim.id: [] for claim in claims}
        if not claims:
            self._before = {}
            return members
        owners = _by_cgroup(processes, claims)
        leaders = {claim.pid: claim.id for claim in claims if _leads(claim, processes)}
        nearest: dict[int, str | None] = {0: None, self._own_pid: None, **leaders}
        groups, sessions, shared = _led(claims, processes)
        by_id = {claim.id: claim for claim in claims}
        by_leader = {(claim.pid, claim.start): claim.id for claim in claims}
        after: dict[tuple[int, int], Claim] = {}
        for pid, stat in processes.items():
            if pid == self._own_pid:
                continue
            owner = owners.get(pid) or _nearest(pid, processes, nearest)
            if owner is None:
                before = self._before.get((pid, stat.start))
                if before:  # the id may have passed on to a new leader, beside what is left of the old one
                    owner = by_leader.get((before.pid, before.start)) or before.id
                else:
                    owner = groups.get(stat.pgrp) or sessions.get(stat.session)
                if owner is None and stat.pgrp in shared:
                    parent = processes.get(stat.ppid)
                    if (parent is None or parent.pgrp != stat.pgrp) and pid not in shared[stat.pgrp][1]:
                        owner = shared[stat.pgrp][0]
                if owner not in members:
                    continue
            members[owner].append(stat)
            after[pid, stat.start] = by_id[owner]
        self._before = after
        for stats in members.values():
            stats.sort()
        return members


def _leads(claim: Claim, processes: Mapping[int, Stat]) -> bool:
    stat = processes.get(claim.pid)
    return stat is not None and stat.start == claim.start


def _by_cgroup(processes: Mapping[int, Stat], claims: Iterable[Claim]) -> dict[int, str]:
    return {pid: claim.id for claim in claims if claim.cgroup for pid in claim.cgroup if pid in processes}


def _nearest(pid: int, processes: Mapping[int, Stat], nearest: dict[int, str | None]) -> str | None:
    """The engine whose leader is the closest ancestor; remembers the answer for the whole way up."""
    way = []
    while pid not in nearest:
        way.append(pid)
        nearest[pid] = None  # ends a circle, which only a broken /proc can hold
        stat = processes.get(pid)
        if stat is None:
            break
        pid = stat.ppid
    owner = nearest[pid]
    for passed in way:
        nearest[passed] = owner
    return owner


def _led(
    claims: Iterable[Claim], processes: Mapping[int, Stat]
) -> tuple[dict[int, str], dict[int, str], dict[int, tuple[str, set[int]]]]:
    """Engines by process group and by session that their leaders lead; and by group of somebody else's, with the
    ancestors of the leader, which are no orphans."""
    groups: dict[int, str] = {}
    sessions: dict[int, str] = {}
    shared: dict[int, tuple[str, set[int]]] = {}
    for claim in claims:
        stat = processes.get(claim.pid)
        if stat is not None and stat.start != claim.start:
            continue
        if claim.pgrp == claim.pid:
            groups[claim.pgrp] = claim.id
        elif claim.pgrp > 1 and stat is not None:
            shared[claim.pgrp] = (claim.id, _ancestors(claim.pid, processes))
        if claim.session == claim.pid:
            sessions[claim.session] = claim.id
    return groups, sessions, shared


def _ancestors(pid: int, processes: Mapping[int, Stat]) -> set[int]:
    found: set[int] = set()
    while pid in processes and pid not in found:
        found.add(pid)
        pid = processes[pid].ppid
    return found
