"""Documentation that fails when it no longer tells the truth."""

from __future__ import annotations

import argparse
import importlib.util
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from webapp import heartbeat, zipapp
from webapp.agent.engines.declared import declared
from webapp.config import COMMANDS, SETTINGS, settings_of
from webapp.settings import resolve

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
_SPEC = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
generate = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(generate)


@pytest.mark.parametrize("name", generate.PAGES)
def test_a_printed_page_equals_its_table(name):
    assert (ROOT / name).read_text("utf-8") == generate.PAGES[name](), "run make docs"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_relative_link_leads_somewhere(page: Path):
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text("utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []


def commands_in(text: str) -> list[tuple[str, list[str]]]:
    """Each `enginehouse COMMAND` with its flags, of a line of shell or of a sentence; what follows ` -- ` is another's."""
    found = []
    for name, rest in re.findall(r"(?:^\s*|bin/)enginehouse ([a-z][a-z-]*)((?: [^|;&\n]*)?)", text, re.MULTILINE):
        ours = rest.partition(" -- ")[0].partition(" #")[0]
        found.append((name, re.findall(r"(?<=\s)(--[a-z-]+)", ours)))
    return found


def test_make_has_every_command_that_the_pages_name():
    listed = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    have = {line.split()[0] for line in listed.splitlines()}
    named = {word for page in PAGES for line in re.findall(r"\bmake(?: [a-z]+)+", _code(page)) for word in line.split()[1:]}
    assert named <= have


def _code(page: Path) -> str:
    """What is set as code on a page."""
    text = page.read_text("utf-8")
    blocks = [block.replace("\\\n", " ") for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL)]
    return "\n".join(re.sub(r"#.*", "", block) for block in blocks) + "\n".join(re.findall(r"`([^`\n]+)`", text))


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_command_on_a_page_exists_with_its_flags(page: Path):
    for name, flags in commands_in(_code(page)):
        assert name in COMMANDS, name
        have = {setting.flag for setting in settings_of(name)} | {"--help"}
        have |= {"--no-" + setting.flag[2:] for setting in settings_of(name)}
        assert set(flags) <= have, f"enginehouse {name}"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_setting_in_a_toml_block_can_be_used(page: Path, tmp_path: Path):
    """Each block is read as a file of settings; paths in it need not exist."""
    known = {setting.name: setting for setting in SETTINGS}
    for block in re.findall(r"```toml\n(.*?)```", page.read_text("utf-8"), re.DOTALL):
        table = tomllib.loads(block)
        assert set(table) <= set(known)
        file = tmp_path / "settings.toml"
        file.write_text(block, "utf-8")
        takers = set(COMMANDS).intersection(*(known[name].commands for name in table))
        assert takers, "no command takes all of them"
        for command in takers:
            resolve(settings_of(command), argparse.Namespace(config=str(file)), {})
        if "engine" in table:
            declared(table["engine"])


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_file_that_a_page_names_is_there(page: Path):
    named = re.findall(r"`((?:webapp|tests|docs|deploy|benchmarks|static|templates)/[\w./-]+)`", page.read_text("utf-8"))
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_every_route_is_named_on_a_page(app):
    pages = "\n".join(page.read_text("utf-8") for page in PAGES)
    paths = {re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", rule.rule) for rule in app.url_map.iter_rules()}
    kept_for_pages = {path for path in paths if path.startswith(("/fragments/", "/static/"))}
    assert sorted(path for path in paths - kept_for_pages if path not in pages) == []


def test_the_messages_that_troubleshooting_explains_are_said_somewhere():
    """What is quoted, and the first column of the tables that begin with "it says"."""
    text = (ROOT / "docs" / "troubleshooting.md").read_text("utf-8")
    said = " ".join(
        path.read_text("utf-8")
        for suffix in ("py", "html")
        for path in [*(ROOT / "webapp").rglob(f"*.{suffix}"), *(ROOT / "templates").rglob(f"*.{suffix}")]
    )
    (starts,) = re.findall(r"\| it says \| do \|\n\|[-|]+\|\n((?:\|.*\n)+)", text)
    quoted = [part for words in re.findall(r'"([^"\n]+)"', text) for part in words.split(" ... ")]
    quoted += re.findall(r"^\| (.*?) \|", starts, re.MULTILINE)
    assert len(quoted) > 15
    assert [words for words in quoted if words not in said] == []


def test_the_heartbeat_on_the_page_is_taken_whole():
    (block,) = re.findall(r"```json\n(.*?)```", (ROOT / "docs" / "protocols.md").read_text("utf-8"), re.DOTALL)
    reading = heartbeat.read(block.encode())
    assert reading.rejected == ()
    assert reading.measurement.engines[0].requests.waiting == 3


def test_the_architecture_names_what_the_agent_may_import():
    text = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    (sentence,) = re.findall(r"`agent/` imports only (.*?) and the standard library", text)
    assert set(re.findall(r"`(\w+)`", sentence)) == set(zipapp.SHARED) - {"__init__"}
    assert len(text.splitlines()) < 60, "one page"


def test_the_changelog_has_the_version():
    from webapp import __version__

    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert "## [Unreleased]" in text or f"## [{__version__}]" in text
