"""The colour of a model: the same on every chip, chart and map.

Eight hues that colour-blind readers can tell apart, after Okabe and Ito (https://jfly.uni-koeln.de/color/), the
too light and the black one replaced. `static/css/tokens.css` has them as --model-0 to --model-7.
"""

from __future__ import annotations

from zlib import crc32

LIGHT = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8a7fd1", "#9a8b3c")
DARK = ("#4aa3d9", "#e69f00", "#009e73", "#d990b8", "#56b4e9", "#d55e00", "#8a7fd1", "#b5a65a")


def colour_index(model: str) -> int:
    """Place of the model's colour in the palette; by its name alone, so that it never changes.

    >>> colour_index("llama-3.1-8b"), colour_index("")
    (3, 0)
    """
    return crc32(model.encode("utf-8", "surrogatepass")) % len(LIGHT)


def colour(index: int) -> str:
    """As #rrggbb, on a light page."""
    return LIGHT[index % len(LIGHT)]


def on_dark() -> dict[str, str]:
    """What stands for each light colour on a dark page, where it differs."""
    return {light: dark for light, dark in zip(LIGHT, DARK) if light != dark}
