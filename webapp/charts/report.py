"""Charts as parts of one HTML file that needs no network and no server: plotly's own writer.

https://plotly.com/python-api-reference/generated/plotly.io.to_html.html
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from plotly.io import to_html

#: Height of a chart, in pixels, as on the pages.
HEIGHT = 210


def drawing(key: str, figure: Mapping[str, Any]) -> str:
    """A figure as an HTML element with the script that draws it; plotly.js itself must come before it in the file."""
    written: str = to_html(
        dict(figure),
        include_plotlyjs=False,
        full_html=False,
        validate=False,  # the page draws the same figures, and tests pass each through plotly's validator
        div_id=f"figure-{key}",
        default_height=HEIGHT,
        config={"displayModeBar": False},
    )
    return written
