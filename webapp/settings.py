"""How a setting is read: from its flag, else its environment variable, else the TOML file, else its default.

`config` says which settings there are; this module knows none of them. Every refusal is a SettingError
that names the place of the value, what came and what was wanted.

Runs on nodes: standard library only, CPython 3.9 and later (a TOML file needs 3.11, or the package tomli).
"""

from __future__ import annotations

import importlib
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from webapp.kinds import ADDRESS, DURATION, PATH, SWITCH, Kind

if TYPE_CHECKING:
    import argparse

ENVIRONMENT_PREFIX = "ENGINEHOUSE_"


class SettingError(Exception):
    """A setting can't be used. The message is one line, for the operator."""


@dataclass(frozen=True)
class Setting:
    """One row of the table in `config`."""

    name: str
    default: Any
    kind: Kind
    help: str
    commands: tuple[str, ...]
    #: In the TOML file only.
    file_only: bool = False
    #: May be given more than once; the value is a tuple.
    many: bool = False
    #: Given where the flag is not named as the setting.
    flag: str = ""
    #: Another environment variable, which other programs use too; the own one wins.
    also: str = ""

    def __post_init__(self) -> None:
        if not self.flag:
            object.__setattr__(self, "flag", "--" + self.name.replace("_", "-"))

    @property
    def variable(self) -> str:
        return ENVIRONMENT_PREFIX + self.name.upper()

    @property
    def default_text(self) -> str:
        if self.default is None or self.default == ():
            return "none"
        if isinstance(self.default, bool):
            return "on" if self.default else "off"
        if self.kind is ADDRESS:
            return f"{self.default[0]}:{self.default[1]}"
        if self.kind is DURATION:
            return f"{self.default / 3600:g}h"
        if isinstance(self.default, Path):
            return str(self.default).replace(os.path.expanduser("~"), "~", 1)
        return f"{self.default:g}" if isinstance(self.default, float) else str(self.default)


def add_flags(parser: argparse.ArgumentParser, settings: Iterable[Setting]) -> None:
    """One flag a setting; its help states the unit, the default and the environment variable."""
    from argparse import BooleanOptionalAction  # here, since the parser is the caller's

    for setting in settings:
        if setting.file_only:
            continue
        variables = " or ".join(filter(None, (setting.variable, setting.also)))
        notes = "; ".join(filter(None, (setting.kind.bounds, f"default: {setting.default_text}", variables)))
        help = f"{setting.help} ({notes})".replace("%", "%%")
        if setting.kind is SWITCH:
            parser.add_argument(setting.flag, dest=setting.name, action=BooleanOptionalAction, default=None, help=help)
        else:
            action = "append" if setting.many else "store"
            parser.add_argument(setting.flag, dest=setting.name, action=action, metavar=setting.kind.metavar, help=help)


def resolve(settings: Sequence[Setting], flags: argparse.Namespace, environment: Mapping[str, str]) -> SimpleNamespace:
    """Every setting's value, as attributes named as in the table.

    `flags.config`, where the table has such a row, names the TOML file. Raises SettingError.
    """
    file = getattr(flags, "config", None) or environment.get(ENVIRONMENT_PREFIX + "CONFIG")
    from_file = _read_file(make(PATH, file, "--config"), settings) if file else {}
    values = {setting.name: _value(setting, flags, environment, from_file, file) for setting in settings}
    return SimpleNamespace(**values)


def _value(
    setting: Setting, flags: argparse.Namespace, environment: Mapping[str, str], from_file: Mapping[str, Any], file: str | None
) -> Any:
    given = None if setting.file_only else getattr(flags, setting.name, None)
    if given is not None:
        return _made(setting, given, setting.flag)
    variable = setting.variable if setting.variable in environment or not environment.get(setting.also) else setting.also
    if not setting.file_only and variable in environment:
        text = environment[variable]
        return _made(setting, [item.strip() for item in text.split(",")] if setting.many else text, variable)
    if setting.name in from_file:
        return _made(setting, from_file[setting.name], f"{file}: {setting.name}")
    return setting.default


def _made(setting: Setting, given: Any, place: str) -> Any:
    if not setting.many:
        return make(setting.kind, given, place)
    if not isinstance(given, list):
        raise SettingError(f"{place}={shown(given)}: expected a list, each {setting.kind.wanted}")
    return tuple(make(setting.kind, item, place) for item in given)


def make(kind: Kind, given: Any, place: str) -> Any:
    """The value that `given` means. Raises SettingError, which names `place`."""
    try:
        return kind.make(given)
    except (ValueError, TypeError, KeyError, OverflowError):
        # Not `from error`: its text may quote what was given.
        raise SettingError(f"{place}={'…' if kind.secret else shown(given)}: expected {kind.wanted}") from None


def shown(given: Any) -> str:
    """What was given, on one line, without the password of an address.

    >>> shown("ftp://me:secret@host")
    'ftp://…@host'
    """
    text = given if isinstance(given, str) else json.dumps(given, default=str)
    text = re.sub(r"//[^/\s]*@", "//…@", text)
    return repr(text)[1:-1] if len(text) <= 60 else repr(text[:57])[1:-1] + "..."


def _read_file(path: Path, settings: Sequence[Setting]) -> dict[str, Any]:
    found = parse_toml(path)
    names = [setting.name for setting in settings]
    for name in found:
        if name not in names:
            import difflib  # where it is needed: an agent starts on each node

            near = difflib.get_close_matches(name, names, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise SettingError(f"{path}: {name} is not a setting of this command{hint}")
    return found


def parse_toml(path: Path) -> dict[str, Any]:
    """What the file holds. Raises SettingError."""
    toml = _toml_module()
    if toml is None:
        raise SettingError(f"{path}: a TOML file needs Python 3.11 or the package tomli")
    try:
        return dict(toml.loads(path.read_text("utf-8")))
    except OSError as error:
        raise SettingError(f"{path}: cannot be read: {error.strerror}") from error
    except RecursionError as error:
        raise SettingError(f"{path}: not TOML that can be read: it is nested too deeply") from error
    except ValueError as error:
        raise SettingError(f"{path}: not TOML: {error}") from error


def _toml_module() -> Any:
    for name in ("tomllib", "tomli"):
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    return None
