"""The colours of models, and of lines without a model: eight hues, and a second mark for the eight places after them.

Each two hues differ by at least 0.09 in Oklab (https://bottosson.github.io/posts/oklab/) for readers who don't see
red, green or blue, by 0.13 for others, and each has a contrast of 3 to its background (WCAG 1.4.11). The last two
resemble what alarms; they are given out last. `static/css/tokens.css` has them as --model-0 to --model-7.
"""

from __future__ import annotations

from zlib import crc32

LIGHT = ("#25359e", "#a78302", "#087560", "#7d53ae", "#0b94b3", "#621c67", "#b04322", "#88001f")
DARK = ("#6487b2", "#edb53f", "#91e1b2", "#a48fff", "#48bbcc", "#e4c6fd", "#f87f81", "#b36d65")

#: Hues that are given out before the others.
_FIRST = 6

#: Places in the palette: each hue filled and drawn through, then each hollow and dotted.
PLACES = 2 * len(LIGHT)


def preference(model: str) -> list[int]:
    """The places from the one that suits a model best, by its name alone.

    >>> preference("qwen3-32b")[:3], sorted(preference("")) == list(range(PLACES))
    ([5, 2, 0], True)
    """

    def rank(place: int) -> tuple[bool, bool, int]:
        hue = place % len(LIGHT)
        return place >= len(LIGHT), hue >= _FIRST, crc32(f"{hue} {model}".encode("utf-8", "surrogatepass"))

    return sorted(range(PLACES), key=rank)


def colour_index(model: str) -> int:
    """Place of a model that nobody gave one (see `colours`)."""
    return preference(model)[0]


def colour(index: int) -> str:
    """As #rrggbb, on a light page."""
    return LIGHT[index % len(LIGHT)]


def is_hollow(index: int) -> bool:
    """Whether a place has the second mark, which distinguishes it from the place with the same hue."""
    return index % PLACES >= len(LIGHT)


def on_dark() -> dict[str, str]:
    """Light colour -> the one that replaces it on a dark page."""
    return dict(zip(LIGHT, DARK))
