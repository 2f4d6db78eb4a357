"""Answers in as few bytes as the client takes: gzip where it accepts it, 304 for what it has already."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterable
from typing import NamedTuple

from flask import Flask, Response, request

#: By measurement (docs/decisions/0009): pages shrink by another quarter from 4 to 6 and by a twentieth from 6 to 9, at twice the
#: time. /metrics is large, hardly shrinks further after 1, and is scraped by whoever sits near.
_LEVEL, _LEVEL_OF_METRICS = 6, 1

_TYPES = ("text/", "application/json", "application/openmetrics-text", "image/svg+xml")

#: What is smaller fits a packet or two anyway.
_SMALLEST = 1000


class Body(NamedTuple):
    """An answer's body in both forms, with its tag."""

    plain: bytes
    packed: bytes
    etag: str

    @classmethod
    def of(cls, text: str) -> Body:
        plain = text.encode("utf-8", "surrogatepass")
        return cls(plain, packed([plain]), tag_of(plain))


def packed(pieces: Iterable[bytes], level: int = _LEVEL) -> bytes:
    """gzip, without name and time, so that the same body gives the same bytes."""
    packer = zlib.compressobj(level, zlib.DEFLATED, 31)
    return b"".join([*map(packer.compress, pieces), packer.flush()])


def tag_of(body: bytes) -> str:
    return hashlib.blake2b(body, digest_size=12).hexdigest()


def takes_gzip() -> bool:
    return bool(request.accept_encodings["gzip"])


def respond(body: Body) -> Response:
    """That HTML in the form that the client takes, or 304 if it has it."""
    response = Response(body.packed if takes_gzip() else body.plain, content_type="text/html; charset=utf-8")
    if takes_gzip():
        response.headers["Content-Encoding"] = "gzip"
    response.vary.add("Accept-Encoding")
    response.set_etag(body.etag, weak=True)
    _answer_304_if_known(response)
    return response


def _answer_304_if_known(response: Response) -> None:
    response.make_conditional(request)
    response.headers.pop("Date", None)  # the server dates its answers; two dates are none


def compress(app: Flask) -> None:
    """Tag the blocks of pages, and pack every text that the client takes packed."""

    @app.after_request
    def shrink(response: Response) -> Response:
        mimetype = response.mimetype or ""
        if not mimetype.startswith(_TYPES) or "Content-Encoding" in response.headers or response.direct_passthrough:
            return response
        response.vary.add("Accept-Encoding")
        if response.status_code not in (200, 226) or request.method != "GET":
            return response
        if request.blueprint == "fragments" and "ETag" not in response.headers:
            response.set_etag(tag_of(response.get_data()), weak=True)
            _answer_304_if_known(response)
            if response.status_code == 304:
                return response
        if takes_gzip() and (response.calculate_content_length() or 0) >= _SMALLEST:
            response.set_data(packed(response.iter_encoded(), _LEVEL_OF_METRICS if request.path == "/metrics" else _LEVEL))
            response.headers["Content-Encoding"] = "gzip"
        return response
