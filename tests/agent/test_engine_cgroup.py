"""Units, containers and their counters, under both versions of cgroups."""

from __future__ import annotations

import json

import pytest

from webapp.agent.engines.cgroups import Cgroups, cpu_seconds, members, unit_of
from webapp.agent.engines.container_names import container_id, container_name

ID = "0123456789ab" + "c" * 52


def make(directory, *pids: int, **files: str):
    directory.mkdir(parents=True)
    (directory / "cgroup.procs").write_text("".join(f"{pid}\n" for pid in pids))
    for name, content in files.items():
        (directory / name.replace("_", ".", 1)).write_text(content)


@pytest.mark.parametrize(
    ("path", "unit"),
    [
        ("/system.slice/vllm@2.service", "vllm@2.service"),
        ("/user.slice/user-1000.slice/user@1000.service/app.slice/vllm.service", "vllm.service"),
        ("/system.slice/run-r1234.scope", "run-r1234.scope"),
        (f"/docker/{ID}", "container 0123456789ab"),
        (f"/machine.slice/libpod-{ID}.scope", "container 0123456789ab"),
        (f"/kubepods.slice/kubepods-pod1.slice/cri-containerd-{ID}.scope", "container 0123456789ab"),
        ("/user.slice/user-1000.slice/user@1000.service", None),
        ("/user.slice/user-1000.slice/user@1000.service/app.slice/vte-spawn-1.scope", None),
        ("/system.slice/supervisor.service", None),
        ("/system.slice", None),
        ("/", None),
        ("", None),
    ],
)
def test_a_path_names_a_unit_or_a_container_or_a_place_that_anybody_shares(path, unit):
    assert unit_of(path) == unit


def test_version_1_counts_in_nanoseconds_in_a_tree_of_its_own(machine):
    tree = machine.sys / "fs" / "cgroup"
    make(tree / "systemd" / "docker" / ID, 10, 11)
    make(tree / "cpu,cpuacct" / "docker" / ID, 10, 11, cpuacct_usage="1500000000\n")
    machine.process(10)
    machine.write("10/cgroup", f"4:cpu,cpuacct:/docker/{ID}\n1:name=systemd:/docker/{ID}\n0::/\n")
    cgroup = Cgroups(machine.proc, machine.sys).of(10)
    assert (cgroup.unit, members(cgroup), cpu_seconds(cgroup)) == ("container 0123456789ab", {10, 11}, 1.5)


def test_processes_below_a_cgroup_are_in_it_and_those_of_other_namespaces_are_not_told(machine):
    top = machine.sys / "fs" / "cgroup" / "system.slice" / "a.service"
    make(top, 10, 0, cpu_stat="usage_usec 2500000\n")
    make(top / "workers", 11)
    machine.write("10/cgroup", "0::/system.slice/a.service\n")
    cgroup = Cgroups(machine.proc, machine.sys).of(10)
    assert (members(cgroup), cpu_seconds(cgroup)) == ({10, 11}, 2.5)


@pytest.mark.parametrize("path", ["/../../a.service", "/system.slice/../a.service", "/absent.service"])
def test_a_path_out_of_the_tree_or_of_this_namespace_is_nothing(machine, path):
    make(machine.sys / "fs" / "cgroup" / "a.service", 10)
    machine.write("10/cgroup", f"0::{path}\n")
    assert Cgroups(machine.proc, machine.sys).of(10) is None


def test_docker_and_podman_give_their_names(tmp_path):
    docker = tmp_path / "docker" / "containers" / ID
    docker.mkdir(parents=True)
    (docker / "config.v2.json").write_text(json.dumps({"Name": "/vllm-a"}))
    podman = tmp_path / "containers" / "storage" / "overlay-containers"
    podman.mkdir(parents=True)
    (podman / "containers.json").write_text(json.dumps([{"id": "f" * 64, "names": ["vllm-b\n"]}, 7, {"id": 1}]))
    assert (container_name(ID, tmp_path), container_name("f" * 64, tmp_path)) == ("vllm-a", "vllm-b ")
    assert (container_id("vllm-a", tmp_path), container_id("vllm-b ", tmp_path), container_id("x", tmp_path)) == (
        ID,
        "f" * 64,
        None,
    )
    (docker / "config.v2.json").write_text("[" * 100_000)
    assert container_name(ID, tmp_path) is None


def test_a_container_is_found_by_its_name(machine, tmp_path):
    docker = tmp_path / "lib" / "docker" / "containers" / ID
    docker.mkdir(parents=True)
    (docker / "config.v2.json").write_text('{"Name": "/vllm"}')
    make(machine.sys / "fs" / "cgroup" / "system.slice" / f"docker-{ID}.scope", 10)
    found = Cgroups(machine.proc, machine.sys, tmp_path / "lib").named("vllm")
    assert (found.unit, members(found)) == ("container vllm", {10})
