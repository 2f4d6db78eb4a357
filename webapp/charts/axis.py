"""The value axis of a chart: its unit, its upper end and its ticks."""

from __future__ import annotations

import math
from typing import NamedTuple

_BINARY = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_BITS = ("bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s")


class Axis(NamedTuple):
    """How values are drawn: divided by `divisor`, in `unit`, from zero to `top` with `ticks`."""

    divisor: float
    unit: str
    top: float
    ticks: list[float]


def axis(unit: str, highest: float, top: float | None = None) -> Axis:
    """The axis for values in `unit` of which none is above `highest`; `top` is its end where the unit has one.

    Sizes are in powers of 1024 and their ticks in powers of two; rates of bytes become bits, as networks count.

    >>> axis("bytes", 118 * 2**30)
    Axis(divisor=1073741824, unit='GiB', top=123.9, ticks=[0, 32, 64, 96])
    >>> axis("bytes/s", 125e6).unit, axis("ratio", 0.4, 1), axis("cores", 0.0).top
    ('Gbit/s', Axis(divisor=0.01, unit='%', top=100.0, ticks=[0, 25, 50, 75, 100]), 1.0)
    """
    divisor, shown = _scale(unit, highest if top is None else top)
    end = highest / divisor * 1.05 if top is None else top / divisor
    if end < 1e-6:
        end = 1.0
    step = _binary_step(end) if unit == "bytes" else _step(end)
    return Axis(
        divisor, shown, end if top else float(f"{end:.4g}"), [_tidy(step * place) for place in range(int(end / step + 1e-9) + 1)]
    )


def _scale(unit: str, highest: float) -> tuple[float, str]:
    if unit == "bytes":
        power = min(max(int(math.log(highest, 1024)), 0), len(_BINARY) - 1) if highest >= 1 else 0
        return 1024**power, _BINARY[power]
    if unit == "bytes/s":
        power = min(max(int(math.log(highest * 8, 1000) + 1e-9), 0), len(_BITS) - 1) if highest >= 1 else 0
        return 1000**power / 8, _BITS[power]
    if unit == "ratio":
        return 0.01, "%"
    return 1, unit


def _step(end: float) -> float:
    """1, 2, 2.5 or 5 times a power of ten, for three to five ticks.

    >>> [_step(end) for end in (1, 7, 100, 0.03)]
    [0.25, 2.0, 25.0, 0.01]
    """
    power = 10.0 ** math.floor(math.log10(end / 4))
    return next(round(factor * power, 12) for factor in (1, 2, 2.5, 5, 10) if factor * power >= end / 4 * 0.999)


def _binary_step(end: float) -> float:
    return float(2.0 ** round(math.log2(end / 4)))


def _tidy(number: float) -> float:
    """Whole numbers without a point, others with as few digits as five significant ones need."""
    short = float(f"{number:.5g}")
    return int(short) if short.is_integer() else short


def shortened(value: float | None, divisor: float) -> float | None:
    """A value as it is drawn: five significant digits.

    >>> shortened(118.7 * 2**30, 2**30), shortened(None, 1), shortened(0.0, 1)
    (118.7, None, 0)
    """
    return None if value is None else _tidy(value / divisor)
