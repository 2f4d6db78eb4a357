"""File systems, and mounts that fail or hang."""

from __future__ import annotations

import errno
import threading
import types
from typing import Any

import pytest

from webapp.agent.machine.disks import Disks, Mount, devices, parse_mountinfo, sizes


def answer(blocks: int = 1000, free: int = 500, available: int = 400, fragment: int = 4096, preferred: int = 4096) -> Any:
    return types.SimpleNamespace(f_blocks=blocks, f_bfree=free, f_bavail=available, f_frsize=fragment, f_bsize=preferred)


def mounted(machine, *lines: str) -> None:
    """Each line: major:minor root mount type device."""
    text = ""
    for number, line in enumerate(lines, 30):
        device_number, root, mount, kind, device = line.split(" ")
        text += f"{number} 1 {device_number} {root} {mount} rw,relatime shared:1 - {kind} {device} rw\n"
    machine.write("self/mountinfo", text)


def test_blocks_kept_for_root_are_neither_used_nor_available():
    """T43"""
    found = sizes(answer(1_000_000, 200_000, 150_000))
    assert found == {"total_bytes": 4_096_000_000, "used_bytes": 3_276_800_000, "available_bytes": 614_400_000}
    used, available = found["used_bytes"], found["available_bytes"]
    assert 100 * used / (used + available) == pytest.approx(84.2, abs=0.05)


def test_blocks_are_counted_in_fragments():
    """T44: virtiofs, FUSE and NFS prefer transfers of 1 MiB"""
    assert sizes(answer(120_699_413, 0, 0, 4096, 1_048_576))["total_bytes"] == 494_384_795_648


def test_bind_mounts_and_overlays_of_one_device_are_one_disk(machine):
    """T46"""
    mounted(
        machine,
        "0:50 / / overlay overlay",
        "8:1 /docker/c/hosts /etc/hosts ext4 /dev/sda1",
        "8:1 /opt /opt ext4 /dev/sda1",
        "8:1 /var/lib/x /var/lib/docker/overlay2 ext4 /dev/sda1",
    )
    found = Disks(machine.proc, lambda path: answer()).measure()
    assert [(disk.mount, disk.device, disk.total_bytes) for disk in found] == [("/", "/dev/sda1", 4_096_000)]


def test_in_a_container_the_overlay_stands_for_the_disk_below(machine):
    mounted(machine, "0:50 / / overlay overlay", "0:51 / /tmp/other overlay overlay")
    assert [disk.mount for disk in Disks(machine.proc, lambda path: answer()).measure()] == ["/"]


def test_the_root_of_a_file_system_names_it(machine):
    mounted(machine, "8:2 /a /a ext4 /dev/sdb", "8:2 / /mnt/data ext4 /dev/sdb")
    assert [disk.mount for disk in Disks(machine.proc, lambda path: answer()).measure()] == ["/mnt/data"]


def test_a_mount_that_fails_costs_only_itself(machine):
    """T47"""
    mounted(machine, "8:1 / / ext4 /dev/sda1", "0:40 / /nfs nfs4 server:/export", "8:2 / /data xfs /dev/sdb")

    def ask(path: str) -> Any:
        if path == "/nfs":
            raise OSError(errno.ESTALE, "Stale file handle")
        return answer()

    found = {disk.mount: disk for disk in Disks(machine.proc, ask).measure()}
    assert (found["/"].total_bytes, found["/data"].total_bytes) == (4_096_000, 4_096_000)
    assert (found["/nfs"].total_bytes, found["/nfs"].error) == (None, "Stale file handle")


def test_a_mount_that_hangs_delays_only_itself_and_leaves_one_thread_behind(machine):
    mounted(machine, "0:40 / /nfs nfs4 server:/export", "8:1 / / ext4 /dev/sda1", "0:41 / /ceph ceph mon:/")
    release = threading.Event()
    asked: list[str] = []

    def ask(path: str) -> Any:
        asked.append(path)
        if path == "/nfs":
            release.wait(60)
        return answer()

    disks = Disks(machine.proc, ask, machine.clock, wait_s=0.1)
    before = threading.active_count()
    for _ in range(5):
        found = {disk.mount: disk for disk in disks.measure()}
        assert (found["/"].total_bytes, found["/ceph"].total_bytes) == (4_096_000, 4_096_000)
        assert found["/nfs"].total_bytes is None
        assert "statvfs has not answered for" in found["/nfs"].error
    assert asked.count("/nfs") == 1
    assert threading.active_count() == before + 1
    release.set()
    for thread in threading.enumerate():
        if thread.name == "disks":
            thread.join()
    assert {disk.mount: disk.error for disk in disks.measure()}["/nfs"] is None


def test_a_file_system_without_blocks_is_reported_as_unknown(machine):
    mounted(machine, "8:1 / / ext4 /dev/sda1")
    (disk,) = Disks(machine.proc, lambda path: answer(0, 0, 0)).measure()
    assert (disk.total_bytes, disk.error) == (None, "it has no blocks")


def test_any_failure_of_a_mount_is_reported(machine):
    mounted(machine, "8:1 / / ext4 /dev/sda1", "8:2 / /b ext4 /dev/sdb")

    def ask(path: str) -> Any:
        if path == "/":
            raise ValueError("embedded null byte")
        return answer()

    found = Disks(machine.proc, ask).measure()
    assert [(disk.mount, bool(disk.error)) for disk in found] == [("/", True), ("/b", False)]


def test_a_disk_that_another_was_mounted_over_is_not_shown_with_the_others_numbers(machine):
    """A path below it may exist on the other one too, and leads there."""
    machine.write(
        "self/mountinfo",
        "30 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
        "31 30 8:2 / /data rw - ext4 /dev/sdb rw\n"
        "32 31 8:3 / /data/models rw - ext4 /dev/sdc rw\n"
        "33 31 8:4 / /data rw - xfs /dev/sdd rw\n"
        "34 33 8:5 / /data/logs rw - xfs /dev/sde rw\n",
    )
    found = Disks(machine.proc, lambda path: answer()).measure(["/data/models/a.gguf"])
    assert [(disk.mount, disk.device, disk.holds) for disk in found] == [
        ("/", "/dev/sda1", None),
        ("/data", "/dev/sdd", "/data/models/a.gguf"),
        ("/data/logs", "/dev/sde", None),
    ]


def test_the_disk_that_holds_the_models_says_so(machine):
    mounted(machine, "8:1 / / ext4 /dev/sda1", "8:2 / /models xfs /dev/sdb", "8:2 /deep /srv/deep xfs /dev/sdb")
    found = Disks(machine.proc, lambda path: answer()).measure(["/models/b.gguf", "/models/a.gguf", "/srv/deep/c", "/modelsx"])
    assert [(disk.mount, disk.holds) for disk in found] == [
        ("/", "/modelsx"),
        ("/models", "/models/a.gguf, /models/b.gguf, /srv/deep/c"),
    ]


def test_a_captured_machine_has_three_disks(captured):
    """node_exporter's fixture: no tmpfs, cgroups or container storage; kubelet's volume of /dev/sda once."""
    mounts = parse_mountinfo((captured / "node_exporter/proc/1/mountinfo").read_bytes())
    assert len(mounts) == 32
    assert [mount.device for mount in devices(mounts)] == ["/dev/dm-2", "/dev/sda3", "/dev/sda"]


def test_the_data_sets_of_a_zfs_pool_share_its_room():
    mounts = [
        Mount("30", "1", "0:30", "/", "/tank", "zfs", "tank"),
        Mount("31", "30", "0:31", "/", "/tank/models", "zfs", "tank/models"),
    ]
    assert [mount.mount for mount in devices(mounts)] == ["/tank"]


def test_nothing_mounted_means_no_disks(machine):
    assert Disks(machine.proc, lambda path: answer()).measure() == ()


def test_a_mount_that_is_slow_keeps_its_last_answer_for_half_a_minute(machine):
    mounted(machine, "0:40 / /nfs nfs4 server:/export")
    release, slow = threading.Event(), []

    def ask(path: str) -> Any:
        if slow:
            release.wait(60)
        return answer()

    disks = Disks(machine.proc, ask, machine.clock, wait_s=0.1)
    assert disks.measure()[0].total_bytes == 4_096_000
    slow.append(True)
    machine.clock.advance(10)
    assert disks.measure()[0].total_bytes == 4_096_000
    machine.clock.advance(21)
    assert (disks.measure()[0].total_bytes, disks.measure()[0].error) == (None, "statvfs has not answered for 21 s")
    release.set()
    for thread in threading.enumerate():
        if thread.name == "disks":
            thread.join()
    assert disks.measure()[0].error is None
