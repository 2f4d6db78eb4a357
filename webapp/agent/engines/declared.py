"""`[[engine]]` tables of the agent's settings: engines that the operator names.

[[engine]]
id = "llama-8b-0"         # stays the same whatever happens to the process
model = "llama-3.1-8b"
kind = "vllm"             # a row of kinds; else as the command line says
port = 8000
command = "serve .*llama" # or pid, pidfile, unit, container; else whoever listens on port
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from webapp.agent.engines.kinds import KINDS
from webapp.kinds import PATH
from webapp.settings import SettingError, make, shown

_WAYS = ("pid", "pidfile", "command", "unit", "container")
_KEYS = ("id", "model", "kind", "port", *_WAYS)


class Declared(NamedTuple):
    """One engine of the settings. Where no other way to find its leader is given, it listens on `port`."""

    id: str
    model: str | None = None
    kind: str | None = None
    port: int | None = None
    pid: int | None = None
    pidfile: Path | None = None
    command: re.Pattern[str] | None = None
    unit: str | None = None
    container: str | None = None

    @property
    def by_port(self) -> bool:
        return not (self.pid or self.pidfile or self.command or self.unit or self.container)


def declared(tables: Iterable[Mapping[str, Any]]) -> tuple[Declared, ...]:
    """The engines in the settings. Raises SettingError, which names the table by its number from 1.

    >>> declared([{"id": "a", "port": 8000}])[0].by_port
    True
    >>> declared([{"id": "a", "model": "m"}])
    Traceback (most recent call last):
    webapp.settings.SettingError: engine 1: expected one of pid, pidfile, command, unit, container, port; none is there
    """
    found: dict[str, Declared] = {}
    for number, table in enumerate(tables, 1):
        engine = _declared(table, f"engine {number}")
        if engine.id in found:
            raise SettingError(f"engine {number}: id={shown(engine.id)} is there before")
        found[engine.id] = engine
    return tuple(found.values())


def _declared(table: Mapping[str, Any], place: str) -> Declared:
    for name in table:
        if name not in _KEYS:
            raise SettingError(f"{place}: {shown(name)} is not one of {', '.join(_KEYS)}")
    ways = [name for name in _WAYS if name in table]
    if len(ways) > 1:
        raise SettingError(f"{place}: expected one of {', '.join(_WAYS)}; {' and '.join(ways)} are there")
    if not ways and "port" not in table:
        raise SettingError(f"{place}: expected one of {', '.join(_WAYS)}, port; none is there")
    kind = _text(table, "kind", place)
    names = [row.name for row in KINDS]
    if kind is not None and kind not in names:
        raise SettingError(f"{place}: kind={shown(kind)}: expected one of {', '.join(names)}")
    id = _text(table, "id", place)
    if id is None:
        raise SettingError(f"{place}: expected an id, a text that names this engine on this node")
    pidfile = _text(table, "pidfile", place)
    return Declared(
        id,
        _text(table, "model", place),
        kind,
        _whole(table, "port", place, 65535),
        _whole(table, "pid", place, 2**22),
        make(PATH, pidfile, f"{place}: pidfile") if pidfile else None,
        _pattern(table, place),
        _text(table, "unit", place),
        _text(table, "container", place),
    )


def _text(table: Mapping[str, Any], name: str, place: str) -> str | None:
    value = table.get(name)
    if value is None:
        return None
    if not isinstance(value, str) or not value.strip() or len(value) > 253:
        raise SettingError(f"{place}: {name}={shown(value)}: expected a text of 1 to 253 characters")
    return value


def _whole(table: Mapping[str, Any], name: str, place: str, most: int) -> int | None:
    value = table.get(name)
    if value is None:
        return None
    if type(value) is not int or not 0 < value <= most:
        raise SettingError(f"{place}: {name}={shown(value)}: expected a whole number from 1 to {most}")
    return value


def _pattern(table: Mapping[str, Any], place: str) -> re.Pattern[str] | None:
    value = _text(table, "command", place)
    try:
        return None if value is None else re.compile(value)
    except re.error as error:
        raise SettingError(f"{place}: command={shown(value)}: expected a regular expression: {error}") from error
