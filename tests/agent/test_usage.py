"""CPU time between two passes: what is counted, and what is not."""

from __future__ import annotations

from webapp.agent.engines.pidstat import Stat
from webapp.agent.engines.processes import Scan
from webapp.agent.engines.usage import cores, interval, trusted


def process(pid: int, cpu: int | None, reaped: int = 0, ppid: int = 1, start: int = 1000) -> Stat:
    return Stat(pid, b"x", "R", ppid, 4200, 4200, cpu, reaped, 1, start, 1, b"")


def scan(taken: float, *processes: Stat, unreadable: frozenset[int] = frozenset()) -> Scan:
    return Scan(taken, {stat.pid: stat for stat in processes}, unreadable)


def used(before: Scan, now: Scan, busy_ticks: int | None = None) -> float | None:
    """Cores of all processes that are there now."""
    passed = interval(before, now)
    members = list(now.processes.values())
    return cores(passed, members, 100, trusted(passed, busy_ticks, members))


def test_a_member_that_exits_does_not_make_the_sum_fall():
    """T34"""
    assert used(scan(0, process(1, 10_000), process(2, 2000)), scan(10, process(2, 2500))) == 0.5


def test_the_life_of_a_reaped_child_is_not_the_parents():
    """T35"""
    assert used(scan(0, process(1, 100)), scan(10, process(1, 110, reaped=36_000))) == 0.01
    assert used(scan(0, process(1, 100)), scan(10, process(1, 110, reaped=36_000)), busy_ticks=4000) == 0.01


def test_of_a_child_that_was_seen_only_the_last_ticks_are_added():
    """T35: the child had used 35,900 ticks when it was last seen"""
    before = scan(0, process(1, 100), process(2, 35_900, ppid=1))
    assert used(before, scan(10, process(1, 110, reaped=36_000)), busy_ticks=500) == 0.11


def test_children_that_no_pass_saw_are_counted_when_a_living_member_has_waited_for_them():
    assert used(scan(0, process(1, 100, reaped=50)), scan(10, process(1, 100, reaped=750)), busy_ticks=720) == 0.7


def test_ended_children_count_only_as_far_as_the_machine_was_busy():
    before = scan(0, process(1, 100), process(2, 0))
    assert used(before, scan(10, process(1, 100, reaped=900), process(2, 1000)), busy_ticks=1100) == 1.0


def test_a_grandchild_that_ended_with_its_parent_is_counted_once():
    before = scan(0, process(1, 0), process(2, 300, ppid=1), process(3, 500, ppid=2))
    now = scan(10, process(1, 0, reaped=300 + 40 + 500 + 60))
    assert used(before, now, busy_ticks=100) == 0.1


def test_a_member_born_in_between_counts_from_nothing():
    assert used(scan(0, process(1, 100)), scan(10, process(1, 100), process(2, 300, reaped=20, start=5000)), 320) == 0.32


def test_a_process_that_was_hidden_before_has_no_rate_yet():
    passed = interval(scan(0, unreadable=frozenset({2})), scan(10, process(2, 9000)))
    assert cores(passed, [process(2, 9000)], 100, True) is None


def test_a_reused_pid_counts_from_nothing():
    """T40"""
    assert used(scan(0, process(1, 9000, start=1000)), scan(10, process(1, 200, start=7000))) == 0.2


def test_time_that_went_back_or_can_not_be_read_is_nothing():
    assert used(scan(0, process(1, 500), process(2, 0)), scan(10, process(1, 400), process(2, 100))) == 0.1
    assert used(scan(0, process(1, None), process(2, 0)), scan(10, process(1, 400), process(2, 100))) == 0.1
    assert used(scan(0, process(1, 400)), scan(10, process(1, None))) is None


def test_no_time_no_rate():
    assert interval(scan(5), scan(5)) is None
    assert interval(scan(5), scan(4)) is None
