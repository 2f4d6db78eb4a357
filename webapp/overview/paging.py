"""Long tables and lists, a page at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

Row = TypeVar("Row")

#: More rows than this are on further pages: a browser that swaps in a thousand is busy for half a second.
ROWS_A_PAGE = 200


class Part(NamedTuple):
    """Which rows are shown: page and rows from 1, and how many pages and rows there are."""

    page: int
    pages: int
    first: int
    last: int
    total: int

    def of(self, rows: Sequence[Row]) -> Sequence[Row]:
        """Those of all rows that are shown."""
        return rows[self.first - 1 : self.last]


def part(page: int, rows: int) -> Part:
    """Which of so many rows are on a page; the last page where there are fewer.

    >>> part(2, 201), part(9, 3)
    (Part(page=2, pages=2, first=201, last=201, total=201), Part(page=1, pages=1, first=1, last=3, total=3))
    """
    pages = max(1, -(-rows // ROWS_A_PAGE))
    page = min(page, pages)
    return Part(page, pages, (page - 1) * ROWS_A_PAGE + 1, min(page * ROWS_A_PAGE, rows), rows)


def page_of(text: str) -> int:
    """The page that an address asks for.

    >>> page_of("3"), page_of(""), page_of("-1"), page_of("x")
    (3, 1, 1, 1)
    """
    return max(1, int(text)) if text.isascii() and text.isdecimal() and len(text) < 6 else 1
