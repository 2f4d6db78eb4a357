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

from webapp import __version__, exposition, fingerprint, zipapp
from webapp.fleet.nodes import Node
from webapp.fleet.registry import Registry
from webapp.telemetry import Gauge, Telemetry
from webapp.views.heartbeats import Heartbeats
from webapp.views.sharing import in_turn


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
    heartbeats: Heartbeats,
    problems: Callable[[], Sequence[str]] = tuple,
    *,
    exposed: Callable[[], Sequence[Node]] | None = None,
    more: Sequence[exposition.Family] = (),
    health_of_others: Callable[[], dict[str, Any]] = dict,
    telemetry: Telemetry,
    most_series: int = 2_000_000,
) -> Blueprint:
    """`problems`: what is wrong here, in sentences.

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
        content = request.stream.read(heartbeats.limits.body_bytes + 1)
        code, fields = heartbeats.take(
            content, request.headers.get("Content-Encoding", ""), request.remote_addr or "", g.agent_node
        )
        return jsonify(fields), code

    @machines.get("/metrics")
    def metrics() -> ResponseReturnValue:
        started = time.perf_counter()
        openmetrics = "application/openmetrics-text" in request.headers.get("Accept", "")
        with in_turn():
            nodes = registry.nodes() if exposed is None else exposed()
            shown = exposition.within(nodes, most_series)
            left_out["now"] = len(nodes) - len(shown)
            pieces = exposition.pieces(shown, telemetry.families, openmetrics=openmetrics)
        telemetry.scrape_s = time.perf_counter() - started
        return Response(pieces, content_type=exposition.OPENMETRICS if openmetrics else exposition.TEXT)

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
