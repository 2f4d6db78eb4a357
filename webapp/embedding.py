"""Embed links: a signed, expiring token that opens one page, read-only and without cookies.

The token is a part of the path, as if the whole site lay below it (`/shared/TOKEN/nodes/cpu-07`), so that every address
which a page makes carries it by itself: blocks, sort links, forms, files.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from urllib.parse import parse_qs, quote, unquote, urlsplit

from itsdangerous import BadData, URLSafeSerializer

#: What precedes the token in a path.
MOUNT = "/shared/"

LONGEST_SECONDS = 366 * 86400.0


class LinkRefused(Exception):
    """The link opens nothing. The message says why, for the reader."""


class EmbedLinks:
    """Makes and reads tokens. They end with their time, and all at once when the key changes."""

    def __init__(self, key: bytes, wall: Callable[[], float] = time.time) -> None:
        self._serializer = URLSafeSerializer(key, salt="enginehouse embed link")
        self._wall = wall

    def token(self, path: str, seconds: float) -> str:
        """A token that opens the page at `path`, such as /nodes/cpu-07, for `seconds`. Raises ValueError."""
        if not path.startswith("/") or path.startswith("//"):
            raise ValueError(f"expected a path of a page, such as /nodes/cpu-07, got {path[:100]!r}")
        if not 0 < seconds <= LONGEST_SECONDS:
            raise ValueError(f"expected up to {LONGEST_SECONDS / 86400:.0f} days, got {seconds:g} s")
        return str(self._serializer.dumps([path, int(self._wall() + seconds)]))

    def path(self, token: str) -> str:
        """The path of the page that a token opens now. Raises LinkRefused."""
        try:
            path, until = self._serializer.loads(token)
        except (BadData, ValueError, TypeError) as error:
            raise LinkRefused("This link was not made here, or was damaged on the way.") from error
        if self._wall() > until:
            raise LinkRefused(f"This link expired on {time.strftime('%Y-%m-%d %H:%M', time.gmtime(until))} UTC.")
        return str(path)


def link(links: EmbedLinks, address: str, seconds: float) -> str:
    """The path, with its query, that opens the page at `address`, which is as a browser shows it: "/nodes/a%20b?range=6h".

    Raises ValueError.
    """
    parts = urlsplit(address)
    query = f"?{parts.query}" if parts.query else ""
    return f"{MOUNT}{links.token(unquote(parts.path), seconds)}{quote(parts.path, safe='/%')}{query}"


def framed(address: str) -> str:
    """The address of a page as a frame shows it: without navigation, since its links lead to what a link doesn't open.

    >>> framed("/nodes/a?range=6h"), framed("/"), framed("/?embed=0")
    ('/nodes/a?range=6h&embed=1', '/?embed=1', '/?embed=0')
    """
    page, _, query = address.partition("#")[0].partition("?")
    if "embed" in parse_qs(query, keep_blank_values=True):
        return address
    return f"{page}?{query}&embed=1" if query else f"{page}?embed=1"
