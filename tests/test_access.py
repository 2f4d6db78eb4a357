"""Tokens from files, and how often a wrong one may be tried."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from webapp.access import AccessUnusable, Failures, TokenFile, existing_key, secret_key
from webapp.embedding import EmbedLinks, LinkRefused

ONE, TWO = "token-one-0000001", "token-two-0000002"


def test_two_tokens_are_valid_at_once_and_one_may_be_for_one_node(tokens):
    file = tokens("agents", "# this quarter's", ONE, "", f"{TWO}  cpu 07 ")
    assert file.holder(ONE).node == ""
    assert file.holder(TWO).node == "cpu 07"
    assert file.holder(ONE + "x") is None
    assert file.holder("") is None


def test_a_token_is_replaced_without_a_pause(tokens, clock):
    file = tokens("agents", ONE)
    tokens("agents", ONE, TWO)
    assert file.holder(TWO) is None
    clock.advance(1)
    assert file.holder(ONE)
    assert file.holder(TWO)
    tokens("agents", TWO)
    clock.advance(1)
    assert file.holder(ONE) is None
    assert file.holder(TWO)


def test_a_file_that_is_broken_later_costs_no_token(tokens, clock, caplog):
    """Said once at the start and once at the end."""
    file = tokens("agents", ONE)
    (Path(file._path)).unlink()
    with caplog.at_level(logging.INFO):
        for _ in range(5):
            clock.advance(1)
            assert file.holder(ONE)
        tokens("agents", TWO)
        clock.advance(1)
        assert file.holder(TWO)
    said = [record.getMessage() for record in caplog.records]
    assert [text.rpartition("; ")[2] for text in said[:1]] == ["the tokens read before stay valid"]
    assert "was read again: 1 tokens" in said[-1]
    assert len(said) == 2


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "holds no token"),
        (b"# nothing\n", "holds no token"),
        (b"short\n", "line 1: expected a token of 16 to 512 printable ASCII characters, got 5 characters"),
        (b"ok-token-00000001\n" + b"x" * 513, "line 2: expected"),
        ("pässwörd-pässwörd".encode(), "line 1: expected"),
        (b"\xff" * 40, "expected UTF-8"),
        (b"a" * (4 * 1024 * 1024 + 2), "larger than"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_and_its_secrets_are_not_told(tmp_path, content, said):
    path = tmp_path / "tokens"
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(AccessUnusable, match=said) as refusal:
        TokenFile(path, b"key")
    assert "short" not in str(refusal.value).replace("tokens", "")
    assert "pässw" not in str(refusal.value)


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(AccessUnusable, match="cannot be read: No such file"):
        TokenFile(tmp_path / "nowhere", b"key")


def test_no_secret_is_kept_or_shown(tokens):
    file = tokens("agents", ONE)
    assert ONE not in repr(file)
    assert ONE not in repr(vars(file))


def test_a_file_that_every_user_can_read_is_reported(tmp_path, caplog):
    path = tmp_path / "tokens"
    path.write_text(ONE)
    path.chmod(0o644)
    TokenFile(path, b"key")
    assert "chmod 600" in caplog.text


def test_the_key_is_made_once_and_kept_from_others(tmp_path):
    path = tmp_path / "data" / "secret.key"
    key = secret_key(path)
    assert (secret_key(path), existing_key(path)) == (key, key)
    assert os.stat(path).st_mode & 0o777 == 0o600
    assert secret_key(None) != secret_key(None)
    path.write_text("short")
    with pytest.raises(AccessUnusable, match="expected a key of at least 32 characters, got 5"):
        secret_key(path)


def test_a_full_disk_leaves_no_key_that_is_refused_once_there_is_room(tmp_path):
    """Files of at most 0 bytes stand for a full disk: a file can be made, and nothing written into it."""
    path = tmp_path / "secret.key"
    make = "import resource, sys; from pathlib import Path; from webapp.access import secret_key;"
    make += "resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)); secret_key(Path(sys.argv[1]))"
    full = subprocess.run([sys.executable, "-c", make, str(path)], capture_output=True, text=True, timeout=60)
    assert "cannot be written: File too large" in full.stderr
    assert list(tmp_path.iterdir()) == []
    assert len(secret_key(path)) == 64


def test_wrong_tokens_are_forgiven_after_a_minute(clock):
    failures = Failures(most=3, within_s=60.0, clock=clock)
    for _ in range(3):
        assert failures.wait_s("192.0.2.1") == 0
        failures.add("192.0.2.1")
    assert failures.wait_s("192.0.2.1") == 60
    assert failures.wait_s("192.0.2.2") == 0
    clock.advance(60)
    assert failures.wait_s("192.0.2.1") == 0


def test_a_network_of_ipv6_is_one_caller_and_many_callers_need_little_room(clock):
    failures = Failures(most=2, most_sources=100, clock=clock)
    failures.add("2001:db8::1")
    failures.add("2001:db8::2")
    assert failures.wait_s("2001:db8::3") > 0
    for number in range(1000):
        failures.add(f"10.0.{number // 256}.{number % 256}")
    assert len(failures._failed) == 100


def test_an_embed_link_opens_its_path_until_it_ends(wall):
    links = EmbedLinks(b"key", wall)
    token = links.token("/nodes/a b", 3600)
    assert links.path(token) == "/nodes/a b"
    wall.advance(3601)
    with pytest.raises(LinkRefused, match=f"expired on {time.strftime('%Y-%m-%d', time.gmtime(wall.now))}"):
        links.path(token)


def test_an_embed_link_that_was_changed_or_made_elsewhere_opens_nothing(wall):
    links = EmbedLinks(b"key", wall)
    token = links.token("/nodes/a", 3600)
    for forged in (
        token[:-1] + ("A" if token[-1] != "A" else "B"),
        "x" + token,
        "",
        "a.b.c",
        EmbedLinks(b"other", wall).token("/", 60),
    ):
        with pytest.raises(LinkRefused):
            links.path(forged)


@pytest.mark.parametrize(("path", "seconds"), [("nodes/a", 60), ("//evil.example", 60), ("/", 0), ("/", 1e9)])
def test_a_link_that_makes_no_sense_is_not_made(path, seconds):
    with pytest.raises(ValueError):
        EmbedLinks(b"key").token(path, seconds)
