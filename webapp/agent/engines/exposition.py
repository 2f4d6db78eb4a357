"""Reads a few wanted series out of an engine's metrics page, whatever else the page holds.

A line that is broken, or whose value is NaN, infinite or negative, costs its series and is counted.
https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Optional

from webapp.agent.engines.metric_names import PREFIXES, EngineNames, Series, Sum

Labels = tuple[tuple[str, str], ...]

#: By labels: the value, or None where it can't be used.
Values = dict[Labels, Optional[float]]

_NAME = re.compile(rb"[A-Za-z_:][A-Za-z0-9_:]*")
_BRACES = re.compile(rb'\s*\{((?:[^"}]|"(?:[^"\\]|\\.)*")*)\}')
_LABEL = re.compile(rb'\s*([A-Za-z_][A-Za-z0-9_]*)\s*=\s*"((?:[^"\\]|\\.)*)"\s*(?:,|$)', re.DOTALL)
_ESCAPE = re.compile(r'\\([\\"n])')

#: Most series of one name; with more, its value is unknown.
MOST_SERIES = 4096

#: Put in place of a line whose labels can't be read: it spoils any value of its name.
_UNTOLD: Labels = (("", ""),)

#: Most lines that can't be used and are kept, to be quoted.
_QUOTED = 3

#: A larger value is a misread.
_LARGEST = 1e18


class _Broken(ValueError):
    """The line is not a sample."""


class Page:
    """What a metrics page says about the wanted series of one kind of engine. Fed line by line."""

    def __init__(self, names: EngineNames) -> None:
        self.names = names
        wanted = (series for sums in names.values.values() for addends in sums for series in addends)
        self._wanted = {spelling.encode(): spelling for series in wanted for spelling in _spellings(series.name)}
        self._starts = tuple(self._wanted)
        self._found: dict[str, Values] = {}
        #: Lines of wanted names that could not be used: how many, and the first few.
        self.unusable = 0
        self.quoted: list[str] = []

    def feed(self, lines: Iterable[bytes]) -> None:
        starts = self._starts
        for line in lines:
            if line[:1] in (b" ", b"\t"):
                line = line.lstrip()
            if line.startswith(starts):
                self._read(line)

    def _read(self, line: bytes) -> None:
        match = _NAME.match(line)
        name = self._wanted.get(match.group()) if match else None
        if match is None or name is None:
            return  # a longer name with the same beginning
        labels, value = _UNTOLD, None
        try:
            labels, rest = _labels(line[match.end() :])
            value = _value(rest)
        except _Broken:
            pass
        if value is None:
            self.unusable += 1
            if len(self.quoted) < _QUOTED:
                self.quoted.append(_quoted(line))
        series = self._found.setdefault(name, {})
        if len(series) >= MOST_SERIES:
            labels, value = _UNTOLD, None
        series[labels] = value

    @property
    def is_empty(self) -> bool:
        """No wanted name was seen."""
        return not self._found

    def values(self, sums: Iterable[Sum]) -> Values:
        """The series of the first of `sums` that is there; the name is in the labels as __name__."""
        for addends in sums:
            if not self._series(addends[0]):
                continue
            return {
                (("__name__", series.name), *labels): value
                for series in addends
                for labels, value in self._series(series).items()
            }
        return {}

    def _series(self, series: Series) -> Values:
        for name in _spellings(series.name):
            chosen = {labels: value for labels, value in self._found.get(name, {}).items() if _matches(labels, series)}
            if chosen:
                return chosen
        return {}


def total(values: Values, copies: tuple[str, ...] = ()) -> float | None:
    """The sum over all ranks; of series that differ only in `copies` the largest. None if one of them is unknown.

    >>> total({(("rank", "0"),): 2.0, (("rank", "1"),): 3.0})
    5.0
    >>> total({(("rank", "0"),): 2.0, (("rank", "1"),): None}) is None
    True
    """
    parts: dict[Labels, float] = {}
    for labels, value in values.items():
        if value is None:
            return None
        part = tuple(pair for pair in labels if pair[0] not in copies)
        parts[part] = max(value, parts.get(part, 0.0))
    return sum(parts.values()) if parts else None


def fullest(values: Values) -> float | None:
    """The largest of shares from 0 to 1; None if one of them is unknown or beyond 1.

    >>> fullest({(("rank", "0"),): 0.25, (("rank", "1"),): 0.75})
    0.75
    """
    shares = list(values.values())
    if not shares or any(share is None or share > 1.001 for share in shares):
        return None
    return min(1.0, max(share for share in shares if share is not None))


def _spellings(name: str) -> list[str]:
    """A name as engines and pipelines write it.

    >>> _spellings("vllm:num_requests_waiting")[:3]
    ['vllm:num_requests_waiting', 'vllm_num_requests_waiting', 'ray_vllm:num_requests_waiting']
    """
    spellings = (name, name.replace(":", "_")) if ":" in name else (name,)
    return [prefix + spelling for prefix in PREFIXES for spelling in spellings]


def _quoted(line: bytes) -> str:
    text = line[:80].decode("utf-8", "replace").strip()
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)


def _matches(labels: Labels, series: Series) -> bool:
    if labels == _UNTOLD:
        return True
    given = dict(labels)
    return all(given.get(name, "") == value for name, value in series.where)


def _labels(rest: bytes) -> tuple[Labels, bytes]:
    """The labels after a name, and what follows them.

    >>> _labels(b'{a="x,\\\\"y\\\\"",} 1')
    ((('a', 'x,"y"'),), b' 1')
    """
    braces = _BRACES.match(rest)
    if braces is None:
        if rest[:1].isspace():
            return (), rest
        raise _Broken
    inside = braces.group(1).strip()
    labels = []
    at = 0
    while at < len(inside):
        label = _LABEL.match(inside, at)
        if label is None:
            raise _Broken
        labels.append((label.group(1).decode(), _unescaped(label.group(2).decode("utf-8", "replace"))))
        at = label.end()
    return tuple(sorted(labels)), rest[braces.end() :]


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(lambda match: "\n" if match.group(1) == "n" else match.group(1), text) if "\\" in text else text


def _value(rest: bytes) -> float | None:
    """The sample's value, or None where it says nothing. A timestamp or an exemplar may follow it.

    >>> _value(b" 2.5 1700000000000"), _value(b" -nan"), _value(b" -1")
    (2.5, None, None)
    """
    words = rest.split(None, 2)
    try:
        value = _number(words[0])
        if len(words) > 1 and not words[1].startswith(b"#"):
            _number(words[1])
    except (IndexError, ValueError) as error:
        raise _Broken from error
    return value + 0.0 if 0.0 <= value <= _LARGEST else None  # -0.0 becomes 0.0


def _number(word: bytes) -> float:
    if b"_" in word:
        raise ValueError
    return float(word)
