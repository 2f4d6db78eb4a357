"""One table: flag before environment before file before default; refusals that say what was wanted."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from webapp.config import COMMANDS, SETTINGS, settings_of
from webapp.settings import SettingError, add_flags, resolve


def values(command: str, *argv: str, environment: dict[str, str] | None = None):
    parser = argparse.ArgumentParser()
    add_flags(parser, settings_of(command))
    return resolve(settings_of(command), parser.parse_args(argv), environment or {})


def test_the_flag_comes_before_the_environment_before_the_file_before_the_default(tmp_path: Path):
    file = tmp_path / "enginehouse.toml"
    file.write_text('keep_hours = 7\nthreads = 3\nlisten = "127.0.0.1:1"\n', "utf-8")
    given = {"ENGINEHOUSE_CONFIG": str(file), "ENGINEHOUSE_THREADS": "4", "ENGINEHOUSE_LISTEN": "127.0.0.1:2"}
    found = values("serve", "--listen", "127.0.0.1:3", environment=given)
    assert (found.listen, found.threads, found.keep_hours, found.forget_after_hours) == (("127.0.0.1", 3), 4, 7, 168)


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"ENGINEHOUSE_KEEP_HOURS": "1h"}, "ENGINEHOUSE_KEEP_HOURS=1h: expected hours, 6 to 8784"),
        ({"ENGINEHOUSE_KEEP_HOURS": "nan"}, "ENGINEHOUSE_KEEP_HOURS=nan: expected hours, 6 to 8784"),
        ({"ENGINEHOUSE_KEEP_HOURS": "-1"}, "ENGINEHOUSE_KEEP_HOURS=-1: expected hours, 6 to 8784"),
        ({"ENGINEHOUSE_KEEP_HOURS": "5.9"}, "ENGINEHOUSE_KEEP_HOURS=5.9: expected hours, 6 to 8784"),
        ({"ENGINEHOUSE_HEARTBEAT_INTERVAL": "21"}, "ENGINEHOUSE_HEARTBEAT_INTERVAL=21: expected seconds, 1 to 20"),
        ({"ENGINEHOUSE_LISTEN": "8765"}, "ENGINEHOUSE_LISTEN=8765: expected HOST:PORT, such as 127.0.0.1:8765"),
        ({"ENGINEHOUSE_LISTEN": "::1:99999"}, "ENGINEHOUSE_LISTEN=::1:99999: expected HOST:PORT, such as 127.0.0.1:8765"),
        ({"ENGINEHOUSE_THREADS": "1.5"}, "ENGINEHOUSE_THREADS=1.5: expected a whole number, such as 20"),
        ({"ENGINEHOUSE_LOG_LEVEL": "loud"}, "ENGINEHOUSE_LOG_LEVEL=loud: expected one of debug, info, warning, error"),
        ({"ENGINEHOUSE_ALLOW_ANONYMOUS": "perhaps"}, "ENGINEHOUSE_ALLOW_ANONYMOUS=perhaps: expected on or off"),
    ],
)
def test_a_bad_value_says_what_came_and_what_was_wanted(environment, said):
    with pytest.raises(SettingError) as refusal:
        values("serve", environment=environment)
    assert str(refusal.value) == said


def test_an_unknown_setting_in_the_file_is_refused_with_the_nearest_name(tmp_path: Path):
    file = tmp_path / "enginehouse.toml"
    file.write_text("keep_hour = 7\n", "utf-8")
    with pytest.raises(SettingError, match="keep_hour is not a setting of this command; did you mean keep_hours"):
        values("serve", "--config", str(file))


@pytest.mark.parametrize("text", ["keep_hours = ", "\xff\xfe", "[[engine]\n", "x = " + "[" * 100_000])
def test_a_file_that_is_not_toml_is_refused(tmp_path: Path, text: str):
    file = tmp_path / "enginehouse.toml"
    file.write_text(text, "latin-1")
    with pytest.raises(SettingError, match="not TOML"):
        values("serve", "--config", str(file))


@pytest.mark.parametrize(
    ("command", "flag", "given"),
    [
        ("serve", "--data-dir", "~nobody-of-this-name/x"),
        ("serve", "--data-dir", "a\0b"),
        ("serve", "--config", "~nobody-of-this-name/x.toml"),
        ("serve", "--most-nodes", "\u0661\u0662"),
        ("serve", "--most-nodes", "1_0"),
        ("serve", "--keep-hours", "1_0"),
        ("serve", "--listen", "127.0.0.1:\u0661"),
        ("agent", "--server", "http://a b"),
        ("agent", "--server", "http://a/b\x7f"),
    ],
)
def test_a_value_that_could_only_fail_later_is_refused_where_it_was_given(command: str, flag: str, given: str):
    with pytest.raises(SettingError, match=f"^{flag}="):
        values(command, flag, given)


def test_a_switch_has_a_flag_for_each_side():
    assert values("agent", "--server", "http://c:1", "--no-discover").discover is False
    assert values("agent", "--once").once is True


def test_a_list_is_given_by_several_flags_or_by_commas():
    assert values("agent", "--server", "http://a:1/", "--server", "https://b/x").server == ("http://a:1", "https://b/x")
    assert values("agent", environment={"ENGINEHOUSE_SERVER": "http://a:1, http://b:2"}).server == ("http://a:1", "http://b:2")


def test_help_states_bounds_default_and_variable_of_every_flag():
    for command in COMMANDS:
        parser = argparse.ArgumentParser()
        add_flags(parser, settings_of(command))
        text = " ".join(parser.format_help().split())
        for setting in settings_of(command):
            if not setting.file_only:
                assert setting.flag in text
                assert setting.kind.bounds in text
                assert setting.variable in text.replace("ENGINEHOUSE_ ", "ENGINEHOUSE_")


def test_names_are_reported_once_and_belong_to_commands_that_exist():
    assert len({setting.name for setting in SETTINGS}) == len(SETTINGS)
    assert {command for setting in SETTINGS for command in setting.commands} == set(COMMANDS)
