"""Bodies of requests that programs send: bounded, as sent and once expanded."""

from __future__ import annotations

import zlib

from flask import Request

from webapp.heartbeat import LARGEST_BODY_BYTES, HeartbeatRefused


class BodyTooLarge(Exception):
    """More bytes than are taken, as sent or once expanded."""


def body(message: Request, most: int = LARGEST_BODY_BYTES) -> bytes:
    """The body, expanded if it is gzip. Raises BodyTooLarge, HeartbeatRefused."""
    if (message.content_length or 0) > most:
        raise BodyTooLarge(f"the body has {message.content_length} bytes; at most {most} are taken")
    return expanded(message.stream.read(most + 1), message.headers.get("Content-Encoding", ""), most)


def expanded(content: bytes, encoding: str, most: int = LARGEST_BODY_BYTES) -> bytes:
    """What a body with that Content-Encoding holds. Raises BodyTooLarge, HeartbeatRefused."""
    encoding = encoding.strip().lower() or "identity"
    if encoding in ("gzip", "x-gzip"):
        content = _unzipped(content, most)
    elif encoding != "identity":
        raise HeartbeatRefused(f"Content-Encoding: expected gzip or none, got {encoding[:40]!r}")
    if len(content) > most:
        raise BodyTooLarge(f"the body has more than {most} bytes")
    return content


def _unzipped(body: bytes, most: int) -> bytes:
    expander = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
    try:
        expanded = expander.decompress(body, most + 1)
    except zlib.error as error:
        raise HeartbeatRefused(f"the body is not gzip: {error}") from error
    if not expander.eof and len(expanded) <= most:
        raise HeartbeatRefused("the gzip body is cut off")
    return expanded
