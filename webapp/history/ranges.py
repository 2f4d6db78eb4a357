"""Ranges that viewers share: the same steps, the same times, no more points than a chart can show."""

from __future__ import annotations

from webapp.history import Range

#: Points that a chart can show; a range that asks for more is given a larger step.
MOST_POINTS = 250

#: Steps in seconds: each divides an hour, a day or a week, so that ranges share their times.
STEPS = (1, 2, 5, 10, 15, 20, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400, 604800)


def coarsened(range: Range, most: int = MOST_POINTS) -> Range:
    """The range on a grid of at most `most` points and whole seconds; unchanged if it is one already.

    >>> coarsened(Range(0, 604800, 10)).step, coarsened(Range(0, 3600, 15)).step
    (3600, 15)
    """
    step = range.step
    if step == int(step) and (range.end - range.start) / step < most:
        return range
    length = range.end - range.start
    step = next((known for known in STEPS if known >= step and length / known < most), STEPS[-1])
    while length / step >= most:
        step *= 2
    return Range(range.start // step * step, range.end // step * step, step)
