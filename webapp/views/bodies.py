"""Bodies of requests that programs send: bounded, as sent and once expanded."""

from __future__ import annotations

import zlib

from flask import Request

from webapp.heartbeat import LARGEST_BODY_BYTES, HeartbeatRefused


class BodyTooLarge(Exception):
    """More bytes than are taken, as sent or once expanded."""


def body(message: Request) -> bytes:
    """The body, expanded if it is gzip. Raises BodyTooLarge, HeartbeatRefused."""
    if (message.content_length or 0) > LARGEST_BODY_BYTES:
        raise BodyTooLarge(f"the body has {message.content_length} bytes; at most {LARGEST_BODY_BYTES} are taken")
    return expanded(message.stream.read(LARGEST_BODY_BYTES + 1), message.headers.get("Content-Encoding", ""))


def expanded(content: bytes, encoding: str) -> bytes:
    """What a body with that Content-Encoding holds. Raises BodyTooLarge, HeartbeatRefused."""
    encoding = encoding.strip().lower() or "identity"
    if encoding in ("gzip", "x-gzip"):
        content = _unzipped(content)
    elif encoding != "identity":
        raise HeartbeatRefused(f"Content-Encoding: expected gzip or none, got {encoding[:40]!r}")
    if len(content) > LARGEST_BODY_BYTES:
        raise BodyTooLarge(f"the body has more than {LARGEST_BODY_BYTES} bytes")
    return content


def _unzipped(body: bytes) -> bytes:
    expander = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
    try:
        expanded = expander.decompress(body, LARGEST_BODY_BYTES + 1)
    except zlib.error as error:
        raise HeartbeatRefused(f"the body is not gzip: {error}") from error
    if not expander.eof and len(expanded) <= LARGEST_BODY_BYTES:
        raise HeartbeatRefused("the gzip body is cut off")
    return expanded
