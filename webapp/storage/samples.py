"""How the numbers of a measurement lie in one blob of the store.

A blob is a row of little-endian 32-bit floats (seven significant digits), NaN for unknown. Its layout says
which series they belong to. A layout names the metrics and the labels in full, so that blobs stay readable
when the metric table gains or loses rows.
"""

from __future__ import annotations

import json
import sys
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from operator import attrgetter
from struct import Struct
from typing import Any, NamedTuple

from webapp.measurement import Measurement
from webapp.metrics import METRICS, Labels, Metric

_NAN = float("nan")

#: Reads several values of an item at once.
_Read = Callable[[Any], tuple[Any, ...]]

#: For each group of rows, the label values of each item: what changes when an engine starts or a disk comes.
Items = tuple[tuple[tuple[str, ...], ...], ...]


class Sample(NamedTuple):
    """The numbers of one measurement: which items they are about, and the blob."""

    items: Items
    numbers: bytes


@dataclass(frozen=True)
class _Group:
    """Rows of the metric table that are read from the same items with the same labels."""

    each: str
    labels: tuple[str, ...]
    metrics: tuple[Metric, ...]

    @property
    def description(self) -> list[Any]:
        return [self.each, self.labels, [[metric.name, metric.fixed] for metric in self.metrics]]


def _groups(metrics: Iterable[Metric]) -> tuple[_Group, ...]:
    found: dict[tuple[str, Labels], list[Metric]] = {}
    for metric in metrics:
        found.setdefault((metric.each, metric.labels), []).append(metric)
    return tuple(_Group(each, tuple(label for label, _ in labels), tuple(rows)) for (each, labels), rows in found.items())


def _getter(paths: Sequence[str]) -> _Read:
    """Reads all paths in one call; always gives a tuple."""
    get = attrgetter(*paths)
    return get if len(paths) > 1 else lambda item: (get(item),)


_GROUPS = _groups(METRICS)


def _readers(group: _Group) -> tuple[str, _Read, _Read]:
    labels = [field for _, field in group.metrics[0].labels]
    return group.each, _getter(labels) if labels else lambda item: (), _getter([metric.path for metric in group.metrics])


_READERS = tuple(_readers(group) for group in _GROUPS)

#: The metric table as this version of the program has it, as JSON.
COLUMNS = json.dumps([group.description for group in _GROUPS], separators=(",", ":"))


@cache
def _packer(count: int) -> Struct:
    return Struct(f"<{count}f")


def _texts(labels: tuple[Any, ...]) -> tuple[str, ...]:
    return tuple(["" if label is None else label for label in labels]) if None in labels else labels


def sample(measurement: Measurement) -> Sample:
    """The numbers of all rows of METRICS."""
    values: list[float | None] = []
    items: list[tuple[tuple[str, ...], ...]] = []
    for each, labels_of, values_of in _READERS:
        if not each:
            values += values_of(measurement)
            items.append(((),))
            continue
        entries = getattr(measurement, each)
        for entry in entries:
            values += values_of(entry)
        items.append(tuple([_texts(labels_of(entry)) for entry in entries]))
    numbers = [_NAN if value is None else value for value in values]
    return Sample(tuple(items), _packer(len(numbers)).pack(*numbers))


def seven_digits(value: float) -> float:
    """What a number of a blob stands for.

    >>> seven_digits(43.20000076293945), seven_digits(274877906944.0)
    (43.2, 274877906944.0)
    """
    return value if value.is_integer() else float(f"{value:.7g}")


class Column(NamedTuple):
    """One number of a blob: the series that it belongs to."""

    metric: Metric
    labels: Labels


class Layout:
    """What the numbers of a blob are, from the JSON texts that the store holds."""

    def __init__(self, columns: str, items: str) -> None:
        self.columns: list[Column | None] = []
        #: Models of the engines.
        self.models: set[str] = set()
        known = {(metric.key, metric.each): metric for metric in METRICS}
        for (each, names, rows), entries in zip(json.loads(columns), json.loads(items)):
            metrics = [known.get(((name, _labels(fixed)), each)) for name, fixed in rows]
            for entry in entries:
                labels = tuple(zip(names, entry))
                if each == "engines":
                    self.models.add(dict(labels).get("model", ""))
                self.columns += (Column(metric, metric.fixed + labels) if metric else None for metric in metrics)

    def read(self, blobs: Iterable[bytes], wanted: set[tuple[str, Labels]]) -> Iterator[tuple[Column, array[float]]]:
        """The columns of the metrics with these keys, each with one number a blob; NaN is unknown."""
        width = len(self.columns)
        unknown = array("f", [_NAN]) * width
        numbers = array("f")
        for blob in blobs:
            numbers.frombytes(blob if len(blob) == 4 * width else unknown.tobytes())
        if sys.byteorder == "big":
            numbers.byteswap()
        for index, column in enumerate(self.columns):
            if column is not None and column.metric.key in wanted:
                yield column, numbers[index::width]


def _labels(pairs: Iterable[Sequence[str]]) -> Labels:
    return tuple((name, value) for name, value in pairs)
