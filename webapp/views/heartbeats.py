"""Heartbeats, taken in before Flask is asked: they are most of the requests, and to route one costs more than to take it."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from webapp import schema
from webapp.fields import Rejection
from webapp.fleet.refusals import FleetFull, HeartbeatConflict, HeartbeatForgotten
from webapp.fleet.registry import Registry
from webapp.heartbeat import LIMITS, HeartbeatRefused, Limits
from webapp.telemetry import Telemetry
from webapp.views.bodies import BodyTooLarge, expanded

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

PATH = "/v1/nodes/heartbeat"

#: What the time of a heartbeat is counted under.
ENDPOINT = "machines.beat"

#: A larger one is answered in a thread, as pages are: to read it may take a while. So is one that comes packed, since
#: a kilobyte may hold a megabyte.
_LARGEST_AT_ONCE = 64 * 1024


def is_heartbeat(environ: WSGIEnvironment) -> bool:
    """Whether a request is a heartbeat of the usual size, which is answered without waiting for anything."""
    return (
        environ["REQUEST_METHOD"] == "POST"
        and environ["PATH_INFO"].endswith(PATH)
        and int(environ.get("CONTENT_LENGTH") or 0) <= _LARGEST_AT_ONCE
        and "HTTP_CONTENT_ENCODING" not in environ
    )


class Heartbeats:
    """Takes in heartbeats for one registry."""

    def __init__(
        self, registry: Registry, interval_s: float, refused: Counter[str] | None = None, limits: Limits = LIMITS
    ) -> None:
        """`interval_s`: seconds between heartbeats that agents are asked for. `refused` counts what was not let in."""
        self.limits = limits
        self._registry = registry
        self._interval_s = interval_s
        self._refused = Counter() if refused is None else refused

    def take(self, content: bytes, encoding: str, source: str, only_node: str = "") -> tuple[int, dict[str, Any]]:
        """A body as it was sent; the status and the fields of the answer. `only_node`: whom the sender may speak for."""
        registry = self._registry
        arrived = registry.now()
        try:
            reading = schema.read(expanded(content, encoding, self.limits.body_bytes), self.limits)
            if only_node and only_node != reading.measurement.node:
                self._refused["other_node"] += 1
                return 403, _refused("other_node", f"this token is for node {only_node!r} only", field="node")
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
        telemetry: Telemetry,
        headers: Sequence[tuple[str, str]],
        admit: Callable[[WSGIEnvironment], str | None],
    ) -> None:
        """`headers`: what every answer carries. `admit`: the only node that the sender may speak for, "" for any; None
        where Flask is to ask, which also refuses it in its own words.
        """
        self._application = application
        self._heartbeats = heartbeats
        self._telemetry = telemetry
        self._headers = list(headers)
        self._admit = admit
        #: The answers that nearly all get.
        self._usual = {outcome: _json(heartbeats.accepted(outcome)) for outcome in ("accepted", "replayed")}

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        if environ["PATH_INFO"] != PATH or environ["REQUEST_METHOD"] != "POST":
            return self._application(environ, start_response)
        length = environ.get("CONTENT_LENGTH") or ""
        if not length.isdecimal() or int(length) > self._heartbeats.limits.body_bytes:
            return self._application(environ, start_response)
        only_node = self._admit(environ)
        if only_node is None:
            return self._application(environ, start_response)
        started = time.perf_counter()
        self._telemetry.started()
        content = environ["wsgi.input"].read(int(length))
        encoding = environ.get("HTTP_CONTENT_ENCODING", "")
        code, fields = self._heartbeats.take(content, encoding, environ.get("REMOTE_ADDR", ""), only_node)
        body = self._usual[fields["outcome"]] if code == 200 and not fields["rejected"] else _json(fields)
        self._telemetry.ended(ENDPOINT, time.perf_counter() - started)
        own = [("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
        start_response(_STATUS[code], own + self._headers)
        return [body]


def _json(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode() + b"\n"


_STATUS = {status.value: f"{status.value} {status.phrase}" for status in HTTPStatus}
