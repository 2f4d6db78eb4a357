"""Fields that describe themselves, and a tolerant reader for dataclasses made of them.

A field made by `number`, `whole`, `text`, `flag`, `texts`, `part` or `parts` carries its unit, its source
and its bounds. `values` reads such fields out of parsed JSON: one bad value costs that value and is reported.

Runs on nodes: standard library only, CPython 3.9 and later.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import field
from typing import Any, Callable, NamedTuple

#: The largest whole number below 2**63 that a double holds; a larger count is a misread.
LARGEST_WHOLE = 2**63 - 1024


class Quantity(NamedTuple):
    """A number: its unit, where it is read, and the bounds outside which it is a misread."""

    unit: str
    source: str
    low: float
    high: float
    whole: bool


class Text(NamedTuple):
    """A text of at most `longest` characters. Whoever wrote it is not trusted."""

    source: str
    longest: int


class Flag(NamedTuple):
    """True or False."""

    source: str


class Texts(NamedTuple):
    """A small table of texts by name."""

    source: str
    most: int = 64


class Part(NamedTuple):
    """One object of its own."""

    of: type


class Parts(NamedTuple):
    """A list of objects, told apart by their `key` fields; one without its key is dropped."""

    of: type
    key: tuple[str, ...]
    most: int


def number(unit: str, source: str, low: float = 0.0, high: float = 1e18) -> Any:
    return field(default=None, metadata={"kind": Quantity(unit, source, low, high, whole=False)})


def whole(unit: str, source: str, low: int = 0, high: int = LARGEST_WHOLE) -> Any:
    return field(default=None, metadata={"kind": Quantity(unit, source, low, high, whole=True)})


def text(source: str, longest: int = 253) -> Any:
    return field(default=None, metadata={"kind": Text(source, longest)})


def flag(source: str) -> Any:
    return field(default=None, metadata={"kind": Flag(source)})


def texts(source: str) -> Any:
    return field(default_factory=dict, metadata={"kind": Texts(source)})


def part(of: type) -> Any:
    return field(default_factory=of, metadata={"kind": Part(of)})


def parts(of: type, key: tuple[str, ...], most: int) -> Any:
    return field(default=(), metadata={"kind": Parts(of, key, most)})


class Rejection(NamedTuple):
    """One field that was left out: where it was, and why."""

    path: str
    reason: str


class Rejections(list[Rejection]):
    """The fields of one message that were left out: beyond the first hundred they are only counted."""

    more = 0

    def append(self, rejection: Rejection) -> None:
        if len(self) < 100:
            super().append(rejection)
        else:
            self.more += 1

    def reported(self) -> tuple[Rejection, ...]:
        return (*self, Rejection("more", f"{self.more} more fields were left out")) if self.more else tuple(self)


class _Unusable(ValueError):
    """One value can't be used."""


def printable(value: str) -> str:
    """Text that every encoder takes: lone surrogates and NUL become U+FFFD.

    >>> printable("a\\ud800b")
    'a�b'
    """
    if "\x00" in value:
        value = value.replace("\x00", "�")
    try:
        value.encode()
    except UnicodeEncodeError:
        return "".join("�" if "\ud800" <= character <= "\udfff" else character for character in value)
    return value


_Reader = Callable[[Any, str, "list[Rejection]"], Any]

#: The described fields of a class with their readers, made at first use.
_PLANS: dict[type, list[tuple[str, _Reader]]] = {}


def values(of: type, given: Mapping[str, Any], path: str, rejected: list[Rejection]) -> dict[str, Any]:
    """Arguments for the dataclass `of`: its described fields that `given` holds in a usable form.

    What is more than its whole, by `of.at_most`, is left out: one of the two is wrong, and the whole hardly ever is.
    Adds to `rejected` what was not usable; `path` is put before their names.
    """
    plan = _PLANS.get(of) or _PLANS.setdefault(of, _plan(of))
    found = {}
    for name, read_value in plan:
        value = given.get(name)
        if value is None:
            continue
        try:
            found[name] = read_value(value, path + name, rejected)
        except _Unusable as error:
            rejected.append(Rejection(path + name, str(error)))
    for name, most in getattr(of, "at_most", ()):
        if name in found and most in found and found[name] > found[most]:
            rejected.append(Rejection(path + name, f"{found.pop(name)} is more than {most}, {found[most]}"))
    return found


def _plan(of: type) -> list[tuple[str, _Reader]]:
    described = (item for item in dataclasses.fields(of) if "kind" in item.metadata)
    return [(item.name, _reader(item.metadata["kind"])) for item in described]


def _reader(kind: Any) -> _Reader:
    if isinstance(kind, Quantity):
        return _whole_reader(kind) if kind.whole else _number_reader(kind)
    if isinstance(kind, Text):
        return _text_reader(kind)
    if isinstance(kind, Texts):
        return _texts_reader(kind)
    if isinstance(kind, Part):
        return _part_reader(kind.of)
    if isinstance(kind, Parts):
        return _parts_reader(kind)
    assert isinstance(kind, Flag)
    return _flag


def _number_reader(kind: Quantity) -> _Reader:
    def number(value: Any, path: str, rejected: list[Rejection]) -> float:
        if type(value) is not float and type(value) is not int:
            raise _Unusable(f"expected a number in {kind.unit or 'units'}, got {shown(value)}")
        if not kind.low <= value <= kind.high:  # NaN fails this too
            raise _Unusable(f"expected {kind.low:g} to {kind.high:g} {kind.unit}, got {shown(value)}")
        return float(value)

    return number


def _whole_reader(kind: Quantity) -> _Reader:
    def whole(value: Any, path: str, rejected: list[Rejection]) -> int:
        if type(value) is float and value.is_integer():
            value = int(value)
        if type(value) is not int:
            raise _Unusable(f"expected a whole number of {kind.unit or 'units'}, got {shown(value)}")
        if not kind.low <= value <= kind.high:
            raise _Unusable(f"expected {kind.low:g} to {kind.high:g} {kind.unit}, got {shown(value)}")
        return value

    return whole


def _text_reader(kind: Text) -> _Reader:
    def text(value: Any, path: str, rejected: list[Rejection]) -> str:
        if not isinstance(value, str):
            raise _Unusable(f"expected a text, got {shown(value)}")
        if len(value) > kind.longest:
            raise _Unusable(f"the text has {len(value)} characters; at most {kind.longest} are taken")
        return printable(value)

    return text


def _texts_reader(kind: Texts) -> _Reader:
    read_text = _text_reader(Text(kind.source, 253))

    def texts(value: Any, path: str, rejected: list[Rejection]) -> dict[str, str]:
        if not isinstance(value, dict):
            raise _Unusable(f"expected an object of texts, got {shown(value)}")
        found: dict[str, str] = {}
        for index, (name, item) in enumerate(value.items()):
            if index == kind.most:
                rejected.append(Rejection(path, f"{len(value)} entries; the first {kind.most} are kept"))
                break
            try:
                found[read_text(name, path, rejected)] = read_text(item, path, rejected)
            except _Unusable as error:
                rejected.append(Rejection(f"{path}.{printable(name[:64])}", str(error)))
        return found

    return texts


def _part_reader(of: type) -> _Reader:
    def part(value: Any, path: str, rejected: list[Rejection]) -> Any:
        if not isinstance(value, dict):
            raise _Unusable(f"expected an object, got {shown(value)}")
        return of(**values(of, value, path + ".", rejected))

    return part


def _parts_reader(kind: Parts) -> _Reader:
    def parts(value: Any, path: str, rejected: list[Rejection]) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise _Unusable(f"expected a list, got {shown(value)}")
        found: dict[tuple[Any, ...], Any] = {}
        for index, item in enumerate(value[: kind.most]):
            where = f"{path}[{index}]"
            if not isinstance(item, dict):
                rejected.append(Rejection(where, f"expected an object, got {shown(item)}"))
                continue
            fields = values(kind.of, item, where + ".", rejected)
            key = tuple(fields.get(name) for name in kind.key)
            if None in key or "" in key:
                rejected.append(Rejection(where, f"lacks {' and '.join(kind.key)}"))
            elif key in found:
                rejected.append(Rejection(where, f"the {' and '.join(kind.key)} {shown(key[0])} was there before"))
            else:
                found[key] = kind.of(**fields)
        if len(value) > kind.most:
            rejected.append(Rejection(path, f"{len(value)} entries; the first {kind.most} are kept"))
        return tuple(found.values())

    return parts


def _flag(value: Any, path: str, rejected: list[Rejection]) -> bool:
    if not isinstance(value, bool):
        raise _Unusable(f"expected true or false, got {shown(value)}")
    return value


_KINDS = {dict: "an object", list: "an array", str: "a text", bool: "a truth value", int: "a number", float: "a number"}


def kind_of(value: Any) -> str:
    """What JSON calls a value."""
    return "nothing" if value is None else _KINDS[type(value)]


def shown(value: Any) -> str:
    """A value as an error may quote it: short, on one line.

    >>> shown("N/A"), shown(True), shown(1e999), shown({})
    ("'N/A'", 'true', 'Infinity', 'an object')
    """
    if isinstance(value, str):
        return repr(printable(value[:40]))
    if isinstance(value, (bool, int, float)):
        if isinstance(value, int) and abs(value) > 10**30:
            return "a very large number"
        return json.dumps(value)
    return kind_of(value)
