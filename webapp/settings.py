"""How a setting is read: from its flag, else its environment variable, else the TOML file, else its default.

Which settings there are stands in `config`; this module knows none of them. Every refusal is a SettingError
that names the place of the value, what came and what was wanted.

Runs on nodes: standard library only, CPython 3.9 and later (a TOML file needs 3.11, or the package tomli).
"""

from __future__ import annotations

import argparse
import difflib
import importlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Callable

ENVIRONMENT_PREFIX = "ENGINEHOUSE_"


class SettingError(Exception):
    """A setting can't be used. The message is one line, for the operator."""


@dataclass(frozen=True)
class Kind:
    """A sort of value: how to make it from what was given, and how to say what is wanted."""

    #: Takes text (flag, environment) or a TOML value; raises ValueError.
    make: Callable[[Any], Any]
    #: Completes "expected ...".
    wanted: str
    #: Shown in --help for the value.
    metavar: str


@dataclass(frozen=True)
class Setting:
    """One row of the table in `config`."""

    name: str
    default: Any
    kind: Kind
    help: str
    commands: tuple[str, ...]
    #: Stands in the TOML file only.
    file_only: bool = False
    #: May be given more than once; the value is a tuple.
    many: bool = False

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")

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
        if isinstance(self.default, Path):
            return str(self.default).replace(os.path.expanduser("~"), "~", 1)
        return f"{self.default:g}" if isinstance(self.default, float) else str(self.default)


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError
    return value


def _number(value: Any) -> float:
    if isinstance(value, bool):
        raise ValueError
    number = float(value)
    if not 0 <= number < 1e12:
        raise ValueError
    return number


def _positive(value: Any) -> float:
    number = _number(value)
    if number == 0:
        raise ValueError
    return number


def _duration(value: Any) -> float:
    """Seconds.

    >>> _duration("90"), _duration("12h"), _duration("7d")
    (90.0, 43200.0, 604800.0)
    """
    text = str(value).strip()
    unit = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}.get(text[-1:])
    return _positive(text[:-1]) * unit if unit else _positive(value)


def _whole(value: Any) -> int:
    if isinstance(value, (bool, float)):
        raise ValueError
    number = int(value)
    if number < 0:
        raise ValueError
    return number


def _switch(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    return {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}[
        str(value).lower()
    ]


def _address(value: Any) -> tuple[str, int]:
    """Host and port.

    >>> _address("[::1]:8765"), _address("127.0.0.1:8765"), _address(":8765")
    (('::1', 8765), ('127.0.0.1', 8765), ('', 8765))
    """
    host, colon, port = _text(value).rpartition(":")
    if (
        not colon
        or not port.isdecimal()
        or int(port) > 65535
        or (":" in host and not (host.startswith("[") and host.endswith("]")))
    ):
        raise ValueError
    return host.strip("[]"), int(port)


def _url(value: Any) -> str:
    from urllib.parse import urlsplit

    url = _text(value).rstrip("/")
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise ValueError
    parts.port  # noqa: B018 - raises ValueError if it is not a port
    return url


def _network(value: Any) -> Any:
    import ipaddress

    return ipaddress.ip_network(_text(value), strict=False)


def _table(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError
    return value


def _tables(value: Any) -> tuple[dict[str, Any], ...]:
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise ValueError
    return tuple(value)


TEXT = Kind(_text, "a text", "TEXT")
PATH = Kind(lambda value: Path(_text(value)).expanduser(), "a path", "PATH")
SECONDS = Kind(_positive, "seconds, such as 10", "SECONDS")
MILLISECONDS = Kind(_positive, "milliseconds, such as 1000", "MS")
DURATION = Kind(_duration, "a duration, such as 90s, 12h or 7d", "DURATION")
HOURS = Kind(_positive, "hours, such as 6", "HOURS")
COUNT = Kind(_whole, "a whole number, such as 20", "N")
SWITCH = Kind(_switch, "on or off", "on|off")
ADDRESS = Kind(_address, "HOST:PORT, such as 127.0.0.1:8765", "HOST:PORT")
URL = Kind(_url, "an address such as http://127.0.0.1:8765", "URL")
NETWORK = Kind(_network, "an address or a network, such as 10.0.0.0/8", "NETWORK")
TABLE = Kind(_table, "a table of texts", "")
TABLES = Kind(_tables, "a list of tables", "")


def choice(*names: str) -> Kind:
    def make(value: Any) -> str:
        if value not in names:
            raise ValueError
        return str(value)

    return Kind(make, "one of " + ", ".join(names), "|".join(names))


def add_flags(parser: argparse.ArgumentParser, settings: Iterable[Setting]) -> None:
    """One flag a setting; its help states the unit, the default and the environment variable."""
    for setting in settings:
        if setting.file_only:
            continue
        help = f"{setting.help} (default: {setting.default_text}; {setting.variable})".replace("%", "%%")
        if setting.kind is SWITCH:
            parser.add_argument(setting.flag, action=argparse.BooleanOptionalAction, default=None, help=help)
        else:
            action = "append" if setting.many else "store"
            parser.add_argument(setting.flag, action=action, metavar=setting.kind.metavar, help=help)


def resolve(settings: Sequence[Setting], flags: argparse.Namespace, environment: Mapping[str, str]) -> SimpleNamespace:
    """Every setting's value, as attributes named as in the table.

    `flags.config`, where the table has such a row, names the TOML file. Raises SettingError.
    """
    file = getattr(flags, "config", None) or environment.get(ENVIRONMENT_PREFIX + "CONFIG")
    from_file = _read_file(Path(file).expanduser(), settings) if file else {}
    values = {setting.name: _value(setting, flags, environment, from_file, file) for setting in settings}
    return SimpleNamespace(**values)


def _value(
    setting: Setting, flags: argparse.Namespace, environment: Mapping[str, str], from_file: Mapping[str, Any], file: str | None
) -> Any:
    given = None if setting.file_only else getattr(flags, setting.name, None)
    if given is not None:
        return _made(setting, given, setting.flag)
    if not setting.file_only and setting.variable in environment:
        text = environment[setting.variable]
        return _made(setting, text.split(",") if setting.many else text, setting.variable)
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
    """The value that `given` stands for. Raises SettingError, which names `place`."""
    try:
        return kind.make(given)
    except (ValueError, TypeError, KeyError, OverflowError) as error:
        raise SettingError(f"{place}={shown(given)}: expected {kind.wanted}") from error


def shown(given: Any) -> str:
    text = given if isinstance(given, str) else json.dumps(given, default=str)
    return repr(text)[1:-1] if len(text) <= 60 else repr(text[:57])[1:-1] + "..."


def _read_file(path: Path, settings: Sequence[Setting]) -> dict[str, Any]:
    found = parse_toml(path)
    names = [setting.name for setting in settings]
    for name in found:
        if name not in names:
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
    except ValueError as error:
        raise SettingError(f"{path}: not TOML: {error}") from error


def _toml_module() -> Any:
    for name in ("tomllib", "tomli"):
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    return None
