"""The files of /proc that describe the machine, as ordinary and unusual kernels print them."""

from __future__ import annotations

import pytest

from webapp.agent.machine.proc import (
    Averages,
    parse_cpu_model,
    parse_loadavg,
    parse_meminfo,
    parse_stat,
    parse_uptime,
    read,
    read_or_empty,
)


@pytest.mark.parametrize(
    "columns", ["2000 0 500 97000 500 0 0", "2000 0 500 97000 500 0 0 0 0", "2000 0 500 97000 500 0 0 0 7 7"]
)
def test_seven_nine_and_ten_columns_give_the_same(columns):
    """T07"""
    times = parse_stat(b"cpu  " + columns.encode() + b"\ncpu0 1 1 1 1\nintr 0\nswap 0 0\n\nctxt 5\n")
    assert (times.total, times.idle, times.cpus) == (100000, 97500, 1)


def test_guest_time_is_not_counted_twice():
    """T13"""
    assert parse_stat(b"cpu 400 0 0 600 0 0 0 0 300 0\n")[:2] == (1000, 600)
    assert parse_stat(b"cpu 100 300 100 500 0 0 0 0 0 200\n")[:2] == (1000, 500)


def test_a_counter_of_minus_one_that_nobody_uses_fails_nothing():
    """T08"""
    times = parse_stat(b"cpu 1 2 3 4 5 6 7 8 9 10\ncpu0 1 2 3 4\nprocs_blocked 18446744073709551615\n")
    assert times.total == 36


def test_a_used_counter_beyond_2_to_the_63_makes_the_times_unknown_and_keeps_the_cores():
    """T08, lxc/lxcfs#311"""
    assert parse_stat(b"cpu 1091037 0 0 11732815868058135187 0 0 0 0 0 0\ncpu0 1 1 1 1\n") == (None, None, 1)


def test_cores_are_counted_though_their_numbers_have_holes():
    """T17"""
    lines = b"".join(b"cpu%d 1 1 1 1 1 1 1 1 1 1\n" % number for number in (0, 1, 8, 9, 120))
    assert parse_stat(b"cpu 5 5 5 5 5 5 5 5 5 5\n" + lines).cpus == 5


def test_of_two_cpu_lines_the_first_counts():
    """lxcfs printed the line twice"""
    assert parse_stat(b"cpu 1 1 1 1\ncpu 9 9 9 9\ncpu0 1 1 1 1\n").total == 4


def test_zeros_for_ever_still_tell_the_cores():
    """T22"""
    lines = b"".join(b"cpu%d 0 0 0 0 0 0 0 0 0 0\n" % number for number in range(24))
    assert parse_stat(b"cpu 0 0 0 0 0 0 0 0 0 0\n" + lines) == (0, 0, 24)


def test_a_file_cut_in_its_middle_tells_what_it_has(captured):
    times = parse_stat((captured / "unusual" / "stat-power8-160cpu-lxcfs-no-btime-truncated.txt").read_bytes())
    assert (times.idle, times.cpus) == (587861690, 1)


def test_the_load_of_a_host_is_reported_unchanged():
    """T23"""
    assert parse_loadavg(b"812.40 640.11 512.09 75/9123 4130022\n") == Averages(812.40, 640.11, 512.09)


@pytest.mark.parametrize("data", [b"", b"\n", b"nan nan nan", b"-1 -1 -1", b"1e9 1e9 1e9", b"0x1 0x1 0x1"])
def test_what_is_no_decimal_number_is_no_load(data):
    assert parse_loadavg(data) == (None, None, None)


def test_uptime_needs_a_number():
    assert parse_uptime(b"") is None
    assert parse_uptime(b"?? 1") is None


@pytest.mark.parametrize("tree", ["procfs/proc", "node_exporter/proc", "live/t0"])
def test_captured_trees_are_read(captured, tree):
    root = captured / tree
    times = parse_stat(read(root / "stat"))
    assert times.total
    assert times.idle is not None
    assert times.cpus
    assert parse_loadavg(read(root / "loadavg")).load15 is not None
    assert parse_meminfo(read(root / "meminfo"))["MemTotal"] > 2**30


def test_an_oddly_spaced_meminfo_is_read(captured):
    found = parse_meminfo((captured / "unusual" / "meminfo-openvz-no-space-style-jessie.txt").read_bytes())
    assert (found["MemTotal"], found["Active(anon)"]) == (4194304 * 1024, 202620 * 1024)


def test_the_processor_has_a_name_on_x86_power_and_arm():
    assert parse_cpu_model(b"processor\t: 0\ncpu\t\t: POWER9, altivec supported\n") == "POWER9, altivec supported"
    assert parse_cpu_model(b"processor\t: 0\nBogoMIPS\t: 108.00\n\nModel\t: Raspberry Pi 5\n") == "Raspberry Pi 5"
    assert parse_cpu_model(b"processor\t: 0\n") is None


def test_reading_is_bounded(tmp_path):
    (tmp_path / "long").write_bytes(b"x" * 100_000)
    assert len(read(tmp_path / "long", 70_000)) == 70_000
    assert read_or_empty(tmp_path / "absent") == b""
