"""The embedded history: range queries answered from the store."""

from __future__ import annotations

import sqlite3
import time
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from math import isnan

from webapp.history import LOOKBACK_SECONDS, Answer, HistoryUnavailable, Range, Series, Span
from webapp.metrics import Labels, Metric
from webapp.storage.archive import Rows
from webapp.storage.database import reason
from webapp.storage.samples import Column
from webapp.storage.store import Store

_NAN = float("nan")

#: What the samples between two places of a list give; unknown ones are NaN.
_Windows = Sequence[tuple[int, int]]


class EmbeddedHistory:
    """A `History` over the store of this process."""

    def __init__(self, store: Store, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._clock = clock

    def series(self, metrics: Sequence[Metric], range: Range, *, node: str = "", model: str = "") -> Answer:
        """See `History.series`. Numbers have seven significant digits."""
        if bool(node) == bool(model):
            raise ValueError("a node or a model is needed, and not both")
        wanted = {metric.key: metric for metric in metrics}
        start, end = range.start - max(range.step, LOOKBACK_SECONDS), range.end
        found: list[Series] = []
        try:
            for name in [node] if node else self._store.archive.nodes_with_model(model, start, end):
                found += _series_of(name, self._store.archive.rows(name, start, end), wanted, range, model)
            unheard = self._store.unheard(range.start, range.end)
        except sqlite3.Error as error:
            raise HistoryUnavailable(f"The history cannot be read: {reason(error)}.") from error
        problem = self._store.problem
        return Answer(
            range=range,
            series=tuple(found),
            as_of=self._clock(),
            warnings=(problem,) if problem else (),
            unheard=tuple(Span(*span) for span in unheard),
        )


def _series_of(
    node: str, runs: Sequence[Rows], wanted: dict[tuple[str, Labels], Metric], range: Range, model: str
) -> Iterator[Series]:
    times = [at for run in runs for at in run.times]
    if not times:
        return
    grid = range.times
    latest = _latest(times, grid)
    in_step = _windows(times, grid, range.step)
    in_lookback = in_step if range.step >= LOOKBACK_SECONDS else _windows(times, grid, LOOKBACK_SECONDS)
    for column, numbers in _columns(runs, len(times), set(wanted), model):
        metric = wanted[column.metric.key]
        values: list[float | None]
        if metric.over_time == "max":
            values = [max(known, default=None) for known in _known(numbers, in_lookback)]
        elif metric.over_time == "mean" and range.step > LOOKBACK_SECONDS:
            values = [sum(known) / len(known) if known else None for known in _known(numbers, in_step)]
        else:
            values = [None if index < 0 or numbers[index] != numbers[index] else numbers[index] for index in latest]
        if any(value is not None for value in values):
            yield Series(metric, (("node", node), *column.labels), values)


def _columns(
    runs: Sequence[Rows], count: int, wanted: set[tuple[str, Labels]], model: str
) -> Iterator[tuple[Column, array[float]]]:
    """Each series with one number a sample of the node; NaN is unknown."""
    found: dict[tuple[tuple[str, Labels], Labels], tuple[Column, array[float]]] = {}
    at = 0
    for run in runs:
        for column, numbers in run.layout.read(run.blobs, wanted):
            if model and dict(column.labels).get("model") != model:
                continue
            if column.metric.ago:
                numbers = array("d", (round(time - ago) if ago == ago else _NAN for time, ago in zip(run.times, numbers)))
            key = column.metric.key, column.labels
            if key not in found:
                found[key] = column, array("d", [_NAN]) * count
            found[key][1][at : at + len(numbers)] = array("d", numbers)
        at += len(run.times)
    yield from found.values()


def _latest(times: Sequence[float], grid: Sequence[float]) -> list[int]:
    """For each time of the grid the place of the latest sample that still answers for it, or -1.

    >>> _latest([0.0, 12.0], [15.0, 30.0, 45.0])
    [1, 1, -1]
    """
    places = ((bisect_right(times, at) - 1, at) for at in grid)
    return [place if place >= 0 and times[place] >= at - LOOKBACK_SECONDS else -1 for place, at in places]


def _windows(times: Sequence[float], grid: Sequence[float], width: float) -> _Windows:
    """For each time of the grid the places of the samples that are less than `width` old.

    >>> _windows([0.0, 15.0, 30.0, 60.0], [30.0, 60.0], 30.0)
    [(1, 3), (3, 4)]
    """
    return [(bisect_right(times, at - width), bisect_right(times, at)) for at in grid]


def _known(numbers: array[float], windows: _Windows) -> Iterator[Sequence[float]]:
    if isnan(sum(numbers)):
        for start, end in windows:
            yield [number for number in numbers[start:end] if number == number]
    else:  # all are known, as nearly always
        for start, end in windows:
            yield numbers[start:end]
