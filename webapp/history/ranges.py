"""Ranges by name, and ranges that viewers share: the same steps, the same times, no more points than a chart can show."""

from __future__ import annotations

import re

from webapp.history import Range

#: Name of a range on the pages -> its length and its step, in seconds.
RANGES = {"15m": (900.0, 10.0), "1h": (3600.0, 15.0), "6h": (21_600.0, 90.0), "24h": (86_400.0, 360.0)}

#: Steps, in seconds, of a range that is named by its length.
_STEPS_BY_LENGTH = (10, 15, 30, 60, 90, 120, 180, 300, 360, 600, 900, 1800, 3600, 7200, 10_800)

_UNITS = {"m": 60.0, "h": 3600.0, "d": 86_400.0}

#: Most steps of a range that is named by its length: few enough that `coarsened` leaves it as it is.
_MOST_STEPS = 240

#: A range has fewer steps than this, as many as a chart has pixels to show apart; one that asks for more is coarsened.
_TOO_MANY_STEPS = 250

#: Steps, in seconds, of a coarsened range: each divides an hour, a day or a week, so that ranges share their times.
_SHARED_STEPS = (1, 2, 5, 10, 15, 20, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400, 604800)


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
    return length, float(next(step for step in _STEPS_BY_LENGTH if length / step <= _MOST_STEPS))


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


def coarsened(range: Range) -> Range:
    """The range on a grid of fewer than 250 steps of whole seconds; unchanged if it is on one already.

    >>> coarsened(Range(0, 604800, 10)).step, coarsened(Range(0, 3600, 15)).step
    (3600, 15)
    """
    step = range.step
    if step == int(step) and (range.end - range.start) / step < _TOO_MANY_STEPS:
        return range
    length = range.end - range.start
    step = next((shared for shared in _SHARED_STEPS if shared >= step and length / shared < _TOO_MANY_STEPS), _SHARED_STEPS[-1])
    while length / step >= _TOO_MANY_STEPS:
        step *= 2
    return Range(range.start // step * step, range.end // step * step, step)
