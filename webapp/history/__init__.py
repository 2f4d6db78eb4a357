"""What the charts ask for: series on a common grid of times, and where they may come from.

Beside that, read in this order:

    ranges        grids of times: by the names that the pages give them, and on steps that viewers share
    extent        where a chart's lines begin and end, in words
    embedded      the history in the store
    past          the fleet as it was, rebuilt from the store

The history from Prometheus is `webapp.prometheus.history`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from webapp.metrics import Labels, Metric

#: A sample answers for at most this long (and never for longer than a minute): three default intervals.
LOOKBACK_SECONDS = 30.0


class HistoryUnavailable(Exception):
    """No answer. The message is one sentence, fit to show on the page."""


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
