"""The layering holds, and the map in the package's docstring is whole."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from importlinter.cli import lint_imports

import webapp

PACKAGE = Path(webapp.__file__).parent
MODULES = sorted(PACKAGE.glob("*.py"))


def imported(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
    return names


def test_the_import_contracts_hold():
    assert lint_imports(str(PACKAGE.parent / "pyproject.toml"), cache_dir=None) == 0


@pytest.mark.parametrize(
    "path",
    [p for p in MODULES if p.name not in ("app.py", "control_plane.py", "cli.py", "serving.py", "channels.py")],
    ids=lambda p: p.name,
)
def test_the_domain_does_not_know_flask(path: Path):
    roots = {name.split(".")[0] for name in imported(path)}
    assert not roots & {"flask", "werkzeug", "jinja2", "htmx_flask"}


@pytest.mark.parametrize("path", MODULES, ids=lambda p: p.name)
def test_every_module_is_under_a_contract_and_says_what_it_is(path: Path):
    contracts = (PACKAGE.parent / "pyproject.toml").read_text("utf-8")
    if path.name not in ("__init__.py", "__main__.py"):
        assert f'"webapp.{path.stem}"' in contracts
    assert ast.get_docstring(ast.parse(path.read_text("utf-8")))


def test_the_package_imports_nothing():
    assert imported(PACKAGE / "__init__.py") == set()


def test_the_agent_runs_on_the_standard_library_alone():
    code = "import sys, webapp.agent.command; print(*sorted({name.split('.')[0] for name in sys.modules}))"
    loaded = set(
        subprocess.run(
            [sys.executable, "-S", "-c", code], cwd=PACKAGE.parent, capture_output=True, text=True, check=True
        ).stdout.split()
    )
    foreign = loaded - set(sys.stdlib_module_names) - {"webapp", "__main__", "__mp_main__", "sitecustomize"}
    assert foreign == set()


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_no_module_grows_past_three_hundred_lines(path: Path):
    assert len(path.read_text("utf-8").splitlines()) <= 300


def test_the_agents_code_runs_on_python_3_9():
    shared = [
        PACKAGE / f"{name}.py"
        for name in ("addresses", "fields", "measurement", "heartbeat", "snapshot", "kinds", "settings", "config", "logs")
    ]
    # tomllib is imported by name where it exists, else tomli
    command = [
        str(Path(sys.executable).with_name("vermin")),
        "--no-tips",
        "--target=3.9-",
        "--violations",
        "--exclude",
        "tomllib",
    ]
    check = subprocess.run([*command, *map(str, shared), str(PACKAGE / "agent")], capture_output=True, text=True)
    assert check.returncode == 0, check.stdout
