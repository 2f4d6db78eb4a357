"""Memory of the machine, from real and unusual meminfo files."""

from __future__ import annotations

import pytest

from webapp.agent.machine.memory import measure, parse_arcstats
from webapp.agent.machine.proc import parse_meminfo

KIB = 1024
GIB = 2**30


def meminfo(text: str) -> dict[str, int]:
    return measure(parse_meminfo(text.encode()))


def test_more_available_than_there_is_means_nothing_used():
    """T25"""
    found = meminfo("MemTotal: 998384 kB\nMemFree: 987608 kB\nMemAvailable: 1048576 kB\n")
    assert (found["memory_used_bytes"], found["memory_available_bytes"]) == (0, 998384 * KIB)


@pytest.mark.parametrize("text", ["", "MemTotal: 0 kB\n", "MemFree: 7 kB\n"])
def test_no_total_means_no_memory_is_reported(text):
    """T26"""
    assert meminfo(text) == {}


def test_the_hosts_zfs_cache_is_neither_subtracted_nor_reported_in_a_container():
    """T28"""
    table = {"MemTotal": 1536 * 2**20, "MemAvailable": 922 * 2**20}
    found = measure(table, arc_bytes=int(6.3 * GIB))
    assert found["memory_used_bytes"] == 614 * 2**20
    assert "memory_arc_bytes" not in found
    assert measure({"MemTotal": 8 * GIB}, arc_bytes=GIB)["memory_arc_bytes"] == GIB


def test_more_swap_free_than_there_is_means_none_used():
    """WSL1"""
    assert meminfo("MemTotal: 1 kB\nSwapTotal:4 kB\nSwapFree:18014396678257232 kB\n")["swap_used_bytes"] == 0


def test_swap_without_its_free_part_is_unknown():
    assert "swap_used_bytes" not in meminfo("MemTotal: 1 kB\nSwapTotal: 4 kB\n")


def test_available_far_below_free_is_taken_as_it_is(captured):
    """ARM with pages of 64 KiB"""
    found = measure(parse_meminfo((captured / "unusual" / "meminfo-arm64-64k-pages-memavailable-below-memfree.txt").read_bytes()))
    assert found["memory_available_bytes"] == 331200 * KIB
    assert found["memory_used_bytes"] == (265856640 - 331200) * KIB
    assert "memory_hugepages_bytes" not in found


def test_without_memavailable_free_and_droppable_memory_count(captured):
    """OpenWrt, kernels before 3.14"""
    found = measure(parse_meminfo((captured / "unusual" / "meminfo-openwrt-arm-no-memavailable.txt").read_bytes()))
    assert found["memory_available_bytes"] == (80288 + 21700 + 7652 + 6144 - 5416) * KIB


def test_a_jetson_has_its_gpus_memory_inside(captured):
    found = measure(parse_meminfo((captured / "unusual" / "meminfo-jetson-tx2-nvmap.txt").read_bytes()))
    assert found["memory_used_bytes"] == (8038788 - 5642288) * KIB
    assert found["swap_total_bytes"] == 4019376 * KIB


def test_huge_pages_are_reported_in_bytes():
    found = meminfo("MemTotal: 9999999 kB\nHugePages_Total: 10\nHugePages_Free: 4\nHugepagesize: 2048 kB\n")
    assert found["memory_hugepages_bytes"] == 10 * 2 * 2**20


def test_arcstats_without_a_size_tell_nothing():
    assert parse_arcstats(b"13 1 0x01 147 39984\nname type data\nhits 4 1\n") is None
