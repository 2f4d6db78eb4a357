"""The agent as one file: fetched from a control plane, run without any package, the same bytes each time."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.programs import control_plane, eventually, sample
from webapp import zipapp
from webapp.agent.install import install, unit
from webapp.settings import SettingError


@pytest.fixture(scope="module")
def archive(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("fetched") / "agent.pyz"
    path.write_bytes(zipapp.build())
    return path


def test_the_same_package_gives_the_same_bytes(archive):
    assert zipapp.build() == archive.read_bytes()


def pythons() -> list[str]:
    """Every CPython from 3.9 on that this machine has."""
    on_path = {path for minor in range(9, 16) if (path := shutil.which(f"python3.{minor}"))}
    by_pyenv = {
        str(path) for minor in range(9, 16) for path in Path.home().glob(f".pyenv/versions/3.{minor}.*/bin/python3.{minor}")
    }
    return sorted({sys.executable} | (by_pyenv or on_path))


@pytest.mark.live
@pytest.mark.parametrize("python", pythons())
def test_it_reports_without_any_package(tmp_path, archive, python):
    with control_plane(tmp_path / "plane.log", "--data-dir", str(tmp_path / "plane")) as (url, _):
        command = [
            python,
            "-I",
            "-S",
            str(archive),
            "--server",
            url,
            "--node",
            "packed",
            "--once",
            "--data-dir",
            str(tmp_path / "agent"),
        ]
        result = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=tmp_path)
        assert result.returncode == 0, result.stderr
        eventually(lambda: sample(url, 'llmgw_node_cpu_utilization_percent{node="packed"}') is not None, "the node's CPU")


def test_an_interpreter_that_is_too_old_is_named():
    assert "needs Python 3.9 or later" in zipapp._MAIN


def test_the_unit_is_one_that_systemd_takes(tmp_path):
    text = unit(Path("/usr/local/lib/enginehouse/agent.pyz"), ["--server", "http://c:1", "--node", 'odd "name" 100% $HOME'])
    assert (
        'ExecStart=/usr/bin/python3 /usr/local/lib/enginehouse/agent.pyz --server http://c:1 --node "odd \\"name\\" 100%% $$HOME"'
        in text
    )
    program = shutil.which("systemd-analyze")
    assert program, "systemd-analyze is missing: apt-get install systemd"
    file = tmp_path / "enginehouse-agent.service"
    file.write_text(unit(Path("/bin/true"), ["--server", "http://c:1"], "/bin/true"), "utf-8")
    check = subprocess.run([program, "verify", str(file)], capture_output=True, text=True, timeout=60)
    assert [line for line in check.stderr.splitlines() if "enginehouse-agent" in line] == []


def test_install_puts_program_and_unit_in_place_and_can_be_run_again(tmp_path, archive):
    program, unit_file = tmp_path / "lib" / "agent.pyz", tmp_path / "agent.service"
    for flags in (["--server", "http://c:1"], ["--server", "http://c:2"]):
        install(flags, running=archive, program=program, unit_file=unit_file)
        assert program.read_bytes() == archive.read_bytes()
        assert f"--server {flags[1]}" in unit_file.read_text("utf-8")


def test_install_works_from_the_archive_only(tmp_path):
    with pytest.raises(SettingError, match="works from the archive only"):
        install([], running=tmp_path / "command.py", program=tmp_path / "x", unit_file=tmp_path / "y")
