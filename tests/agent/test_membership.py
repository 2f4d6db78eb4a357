"""Which processes belong to which engine, as engines really run."""

from __future__ import annotations

from webapp.agent.engines.membership import Claim, Membership
from webapp.agent.engines.pidstat import Stat

OWN = 99


def stat(
    pid: int, ppid: int = 1, pgrp: int | None = None, session: int | None = None, start: int = 1000, comm: bytes = b"x"
) -> Stat:
    pgrp = pid if pgrp is None else pgrp
    return Stat(pid, comm, "S", ppid, pgrp, pgrp if session is None else session, 0, 0, 1, start, 1, b"")


def leader(id: str, process: Stat, cgroup: frozenset[int] | None = None) -> Claim:
    return Claim(id, process.pid, process.start, process.pgrp, process.session, cgroup)


def pids(found: dict[str, list[Stat]]) -> dict[str, list[int]]:
    return {id: [process.pid for process in processes] for id, processes in found.items()}


def assign(processes: list[Stat], *claims: Claim, membership: Membership | None = None) -> dict[str, list[int]]:
    return pids((membership or Membership(OWN)).assign({process.pid: process for process in processes}, claims))


def test_two_workers_with_one_cut_name_are_two_members():
    """T05"""
    api = stat(4200, comm=b"vllm")
    rest = [
        stat(4201, 4200, 4200, comm=b"VLLM::EngineCor"),
        *(stat(pid, 4201, 4200, comm=b"VLLM::Worker_TP") for pid in (4202, 4203)),
    ]
    assert assign([api, *rest], leader("a", api)) == {"a": [4200, 4201, 4202, 4203]}


def test_members_outlive_their_leader():
    """T38, T41"""
    gone = stat(4200)
    assert assign([stat(4201, 1, 4200), stat(4202, 1, 4200), stat(7)], leader("a", gone)) == {"a": [4201, 4202]}


def test_a_stranger_under_the_leaders_pid_proves_that_the_group_is_gone():
    """T40"""
    old, bash = stat(4200, start=1000), stat(4200, start=990_000)
    assert assign([bash, stat(4300, 4200, 4300, 4200)], leader("a", old)) == {"a": []}


def test_children_in_groups_of_their_own_are_members():
    """TGI starts its router and every shard with a process group of its own"""
    launcher = stat(10)
    assert assign([launcher, stat(11, 10, 11), stat(12, 10, 12), stat(13, 12, 12)], leader("tgi", launcher)) == {
        "tgi": [10, 11, 12, 13]
    }


def test_a_worker_that_called_setsid_is_a_member_for_as_long_as_it_lives():
    membership = Membership(OWN)
    api, worker = stat(10), stat(11, 10, 11)
    assert assign([api, worker], leader("a", api), membership=membership) == {"a": [10, 11]}
    assert assign([stat(11, 1, 11)], leader("a", api), membership=membership) == {"a": [11]}


def test_a_worker_whose_pid_was_reused_is_none():
    membership = Membership(OWN)
    api = stat(10)
    assign([api, stat(11, 10, 11)], leader("a", api), membership=membership)
    assert assign([api, stat(11, 1, 11, start=5000)], leader("a", api), membership=membership) == {"a": [10]}


def test_a_router_and_its_children_are_one_engine_each_though_they_share_a_group():
    router = stat(10)
    one, two = stat(11, 10, 10), stat(12, 10, 10)
    helper = stat(13, 12, 10)
    assert assign([router, one, two, helper], leader("r", router), leader("1", one), leader("2", two)) == {
        "r": [10],
        "1": [11],
        "2": [12, 13],
    }


def test_the_session_of_a_shell_is_not_an_engines():
    shell = stat(5)
    editor = stat(6, 5, 6, 5)
    engine = stat(10, 5, 10, 5)
    assert assign([shell, editor, engine], leader("a", engine)) == {"a": [10]}


def test_in_a_group_of_a_script_only_orphans_are_taken():
    script = stat(5)
    engine, monitor = stat(10, 5, 5), stat(11, 5, 5)
    orphan = stat(12, 1, 5)
    assert assign([script, engine, monitor, orphan], leader("a", engine)) == {"a": [10, 12]}


def test_a_daemon_in_the_session_of_its_leader_is_a_member():
    api = stat(10)
    assert assign([api, stat(12, 1, 12, 10)], leader("a", api)) == {"a": [10, 12]}


def test_an_own_cgroup_has_the_last_word():
    api = stat(10)
    assert assign([api, stat(20, 1, 20), stat(30, 1, 30)], leader("a", api, frozenset({10, 20, 77}))) == {"a": [10, 20]}


def test_the_agent_is_no_part_of_an_engine_that_started_it():
    api = stat(10)
    assert assign([api, stat(OWN, 10, 10), stat(100, OWN, 10)], leader("a", api)) == {"a": [10, 100]}


def test_processes_in_a_circle_end():
    """Only a broken /proc holds one."""
    api = stat(10)
    assert assign([api, stat(11, 12, 11), stat(12, 11, 12)], leader("a", api)) == {"a": [10]}


def test_group_and_session_0_are_nobodys():
    """This is how processes appear whose group is outside of this pid namespace."""
    api, other = stat(10, 0, 0), stat(11, 0, 0)
    assert assign([api, other], leader("a", api)) == {"a": [10]}


def test_an_engine_whose_leader_was_never_seen_has_no_kernel_threads():
    """Their group and session are 0."""
    nobody = Claim("a", 0, None, 0, 0)
    assert assign([stat(1, 0, 0), stat(2, 0, 0), stat(15, 2, 0)], nobody, Claim("b", 0, None, 0, 0)) == {"a": [], "b": []}


def test_without_engines_nothing_is_looked_at():
    assert assign([stat(1)]) == {}
