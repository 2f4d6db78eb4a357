"""The pieces of a plotly figure, as plain dicts. https://plotly.com/javascript/reference/"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from webapp.charts.axis import Axis, shortened
from webapp.charts.lines import Line, Mark, Values
from webapp.formats import iso_time
from webapp.history import Range
from webapp.unseen import bracketed

GREY = "#888f95"

#: More silences than this and a stack is drawn without fills.
_MOST_PIECES = 12


def plain(text: str) -> str:
    """Text that plotly shows as it is: it reads a few HTML tags and %{templates} in everything that it writes.

    >>> plain("<b>a & %{y}</b>\\u200b")
    '&lt;b&gt;a &amp; &#37;{y}&lt;/b&gt;[U+200B]'
    """
    text = bracketed(text)
    for character, shown in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("%", "&#37;")):
        text = text.replace(character, shown)
    return text


def trace(line: Line, height: Values, style: dict[str, Any], scale: Axis, range: Range, stacked: bool) -> dict[str, Any]:
    drawn: dict[str, Any] = {
        "type": "scatter",
        "mode": "lines",
        "name": plain(line.name),
        "x0": iso_time(range.start),
        "dx": range.step * 1000,
        "y": list(height),
        "line": style,
        "hovertemplate": f"%{{y}} {plain(scale.unit)}",
    }
    if stacked and line.role != "limit":
        own = [shortened(value, scale.divisor) for value in line.values]
        drawn["y"] = [None if value is None else top for value, top in zip(own, height)]
        drawn |= {"customdata": own, "hovertemplate": f"%{{customdata}} {plain(scale.unit)}"}
    return drawn


def fills(
    drawn: Sequence[Line], heights: Sequence[Values], styles: Sequence[dict[str, Any]], range: Range
) -> Iterator[dict[str, Any]]:
    """The areas of a stack, cut where nothing is known."""
    parts = [place for place, line in enumerate(drawn) if line.role != "limit"]
    if not parts:
        return
    pieces = list(_pieces([any(heights[part][at] is not None for part in parts) for at, _ in enumerate(range.times)]))
    if len(pieces) > _MOST_PIECES:
        return
    for start, end in pieces:
        for place, part in enumerate(parts):
            yield {
                "type": "scatter",
                "mode": "lines",
                "x0": iso_time(range.start + start * range.step),
                "dx": range.step * 1000,
                "y": [height or 0 for height in heights[part][start:end]],
                "line": {"width": 0, "color": styles[part]["color"]},
                "fill": "tonexty" if place else "tozeroy",
                "fillcolor": _see_through(styles[part]["color"]),
                "hoverinfo": "skip",
            }


def _pieces(known: Sequence[bool]) -> Iterator[tuple[int, int]]:
    """Start and end of each run of what is known.

    >>> list(_pieces([True, True, False, True]))
    [(0, 2), (3, 4)]
    """
    start = None
    for place, here in enumerate([*known, False]):
        if here and start is None:
            start = place
        elif not here and start is not None:
            yield start, place
            start = None


def _see_through(hex: str) -> str:
    """
    >>> _see_through("#0072b2")
    'rgba(0,114,178,0.28)'
    """
    red, green, blue = (int(hex[at : at + 2], 16) for at in (1, 3, 5))
    return f"rgba({red},{green},{blue},0.28)"


def lone_points(height: Values, style: dict[str, Any], range: Range) -> Iterator[dict[str, Any]]:
    alone = [start for start, end in _pieces([value is not None for value in height]) if end - start == 1]
    if alone:
        yield {
            "type": "scatter",
            "mode": "markers",
            "x": [iso_time(range.start + place * range.step) for place in alone],
            "y": [height[place] for place in alone],
            "marker": {"size": 4, "color": style["color"]},
            "hoverinfo": "skip",
        }


def happenings(happened: Sequence[Mark], scale: Axis) -> Iterator[dict[str, Any]]:
    """Small triangles with hover texts, above the lines that `_layout` draws."""
    if happened:
        yield {
            "type": "scatter",
            "mode": "markers",
            "name": "",
            "x": [iso_time(mark.time) for mark in happened],
            "y": [scale.top] * len(happened),
            "marker": {"size": 7, "symbol": "triangle-down", "color": GREY},
            "text": [plain(mark.text) for mark in happened],
            "hovertemplate": "%{text}",
            "cliponaxis": False,
        }


def band(start: float, end: float, reason: str, is_labelled: bool) -> dict[str, Any]:
    drawn: dict[str, Any] = {
        "type": "rect",
        "x0": iso_time(start),
        "x1": iso_time(end),
        "y0": 0,
        "y1": 1,
        "yref": "paper",
        "line": {"width": 0},
        "fillcolor": "rgba(128,136,143,0.18)",
        "layer": "below",
        "name": plain(reason),
    }
    if is_labelled:
        drawn["label"] = {"text": plain(reason), "font": {"size": 10, "color": GREY}, "textposition": "bottom center"}
    return drawn


def upright(at: float) -> dict[str, Any]:
    return {
        "type": "line",
        "x0": iso_time(at),
        "x1": iso_time(at),
        "y0": 0,
        "y1": 1,
        "yref": "paper",
        "line": {"width": 1, "dash": "dot", "color": GREY},
    }


def label(text: str, height: float) -> dict[str, Any]:
    """Text at the right of the plot."""
    return {
        "text": plain(text),
        "x": 1,
        "xref": "paper",
        "xanchor": "left",
        "xshift": 16,
        "y": height,
        "yanchor": "middle",
        "showarrow": False,
    }


def key(style: dict[str, Any], height: float) -> dict[str, Any]:
    """A short piece of a line, before its label."""
    return {
        "type": "line",
        "xref": "paper",
        "xsizemode": "pixel",
        "xanchor": 1,
        "x0": 4,
        "x1": 15,
        "y0": height,
        "y1": height,
        "line": style | {"width": 2},
    }
