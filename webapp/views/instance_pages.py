"""Pages of the engines that registered themselves: all of them, and one with its snapshot."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from flask import Blueprint, Response, abort, redirect, render_template, url_for
from flask.typing import ResponseReturnValue
from htmx_flask import request

from webapp.addresses import url
from webapp.fleet.instance import Instance
from webapp.fleet.instances import Instances
from webapp.fleet.joined import WithInstances
from webapp.fleet.resource import numbers
from webapp.overview import paging


def blueprint(instances: Instances, fleet: WithInstances, notices: Callable[[], list[str]]) -> Blueprint:
    views = Blueprint("instances", __name__)

    def instance_called(instance_id: str) -> Instance:
        found = instances.get(instance_id)
        return found if found is not None else abort(404, f"No instance is called {instance_id}; it is not registered.")

    def all_of_them() -> dict[str, Any]:
        found = instances.all()
        part = paging.part(paging.page_of(request.args.get("page", "")), len(found))
        return {
            "instances": part.of(found),
            "part": part,
            "alive": sum(one.is_alive for one in found),
            "homes": fleet.homes(),
            "ttl_s": instances.ttl_s,
        }

    def one(instance: Instance) -> dict[str, Any]:
        report = instance.report
        return {
            "instance": instance,
            "home": fleet.homes().get(instance.instance_id),
            "address": url(instance.description.host, instance.description.port),
            "numbers": numbers(instance.resources),
            "times": _times(instance),
            "raw": json.dumps(json.loads(report.raw), indent=2, ensure_ascii=False) if report else "",
        }

    @views.get("/instances")
    def index() -> ResponseReturnValue:
        return render_template("instances.html", **all_of_them(), notices=notices())

    @views.get("/instances/<name:instance_id>")
    def page(instance_id: str) -> ResponseReturnValue:
        return render_template("instance.html", **one(instance_called(instance_id)), notices=notices())

    @views.get("/fragments/instances")
    def index_fragment() -> ResponseReturnValue:
        if not request.htmx:
            return redirect(url_for("instances.index"))
        return _marked(render_template("fragments/instances.html", **all_of_them()))

    @views.get("/fragments/instance/<name:instance_id>")
    def fragment(instance_id: str) -> ResponseReturnValue:
        if not request.htmx:
            return redirect(url_for("instances.page", instance_id=instance_id))
        return _marked(render_template("fragments/instance.html", **one(instance_called(instance_id))))

    return views


def _marked(html: str) -> Response:
    """A block, marked so that the page doesn't take a proxy's login page for it."""
    return Response(html, headers={"X-Enginehouse-Fragment": "1"})


def _times(instance: Instance) -> list[tuple[str, float | None]]:
    report = instance.report
    if report is None:
        return []
    collected, reported = report.snapshot.timestamp_ms, report.times.report_wall_time_ms
    return [
        ("collected, by the agent's clock", None if collected is None else collected / 1000),
        ("reported, by the reporter's clock", None if reported is None else reported / 1000),
        ("received, by this machine's clock", instance.reported_at),
    ]
