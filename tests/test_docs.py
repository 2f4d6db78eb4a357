"""Documentation that fails when it no longer tells the truth."""

from __future__ import annotations

import importlib.util
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
_SPEC = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
generate = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(generate)


@pytest.mark.parametrize("name", generate.PAGES)
def test_a_printed_page_equals_its_table(name):
    assert (ROOT / "docs" / name).read_text("utf-8") == generate.PAGES[name](), "run make docs"


@pytest.mark.parametrize(
    "page", sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]), ids=lambda p: str(p.relative_to(ROOT))
)
def test_every_relative_link_leads_somewhere(page: Path):
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text("utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_the_readme_names_commands_that_exist():
    listed = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for command in re.findall(r"^make (\w+)", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE):
        assert re.search(rf"^{command}\b", listed, re.MULTILINE)


def test_the_changelog_has_the_version():
    from webapp import __version__

    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert "## [Unreleased]" in text or f"## [{__version__}]" in text
