"""The pages. Each is complete at first paint and then refreshes its blocks from `fragments`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from urllib.parse import urlsplit

from flask import Blueprint, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue

from webapp.addresses import is_loopback
from webapp.fleet.instance import Instance
from webapp.fleet.nodes import Fleet
from webapp.history.ranges import RANGES
from webapp.overview.model_selection import ModelSelection
from webapp.overview.selection import Selection
from webapp.prometheus.alerts import Alert
from webapp.views import blocks, model_blocks
from webapp.views.errors import no_such_node
from webapp.views.machines import packed_agent


def blueprint(
    fleet: Fleet,
    overview: blocks.Cluster,
    notices: Callable[[], list[str]],
    residents: Callable[[str], Sequence[Instance]] = lambda node: (),
    alerts: Callable[[], Sequence[Alert]] = tuple,
) -> Blueprint:
    """`notices`: what the reader must know about this control plane, in sentences. `residents`: the instances on a node."""
    pages = Blueprint("pages", __name__)

    @pages.get("/")
    def cluster() -> ResponseReturnValue:
        selection = Selection.of(request.args.items(multi=True))
        return render_template("cluster.html", **overview.context(selection), notices=notices())

    @pages.get("/nodes/<name:name>")
    def node(name: str) -> ResponseReturnValue:
        found = fleet.node(name)
        if found is None:
            no_such_node(name)
        return render_template(
            "node.html",
            **blocks.node(found, residents(name), alerts()),
            range=blocks.range_name(request.args, overview.usual_range([found])),
            ranges=RANGES,
            notices=notices(),
        )

    @pages.get("/nodes/")
    def nodes() -> ResponseReturnValue:
        return redirect(url_for("pages.cluster"))

    @pages.get("/models")
    def models() -> ResponseReturnValue:
        order = ModelSelection.of(request.args.items(multi=True))
        return render_template("models.html", **model_blocks.index(fleet.nodes(), order), notices=notices())

    @pages.get("/models/")
    def models_() -> ResponseReturnValue:
        return redirect(url_for("pages.models"))

    @pages.get("/models/<name:name>")
    def model(name: str) -> ResponseReturnValue:
        shown = model_blocks.one(fleet.nodes(), name, request.args)
        return render_template(
            "model.html",
            **shown,
            range=blocks.range_name(request.args, overview.usual_range(shown["model"].nodes)),
            ranges=RANGES,
            by=model_blocks.by_of(request.args),
            bys=model_blocks.BY,
            notices=notices(),
        )

    @pages.get("/add")
    def add() -> ResponseReturnValue:
        server = url_for("pages.cluster", _external=True).rstrip("/")
        address = urlsplit(server)
        return render_template(
            "add.html",
            server=server,
            only_here=is_loopback(address.hostname or ""),
            port=address.port or 8765,
            digest=packed_agent().digest,
            notices=notices(),
        )

    @pages.get("/embed/check")
    def embed_check() -> ResponseReturnValue:
        return render_template("embed_check.html", notices=notices())

    return pages
