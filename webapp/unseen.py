"""Characters that a reader can't see or tell from a space: in names they are written by their numbers.

Two names that differ by such a character alone would look the same. Names themselves stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable

#: Controls, formats, directions of writing, joiners, fillers, selectors and tags; every space but the usual one.
#: https://www.unicode.org/reports/tr44/#Default_Ignorable_Code_Point and the categories Cc, Cf, Zl, Zp and Zs
_RANGES = (
    (0x00, 0x1F),
    (0x7F, 0xA0),
    (0xAD, 0xAD),
    (0x34F, 0x34F),
    (0x600, 0x605),
    (0x61C, 0x61C),
    (0x6DD, 0x6DD),
    (0x70F, 0x70F),
    (0x890, 0x891),
    (0x8E2, 0x8E2),
    (0x115F, 0x1160),
    (0x1680, 0x1680),
    (0x17B4, 0x17B5),
    (0x180B, 0x180F),
    (0x2000, 0x200F),
    (0x2028, 0x202F),
    (0x205F, 0x206F),
    (0x2800, 0x2800),
    (0x3000, 0x3000),
    (0x3164, 0x3164),
    (0xFE00, 0xFE0F),
    (0xFEFF, 0xFEFF),
    (0xFFA0, 0xFFA0),
    (0xFFF0, 0xFFFB),
    (0x110BD, 0x110BD),
    (0x110CD, 0x110CD),
    (0x13430, 0x1343F),
    (0x1BCA0, 0x1BCA3),
    (0x1D173, 0x1D17A),
    (0xE0000, 0xE0FFF),
)

#: One of them; or a space after a space, which is not drawn.
UNSEEN = re.compile(f"[{''.join(f'{chr(first)}-{chr(last)}' for first, last in _RANGES)}]|(?<= ) ")


def all_seen(text: str) -> bool:
    """Whether a text is drawn as it is.

    >>> all_seen("cpu 07"), all_seen("é模型 💥"), all_seen("cpu\\u200b07"), all_seen("cpu  07")
    (True, True, False, False)
    """
    if text.isascii() and text.isprintable():
        return "  " not in text
    return UNSEEN.search(text) is None


def number(character: str) -> str:
    """
    >>> number("\\u200b"), number("\\n")
    ('U+200B', 'U+000A')
    """
    return f"U+{ord(character):04X}"


def bracketed(text: str) -> str:
    """The text for places that hold nothing but text.

    >>> bracketed("cpu\\u200b07")
    'cpu[U+200B]07'
    """
    return text if all_seen(text) else replaced(text, lambda found: f"[{found}]")


def replaced(text: str, write: Callable[[str], str]) -> str:
    """The text with what `write` makes of the number of each such character."""
    return UNSEEN.sub(lambda found: write(number(found[0])), text)
