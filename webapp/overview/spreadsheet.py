"""Tables as CSV that a spreadsheet opens without running anything."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence

#: A cell that begins with one of these is a formula to a spreadsheet. https://owasp.org/www-community/attacks/CSV_Injection
_FORMULA = ("=", "+", "-", "@", "＝", "＋", "－", "＠", "\t", "\r")

#: Tells spreadsheets that the text is UTF-8.
_MARK = "\ufeff"


def csv_text(head: Sequence[str], rows: Iterable[Sequence[str | float | None]]) -> str:
    """RFC 4180, lines ended by CR LF; unknown is an empty cell.

    >>> csv_text(["node", "load"], [["cpu-07", None], ["a,b", -0.5]]).encode()
    b'\\xef\\xbb\\xbfnode,load\\r\\ncpu-07,\\r\\n"a,b",-0.5\\r\\n'
    """
    written = io.StringIO()
    write = csv.writer(written).writerow
    write([_cell(name) for name in head])
    for row in rows:
        write([_cell(value) for value in row])
    return _MARK + written.getvalue()


def _cell(value: str | float | None) -> str | float:
    """Numbers as they are; text that could be a formula behind an apostrophe.

    >>> [_cell(value) for value in ("cpu-07", "=cmd", "＝cmd", "\\t=x", " =x", "'", None, 0, 1.5)]
    ['cpu-07', "'=cmd", "'＝cmd", "'\\t=x", "' =x", "'", '', 0, 1.5]
    """
    if value is None:
        return ""
    if not isinstance(value, str):
        return value
    return "'" + value if value.lstrip(" \n").startswith(_FORMULA) else value
