"""One pass over all processes while they come and go."""

from __future__ import annotations

import errno
import os
import subprocess
from pathlib import Path

import pytest

from webapp.agent.engines.processes import Processes
from webapp.agent.engines.stat_files import StatFiles


def test_processes_that_vanish_in_the_pass_are_not_taken_for_those_that_may_not_be_read(machine):
    """T01: 11 is gone at open, 12 at read, 13 reads empty, 14 is another user's"""
    for pid in range(10, 15):
        machine.process(pid)
    failures = {11: FileNotFoundError(), 12: ProcessLookupError(), 14: PermissionError(errno.EACCES, "denied")}

    class Failing(StatFiles):
        def read(self, pid: int) -> bytes:
            if pid in failures:
                raise failures[pid]
            return b"" if pid == 13 else super().read(pid)

    scan = Processes(machine.proc, Failing(machine.proc)).scan(0.0)
    assert list(scan.processes) == [10]
    assert scan.unreadable == {14}


def test_a_sample_with_unreadable_processes_says_how_many(machine):
    """T01"""
    machine.process(10)
    machine.write("14/stat", "14 (odd")
    assert machine.sampler().measure().measurement.load.unreadable_processes == 1


def test_a_process_that_slept_is_not_parsed_again(machine):
    machine.process(10)
    processes = Processes(machine.proc)
    first = processes.scan(0.0).processes[10]
    assert processes.scan(1.0).processes[10] is first
    machine.process(10, cpu=5)
    assert processes.scan(2.0).processes[10].cpu == 5


def test_a_reused_pid_is_another_process(machine):
    machine.process(10, start=1000)
    processes = Processes(machine.proc)
    first = processes.scan(0.0).processes[10]
    machine.process(10, start=990_000)
    assert processes.scan(1.0).processes[10].key != first.key


def test_one_beat_reads_the_machines_counters_once(machine, monkeypatch):
    """T10"""
    for pid in range(1000, 1200):
        machine.process(pid)
    opened = []
    from webapp.agent import sampler as module

    real = module.read_or_empty
    monkeypatch.setattr(module, "read_or_empty", lambda path, *more: opened.append(path) or real(path, *more))
    machine.sampler().measure()
    assert opened.count(machine.proc / "stat") == 1


def test_without_a_proc_there_is_nothing_to_scan(tmp_path):
    with pytest.raises(FileNotFoundError):
        Processes(tmp_path / "absent").scan(0.0)


def test_a_kept_descriptor_tells_a_living_process_and_fails_for_a_dead_one():
    files = StatFiles(Path("/proc"), most=1)
    child = subprocess.Popen(["sleep", "60"])
    try:
        assert files.read(child.pid).startswith(b"%d (" % child.pid)
        assert files.read(child.pid).startswith(b"%d (" % child.pid)
        assert files.read(os.getpid()).startswith(b"%d (" % os.getpid())
    finally:
        child.kill()
        child.wait()
    with pytest.raises((FileNotFoundError, ProcessLookupError)):
        files.read(child.pid)
    files.close()


def test_descriptors_of_ended_processes_are_closed():
    files = StatFiles(Path("/proc"))
    processes = Processes(Path("/proc"), files)
    child = subprocess.Popen(["sleep", "60"])
    assert child.pid in processes.scan(0.0).processes
    child.kill()
    child.wait()
    scan = processes.scan(1.0)
    assert child.pid not in scan.processes
    kept = [
        os.readlink(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd") if os.path.lexists(f"/proc/self/fd/{name}")
    ]
    assert f"/proc/{child.pid}/stat" not in kept
    assert f"/proc/{os.getpid()}/stat" in kept
    files.close()


def test_files_of_a_copied_proc_are_opened_each_time(machine):
    """They may be replaced."""
    machine.process(10, cpu=1)
    files = StatFiles(machine.proc)
    files.read(10)
    machine.end(10)
    machine.process(10, cpu=2)
    assert b" 2 0 0 0 20 " in files.read(10)


def test_where_the_kernel_hides_processes_nobody_knows_how_many(machine):
    """hidepid=2 does not even show process 1"""
    machine.process(10)
    assert machine.sampler().measure().measurement.load.unreadable_processes is None
    machine.process(1)
    assert machine.sampler().measure().measurement.load.unreadable_processes == 0
