"""Which processes belong to which engine.

An engine that has a cgroup of its own owns what is in it. Otherwise a process belongs to, in this order:

1. the nearest leader among itself and its ancestors;
2. the engine that it belonged to in the pass before: a worker stays one when its parents die;
3. the engine whose leader led its process group, then its session. Only groups and sessions that the leader itself
   leads: an engine started by a script or a shell shares theirs with strangers;
4. the engine in whose process group it is an orphan: its parent is outside of the group.

A process is identified by pid and start time. The kernel does not give a pid away while a group or session still bears
it, so a stranger under the leader's pid proves that the leader's group is gone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from webapp.agent.engines.pidstat import Stat


class Claim(NamedTuple):
    """What one engine claims: its leader, as it was when last seen, and the processes of its own cgroup."""

    id: str
    #: 0 if the leader was never seen: such an engine claims nothing but its cgroup.
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
        after: dict[tuple[int, int], Claim] = {}
        if claims:
            by_id = {claim.id: claim for claim in claims}
            clues = _Clues(processes, claims, self._own_pid)
            for pid, stat in processes.items():
                key = (pid, stat.start)
                owner = None if pid == self._own_pid else clues.owner(pid, stat, self._before.get(key))
                if owner in members:
                    members[owner].append(stat)
                    after[key] = by_id[owner]
        self._before = after
        for stats in members.values():
            stats.sort()
        return members


class _Clues:
    """What one pass says about the owners of processes, to be looked up for each of them."""

    def __init__(self, processes: Mapping[int, Stat], claims: Collection[Claim], own_pid: int) -> None:
        leaders = {claim.pid: claim.id for claim in claims if _leads(claim, processes)}
        self._processes = processes
        self._by_cgroup = _by_cgroup(processes, claims)
        self._nearest: dict[int, str | None] = {0: None, own_pid: None, **leaders}
        self._by_leader = {(claim.pid, claim.start): claim.id for claim in claims}
        self._groups, self._sessions, self._shared = _led(claims, processes)

    def owner(self, pid: int, stat: Stat, before: Claim | None) -> str | None:
        """The engine that a process belongs to, by the first of the rules above that names one; it may be an engine that is gone.

        `before`: what it was assigned to in the pass before.
        """
        owner = self._by_cgroup.get(pid) or _nearest(pid, self._processes, self._nearest)
        if owner is None and before is not None:
            # the id may have passed on to a new leader, beside what is left of the old one
            owner = self._by_leader.get((before.pid, before.start)) or before.id
        if owner is None:
            owner = self._groups.get(stat.pgrp) or self._sessions.get(stat.session)
        if owner is None and stat.pgrp in self._shared:
            owner = self._adoptive(pid, stat)
        return owner

    def _adoptive(self, pid: int, stat: Stat) -> str | None:
        """The engine in whose process group a process is, if it is an orphan there."""
        engine, ancestors = self._shared[stat.pgrp]
        parent = self._processes.get(stat.ppid)
        is_orphan = (parent is None or parent.pgrp != stat.pgrp) and pid not in ancestors
        return engine if is_orphan else None


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
        if not claim.pid or (stat is not None and stat.start != claim.start):
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
