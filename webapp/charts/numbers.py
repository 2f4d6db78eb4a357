"""A chart's numbers as tables: for readers who don't see the drawing, and for those who want the figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from webapp import formats
from webapp.charts.axis import axis, shortened
from webapp.charts.lines import Line, lines
from webapp.formats import iso_time
from webapp.history import Answer
from webapp.lens import Chart

#: Latest times that are listed one by one.
LATEST = 20


@dataclass(frozen=True)
class Digest:
    """One line in a few figures, in the table's unit; None where nothing is known."""

    name: str
    last: float | None
    lowest: float | None
    mean: float | None
    highest: float | None
    #: How many of the times are known.
    known: int


@dataclass(frozen=True)
class Numbers:
    """What a chart shows, in words and figures."""

    unit: str
    digests: tuple[Digest, ...]
    #: Unix time and the value of each line, latest first.
    latest: tuple[tuple[float, tuple[float | None, ...]], ...]
    #: How many times there are in all.
    times: int


def numbers(chart: Chart, answer: Answer) -> Numbers:
    """The numbers of the lines that `figure` draws, in the unit that it draws them in."""
    drawn = lines(chart, answer)
    highest = max((value for line in drawn for value in line.values if value is not None), default=0.0)
    scale = axis(chart.unit, highest, chart.top)
    times = answer.range.times
    rows = [
        (at, tuple(shortened(line.values[place], scale.divisor) for line in drawn))
        for place, at in enumerate(times[-LATEST:], max(0, len(times) - LATEST))
    ]
    return Numbers(scale.unit, tuple(_digest(line, scale.divisor) for line in drawn), tuple(reversed(rows)), len(times))


def table(chart: Chart, answer: Answer) -> tuple[list[str], list[list[str | float | None]]]:
    """The head and the rows of a table with the same numbers, in the chart's own unit; None where unknown."""
    drawn = lines(chart, answer)
    head = ["time (UTC)", *(f"{line.name} ({chart.unit})" for line in drawn)]
    rows = zip(answer.range.times, *(line.values for line in drawn))
    return head, [[iso_time(at), *values] for at, *values in rows]


def _digest(line: Line, divisor: float) -> Digest:
    known: Sequence[float] = [value for value in line.values if value is not None]
    if not known:
        return Digest(line.name, None, None, None, None, 0)
    last, lowest, mean, highest = (
        shortened(value, divisor) for value in (line.values[-1], min(known), sum(known) / len(known), max(known))
    )
    return Digest(line.name, last, lowest, mean, highest, len(known))


def written(value: float) -> str:
    """
    >>> written(118.72), written(0), written(0.00004)
    ('118.7', '0', '4e-05')
    """
    return "0" if value == 0 else f"{value:,.4g}" if abs(value) < 9_999 else formats.number(value)
