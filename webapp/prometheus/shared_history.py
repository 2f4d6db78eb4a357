"""One answer for all viewers of a chart: asked once, kept, and continued by its missing tail."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import ceil
from typing import NamedTuple

from webapp.history import Answer, History, Range, Series
from webapp.history.ranges import coarsened
from webapp.metrics import Labels, Metric
from webapp.prometheus.copies import Copies, Renewal

#: The last points of a kept answer are asked for again: samples may have come late, and some servers hold the
#: newest back.
_UNSETTLED_SECONDS = 90.0

#: A kept answer is asked for as a whole after this time, in case history was filled in.
_WHOLE_EVERY_SECONDS = 900.0

#: A range that ended this long ago shows a past moment: it does not move on.
_PAST_SECONDS = 120.0


class Kept(NamedTuple):
    """An answer, and the Unix time at which all of it was asked for at once."""

    answer: Answer
    whole_at: float


class SharedHistory:
    """A `History` over another one that may be slow or away.

    The answer is as new as the range wants it, or carries the reason as a warning; it never waits longer than
    `copies` allow. Raises NotYet while a first answer is under way.
    """

    def __init__(self, history: History, copies: Copies[Kept], clock: Callable[[], float] = time.time) -> None:
        self._history = history
        self._copies = copies
        self._clock = clock

    def series(self, metrics: Sequence[Metric], range: Range, *, node: str = "", model: str = "") -> Answer:
        range = coarsened(range)
        now = self._clock()
        moment = range.end if range.end < now - max(_PAST_SECONDS, 2 * range.step) else None
        rows = tuple(metric.key for metric in metrics)
        key = (rows, node, model, range.step, round((range.end - range.start) / range.step), moment)

        def renew(before: Kept | None) -> Renewal[Kept]:
            asked = _tail(before, range, now)
            answer = self._history.series(metrics, asked, node=node, model=model)
            whole_at = now
            if before is not None and asked != range:
                answer, whole_at = _continued(before.answer, answer, range), before.whole_at
            return Renewal(Kept(answer, whole_at), good=not answer.warnings)

        def is_fresh(kept: Kept) -> bool:
            ahead = kept.answer.range.end - range.end
            return 0 <= ahead <= _PAST_SECONDS + range.step  # further ahead it is only where our clock was set back

        copy = self._copies.get(key, is_fresh, renew)
        answer = copy.value.answer
        if not copy.reason:
            return answer
        return replace(answer, warnings=(*answer.warnings, f"{copy.reason}; this is from {copy.age_s:.0f} s ago"))


def _tail(before: Kept | None, range: Range, now: float) -> Range:
    """The part of the range that must be asked for, given a good answer from before."""
    if before is None or not 0 <= now - before.whole_at <= _WHOLE_EVERY_SECONDS or before.answer.range.start > range.start:
        return range
    old = before.answer.range
    # From the last point at which anything was known, so that a gap that is not over yet is seen as a whole.
    known = max(
        (index for series in before.answer.series for index, value in enumerate(series.values) if value is not None), default=0
    )
    start = old.start + known * old.step - ceil(_UNSETTLED_SECONDS / old.step) * old.step
    return Range(start, range.end, range.step) if start > range.start else range


def _continued(before: Answer, tail: Answer, range: Range) -> Answer:
    """An answer over `range` made of an older one and its newest part."""
    count = len(range.times)
    skipped = round((range.start - before.range.start) / range.step)
    kept = round((tail.range.start - range.start) / range.step)
    lines: dict[tuple[tuple[str, Labels], Labels], Series] = {}
    for series in before.series:
        values = [*series.values[skipped : skipped + kept], *[None] * (count - kept)]
        lines[series.metric.key, series.labels] = replace(series, values=values)
    for series in tail.series:
        old = lines.get((series.metric.key, series.labels))
        head = old.values[:kept] if old else [None] * kept
        lines[series.metric.key, series.labels] = replace(series, values=[*head, *series.values])
    drawn = tuple(series for series in lines.values() if any(value is not None for value in series.values))
    heard_before = tuple(span for span in before.unheard if span.end > range.start and span.start < tail.range.start)
    unheard = (*heard_before, *tail.unheard)
    return replace(tail, range=range, series=drawn, unheard=unheard)
