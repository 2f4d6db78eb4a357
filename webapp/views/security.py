"""Headers that every answer carries, errors and static files included."""

from __future__ import annotations

from collections.abc import Sequence

from flask import Flask, Response

#: 'unsafe-inline' for styles only: plotly positions its parts by style attributes and style sheets of its own.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors {ancestors}"
)


def headers(frame_ancestors: Sequence[str] = ()) -> list[tuple[str, str]]:
    """What every answer carries. `frame_ancestors`: origins, beside our own, that may frame the pages."""
    return [
        ("Content-Security-Policy", _POLICY.format(ancestors=" ".join(["'self'", *frame_ancestors]))),
        ("X-Content-Type-Options", "nosniff"),
        ("Referrer-Policy", "same-origin"),
        ("Permissions-Policy", "camera=(), microphone=(), geolocation=()"),
        ("Cache-Control", "no-store"),
    ]


def protect(app: Flask, frame_ancestors: Sequence[str] = ()) -> None:
    """Add these headers; a view may say otherwise how its answer is cached."""
    *always, (cache, usual) = headers(frame_ancestors)

    @app.after_request
    def add_headers(response: Response) -> Response:
        for name, value in always:
            response.headers[name] = value
        response.headers.setdefault(cache, usual)
        return response
