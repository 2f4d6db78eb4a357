"""Heartbeats, taken in before Flask is asked: they are most of the requests, and to route one costs more than to take it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from webapp import schema
from webapp.fields import Rejection
from webapp.heartbeat import LARGEST_BODY_BYTES, HeartbeatRefused
from webapp.registry import FleetFull, HeartbeatConflict, HeartbeatForgotten, Registry
from webapp.views.bodies import BodyTooLarge, expanded

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

PATH = "/v1/nodes/heartbeat"

#: A larger one is answered in a thread, as pages are: to read it may take a while.
_LARGEST_AT_ONCE = 64 * 1024


def is_heartbeat(environ: WSGIEnvironment) -> bool:
    """Whether a request is a heartbeat of the usual size, which is answered without waiting for anything."""
    return (
        environ["REQUEST_METHOD"] == "POST"
        and environ["PATH_INFO"].endswith(PATH)
        and int(environ.get("CONTENT_LENGTH") or 0) <= _LARGEST_AT_ONCE
    )


class Heartbeats:
    """Takes in heartbeats for one registry."""

    def __init__(self, registry: Registry, interval_s: float) -> None:
        """`interval_s`: seconds between heartbeats that agents are asked for."""
        self._registry = registry
        self._interval_s = interval_s

    def take(self, content: bytes, encoding: str, source: str) -> tuple[int, dict[str, Any]]:
        """A body as it was sent; the status and the fields of the answer."""
        registry = self._registry
        arrived = registry.now()
        try:
            reading = schema.read(expanded(content, encoding))
            outcome = registry.accept(reading, source=source, arrived=arrived)
        except BodyTooLarge as error:
            registry.heartbeats["too_large"] += 1
            return 413, _refused("too_large", str(error))
        except HeartbeatRefused as error:
            registry.heartbeats["refused"] += 1
            return 400, _refused("bad_heartbeat", str(error), field=error.field)
        except HeartbeatConflict as error:
            return 409, _refused("name_conflict", str(error), field="node")
        except HeartbeatForgotten as error:
            return 404, _refused("forgotten", str(error), field="node")
        except FleetFull as error:
            return 429, _refused("fleet_full", str(error))
        return 200, self.accepted(outcome, reading.rejected)

    def accepted(self, outcome: str, rejected: Iterable[Rejection] = ()) -> dict[str, Any]:
        """The fields of the answer to a heartbeat that was taken."""
        left_out = [{"field": path, "reason": reason} for path, reason in rejected]
        return {"ok": True, "outcome": outcome, "interval_s": self._interval_s, "rejected": left_out}


def _refused(error: str, message: str, **more: str) -> dict[str, Any]:
    return {"ok": False, "error": error, "message": message, **more}


class Shortcut:
    """A WSGI application around Flask's, which answers heartbeats itself."""

    def __init__(
        self,
        application: WSGIApplication,
        heartbeats: Heartbeats,
        headers: Sequence[tuple[str, str]] = (),
        admits: Callable[[WSGIEnvironment], bool] = lambda environ: True,
    ) -> None:
        """`headers`: what every answer carries. What isn't admitted goes to Flask, which refuses it in its own words."""
        self._application = application
        self._heartbeats = heartbeats
        self._headers = list(headers)
        self._admits = admits
        #: The answers that nearly all get.
        self._usual = {outcome: _json(heartbeats.accepted(outcome)) for outcome in ("accepted", "replayed")}

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        if environ["PATH_INFO"] != PATH or environ["REQUEST_METHOD"] != "POST":
            return self._application(environ, start_response)
        length = environ.get("CONTENT_LENGTH") or ""
        if not length.isdecimal() or int(length) > LARGEST_BODY_BYTES or not self._admits(environ):
            return self._application(environ, start_response)
        content = environ["wsgi.input"].read(int(length))
        encoding = environ.get("HTTP_CONTENT_ENCODING", "")
        code, fields = self._heartbeats.take(content, encoding, environ.get("REMOTE_ADDR", ""))
        body = self._usual.get(fields["outcome"], b"") if code == 200 and not fields["rejected"] else b""
        body = body or _json(fields)
        own = [("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
        start_response(_STATUS[code], own + self._headers)
        return [body]


def _json(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode() + b"\n"


_STATUS = {status.value: f"{status.value} {status.phrase}" for status in HTTPStatus}
