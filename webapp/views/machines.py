"""What programs talk to: heartbeats in, /metrics and /healthz out. Every answer but /metrics is JSON."""

from __future__ import annotations

import hashlib
import time
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

from flask import Blueprint, Request, Response, g, jsonify, request
from flask.typing import ResponseReturnValue

from webapp import __version__, exposition, fingerprint, heartbeat, zipapp
from webapp.heartbeat import LIMITS, HeartbeatRefused, Limits
from webapp.registry import FleetFull, HeartbeatConflict, HeartbeatForgotten, Registry
from webapp.telemetry import Gauge, Telemetry


class PackedAgent(NamedTuple):
    """agent.pyz and its SHA-256."""

    content: bytes
    digest: str


@cache
def packed_agent() -> PackedAgent:
    """Built at first use: the installed package does not change while it runs."""
    content = zipapp.build()
    return PackedAgent(content, hashlib.sha256(content).hexdigest())


class BodyTooLarge(Exception):
    """More bytes than are taken, as sent or once expanded."""


def blueprint(
    registry: Registry,
    interval_s: float,
    problems: Callable[[], Sequence[str]],
    telemetry: Telemetry,
    limits: Limits = LIMITS,
    most_series: int = 2_000_000,
) -> Blueprint:
    """`interval_s`: seconds between heartbeats that agents are asked for. `problems`: what is wrong here, in sentences."""
    machines = Blueprint("machines", __name__)
    left_out: Counter[str] = Counter()
    telemetry.add(
        exposition.Counters("enginehouse_heartbeats_total", "Heartbeats received.", "outcome", registry.heartbeats),
        exposition.Counters("enginehouse_rejected_fields_total", "Fields of heartbeats left out.", "field", registry.rejections),
        Gauge("enginehouse_nodes", "Nodes that are known.", lambda: float(registry.count)),
        Gauge("enginehouse_metrics_left_out_nodes", "Nodes left out of /metrics.", lambda: float(left_out["now"])),
    )

    @machines.post("/v1/nodes/heartbeat")
    def beat() -> ResponseReturnValue:
        arrived = registry.now()
        try:
            reading = heartbeat.read(_body(request, limits.body_bytes), limits)
            if g.agent_node and g.agent_node != reading.measurement.node:
                telemetry.refused["other_node"] += 1
                return _refused(403, "other_node", f"this token is for node {g.agent_node!r} only", field="node")
            outcome = registry.accept(reading, source=request.remote_addr or "", arrived=arrived)
        except BodyTooLarge as error:
            registry.heartbeats["too_large"] += 1
            return _refused(413, "too_large", str(error))
        except HeartbeatRefused as error:
            registry.heartbeats["refused"] += 1
            return _refused(400, "bad_heartbeat", str(error), field=error.field)
        except HeartbeatConflict as error:
            return _refused(409, "name_conflict", str(error), field="node")
        except HeartbeatForgotten as error:
            return _refused(404, "forgotten", str(error), field="node")
        except FleetFull as error:
            return _refused(429, "fleet_full", str(error))
        rejected = [{"field": path, "reason": reason} for path, reason in reading.rejected]
        return jsonify(ok=True, outcome=outcome, interval_s=interval_s, rejected=rejected)

    @machines.get("/metrics")
    def metrics() -> ResponseReturnValue:
        started = time.perf_counter()
        openmetrics = "application/openmetrics-text" in request.headers.get("Accept", "")
        nodes = registry.nodes()
        shown = exposition.within(nodes, most_series)
        left_out["now"] = len(nodes) - len(shown)
        body = exposition.text(shown, telemetry.families, openmetrics=openmetrics)
        telemetry.scrape_s = time.perf_counter() - started
        return Response(body, content_type=exposition.OPENMETRICS if openmetrics else exposition.TEXT)

    @machines.get("/agent.pyz")
    def agent() -> ResponseReturnValue:
        """The agent for a node to fetch and run; its digest stands on the page Add a node."""
        answer = Response(packed_agent().content, content_type="application/zip")
        answer.headers["Content-Disposition"] = "attachment; filename=agent.pyz"
        return answer

    @machines.get("/healthz")
    def health() -> ResponseReturnValue:
        """Anyone may ask whether it is there; what it knows is for those who may read."""
        if g.caller.role == "nobody" or g.caller.path:
            return jsonify(ok=True, version=__version__, build=fingerprint.build())
        return jsonify(ok=True, version=__version__, build=fingerprint.build(), nodes=registry.count, problems=list(problems()))

    return machines


def _refused(code: int, error: str, message: str, **more: str) -> ResponseReturnValue:
    return jsonify(ok=False, error=error, message=message, **more), code


def _body(message: Request, most: int) -> bytes:
    """The body, expanded if it is gzip. Raises BodyTooLarge, HeartbeatRefused."""
    if (message.content_length or 0) > most:
        raise BodyTooLarge(f"the body has {message.content_length} bytes; at most {most} are taken")
    body = message.stream.read(most + 1)
    encoding = message.headers.get("Content-Encoding", "identity").strip().lower()
    if encoding in ("gzip", "x-gzip"):
        body = _expanded(body, most)
    elif encoding != "identity":
        raise HeartbeatRefused(f"Content-Encoding: expected gzip or none, got {encoding[:40]!r}")
    if len(body) > most:
        raise BodyTooLarge(f"the body has more than {most} bytes")
    return body


def _expanded(body: bytes, most: int) -> bytes:
    expander = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
    try:
        expanded = expander.decompress(body, most + 1)
    except zlib.error as error:
        raise HeartbeatRefused(f"the body is not gzip: {error}") from error
    if not expander.eof and len(expanded) <= most:
        raise HeartbeatRefused("the gzip body is cut off")
    return expanded
