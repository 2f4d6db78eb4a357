"""What a control plane's answer to a heartbeat means."""

from __future__ import annotations

import http.client
from urllib.parse import urljoin, urlsplit

from webapp import json_object
from webapp.agent.lines import one_line


class NotDelivered(Exception):
    """The heartbeat was not taken. The message is one line, for the operator."""


def without_secrets(url: str) -> str:
    """An address as logs may show it: no user, no password, no control characters.

    >>> without_secrets("http://me:secret@house:8765/a"), without_secrets("http://me:secret@[::1")
    ('http://house:8765/a', '[::1')
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        return one_line(url.rpartition("@")[2])
    return one_line(parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl())


def aimed(url: str, place: str) -> str:
    """Where a redirect from `url` to `place` leads; `place` itself where that is no address.

    >>> aimed("http://house/a", "/b"), aimed("http://house/a", "http://[::1")
    ('http://house/b', 'http://[::1')
    """
    try:
        return urljoin(url, place)
    except ValueError:
        return place


def understood(url: str, status: int, headers: http.client.HTTPMessage, answer: bytes) -> float | None:
    """The interval in an answer that takes the heartbeat. Raises NotDelivered for any other answer."""
    if 300 <= status < 400:
        place = without_secrets(aimed(url, headers.get("Location", "")))
        raise NotDelivered(
            f"{status} redirects to {place}; a heartbeat does not follow that: give this address, or its base, as --server"
        )
    message = json_object.read(answer)
    if status == 200 and message is not None and message.get("ok") is True:
        interval_s = message.get("interval_s")
        usable = isinstance(interval_s, (int, float)) and not isinstance(interval_s, bool) and 0 < interval_s < 1e6
        return float(interval_s or 0) if usable else None
    if status == 200:
        kind = one_line(headers.get("Content-Type", "no type"))[:60]
        raise NotDelivered(f"200 with {kind} instead of a heartbeat's answer: is it a control plane?")
    reason = message.get("error") if message else None
    if isinstance(reason, dict):
        reason = reason.get("message")
    raise NotDelivered(
        f"{status} {_MEANINGS.get(status, '')}".strip() + (f": {one_line(reason)}" if isinstance(reason, str) else "")
    )


_MEANINGS = {
    400: "the heartbeat was not understood",
    401: "the token is missing or wrong",
    403: "not allowed",
    404: "there is no control plane at this address",
    409: "another node has this name",
    413: "the heartbeat is too large",
    429: "too many nodes or heartbeats",
    503: "not ready",
}
