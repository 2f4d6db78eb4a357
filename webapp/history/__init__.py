"""What the charts ask for: series on a common grid of times, and where they may come from.

Beside that, read in this order:

    extent        where a chart's lines begin and end, in words
    ranges        grids of times that viewers share
    embedded      the history in the store
    past          the fleet as it was, rebuilt from the store

The history from Prometheus is `webapp.prometheus.history`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from webapp.metrics import Labels, Metric

#: A sample answers for at most this long (and never for longer than a minute): three default intervals.
LOOKBACK_SECONDS = 30.0


class HistoryUnavailable(Exception):
    """No answer. The message is one sentence, fit to stand on the page."""


@dataclass(frozen=True)
class Range:
    """A grid of times: `start`, `start + step`, ... up to `end`, Unix seconds, all multiples of `step`."""

    start: float
    end: float
    step: float

    @property
    def times(self) -> list[float]:
        count = round((self.end - self.start) / self.step) + 1
        return [self.start + index * self.step for index in range(count)]


#: Name of a range on the pages -> its length and its step, in seconds.
RANGES = {"15m": (900.0, 10.0), "1h": (3600.0, 15.0), "6h": (21_600.0, 90.0), "24h": (86_400.0, 360.0)}


#: Steps of a range that the reader names by its length, in seconds.
_STEPS = (10, 15, 30, 60, 90, 120, 180, 300, 360, 600, 900, 1800, 3600, 7200, 10_800)

_UNITS = {"m": 60.0, "h": 3600.0, "d": 86_400.0}

#: Points of a line: as many as a chart has pixels to tell apart.
_MOST_POINTS = 240


def named(name: str) -> tuple[float, float] | None:
    """Length and step, in seconds, of a range by its name: one of RANGES, or a length from 5 minutes to 30 days.

    >>> named("1h"), named("3h"), named("30d"), named("3 weeks")
    ((3600.0, 15.0), (10800.0, 60.0), (2592000.0, 10800.0), None)
    """
    if name in RANGES:
        return RANGES[name]
    found = re.fullmatch(r"([1-9][0-9]{0,3})([mhd])", name)
    length = float(found[1]) * _UNITS[found[2]] if found else 0.0
    if not 300 <= length <= 30 * 86_400:
        return None
    return length, float(next(step for step in _STEPS if length / step <= _MOST_POINTS))


def recent(name: str, now: float) -> Range:
    """The range of that name that ends now, on its grid. Raises KeyError.

    >>> recent("1h", 1_000_000_007.0)
    Range(start=999996405.0, end=1000000005.0, step=15.0)
    """
    known = named(name)
    if known is None:
        raise KeyError(name)
    length, step = known
    end = now // step * step
    return Range(end - length, end, step)


@dataclass(frozen=True)
class Series:
    """One line: the values of one metric with one set of labels, one for each time of the answer's range.

    `labels` hold `node` beside the metric's own. None where nothing was measured.
    """

    metric: Metric
    labels: Labels
    values: Sequence[float | None]

    def label(self, name: str) -> str:
        return dict(self.labels).get(name, "")


@dataclass(frozen=True)
class Span:
    """Time in which nobody listened, so that a missing value says nothing about the node."""

    start: float
    end: float
    reason: str


@dataclass(frozen=True)
class Answer:
    """The series that were asked for, and what the reader must know about them."""

    range: Range
    series: tuple[Series, ...]
    #: Unix time at which this was true; older than now when it is a last good copy.
    as_of: float
    #: Sentences: why the answer may be incomplete.
    warnings: tuple[str, ...] = ()
    unheard: tuple[Span, ...] = field(default=())


class History(Protocol):
    """Answers range queries; the embedded history and Prometheus do it alike."""

    def series(self, metrics: Sequence[Metric], range: Range, *, node: str = "", model: str = "") -> Answer:
        """Every series of `metrics` of one node, or of the engines of one model on all nodes.

        What a point says follows `Metric.over_time`. With "last", and with "mean" while the step is at most
        LOOKBACK_SECONDS: the latest sample at most LOOKBACK_SECONDS old. With "mean" at larger steps: the mean
        of the samples in the step before it. With "max": the largest of those in the step, or in
        LOOKBACK_SECONDS if that is longer, before it.
        Raises HistoryUnavailable.
        """
        ...
