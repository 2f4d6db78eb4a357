"""Groups of real processes: started, told apart from others, stopped as a whole."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.programs import eventually
from webapp.agent.process_group import ProcessGroup


def program(code: str, *words: str) -> list[str]:
    return [sys.executable, "-S", "-c", code, *words]


#: Starts a child that ignores SIGTERM if it is told to, and writes its number to a file.
PARENT = """
import os, signal, sys, time
file, stubborn, stays = sys.argv[1], sys.argv[2] == "stubborn", sys.argv[3] == "stays"
pid = os.fork()
if pid == 0:
    if stubborn: signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with open(file + ".new", "w") as f: f.write(str(os.getpid()))
    os.rename(file + ".new", file)
    time.sleep(600)
while not os.path.exists(file): time.sleep(0.01)
time.sleep(600 if stays else 0)
"""


def runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def child_of(file: Path) -> int:
    return eventually(lambda: int(file.read_text("utf-8")) if file.exists() else None, "the child")


@pytest.mark.parametrize("code", [0, 3, 255])
def test_the_exit_code_is_the_leaders(code):
    group = ProcessGroup(program(f"raise SystemExit({code})"))
    assert eventually(group.poll, "the end") == code
    assert group.stop(5) == code


def test_a_leader_that_a_signal_ended_has_the_shells_code():
    group = ProcessGroup(program("import os; os.kill(os.getpid(), 9)"))
    assert eventually(group.poll, "the end") == 137
    assert group.stop(5) == 137


def test_the_leader_has_a_group_of_its_own():
    group = ProcessGroup(program("import time; time.sleep(600)"))
    assert os.getpgid(group.pid) == group.pid != os.getpgid(0)
    assert group.poll() is None
    assert group.stop(5) == 143
    assert not runs(group.pid)


@pytest.mark.parametrize("stays", ["stays", "ends"])
def test_what_the_leader_started_ends_with_it(tmp_path, stays):
    """T41: a leader that is gone leaves children, which hold memory and GPUs."""
    group = ProcessGroup(program(PARENT, str(tmp_path / "pid"), "meek", stays))
    child = child_of(tmp_path / "pid")
    if stays == "ends":
        assert eventually(lambda: group.poll() is not None, "the leader's end")
        assert runs(child)
    assert group.stop(30) == (143 if stays == "stays" else 0)
    assert not runs(child)


def test_what_does_not_stop_is_killed_when_its_time_is_over(tmp_path):
    group = ProcessGroup(program(PARENT, str(tmp_path / "pid"), "stubborn", "stays"))
    child = child_of(tmp_path / "pid")
    now = [0.0]

    def wait(seconds: float) -> None:
        now[0] += seconds

    group.stop(3.0, monotonic=lambda: now[0], wait=wait)
    assert now[0] == pytest.approx(3.0, abs=0.1)
    eventually(lambda: not runs(child), "the child to be gone")


def test_a_second_signal_ends_the_patience(tmp_path):
    group = ProcessGroup(program(PARENT, str(tmp_path / "pid"), "stubborn", "stays"))
    child = child_of(tmp_path / "pid")
    group.stop(600, wait=lambda seconds: True)
    eventually(lambda: not runs(child), "the child to be gone")


def test_others_are_left_alone(tmp_path):
    with subprocess.Popen(program("import time; time.sleep(600)"), start_new_session=True) as other:
        group = ProcessGroup(program("import time; time.sleep(600)"))
        group.stop(5)
        assert other.poll() is None
        other.send_signal(signal.SIGKILL)


def test_a_program_that_is_not_there_is_an_error():
    with pytest.raises(FileNotFoundError):
        ProcessGroup(["/nowhere/engine"])
