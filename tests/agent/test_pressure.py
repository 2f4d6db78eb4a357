from __future__ import annotations

import pytest

from webapp.agent.machine.pressure import Pressures
from webapp.measurement import Pressure


@pytest.fixture
def proc(tmp_path):
    (tmp_path / "pressure").mkdir()
    return tmp_path


def reported(proc, resource, some, full):
    text = f"some avg10=9.00 avg60=9.00 avg300=9.00 total={some}\nfull avg10=9.00 avg60=9.00 avg300=9.00 total={full}"
    (proc / "pressure" / resource).write_text(text)


def test_pressure_is_the_share_of_the_interval(proc):
    pressures = Pressures(proc)
    for resource in ("cpu", "memory", "io"):
        reported(proc, resource, 1_000_000, 500_000)
    assert pressures.measure(None) == Pressure()
    reported(proc, "cpu", 10_500_000, 500_000)
    reported(proc, "memory", 1_000_000, 500_000)
    reported(proc, "io", 3_000_000, 1_000_000)
    assert pressures.measure(10.0) == Pressure(cpu_some=0.95, memory_some=0.0, memory_full=0.0, io_some=0.2, io_full=0.05)


def test_a_kernel_without_pressure_leaves_it_unknown(tmp_path):
    pressures = Pressures(tmp_path)
    assert pressures.measure(None) == pressures.measure(10.0) == Pressure()


def test_an_old_kernel_that_says_nothing_of_full_for_cpu_is_read(proc):
    pressures = Pressures(proc)
    (proc / "pressure" / "cpu").write_text("some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n")
    pressures.measure(None)
    (proc / "pressure" / "cpu").write_text("some avg10=0.00 avg60=0.00 avg300=0.00 total=1000000\n")
    assert pressures.measure(10.0) == Pressure(cpu_some=0.1)


@pytest.mark.parametrize(("before", "now", "elapsed_s"), [(500, 100, 10.0), (0, 10, 0.0), (0, 10, -1.0), (0, 90_000_000, 10.0)])
def test_what_can_not_be_is_unknown(proc, before, now, elapsed_s):
    pressures = Pressures(proc)
    reported(proc, "memory", before, before)
    pressures.measure(None)
    reported(proc, "memory", now, now)
    assert pressures.measure(elapsed_s) == Pressure()


def test_a_share_of_slightly_more_than_all_is_all(proc):
    pressures = Pressures(proc)
    reported(proc, "io", 0, 0)
    pressures.measure(None)
    reported(proc, "io", 10_200_000, 0)
    assert pressures.measure(10.0).io_some == 1.0


@pytest.mark.parametrize(
    "text", ["", "some", "some total=\n", "some total=-5", "some total=x", "\x00\xff", "some total=" + "9" * 5000]
)
def test_a_broken_file_is_unknown(proc, text):
    pressures = Pressures(proc)
    (proc / "pressure" / "cpu").write_text(text)
    assert pressures.measure(None) == pressures.measure(10.0) == Pressure()
