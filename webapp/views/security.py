"""Headers that every answer carries, errors and static files included."""

from __future__ import annotations

from collections.abc import Sequence

from flask import Flask, Response

#: 'unsafe-inline' for styles only: plotly positions its parts by style attributes and style sheets of its own.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors {ancestors}"
)


def protect(app: Flask, frame_ancestors: Sequence[str] = ()) -> None:
    """Add the security headers. `frame_ancestors`: origins, beside our own, that may frame the pages."""
    policy = _POLICY.format(ancestors=" ".join(["'self'", *frame_ancestors]))

    @app.after_request
    def add_headers(response: Response) -> Response:
        response.headers["Content-Security-Policy"] = policy
        response.headers["X-Content-Type-Options"] = "nosniff"
        response.headers["Referrer-Policy"] = "same-origin"
        response.headers["Permissions-Policy"] = "camera=(), microphone=(), geolocation=()"
        response.headers.setdefault("Cache-Control", "no-store")
        return response
