"""JSON that somebody else wrote, of which only an object is of use.

Runs on nodes: standard library only, CPython 3.9 and later.
"""

from __future__ import annotations

import json
from typing import Any


def read(text: bytes) -> dict[str, Any] | None:
    """The object that `text` holds; None if it is no JSON, or no object.

    >>> read(b'{"ok": true}'), read(b"[]"), read(b"<html>"), read(b"[" * 100_000)
    ({'ok': True}, None, None, None)
    """
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
