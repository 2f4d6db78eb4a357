"""How long each request took, by route."""

from __future__ import annotations

import time

from flask import Flask, g, request

from webapp.telemetry import Telemetry


def measure(app: Flask, telemetry: Telemetry) -> None:
    @app.before_request
    def start() -> None:
        g.started = time.perf_counter()
        telemetry.started()

    @app.teardown_request
    def end(error: BaseException | None) -> None:
        started = g.pop("started", None)
        if started is not None:
            telemetry.ended(request.endpoint or "none", time.perf_counter() - started)
