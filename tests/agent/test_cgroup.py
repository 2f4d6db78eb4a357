from __future__ import annotations

from pathlib import Path

import pytest

from webapp.agent.machine.cgroup import limits, parse_cgroup
from webapp.measurement import Limits

GIB = 1024**3


class Container:
    """A /proc/self/cgroup and a tree of cgroups."""

    def __init__(self, root: Path) -> None:
        self.proc, self.sys = root / "proc", root / "sys"
        self.cgroups = self.sys / "fs" / "cgroup"
        (self.proc / "self").mkdir(parents=True)
        self.cgroups.mkdir(parents=True)

    def is_in(self, lines: str) -> None:
        (self.proc / "self" / "cgroup").write_text(lines)

    def cgroup(self, path: str, files: dict[str, str]) -> None:
        directory = self.cgroups / path
        directory.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (directory / name).write_text(text)

    def limits(self) -> Limits:
        return limits(self.proc, self.sys)


@pytest.fixture
def container(tmp_path):
    return Container(tmp_path)


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        ("3221225472\n", Limits(memory_bytes=3 * GIB, memory_used_bytes=2 * GIB)),
        ("max\n", Limits()),
        ("9223372036854771712\n", Limits()),
        ("", Limits()),
        ("-1\n", Limits()),
        ("9" * 5000, Limits()),
    ],
)
def test_a_memory_limit_and_what_is_used_of_it_are_of_one_scope(container, limit, expected):
    """T29"""
    container.is_in("0::/\n")
    container.cgroup("", {"memory.max": limit, "memory.current": f"{3 * GIB}\n", "memory.stat": f"anon 5\ninactive_file {GIB}\n"})
    assert container.limits() == expected


@pytest.mark.parametrize(("text", "cpus"), [("250000 100000\n", 2.5), ("max 100000\n", None), ("", None), ("0 0\n", None)])
def test_a_cpu_limit_is_in_cores(container, text, cpus):
    container.is_in("0::/\n")
    container.cgroup("", {"cpu.max": text})
    assert container.limits() == Limits(cpus=cpus)


def test_version_1_is_read(container):
    container.is_in("4:memory:/docker/7f\n3:cpu,cpuacct:/docker/7f\n0::/\n")
    container.cgroup("memory/docker/7f", {"memory.limit_in_bytes": f"{GIB}\n", "memory.usage_in_bytes": "900\n"})
    container.cgroup("memory/docker/7f", {"memory.stat": "inactive_file 1\ntotal_inactive_file 100\n"})
    container.cgroup("memory", {"memory.limit_in_bytes": "9223372036854771712\n", "memory.usage_in_bytes": "77\n"})
    container.cgroup("cpu,cpuacct/docker/7f", {"cpu.cfs_quota_us": "150000\n", "cpu.cfs_period_us": "100000\n"})
    container.cgroup("cpu,cpuacct", {"cpu.cfs_quota_us": "-1\n", "cpu.cfs_period_us": "100000\n"})
    assert container.limits() == Limits(cpus=1.5, memory_bytes=GIB, memory_used_bytes=800)


def test_version_1_without_limits_has_none(container):
    container.is_in("4:memory:/\n3:cpu:/\n")
    container.cgroup("memory", {"memory.limit_in_bytes": "9223372036854771712\n", "memory.usage_in_bytes": "77\n"})
    container.cgroup("cpu", {"cpu.cfs_quota_us": "-1\n", "cpu.cfs_period_us": "100000\n"})
    assert container.limits() == Limits()


def test_a_path_of_the_host_that_the_container_does_not_see_is_its_root(container):
    container.is_in("0::/kubepods.slice/pod1/7f\n")
    container.cgroup("", {"memory.max": f"{GIB}\n", "memory.current": "5\n"})
    assert container.limits() == Limits(memory_bytes=GIB, memory_used_bytes=5)


def test_the_tightest_limit_above_counts_with_what_is_used_there(container):
    container.is_in("0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-7f.scope\n")
    container.cgroup("kubepods.slice/kubepods-pod1.slice", {"memory.max": f"{GIB}\n", "memory.current": "500\n"})
    inner = {"memory.max": f"{2 * GIB}\n", "memory.current": "100\n", "cpu.max": "100000 100000\n"}
    container.cgroup("kubepods.slice/kubepods-pod1.slice/cri-containerd-7f.scope", inner)
    assert container.limits() == Limits(cpus=1.0, memory_bytes=GIB, memory_used_bytes=500)


def test_the_limit_of_the_agent_s_own_service_is_none_of_the_node(container):
    container.is_in("0::/system.slice/enginehouse.service\n")
    container.cgroup(
        "system.slice/enginehouse.service", {"memory.max": "67108864\n", "memory.current": "5\n", "cpu.max": "5 10\n"}
    )
    container.cgroup("system.slice", {"memory.max": "77108864\n", "memory.current": "5\n"})
    assert container.limits() == Limits()


def test_a_path_of_other_bytes_than_utf_8_is_followed(container):
    name = b"lxc-\xe9".decode("utf-8", "surrogateescape")
    (container.proc / "self" / "cgroup").write_bytes(b"0::/lxc-\xe9\n")
    container.cgroup(name, {"memory.max": f"{GIB}\n", "memory.current": "5\n"})
    assert container.limits() == Limits(memory_bytes=GIB, memory_used_bytes=5)


def test_a_path_that_leads_out_of_the_tree_is_not_followed(container):
    container.is_in("0::/../../../etc\n")
    container.cgroup("", {"memory.max": f"{GIB}\n", "memory.current": "5\n"})
    assert container.limits() == Limits(memory_bytes=GIB, memory_used_bytes=5)


def test_a_machine_without_cgroups_has_no_limits(tmp_path):
    assert limits(tmp_path, tmp_path) == Limits()


def test_cgroup_paths_are_read_for_both_versions():
    paths = parse_cgroup(b"12:cpu,cpuacct:/docker/ab\n1:name=systemd:/docker/ab\n0::/\nnonsense\n:::\n")
    assert paths == {"cpu": "/docker/ab", "cpuacct": "/docker/ab", "name=systemd": "/docker/ab", "": "/"}
