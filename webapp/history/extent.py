"""Where the lines of a chart begin and end, in words: why a part of it is empty.

A gap at the edge of a chart can mean that there is no such series, that the node is younger than the range, or
that its series ended; each is said for what it is.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from webapp.history import LOOKBACK_SECONDS, Answer


def extent(answer: Answer, families: Iterable[str]) -> str:
    """A sentence on the lines of some families; "" where they fill the range."""
    wanted = set(families)
    known = [
        index
        for series in answer.series
        if series.metric.name in wanted
        for index, value in enumerate(series.values)
        if value is not None
    ]
    if not known:
        return "no such series"
    range = answer.range
    slack = max(LOOKBACK_SECONDS, 2 * range.step)
    first, last = (range.start + index * range.step for index in (min(known), max(known)))
    said = []
    # Where nobody listened before, the chart says so itself.
    begun = any(span.start <= range.start + slack and abs(span.end - first) <= slack for span in answer.unheard)
    if first - range.start > slack and not begun:
        said.append(f"nothing before {_clock(first)}")
    if range.end - last > slack:
        said.append(f"ended {_clock(last)}")
    return "; ".join(said)


def _clock(at: float) -> str:
    """
    >>> _clock(1796047331)
    '14:02:11 UTC'
    """
    return datetime.fromtimestamp(at, UTC).strftime("%H:%M:%S UTC")
