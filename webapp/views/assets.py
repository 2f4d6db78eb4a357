"""Static files under addresses that change with their content, so that browsers may keep them for ever."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

from flask import Flask, Response, request, url_for

from webapp.views.forwarding import ROOT

_FOR_EVER = "public, max-age=31536000, immutable"


def version_assets(app: Flask) -> None:
    """Give templates `asset(path)`: the address of a file below static/."""
    folder = Path(app.static_folder or "")

    @cache
    def digest(path: str) -> str:
        return hashlib.sha256((folder / path).read_bytes()).hexdigest()[:10]

    @app.template_global()
    def asset(path: str) -> str:
        # Files lie outside the root of an embed link, so that a browser keeps one copy of them.
        address = url_for("static", filename=path, v=digest(path))
        return str(request.environ.get(ROOT, "")) + address.removeprefix(request.script_root)

    @app.after_request
    def keep(response: Response) -> Response:
        if request.endpoint == "static" and "v" in request.args and response.status_code == 200:
            response.headers["Cache-Control"] = _FOR_EVER
        return response
