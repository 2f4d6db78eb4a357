"""Errors in the format of whoever asked: JSON for programs, a page for people."""

from __future__ import annotations

from typing import NoReturn

from flask import Flask, abort, jsonify, render_template, request
from flask.typing import ResponseReturnValue
from werkzeug.exceptions import HTTPException

from webapp.views.audience import MACHINE_PATHS


def handle(app: Flask) -> None:
    """Answer every HTTP error, and every exception nobody caught, in the right format."""

    @app.errorhandler(HTTPException)
    def http_error(error: HTTPException) -> ResponseReturnValue:
        return _answer(error.code or 500, error.name, error.description or "")

    @app.errorhandler(Exception)
    def uncaught(error: Exception) -> ResponseReturnValue:
        app.logger.error("%s %s failed", request.method, request.path, exc_info=error)
        return _answer(500, "Internal Server Error", "This is a fault of Enginehouse; its log has the details.")


def no_such_node(name: str) -> NoReturn:
    """Answer the request with 404."""
    abort(404, f"No node is called {name}; it was never heard, or it was forgotten.")


def _answer(code: int, name: str, description: str) -> ResponseReturnValue:
    if request.path.startswith(MACHINE_PATHS):
        return jsonify(ok=False, error=name.lower().replace(" ", "_"), message=description), code
    return render_template("error.html", code=code, name=name, description=description), code
