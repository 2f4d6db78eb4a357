"""Static files under addresses that change with their content, so that browsers may keep them for ever."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

from flask import Flask, Response, request, url_for

from webapp.views.compression import packed, takes_gzip
from webapp.views.forwarding import ROOT

_FOR_EVER = "public, max-age=31536000, immutable"

_TYPES = {"js": "text/javascript; charset=utf-8", "css": "text/css; charset=utf-8", "svg": "image/svg+xml"}


def version_assets(app: Flask) -> None:
    """Give templates `asset(path)`: the address of a file below static/."""
    folder = Path(app.static_folder or "")

    @cache
    def digest(path: str) -> str:
        return hashlib.sha256((folder / path).read_bytes()).hexdigest()[:10]

    @cache
    def small(path: str) -> bytes:
        return packed([(folder / path).read_bytes()], 9)

    known: set[str] = set()

    @app.template_global()
    def asset(path: str) -> str:
        # Files lie outside the root of an embed link, so that a browser keeps one copy of them.
        known.add(path)
        address = url_for("static", filename=path, v=digest(path))
        return str(request.environ.get(ROOT, "")) + address.removeprefix(request.script_root)

    @app.before_request
    def send_packed() -> Response | None:
        path = (request.view_args or {}).get("filename", "")
        if request.endpoint != "static" or path not in known or request.args.get("v") != digest(path):
            return None
        kind = _TYPES.get(path.rpartition(".")[2])
        if kind is None or request.range is not None or not takes_gzip():
            return None
        response = Response(small(path), content_type=kind)
        response.headers["Content-Encoding"] = "gzip"
        return response

    @app.after_request
    def keep(response: Response) -> Response:
        if request.endpoint == "static" and "v" in request.args and response.status_code == 200:
            response.headers["Cache-Control"] = _FOR_EVER
            response.vary.add("Accept-Encoding")
        return response
