"""What programs talk to: heartbeats in, /metrics and /healthz out. Every answer but /metrics is JSON."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

from flask import Blueprint, Response, jsonify, request
from flask.typing import ResponseReturnValue

from webapp import __version__, exposition, zipapp
from webapp.heartbeat import LARGEST_BODY_BYTES
from webapp.nodes import Node
from webapp.registry import Registry
from webapp.views.heartbeats import Heartbeats


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
) -> Blueprint:
    """`problems`: what is wrong here, in sentences.

    `exposed`: the nodes of /metrics, where they aren't the registry's; `more`: what else stands there.
    `health_of_others`: more fields of /healthz.
    """
    machines = Blueprint("machines", __name__)
    counters = (
        exposition.Counters("enginehouse_heartbeats_total", "Heartbeats received.", "outcome", registry.heartbeats),
        exposition.Counters("enginehouse_rejected_fields_total", "Fields of heartbeats left out.", "field", registry.rejections),
        *more,
    )

    @machines.post("/v1/nodes/heartbeat")
    def beat() -> ResponseReturnValue:
        content = request.stream.read(LARGEST_BODY_BYTES + 1)
        code, fields = heartbeats.take(content, request.headers.get("Content-Encoding", ""), request.remote_addr or "")
        return jsonify(fields), code

    @machines.get("/metrics")
    def metrics() -> ResponseReturnValue:
        openmetrics = "application/openmetrics-text" in request.headers.get("Accept", "")
        nodes = registry.nodes() if exposed is None else exposed()
        text = exposition.text(nodes, counters, openmetrics=openmetrics)
        return Response(text, content_type=exposition.OPENMETRICS if openmetrics else exposition.TEXT)

    @machines.get("/agent.pyz")
    def agent() -> ResponseReturnValue:
        """The agent for a node to fetch and run; its digest stands on the page Add a node."""
        answer = Response(packed_agent().content, content_type="application/zip")
        answer.headers["Content-Disposition"] = "attachment; filename=agent.pyz"
        return answer

    @machines.get("/healthz")
    def health() -> ResponseReturnValue:
        return jsonify(ok=True, version=__version__, nodes=len(registry.nodes()), problems=list(problems()), **health_of_others())

    return machines
