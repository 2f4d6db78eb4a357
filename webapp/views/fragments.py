"""The blocks of the pages, by themselves: what htmx swaps in. Opened without htmx they lead to their page."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from flask import Blueprint, Response, abort, redirect, render_template, url_for
from flask.typing import ResponseReturnValue
from htmx_flask import request

from webapp.alerts import Alert
from webapp.explanations import OurNames, Queries, explain
from webapp.history import History, recent
from webapp.instance import Instance
from webapp.metrics import CHARTS
from webapp.nodes import Fleet, Node
from webapp.selection import Selection
from webapp.views import blocks


def blueprint(
    fleet: Fleet,
    overview: blocks.Cluster,
    history: History,
    wall: Callable[[], float] = time.time,
    residents: Callable[[str], Sequence[Instance]] = lambda node: (),
    queries: Queries | None = None,
    alerts: Callable[[], Sequence[Alert]] = tuple,
) -> Blueprint:
    """`residents`: the instances on a node. `queries`: how charts are asked for, where not by our own names."""
    fragments = Blueprint("fragments", __name__, url_prefix="/fragments")

    @fragments.before_request
    def lead_to_page() -> ResponseReturnValue | None:
        if request.htmx:
            return None
        name = (request.view_args or {}).get("name")
        return redirect(url_for("pages.node", name=name) if name else url_for("pages.cluster"))

    @fragments.after_request
    def mark(response: Response) -> Response:
        """Let the page tell a block from a proxy's login page that came in its place."""
        response.headers["X-Enginehouse-Fragment"] = "1"
        return response

    def known(name: str) -> Node:
        found = fleet.node(name)
        return found if found is not None else abort(404, f"No node is called {name}.")

    @fragments.get("/cluster")
    def cluster() -> ResponseReturnValue:
        selection = Selection.of(request.args.items(multi=True))
        return render_template("fragments/cluster.html", **overview.context(selection))

    @fragments.get("/node/<name:name>")
    def node(name: str) -> ResponseReturnValue:
        return render_template("fragments/node.html", **blocks.node(known(name), residents(name), alerts()))

    @fragments.get("/charts/<name:name>")
    def charts(name: str) -> ResponseReturnValue:
        found = known(name)
        return render_template(
            "fragments/charts.html", **blocks.node_charts(history, found, blocks.range_name(request.args), wall())
        )

    @fragments.get("/about/<key>")
    def about(key: str) -> ResponseReturnValue:
        chart = next((chart for chart in CHARTS if chart.key == key), None) or abort(404, f"No chart is called {key}.")
        shown = recent(blocks.range_name(request.args), wall())
        subject = {name: request.args.get(name, "") for name in ("node", "model")}
        return render_template("fragments/about.html", explanations=explain(chart, shown, queries or OurNames(), **subject))

    return fragments
