"""The instance protocol: what engines, their reporters and schedulers send and ask. JSON in, JSON out.

An instance that is not known is answered with 200 and `"ok": false`, as the protocol has it; a message that can't
be understood with 422 and the field to blame.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Mapping
from typing import Any

from flask import Blueprint, jsonify, request
from flask.typing import ResponseReturnValue

from webapp.fields import Rejection
from webapp.fleet.descriptions import BadRequest
from webapp.fleet.instance import Instance
from webapp.fleet.instances import CapabilitiesWanted, Instances, InstancesFull, UnknownInstance
from webapp.fleet.pool import NULL_SEMANTICS, pool_resource
from webapp.fleet.resource import normalised
from webapp.heartbeat import HeartbeatRefused, parse_object
from webapp.views.bodies import BodyTooLarge, body


def blueprint(instances: Instances, wall: Callable[[], float] = time.time) -> Blueprint:
    views = Blueprint("instance_api", __name__)

    @views.errorhandler(BadRequest)
    def bad_request(error: BadRequest) -> ResponseReturnValue:
        instances.messages["refused"] += 1
        # `detail` is where clients of the protocol look for the field.
        detail = [{"loc": ["body", error.field], "msg": error.reason, "type": "value_error"}]
        return jsonify(ok=False, error="bad_request", message=str(error), field=error.field, detail=detail), 422

    @views.errorhandler(HeartbeatRefused)
    def not_json(error: HeartbeatRefused) -> ResponseReturnValue:
        instances.messages["refused"] += 1
        return jsonify(ok=False, error="bad_request", message=str(error)), 400

    @views.errorhandler(BodyTooLarge)
    def too_large(error: BodyTooLarge) -> ResponseReturnValue:
        instances.messages["too_large"] += 1
        return jsonify(ok=False, error="too_large", message=str(error)), 413

    @views.errorhandler(InstancesFull)
    def full(error: InstancesFull) -> ResponseReturnValue:
        return jsonify(ok=False, error="instances_full", message=str(error)), 429

    @views.errorhandler(UnknownInstance)
    def unknown(error: UnknownInstance) -> ResponseReturnValue:
        return jsonify(ok=False, error="unknown_instance")

    @views.errorhandler(CapabilitiesWanted)
    def capabilities_wanted(error: CapabilitiesWanted) -> ResponseReturnValue:
        return jsonify(
            ok=False,
            error=error.error,
            requires_capabilities=True,
            expected_fingerprint=error.expected,
            reported_fingerprint=error.reported,
        )

    @views.post("/v1/instance/register")
    def register() -> ResponseReturnValue:
        name, fingerprint, rejected = instances.register(_message(), request.remote_addr or "")
        return jsonify(
            instance_id=name,
            heartbeat_interval_s=_plain(instances.interval_s),
            ttl_s=_plain(instances.ttl_s),
            capability_fingerprint=fingerprint,
            **_rejected(rejected),
        )

    @views.post("/v1/instance/heartbeat")
    def beat() -> ResponseReturnValue:
        return jsonify(ok=True, **_rejected(instances.heartbeat(_message())))

    @views.post("/v1/instance/resource_snapshot")
    def report() -> ResponseReturnValue:
        return jsonify(ok=True, **_rejected(instances.report(_message())))

    @views.post("/v1/instance/unregister")
    def unregister() -> ResponseReturnValue:
        return jsonify(ok=instances.unregister(_message()))

    @views.get("/v1/instance/list")
    def list_all() -> ResponseReturnValue:
        return jsonify([_listed(one) for one in instances.all(include_dead=_switch("include_dead", default=False))])

    @views.get("/debug/instance_resources")
    def instance_resources() -> ResponseReturnValue:
        found = instances.all(include_dead=_switch("include_dead", default=True))
        return jsonify(instances=[{**_named(one), "resource": normalised(one, raw=False)} for one in found])

    @views.get("/debug/instance_loads")
    def instance_loads() -> ResponseReturnValue:
        found = instances.all(include_dead=_switch("include_dead", default=True))
        return jsonify(
            ok=True,
            ttl_s=_plain(instances.ttl_s),
            generated_at=wall(),
            metric_source={"inflight": "instance_heartbeat", "qps_1m": "instance_heartbeat", "queue_depth": "unavailable"},
            instances=[{"instance_id": one.instance_id, "is_alive": one.is_alive, **_load(one)} for one in found],
        )

    @views.get("/debug/status")
    def status() -> ResponseReturnValue:
        found = instances.all()
        alive = [one.instance_id for one in found if one.is_alive]
        return jsonify(
            ok=True,
            ttl_s=_plain(instances.ttl_s),
            alive_instances=len(alive),
            total_instances=len(found),
            expired_instances=len(found) - len(alive),
            sample_ids=alive[:10],
        )

    def pool() -> dict[str, Any]:
        return pool_resource(instances.all(), ttl_s=instances.ttl_s, now=wall(), name=socket.gethostname())

    @views.get("/debug/pool_resource")
    def whole_pool() -> ResponseReturnValue:
        return jsonify(ok=True, pool_resource=pool())

    @views.get("/debug/pool_resource_sources")
    def sources() -> ResponseReturnValue:
        found = pool()
        return jsonify(
            ok=True,
            metric_source=found["metric_source"],
            metric_quality=found["metric_quality"],
            null_semantics=NULL_SEMANTICS,
        )

    return views


def _message() -> Mapping[str, Any]:
    return parse_object(body(request))


def _switch(name: str, *, default: bool) -> bool:
    given = request.args.get(name, "").strip().lower()
    return given in ("1", "true", "yes", "on") if given else default


def _rejected(rejected: tuple[Rejection, ...]) -> dict[str, Any]:
    """Fields that were left out; nothing where there are none, so that strict readers see what they know."""
    return {"rejected": [{"field": path, "reason": reason} for path, reason in rejected]} if rejected else {}


def _named(one: Instance) -> dict[str, Any]:
    return {
        "instance_id": one.instance_id,
        "host": one.description.host,
        "port": one.description.port,
        "last_seen_at": int(one.last_seen_at),
    }


def _load(one: Instance) -> dict[str, Any]:
    load = one.current_load
    return {"inflight": load.inflight, "qps_1m": load.qps_1m, "gpu_util": load.gpu_util}


def _listed(one: Instance) -> dict[str, Any]:
    described = one.description
    return {
        "instance_id": one.instance_id,
        "host": described.host,
        "port": described.port,
        "endpoints": described.endpoints,
        "tags": described.tags,
        "weight": described.weight,
        "meta": described.meta,
        "capabilities": described.capabilities,
        "capability_fingerprint": one.fingerprint,
        "registered_at": int(one.registered_at),
        "last_seen_at": int(one.last_seen_at),
        "load": _load(one),
        "resource": normalised(one),
        "is_alive": one.is_alive,
        "state": one.state,
    }


def _plain(seconds: float) -> float:
    """A whole number where it is one: 30, not 30.0."""
    return int(seconds) if seconds == int(seconds) else seconds
