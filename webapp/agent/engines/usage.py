"""CPU time of processes between two passes, and what of it each engine used.

Counted for an engine are, in clock ticks:

- for each member seen in both passes, what its utime + stime grew by; never less than nothing;
- for each member born since the pass before, all of its utime + stime;
- for children that no pass saw alive (born and dead in between), and for the last ticks of those that died: what
  the cutime + cstime of a *living* member grew by, less all that was counted before for the processes that ended
  below it. cutime itself is never added: it holds the whole life of a child, which was counted as it passed.

What grew there must fit into the CPU time that the whole machine spent and that no process in the two passes
explains; if it does not, it is older than this interval, and none of it is counted. Lost are the ticks of
processes whose parent ignores SIGCHLD, or that died after their parent did. A cgroup's own counter has them all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from webapp.agent.engines.pidstat import Stat
from webapp.agent.engines.processes import Scan


class Interval(NamedTuple):
    """What passed between two passes over all processes."""

    elapsed_s: float
    #: Ticks by pid, of processes that ran; who is absent did not run.
    ticks: Mapping[int, int]
    #: Pids whose ticks are unknown: misread, or not readable in the pass before.
    unknown: frozenset[int]
    #: Ticks of ended children that were not counted before, by the pid of the living process that waited for them.
    ended: Mapping[int, int]
    before: Mapping[int, Stat]


def interval(before: Scan, now: Scan) -> Interval | None:
    """None if no time passed."""
    elapsed_s = now.taken - before.taken
    if elapsed_s <= 0:
        return None
    ticks: dict[int, int] = {}
    unknown: set[int] = set()
    reaped: dict[int, int] = {}
    earlier = before.processes
    for pid, stat in now.processes.items():
        last = earlier.get(pid)
        if last is stat:
            continue
        if last is None or last.start != stat.start:
            if pid in before.unreadable or stat.cpu is None:
                unknown.add(pid)
                continue
            ticks[pid] = stat.cpu
            if stat.reaped:
                reaped[pid] = stat.reaped
            continue
        if stat.cpu is None or last.cpu is None:
            unknown.add(pid)
        elif stat.cpu > last.cpu:
            ticks[pid] = stat.cpu - last.cpu
        if stat.reaped is not None and last.reaped is not None and stat.reaped > last.reaped:
            reaped[pid] = stat.reaped - last.reaped
    ended = _ended(reaped, earlier, now.processes) if reaped else {}
    return Interval(elapsed_s, ticks, frozenset(unknown), ended, earlier)


def _ended(reaped: dict[int, int], before: Mapping[int, Stat], now: Mapping[int, Stat]) -> dict[int, int]:
    """What was waited for, less what the ended processes had used before: that was counted when it passed."""
    left = dict(reaped)
    gone = [stat for stat in before.values() if not _lives(stat, now)]
    # Those first of whom it is certain who waited for them: the others take what is left.
    gone.sort(key=lambda stat: not (stat.ppid in before and _lives(before[stat.ppid], now)))
    for stat in gone:
        counted = (stat.cpu or 0) + (stat.reaped or 0)
        for ancestor in _living_ancestors(stat, before, now):
            taken = min(counted, max(0, left.get(ancestor.pid, 0)))
            if taken:
                left[ancestor.pid] -= taken
                counted -= taken
    return {pid: ticks for pid, ticks in left.items() if ticks > 0}


def _living_ancestors(stat: Stat, before: Mapping[int, Stat], now: Mapping[int, Stat]) -> Iterator[Stat]:
    """Who may have waited for a process that ended, the nearest first.

    Its parent did if that lives. If that ended too, either the next ancestor took over what the parent had waited
    for, or the process was an orphan and a reaper further up waited for it.
    """
    parent = before.get(stat.ppid)
    for generation in range(64):
        if parent is None:
            return
        if _lives(parent, now):
            yield parent
            if generation == 0:
                return
        parent = before.get(parent.ppid)


def _lives(stat: Stat, now: Mapping[int, Stat]) -> bool:
    current = now.get(stat.pid)
    return current is not None and current.start == stat.start


def trusted(passed: Interval, busy_ticks: int | None, members: Iterable[Stat]) -> bool:
    """Whether what `members` waited for can have been used in this interval.

    `busy_ticks`: of the whole machine, from /proc/stat. The kernel samples these and sums those of processes
    exactly, so a fifth more is let pass.
    """
    waited = sum(passed.ended.get(stat.pid, 0) for stat in members)
    if not waited:
        return True
    if busy_ticks is None:
        return False
    unexplained = max(0, busy_ticks - sum(passed.ticks.values()))
    return waited <= 1.2 * unexplained + 2


def cores(passed: Interval, members: Iterable[Stat], ticks_per_second: int, with_ended: bool) -> float | None:
    """Cores that an engine's processes kept busy; None if nothing is known of any of them."""
    total, known = 0, False
    for stat in members:
        if stat.pid in passed.unknown:
            continue
        known = True
        total += passed.ticks.get(stat.pid, 0)
        if with_ended:
            total += passed.ended.get(stat.pid, 0)
    return total / (ticks_per_second * passed.elapsed_s) if known else None
