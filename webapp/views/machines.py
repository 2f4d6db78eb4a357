"""What programs talk to: heartbeats in, /metrics and /healthz out. Every answer but /metrics is JSON."""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

from flask import Blueprint, Response, g, jsonify, request
from flask.typing import ResponseReturnValue

from webapp import __version__, exposition, fingerprint, heartbeat, zipapp
from webapp.heartbeat import LIMITS, HeartbeatRefused, Limits
from webapp.nodes import Node
from webapp.registry import FleetFull, HeartbeatConflict, HeartbeatForgotten, Registry
from webapp.telemetry import Gauge, Telemetry
from webapp.views.bodies import BodyTooLarge, body


class PackedAgent(NamedTuple):
    """agent.pyz and its SHA-256."""

    content: bytes
    digest: str


@cache
def packed_agent() -> PackedAgent:
    """Built at first use: the installed package does not change while it runs."""
    content = zipapp.build()
    return PackedAgent(content, hashlib.sha256(content).hexdigest())


def blueprint(
    registry: Registry,
    interval_s: float,
    problems: Callable[[], Sequence[str]] = tuple,
    *,
    exposed: Callable[[], Sequence[Node]] | None = None,
    more: Sequence[exposition.Family] = (),
    health_of_others: Callable[[], dict[str, Any]] = dict,
    telemetry: Telemetry,
    limits: Limits = LIMITS,
    most_series: int = 2_000_000,
) -> Blueprint:
    """`interval_s`: seconds between heartbeats that agents are asked for. `problems`: what is wrong here, in sentences.

    `exposed`: the nodes of /metrics, where they aren't the registry's; `more`: what else stands there.
    `health_of_others`: more fields of /healthz.
    """
    machines = Blueprint("machines", __name__)
    left_out: Counter[str] = Counter()
    telemetry.add(
        exposition.Counters("enginehouse_heartbeats_total", "Heartbeats received.", "outcome", registry.heartbeats),
        exposition.Counters("enginehouse_rejected_fields_total", "Fields of heartbeats left out.", "field", registry.rejections),
        Gauge("enginehouse_nodes", "Nodes that are known.", lambda: float(registry.count)),
        Gauge("enginehouse_metrics_left_out_nodes", "Nodes left out of /metrics.", lambda: float(left_out["now"])),
        *more,
    )

    @machines.post("/v1/nodes/heartbeat")
    def beat() -> ResponseReturnValue:
        arrived = registry.now()
        try:
            reading = heartbeat.read(body(request, limits.body_bytes), limits)
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
        nodes = registry.nodes() if exposed is None else exposed()
        shown = exposition.within(nodes, most_series)
        left_out["now"] = len(nodes) - len(shown)
        text = exposition.text(shown, telemetry.families, openmetrics=openmetrics)
        telemetry.scrape_s = time.perf_counter() - started
        return Response(text, content_type=exposition.OPENMETRICS if openmetrics else exposition.TEXT)

    @machines.get("/agent.pyz")
    def agent() -> ResponseReturnValue:
        """The agent for a node to fetch and run; its digest stands on the page Add a node."""
        answer = Response(packed_agent().content, content_type="application/zip")
        answer.headers["Content-Disposition"] = "attachment; filename=agent.pyz"
        return answer

    @machines.get("/healthz")
    def health() -> ResponseReturnValue:
        """Anyone may ask whether it is there; what it knows is for those who may read."""
        known = {"ok": True, "version": __version__, "build": fingerprint.build(), **health_of_others()}
        if g.caller.role == "nobody" or g.caller.path:
            return jsonify(**known)
        return jsonify(**known, nodes=registry.count, problems=list(problems()))

    return machines


def _refused(code: int, error: str, message: str, **more: str) -> ResponseReturnValue:
    return jsonify(ok=False, error=error, message=message, **more), code
