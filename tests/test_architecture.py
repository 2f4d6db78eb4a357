"""The layering holds, and the map in the package's docstring is whole."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import webapp
from webapp import zipapp

PACKAGE = Path(webapp.__file__).parent
PYPROJECT = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text("utf-8"))
MODULES = sorted(PACKAGE.rglob("*.py"))
MAPS = sorted(path.parent for path in MODULES if path.name == "__init__.py" and path.parent.name != "views")


def within(path: Path) -> str:
    return str(path.relative_to(PACKAGE))


def said(path: Path) -> str:
    return ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""


def imported(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
    return names


def test_the_import_contracts_hold():
    # In a process of its own: import-linter switches off the loggers of the one that it runs in.
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
    check = subprocess.run(command, cwd=PACKAGE.parent, capture_output=True, text=True)
    assert check.returncode == 0, check.stdout


@pytest.mark.parametrize("path", MODULES, ids=within)
def test_every_module_says_what_it_is(path: Path):
    assert said(path) or path.name == "__main__.py"


@pytest.mark.parametrize("package", MAPS, ids=lambda path: path.name)
def test_a_package_lists_its_modules(package: Path):
    text = said(package / "__init__.py")
    inside = {path.stem for path in package.glob("*.py") if path.stem not in ("__init__", "__main__")}
    inside |= {path.parent.name for path in package.glob("*/__init__.py")}
    assert {name for name in inside if not re.search(rf"\b{name}\b", text)} == set()


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


@pytest.mark.parametrize("path", MODULES, ids=within)
def test_no_module_grows_past_three_hundred_lines(path: Path):
    assert len(path.read_text("utf-8").splitlines()) <= 300


def test_the_agent_may_import_what_its_archive_holds_and_nothing_else_of_ours():
    (forbidden,) = (
        contract["forbidden_modules"]
        for contract in PYPROJECT["tool"]["importlinter"]["contracts"]
        if contract.get("source_modules") == ["webapp.agent"]
    )
    ours = {path.stem for path in PACKAGE.glob("*.py")} | {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert {name for name in forbidden if name.startswith("webapp.")} == {
        f"webapp.{name}" for name in ours - {"agent", *zipapp.SHARED}
    }


def test_what_nodes_run_is_linted_for_python_3_9():
    on_nodes = {"webapp/agent/**", *(f"webapp/{name}.py" for name in zipapp.SHARED if name != "__init__")}
    assert PYPROJECT["tool"]["ruff"]["per-file-target-version"] == dict.fromkeys(on_nodes, "py39")


def test_the_agents_code_runs_on_python_3_9():
    # tomllib is imported by name where it exists, else tomli
    command = [
        str(Path(sys.executable).with_name("vermin")),
        "--no-tips",
        "--target=3.9-",
        "--violations",
        "--exclude",
        "tomllib",
    ]
    check = subprocess.run(
        [*command, *(str(PACKAGE / f"{name}.py") for name in zipapp.SHARED), str(PACKAGE / "agent")],
        capture_output=True,
        text=True,
    )
    assert check.returncode == 0, check.stdout
