"""The UUID that a node keeps on its disk."""

from __future__ import annotations

import uuid

import pytest

from webapp.agent import identity
from webapp.agent.identity import agent_id
from webapp.settings import SettingError


def test_a_node_keeps_its_identity(tmp_path):
    first = agent_id(tmp_path / "new" / "directory")
    assert str(uuid.UUID(first)) == first
    assert agent_id(tmp_path / "new" / "directory") == first
    assert [path.name for path in (tmp_path / "new" / "directory").iterdir()] == ["agent-id"]


def test_a_directory_that_can_not_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(SettingError, match=r"data_dir=.*/file/below: cannot be written: Not a directory|cannot be read"):
        agent_id(tmp_path / "file" / "below")


def test_a_file_that_holds_no_uuid_is_named_and_kept(tmp_path):
    (tmp_path / "agent-id").write_bytes(b"\xffgarbage")
    with pytest.raises(SettingError, match=r"agent-id: expected a UUID, got .*garbage"):
        agent_id(tmp_path)
    assert (tmp_path / "agent-id").read_bytes() == b"\xffgarbage"


def test_of_two_agents_that_start_together_both_take_the_first_ones_identity(tmp_path, monkeypatch):
    first = agent_id(tmp_path)
    real, calls = identity._read, []

    def late(path):
        calls.append(path)
        if len(calls) == 1:
            raise FileNotFoundError
        return real(path)

    monkeypatch.setattr(identity, "_read", late)
    assert agent_id(tmp_path) == first
