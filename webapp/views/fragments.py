"""The blocks of the pages, by themselves: what htmx swaps in. Opened without htmx they lead to their page."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from flask import Blueprint, Response, abort, g, redirect, render_template, url_for
from flask.typing import ResponseReturnValue
from htmx_flask import request

from webapp.api import BadParameter
from webapp.charts.explanations import OurNames, Queries, explain
from webapp.charts.numbers import numbers as numbers_of
from webapp.charts.palette import colour_index
from webapp.fleet.instance import Instance
from webapp.fleet.nodes import Fleet, Node
from webapp.history import History, HistoryUnavailable
from webapp.history.ranges import recent
from webapp.metrics import CHARTS
from webapp.overview.model_selection import ModelSelection
from webapp.overview.models import model as model_of
from webapp.overview.selection import Selection
from webapp.prometheus.alerts import Alert
from webapp.views import blocks, model_blocks
from webapp.views.compression import Body, respond
from webapp.views.errors import no_such_node
from webapp.views.figures import Charts
from webapp.views.rows import Kept
from webapp.views.sharing import Made, Shared, share_seconds


def blueprint(
    fleet: Fleet,
    overview: blocks.Cluster,
    history: History,
    wall: Callable[[], float] = time.time,
    residents: Callable[[str], Sequence[Instance]] = lambda node: (),
    queries: Queries | None = None,
    alerts: Callable[[], Sequence[Alert]] = tuple,
    colour_of: Callable[[str], int] = colour_index,
    notices: Callable[[], list[str]] = list,
) -> Blueprint:
    """`wall`: the Unix time that is shown. `residents`: the instances on a node.

    `queries`: how charts are asked for, where not by our own names. `colour_of`: a model's place in the palette.
    `notices`: what the reader must know about this control plane, in sentences.
    """
    fragments = Blueprint("fragments", __name__, url_prefix="/fragments")
    tables: Shared[Body, Kept] = Shared()
    blocks_of_models: Shared[Body, None] = Shared()
    charts_of_models: Shared[dict[str, Any], None] = Shared()
    shown = Charts()

    @fragments.before_request
    def lead_to_page() -> ResponseReturnValue | None:
        if request.htmx:
            return None
        return redirect(_page(str(request.endpoint), request.view_args or {}, request.args))

    @fragments.after_request
    def mark(response: Response) -> Response:
        """Let the page tell a block from a proxy's login page that came in its place."""
        response.headers["X-Enginehouse-Fragment"] = "1"
        return response

    def node_called(name: str) -> Node:
        found = fleet.node(name)
        return found if found is not None else no_such_node(name)

    @fragments.get("/cluster")
    def cluster() -> ResponseReturnValue:
        def render(kept: Kept | None) -> Made[Body, Kept]:
            context = overview.context(Selection.of(request.args.items(multi=True)), kept)
            html = render_template("fragments/cluster.html", **context, notices=notices())
            return Made(Body.of(html), share_seconds(context["summary"].nodes), context["rows"].kept)

        return respond(tables.get(_what_it_depends_on(), render))

    @fragments.get("/node/<name:name>")
    def node(name: str) -> ResponseReturnValue:
        return render_template(
            "fragments/node.html", **blocks.node(node_called(name), residents(name), alerts()), notices=notices()
        )

    @fragments.get("/charts/<name:name>")
    def charts(name: str) -> ResponseReturnValue:
        found = node_called(name)
        return shown.respond(blocks.node_charts(history, found, blocks.range_name(request.args), wall(), colour_of))

    @fragments.get("/about/<key>")
    def about(key: str) -> ResponseReturnValue:
        chart = next((chart for chart in CHARTS if chart.key == key), None) or abort(404, f"No chart is called {key}.")
        shown = recent(blocks.range_name(request.args), wall())
        subject = {name: request.args.get(name, "") for name in ("node", "model")}
        return render_template("fragments/about.html", explanations=explain(chart, shown, queries or OurNames(), **subject))

    @fragments.get("/models")
    def models() -> ResponseReturnValue:
        def render(nothing: None) -> Made[Body, None]:
            nodes = overview.nodes()
            context = model_blocks.index(nodes, ModelSelection.of(request.args.items(multi=True)))
            return Made(
                Body.of(render_template("fragments/models.html", **context, notices=notices())), share_seconds(len(nodes)), None
            )

        return respond(blocks_of_models.get(_what_it_depends_on(), render))

    @fragments.get("/model/<name:name>")
    def model(name: str) -> ResponseReturnValue:
        def render(nothing: None) -> Made[Body, None]:
            nodes = overview.nodes()
            html = render_template("fragments/model.html", **model_blocks.one(nodes, name, request.args), notices=notices())
            return Made(Body.of(html), share_seconds(len(nodes)), None)

        return respond(blocks_of_models.get(_what_it_depends_on(), render))

    @fragments.get("/model-charts/<name:name>")
    def model_charts(name: str) -> ResponseReturnValue:
        range, by = blocks.range_name(request.args), model_blocks.by_of(request.args)

        def draw(nothing: None) -> Made[dict[str, Any], None]:
            found = model_of(overview.nodes(), name)
            cards = model_blocks.cards(history, found, range, by, wall(), colour_of)
            return Made(cards, share_seconds(len(found.nodes)), None)

        return shown.respond(charts_of_models.get(_what_it_depends_on(), draw))

    @fragments.get("/numbers")
    def numbers() -> ResponseReturnValue:
        """A chart's numbers, for whoever opens them."""
        node, model = request.args.get("node", ""), request.args.get("model", "")
        try:
            chart = model_blocks.wanted_chart(request.args)
        except BadParameter as error:
            abort(400, str(error))
        if bool(node) == bool(model):
            abort(400, "A node or a model is needed, and not both.")
        grid = recent(blocks.range_name(request.args), wall())
        try:
            answer = history.series(blocks.metrics_of([chart]), grid, node=node, model=model)
        except HistoryUnavailable as error:
            return render_template("fragments/numbers.html", problem=str(error))
        asked = {name: request.args[name] for name in ("node", "model", "by", "range") if name in request.args}
        return render_template("fragments/numbers.html", problem="", chart=chart, numbers=numbers_of(chart, answer), asked=asked)

    return fragments


#: Fragments of a model's page, and those that say in their query what they are about.
_OF_A_MODEL = ("fragments.model", "fragments.model_charts")
_OF_A_CHART = ("fragments.numbers", "fragments.about")


def _what_it_depends_on() -> tuple[object, ...]:
    """Beside the fleet: the address with its root, since links are made from it, and the link by which it was opened."""
    return request.script_root, request.path, request.query_string, g.caller.path


def _page(endpoint: str, path: Mapping[str, str], query: Mapping[str, str]) -> str:
    """Address of the page that the fragment belongs to."""
    if endpoint == "fragments.models":
        return url_for("pages.models")
    node, model = path.get("name"), None
    if endpoint in _OF_A_MODEL:
        node, model = None, node
    elif endpoint in _OF_A_CHART:
        node, model = query.get("node"), query.get("model")
    if model:
        return url_for("pages.model", name=model)
    return url_for("pages.node", name=node) if node else url_for("pages.cluster")
