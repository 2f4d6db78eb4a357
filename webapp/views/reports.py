"""A node's last hour as one file, to attach to a ticket."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

from flask import Blueprint, Response, current_app, render_template, request
from flask.typing import ResponseReturnValue
from markupsafe import Markup

from webapp.charts import report
from webapp.charts.palette import colour_index
from webapp.history import History
from webapp.views import blocks
from webapp.views.api import file_name
from webapp.views.errors import no_such_node
from webapp.views.moment import AsOf

#: What draws the charts, on the pages and in reports.
PLOTLY = "vendor/plotly-basic-4.1.1.min.js"


@cache
def _plotly(folder: str) -> Markup:
    return Markup((Path(folder) / PLOTLY).read_text("utf-8"))  # noqa: S704 - our own file


def blueprint(fleet: AsOf, history: History, colour_of: Callable[[str], int] = colour_index) -> Blueprint:
    """`colour_of`: a model's place in the palette."""
    reports = Blueprint("reports", __name__)

    @reports.get("/reports/<name:name>")
    def node(name: str) -> ResponseReturnValue:
        found = fleet.node(name)
        if found is None:
            no_such_node(name)
        shown = blocks.node_charts(history, found, blocks.range_name(request.args), fleet.now(), colour_of)
        drawn = [
            (chart, figure, Markup(report.drawing(chart.key, figure)))  # noqa: S704 - plotly escapes what it writes
            for chart, figure in shown["cards"]
            if figure
        ]
        page = render_template(
            "report.html",
            **blocks.node(found),
            charts=drawn,
            problem=shown["problem"],
            answer=shown["answer"],
            made_at=fleet.now(),
            plotly=_plotly(current_app.static_folder or ""),
        )
        answer = Response(page.strip() + "\n", content_type="text/html; charset=utf-8")
        answer.headers["Content-Disposition"] = f'attachment; filename="{file_name(name)}-report.html"'
        return answer

    return reports
