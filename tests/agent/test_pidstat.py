"""/proc/<pid>/stat and its neighbours."""

from __future__ import annotations

import pytest

from webapp.agent.engines.pidstat import parse_cmdline, parse_smaps_rollup, parse_stat, parse_status
from webapp.agent.machine.proc import ProcError

T02 = (
    b"4242 (a) S (b) ) S 4100 4200 4200 0 -1 4194560 10 0 0 0 1000 500 70 30 20 0 8 0 900000 2147483648 2560"
    b" 18446744073709551615 1 1 0 0 0 0 0 0 0 0 0 0 17 3 0 0 0 0 0 0 0 0 0 0 0 0 0"
)


def test_a_name_with_blanks_and_brackets_shifts_no_field():
    """T02; T31: the resident pages are the 24th field, not the limit after it"""
    stat = parse_stat(T02)
    assert stat.comm == b"a) S (b) "
    assert (stat.state, stat.ppid, stat.pgrp, stat.session) == ("S", 4100, 4200, 4200)
    assert (stat.cpu, stat.reaped, stat.threads, stat.start, stat.rss) == (1500, 100, 8, 900000, 2560)


@pytest.mark.parametrize(("pages", "rss"), [(b"-3", None), (b"18446744073709551613", None), (b"100", 100)])
def test_resident_pages_that_nobody_can_have_are_unknown(pages, rss):
    """T32"""
    assert parse_stat(T02.replace(b" 2560 ", b" %b " % pages)).rss == rss


@pytest.mark.parametrize("time", [b"18446744073709551615", b"-1"])
def test_cpu_time_that_nobody_can_have_is_unknown(time):
    assert parse_stat(T02.replace(b" 1000 500 ", b" %b 500 " % time)).cpu is None


def test_captured_processes_are_read(captured):
    stats = {path.parent.name: parse_stat(path.read_bytes()) for path in captured.glob("procfs/proc/*/stat")}
    assert stats["584"].comm == b"(a b ) ( c d) "
    assert stats["584"].ppid == 28378
    assert (stats["26231"].cpu, stats["26231"].reaped, stats["26231"].rss) == (1677 + 44, 158 + 99, 1981)
    assert stats["26232"].rss == 0


@pytest.mark.parametrize("data", [b"", b"7", b"7 (a", b"7 (a) ", b"7 (a) S 1", b"(a) S 1 7 7", T02.replace(b"4100", b"x")])
def test_what_is_no_stat_is_refused_with_a_quotation(data):
    with pytest.raises(ProcError, match=r"expected the fields of /proc/<pid>/stat, got"):
        parse_stat(data)


def test_a_zombie_with_threads_lives():
    assert parse_stat(T02.replace(b") S 4100", b") Z 4100").replace(b" 0 8 0 ", b" 0 1 0 ")).dead
    assert not parse_stat(T02.replace(b") S 4100", b") Z 4100")).dead


def test_an_exec_changes_the_image():
    """A fork keeps the command line of its parent until it calls exec (flag 0x40)."""
    forked = parse_stat(T02.replace(b" 4194560 ", b" 4194368 "))
    assert forked.image != parse_stat(T02).image


def test_captured_memory_splits_add_up(captured):
    for status in captured.glob("live/*/*/status"):
        split = parse_status(status.read_bytes())
        assert split is not None
        assert b"VmRSS:\t%8d kB" % (split.total // 1024) in status.read_bytes()


def test_kernels_before_4_5_have_no_split():
    assert parse_status(b"Name:\tvllm\nVmRSS:\t 10 kB\n") is None


def test_captured_proportional_sizes_are_read(captured):
    assert parse_smaps_rollup((captured / "live/t0/21511/smaps_rollup").read_bytes()) > 2**28


def test_command_lines_of_any_bytes_are_text():
    """T04"""
    assert parse_cmdline(b"a\xff\xfe\xc3\x28\0b\0") == ["a���(", "b"]
    assert parse_cmdline(b"") == []
    assert parse_cmdline(b"\0\0") == []
