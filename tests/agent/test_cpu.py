"""CPU percent over all cores, from two readings of /proc/stat 10 s apart."""

from __future__ import annotations

import pytest

from webapp.agent.machine.cpu import CpuMeter
from webapp.agent.machine.proc import CpuTimes, parse_stat


def percents(*readings: str, elapsed_s: float | None = 10.0) -> list[float | None]:
    meter = CpuMeter(ticks=100)
    found = [meter.measure(parse_stat(reading.encode()), elapsed_s) for reading in readings]
    return [busy.percent if busy else None for busy in found]


def cpu(numbers: str, cores: int = 0) -> str:
    return f"cpu {numbers}\n" + "".join(f"cpu{number} 0 0 0 0\n" for number in range(cores))


def test_the_first_reading_is_unknown():
    assert percents(cpu("1 2 3 4")) == [None]


@pytest.mark.parametrize(
    ("first", "second", "percent"),
    [
        pytest.param("2000 0 500 97000 500 0 0 0", "2300 0 600 97500 600 0 0 0", 40.0, id="T07"),
        pytest.param("1000 0 500 8000 400 0 0 0 0 0", "1100 0 550 8300 350 0 0 0 0 0", 37.5, id="T11 iowait went back"),
        pytest.param("0 0 0 0 0 0 0 0 0 0", "400 0 0 600 0 0 0 0 300 0", 40.0, id="T13 guest"),
        pytest.param("0 0 0 0 0 0 0 0 0 0", "100 300 100 500 0 0 0 0 0 200", 50.0, id="T13 guest_nice"),
        pytest.param("0 0 0 0 0 0 0 0 0 0", "20 0 30 50 900 0 0 0 0 0", 5.0, id="T14 iowait is idle"),
        pytest.param("0 0 0 0 0 0 0 0", "4000 0 0 0 0 0 0 0", 100.0, id="T20"),
        pytest.param("9 9 9 9 9 9 9 9 9 9", "9 9 9 9 9 9 9 9 9 9", None, id="T19 nothing passed"),
        pytest.param("0 0 0 0 0 0 0 0 0 0", "0 0 0 0 0 0 0 0 0 0", None, id="T22 gVisor"),
        pytest.param("500 0 0 500 0 0 0 0", "400 0 0 700 0 0 0 0", None, id="busy went back"),
        pytest.param("500 0 0 500 0 0 0 0", "10 0 0 10 0 0 0 0", None, id="all went back"),
    ],
)
def test_two_readings_give(first, second, percent):
    assert percents(cpu(first), cpu(second)) == [None, percent]


def test_a_core_that_leaves_makes_one_interval_unknown():
    """T16"""
    assert percents(
        cpu("80000 0 40000 800000 8000 0 0 0 0 0", cores=8),
        cpu("80100 0 40050 500000 8000 0 0 0 0 0", cores=4),
        cpu("80500 0 40050 503600 8000 0 0 0 0 0", cores=4),
    ) == [None, None, 10.0]


def test_more_ticks_than_the_cores_have_time_for_are_unknown():
    """lxc/lxcfs#311: idle of 8.3e18"""
    assert percents(cpu("1 0 0 1", cores=4), cpu("13337485 0 0 8317131874320235395", cores=4)) == [None, None]


def test_a_machine_that_slept_divides_by_the_time_awake():
    """T71: the counters stand still in suspend, as monotonic time does"""
    assert percents(cpu("0 0 0 0", cores=4), cpu("1000 0 0 3000", cores=4)) == [None, 25.0]


def test_one_unknown_reading_costs_two_intervals_and_no_more():
    assert percents(cpu("0 0 0 0"), cpu("x 0 0 0"), cpu("100 0 0 300"), cpu("200 0 0 600")) == [None, None, None, 25.0]


def test_a_machine_that_was_busy_all_the_time_is_at_100_percent_and_no_more():
    meter = CpuMeter(ticks=100)
    meter.measure(CpuTimes(0, 0, None), None)
    assert meter.measure(CpuTimes(383_406_543_009_471, 0, None), None).percent == 100.0
