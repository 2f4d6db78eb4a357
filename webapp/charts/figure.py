"""A chart and an answer as a plotly figure: a plain dict of strict JSON, without plotly.

https://plotly.com/javascript/reference/. Three things that plotly would draw wrongly are done here: a stack is
summed here, because plotly draws a silence in a stack as zero; its fills are cut at each silence, because
plotly fills across; and a value with a gap on both sides gets a marker, because a line of one point is nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from webapp.charts import drawing
from webapp.charts.axis import Axis, axis, shortened
from webapp.charts.drawing import GREY
from webapp.charts.lines import Line, Mark, Values, lines, marks
from webapp.charts.palette import colour, colour_index, is_hollow
from webapp.formats import iso_time
from webapp.history import Answer
from webapp.lens import Chart
from webapp.unseen import bracketed

#: Pixels around the plot: the same on every chart, so that times line up.
_MARGIN = {"l": 46, "r": 102, "t": 10, "b": 24}

#: Height of the plot in pixels, as far as labels must know it, and of a label.
_HEIGHT, _LABEL_HEIGHT = 176.0, 14.0

#: A label has at most this many characters; the hover text has them all.
_LABEL_LENGTH = 13

#: More starts and stops than this are not all marked: the latest are.
_MOST_MARKS = 24

_GRID = "rgba(128,136,143,0.22)"

#: For lines that share a hue on one chart: of models with the palette's second mark, and of those with the same place.
_DASHES = ("solid", "dash", "dashdot", "longdash")
_HOLLOW_DASHES = ("dot", "longdashdot", "2px,6px", "10px,2px")


def figure(chart: Chart, answer: Answer, colour_of: Callable[[str], int] = colour_index) -> dict[str, Any]:
    """`data` and `layout`, in the palette's light colours; the page puts the dark ones in their place.

    The unit that the values are drawn in is `layout.meta.unit`. `colour_of`: a model's place in the palette.
    """
    drawn = lines(chart, answer, colour_of)
    happened = marks(chart, answer)[-_MOST_MARKS:] if chart.starts else []
    stacked = _stacked(drawn) if chart.stacked else [line.values for line in drawn]
    highest = max((value for values in stacked for value in values if value is not None), default=0.0)
    scale = axis(chart.unit, highest, chart.top)
    heights = [[shortened(value, scale.divisor) for value in values] for values in stacked]
    styles = _styles(drawn)
    data: list[dict[str, Any]] = []
    if chart.stacked:
        data += drawing.fills(drawn, heights, styles, answer.range)
    for line, height, style in zip(drawn, heights, styles):
        data.append(drawing.trace(line, height, style, scale, answer.range, chart.stacked))
        data += drawing.lone_points(height, style, answer.range)
    data += drawing.happenings(happened, scale)
    return {"data": data, "layout": _layout(answer, scale, happened, _labels(chart, drawn, heights, styles, scale))}


def _stacked(drawn: Sequence[Line]) -> list[Values]:
    """Each line on top of those before it; None where nothing is known of any of them."""
    below: list[float | None] = []
    found: list[Values] = []
    for line in drawn:
        if line.role == "limit":
            found.append(line.values)
            continue
        below = [
            value if under is None else under if value is None else under + value
            for under, value in zip(below or [None] * len(line.values), line.values)
        ]
        found.append(below)
    return found


def _styles(drawn: Sequence[Line]) -> list[dict[str, Any]]:
    found = []
    used: list[int] = []
    for line in drawn:
        if line.role == "line":
            found.append({"color": colour(line.colour), "width": 1.5})
            dashes = _HOLLOW_DASHES if is_hollow(line.colour) else _DASHES
            if (dash := dashes[used.count(line.colour) % len(dashes)]) != "solid":
                found[-1]["dash"] = dash
            used.append(line.colour)
        else:
            found.append({"color": GREY, "width": 1.2} | ({"dash": "dash"} if line.role == "limit" else {}))
    return found


def _labels(
    chart: Chart, drawn: Sequence[Line], heights: Sequence[Values], styles: Sequence[dict[str, Any]], scale: Axis
) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Names at the right end of the lines, each with a piece of its line, moved apart where they would cover each other."""
    wanted = []
    below = 0.0
    for line, height, style in zip(drawn, heights, styles):
        last = next((value for value in reversed(height) if value is not None), 0.0)
        middle = (below + last) / 2 if chart.stacked and line.role != "limit" else last
        below = last
        wanted.append((middle, _label(line, last, scale, chart.by), style))
    wanted.sort(key=lambda item: item[0])
    places = _apart([middle for middle, _, _ in wanted], scale.top)
    return [(drawing.label(label, at), drawing.key(style, at)) for at, (_, label, style) in zip(places, wanted)]


def _label(line: Line, last: float, scale: Axis, by: str) -> str:
    """The line's name; the value for a line that the chart's title names already, and beside that of a limit."""
    if line.role == "limit":
        return f"{line.name} {last:.4g}"
    if not by:
        return f"{last:.3g} {scale.unit.partition(' ')[0]}"
    name = bracketed(line.name.rpartition("/")[2] if by == "model" else line.name)
    return name if len(name) <= _LABEL_LENGTH else name[: _LABEL_LENGTH - 1] + "…"


def _apart(wanted: Sequence[float], top: float) -> list[float]:
    """Places for labels of which each has room, in the order given, near to where they are wanted.

    >>> _apart([10.0, 10.0, 90.0], 176.0)
    [10.0, 24.0, 90.0]
    """
    room = _LABEL_HEIGHT / _HEIGHT * top
    found: list[float] = []
    for at in wanted:
        found.append(max(at, found[-1] + room) if found else at)
    ceiling = top
    for place in reversed(range(len(found))):
        found[place] = min(found[place], ceiling)
        ceiling = found[place] - room
    return [float(f"{at:.5g}") for at in found]


def _layout(
    answer: Answer, scale: Axis, happened: Sequence[Mark], labels: Sequence[tuple[dict[str, Any], dict[str, Any]]]
) -> dict[str, Any]:
    start, end = answer.range.start, answer.range.end
    shapes: list[dict[str, Any]] = [
        drawing.band(max(span.start, start), min(span.end, end), span.reason, (span.end - span.start) > (end - start) / 5)
        for span in answer.unheard
        if min(span.end, end) - max(span.start, start) > answer.range.step
    ]
    shapes += (drawing.upright(mark.time) for mark in happened)
    shapes += (key for _, key in labels)
    return {
        "meta": {"unit": scale.unit},
        "xaxis": {
            "type": "date",
            "range": [iso_time(start), iso_time(end)],
            "tickformat": "%H:%M" if end - start <= 36 * 3600 else "%d %b %H:%M",
            "hoverformat": "%d %b %H:%M:%S",
            "nticks": 6,
            "gridcolor": _GRID,
        },
        "yaxis": {
            "range": [0, scale.top],
            "tickvals": scale.ticks,
            "fixedrange": True,
            "gridcolor": _GRID,
            "zeroline": False,
        },
        "margin": _MARGIN,
        "showlegend": False,
        "hovermode": "x unified",
        "hoverdistance": 12,
        "hoverlabel": {"namelength": 40},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"size": 11},
        "uirevision": "kept",
        "annotations": [label for label, _ in labels],
        "shapes": shapes,
    }
