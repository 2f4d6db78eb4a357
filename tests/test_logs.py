"""No name can forge a line of the log or reach the terminal."""

from __future__ import annotations

import json
import logging

import pytest

from webapp import logs

FORGERY = "n1\n2026-01-01 00:00:00 ERROR forged: all is lost\r\x1b[2J\x1b]0;title\x07\u202e\x9b31m\x00\ud800"


@pytest.fixture
def log():
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    yield logging.getLogger("enginehouse.test")
    root.handlers[:] = before
    root.setLevel(level)


def test_a_name_forges_no_line_and_sends_nothing_to_the_terminal(log, capsys):
    logs.start("info")
    log.warning("node %s is late", FORGERY)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.isprintable()
    assert r"node n1\n2026-01-01" in line


def test_the_lines_of_a_traceback_are_marked(log, capsys):
    logs.start("info")
    try:
        raise ValueError(FORGERY)
    except ValueError:
        log.exception("node %s failed", FORGERY)
    first, *rest = capsys.readouterr().err.splitlines()
    assert first.endswith("failed")
    assert rest
    assert all(line.startswith("  | ") and line.isprintable() for line in rest)


def test_in_json_an_event_is_one_object(log, capsys):
    logs.start("debug", "json")
    try:
        raise ValueError(FORGERY)
    except ValueError:
        log.exception("node %s failed", FORGERY)
    (line,) = capsys.readouterr().err.splitlines()
    event = json.loads(line)
    assert line.isascii()
    assert event["message"].startswith("node n1\n2026")
    assert event["level"] == "error"
    assert "ValueError" in event["exception"]


@pytest.mark.parametrize("style", ["text", "json"])
def test_a_long_event_is_cut(log, capsys, style):
    logs.start("info", style)
    log.info("%s", "x" * 1_000_000)
    assert len(capsys.readouterr().err) < 9_000


def test_the_level_is_kept(log, capsys):
    logs.start("warning")
    log.info("quiet")
    log.warning("loud")
    assert [line.rpartition(" ")[2] for line in capsys.readouterr().err.splitlines()] == ["loud"]
