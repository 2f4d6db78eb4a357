"""Ranges by name, and ranges that viewers share: the same steps, the same times, no more points than a chart can show."""

from __future__ import annotations

import re

from webapp.history import Range

#: The ranges that the pages offer.
RANGES = ("15m", "1h", "6h", "24h")

_UNITS = {"m": 60.0, "h": 3600.0, "d": 86_400.0}

#: Steps, in seconds: each divides an hour, a day or a week, so that ranges share their times.
_STEPS = (1, 2, 5, 10, 15, 30, 60, 90, 120, 180, 300, 360, 600, 900, 1800, 3600, 7200, 10800, 14400, 21600, 43200, 86400, 604800)

#: Most steps of a range: as many as a chart has pixels to show apart.
_MOST_STEPS = 240

#: The shortest step, in seconds, of a range that is named by its length: the usual time between two heartbeats.
_HEARTBEAT = 10


def named(name: str) -> tuple[float, float] | None:
    """Length and step, in seconds, of a range that is named by its length, from 5 minutes to 30 days.

    >>> named("15m"), named("1h"), named("6h"), named("24h")
    ((900.0, 10.0), (3600.0, 15.0), (21600.0, 90.0), (86400.0, 360.0))
    >>> named("3h"), named("30d"), named("3 weeks")
    ((10800.0, 60.0), (2592000.0, 10800.0), None)
    """
    found = re.fullmatch(r"([1-9][0-9]{0,3})([mhd])", name)
    length = float(found[1]) * _UNITS[found[2]] if found else 0.0
    if not 300 <= length <= 30 * 86_400:
        return None
    return length, _step(length, at_least=_HEARTBEAT)


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
    """The range on a grid of at most 240 steps of whole seconds; unchanged if it is on one already.

    >>> coarsened(Range(0, 604800, 10)).step, coarsened(Range(0, 3600, 15)).step
    (3600.0, 15)
    """
    length = range.end - range.start
    if range.step == int(range.step) and length / range.step <= _MOST_STEPS:
        return range
    step = _step(length, at_least=range.step)
    return Range(range.start // step * step, range.end // step * step, step)


def _step(length: float, at_least: float) -> float:
    """The shortest shared step of which a range of this length has no more than it may; multiples of a week beyond the longest.

    >>> _step(10 * 365 * 86_400, at_least=1) / 604_800
    4.0
    """
    step = float(next((step for step in _STEPS if step >= at_least and length / step <= _MOST_STEPS), _STEPS[-1]))
    while length / step > _MOST_STEPS:
        step *= 2
    return step
