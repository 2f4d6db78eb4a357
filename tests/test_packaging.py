"""Wheel and sdist are whole: what is installed from them runs anywhere, without the checkout."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from collections.abc import Iterator
from email.parser import Parser
from pathlib import Path

import pytest

from tests.programs import eventually, fetch, running, said_address, sample
from webapp import __version__, zipapp

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent


def build(source: Path, folder: Path, *targets: str) -> list[Path]:
    command = [sys.executable, "-m", "hatchling", "build", "--directory", str(folder)]
    for target in targets:
        command += ["--target", target]
    subprocess.run(command, cwd=source, check=True, capture_output=True, timeout=60)
    return sorted(folder.iterdir())


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> tuple[Path, Path]:
    """The sdist and the wheel."""
    sdist, wheel = build(ROOT, tmp_path_factory.mktemp("dist"), "sdist", "wheel")
    return (sdist, wheel) if wheel.suffix == ".whl" else (wheel, sdist)


def contents(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as file:
        return {name: file.read(name) for name in file.namelist()}


def test_the_wheel_holds_every_module_template_and_static_file(built):
    expected = {str(path.relative_to(ROOT)) for path in (ROOT / "webapp").rglob("*.py")}
    for folder in ("templates", "static"):
        expected |= {f"webapp/{path.relative_to(ROOT)}" for path in (ROOT / folder).rglob("*") if path.is_file()}
    assert expected <= set(contents(built[1]))


def test_the_wheel_states_version_and_licences_once(built):
    files = contents(built[1])
    metadata = Parser().parsestr(files[f"enginehouse-{__version__}.dist-info/METADATA"].decode())
    assert metadata["Version"] == __version__
    assert metadata["License-Expression"] == "MIT AND 0BSD"
    licences = {"LICENSE", *(str(path.relative_to(ROOT)) for path in (ROOT / "static" / "vendor").glob("*.LICENSE"))}
    assert set(metadata.get_all("License-File")) == licences
    stated = [
        path.name
        for path in [ROOT / "pyproject.toml", *(ROOT / "webapp").rglob("*.py"), *(ROOT / "deploy").rglob("*")]
        if path.is_file() and re.search(rf"(?<![\d.=>~]){re.escape(__version__)}(?![\d.])", path.read_text("utf-8"))
    ]
    assert stated == ["__init__.py"]


def test_the_sdist_builds_the_same_wheel(built, tmp_path):
    with tarfile.open(built[0]) as archive:
        archive.extractall(tmp_path, filter="data")
    (wheel,) = build(tmp_path / f"enginehouse-{__version__}", tmp_path / "dist", "wheel")
    assert wheel.read_bytes() == built[1].read_bytes()


@pytest.fixture(scope="module")
def installed(built, tmp_path_factory) -> Path:
    """The command, from a wheel in a fresh environment that borrows nothing but the dependencies."""
    home = tmp_path_factory.mktemp("empty")
    venv.create(home, with_pip=False, symlinks=True)
    python = home / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*pip, str(built[1])], check=True, capture_output=True, timeout=120)
    (packages,) = home.glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n", "utf-8")
    return home / "bin" / "enginehouse"


def alone() -> dict[str, str]:
    """An environment that does not lead back to the checkout."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "ENGINEHOUSE", "VIRTUAL_ENV"))}


def test_the_installed_command_is_not_the_checkout(installed, tmp_path):
    code = "import webapp.app; print(webapp.app.ASSETS)"
    python = installed.with_name("python")
    said = subprocess.run([python, "-c", code], cwd=tmp_path, env=alone(), capture_output=True, text=True, check=True)
    assert Path(said.stdout.strip()).is_relative_to(installed.parent.parent)
    version = subprocess.run([installed, "--version"], cwd=tmp_path, env=alone(), capture_output=True, text=True, check=True)
    assert version.stdout == f"enginehouse {__version__}\n"


@pytest.fixture
def up(installed, tmp_path) -> Iterator[str]:
    """The address of `enginehouse up`, started in a folder that holds nothing."""
    log, elsewhere = tmp_path / "log", tmp_path / "elsewhere"
    elsewhere.mkdir()
    command = [str(installed), "up", "--listen", "127.0.0.1:0", "--data-dir", str(tmp_path / "data"), "--node", "here"]
    with running(command, log, cwd=elsewhere, env=alone()) as process:
        yield eventually(lambda: said_address(log, process), "the address")
        process.terminate()
        process.wait(20)


@pytest.mark.live
def test_up_from_the_wheel_shows_this_machine_with_all_its_files(up):
    eventually(lambda: sample(up, 'llmgw_node_cpu_utilization_percent{node="here"}') is not None, "this machine's CPU")
    page = fetch(up)
    assert "here" in page
    for path in {*re.findall(r'(?:href|src)="(/static/[^"]+)"', page), "/nodes/here", "/add"}:
        assert fetch(up + path)
    for file in (ROOT / "static").rglob("*"):
        if file.is_file():
            assert fetch(f"{up}/{file.relative_to(ROOT)}")


def test_the_installed_package_makes_the_same_agent_as_the_checkout(installed, tmp_path):
    code = "import sys; from webapp import zipapp; sys.stdout.buffer.write(zipapp.build())"
    python = installed.with_name("python")
    made = subprocess.run([python, "-c", code], cwd=tmp_path, env=alone(), capture_output=True, check=True, timeout=60)
    assert made.stdout == zipapp.build()
