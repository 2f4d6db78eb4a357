"""Processes that are born, work and end at random: what is counted is never more than what was used."""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from webapp.agent.engines.pidstat import Stat
from webapp.agent.engines.processes import Scan
from webapp.agent.engines.usage import cores, interval, trusted


class Kernel:
    """Accounts CPU time as Linux does: a child's time goes to its parent when the parent waits for it."""

    def __init__(self) -> None:
        self.processes = {1: [0, 0, 0, 1]}  # pid -> ppid, cpu, reaped, start
        self.used = 0
        self.next = 2

    def fork(self, parent: int) -> None:
        self.processes[self.next] = [parent, 0, 0, self.next]
        self.next += 1

    def work(self, pid: int, ticks: int) -> None:
        self.processes[pid][1] += ticks
        self.used += ticks

    def end(self, pid: int) -> None:
        parent, cpu, reaped, _ = self.processes.pop(pid)
        self.processes[parent][2] += cpu + reaped
        for other in self.processes.values():
            if other[0] == pid:
                other[0] = 1

    def scan(self, taken: float) -> Scan:
        return Scan(
            taken,
            {
                pid: Stat(pid, b"x", "R", ppid, 1, 1, cpu, reaped, 1, start, 1, b"")
                for pid, (ppid, cpu, reaped, start) in self.processes.items()
            },
            frozenset(),
        )


STEP = st.tuples(st.sampled_from(["fork", "work", "work", "end"]), st.integers(0, 30), st.integers(1, 500))


ORPHAN_OF_A_DEAD_PARENT = [
    [("fork", 0, 1), ("fork", 1, 1), ("fork", 2, 1), ("work", 3, 3), ("fork", 0, 1), ("fork", 0, 1), ("fork", 0, 1)],
    [("fork", 0, 1), ("fork", 0, 1), ("end", 20, 1), ("end", 2, 1)],
]

#: An orphan ends, whose grandparent lives, and a child of that grandparent in the same interval.
ORPHAN_BESIDE_A_CHILD = [
    [("fork", 0, 1), ("fork", 1, 1), ("fork", 2, 1), ("fork", 1, 1), ("work", 3, 300), ("work", 4, 100)],
    [("end", 2, 1), ("end", 3, 1), ("end", 2, 1)],
]


@settings(max_examples=300)
@example(ORPHAN_OF_A_DEAD_PARENT)
@example(ORPHAN_BESIDE_A_CHILD)
@given(st.lists(st.lists(STEP, max_size=30), min_size=2, max_size=6))
def test_an_engine_that_waits_for_its_children_is_counted_to_the_tick(intervals):
    """Process 1 leads, and takes up orphans as an init would."""
    kernel = Kernel()
    before = kernel.scan(0.0)
    for number, steps in enumerate(intervals, 1):
        used = kernel.used
        for what, which, ticks in steps:
            pid = sorted(kernel.processes)[which % len(kernel.processes)]
            if what == "fork":
                kernel.fork(pid)
            elif what == "work":
                kernel.work(pid, ticks)
            elif pid != 1:
                kernel.end(pid)
        now = kernel.scan(number * 10.0)
        passed = interval(before, now)
        members = list(now.processes.values())
        truth = kernel.used - used
        assert passed is not None
        assert trusted(passed, truth, members)
        counted = (cores(passed, members, 100, True) or 0.0) * 1000
        assert abs(counted - truth) < 1e-6
        before = now
