"""The JSON API: the same truth as on the pages. `webapp/api.py` has its table of routes."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from flask import Blueprint, Response, request, url_for
from flask.typing import ResponseReturnValue

from webapp.api import ROUTES, BadParameter, limits
from webapp.charts.lines import lines
from webapp.charts.numbers import table
from webapp.fleet.nodes import Node
from webapp.formats import iso_time
from webapp.heartbeat import to_mapping
from webapp.history import Answer, History, HistoryUnavailable, Series
from webapp.history.ranges import RANGES, named, recent
from webapp.overview import records
from webapp.overview.model_selection import ModelSelection
from webapp.overview.models import Placed, everything, models
from webapp.overview.records import ENGINE_FIELDS, MODEL_FIELDS, NODE_FIELDS
from webapp.overview.selection import Selection
from webapp.overview.spreadsheet import csv_text
from webapp.overview.summary import summarise
from webapp.storage.samples import seven_digits
from webapp.views import blocks, model_blocks
from webapp.views.errors import no_such_node
from webapp.views.moment import AsOf

#: Parts of a measurement that the API gives as they came.
_PARTS = ("host", "load", "limits", "disks", "networks", "gpus", "pressure")


def blueprint(fleet: AsOf, history: History) -> Blueprint:
    api = Blueprint("api", __name__)

    def nodes() -> ResponseReturnValue:
        known = fleet.nodes()
        chosen = Selection.of(request.args.items(multi=True)).apply(known)
        totals = records.fleet_totals(summarise(known))
        return _list("nodes", NODE_FIELDS, chosen, lambda node: records.record(NODE_FIELDS, node), totals=totals)

    def node(name: str) -> ResponseReturnValue:
        found = fleet.node(name)
        if found is None:
            no_such_node(name)
        return _json({"at": iso_time(fleet.now()), **_node(found)})

    def engines() -> ResponseReturnValue:
        name, model = request.args.get("node"), request.args.get("model")
        known = fleet.nodes() if name is None else [node] if (node := fleet.node(name)) else []
        chosen = [Placed(node, engine) for node in known for engine in node.measurement.engines]
        chosen = [one for one in chosen if model is None or one.engine.model == model]
        return _list("engines", ENGINE_FIELDS, chosen, lambda one: records.record(ENGINE_FIELDS, one))

    def models_() -> ResponseReturnValue:
        known = fleet.nodes()
        chosen = ModelSelection.of(request.args.items(multi=True)).apply(models(known))
        totals = records.model_totals(everything(known))
        return _list(
            "models",
            MODEL_FIELDS,
            chosen,
            lambda model: records.record(MODEL_FIELDS, model) | {"totals": records.model_totals(model)},
            totals=totals,
        )

    def series() -> ResponseReturnValue:
        wanted = model_blocks.wanted_chart(request.args)
        name, model = request.args.get("node", ""), request.args.get("model", "")
        if bool(name) == bool(model):
            raise BadParameter("node", name, "a node or a model, and not both")
        grid = recent(_range(request.args), fleet.now())
        try:
            answer = history.series(blocks.metrics_of([wanted]), grid, node=name, model=model)
        except HistoryUnavailable as error:
            return _json({"ok": False, "error": "history_unavailable", "message": str(error)}, 503)
        if _wants_csv():
            head, rows = _columns(answer) if "metric" in request.args else table(wanted, answer)
            return _csv(f"{wanted.key}-{name or model}", head, [[_json_value(value) for value in row] for row in rows])
        body = {"at": iso_time(fleet.now()), **_answer(answer)}
        if "metric" not in request.args:
            drawn = lines(wanted, answer)
            described = [
                {"name": one.name, "role": one.role, "values": [_json_value(value) for value in one.values]} for one in drawn
            ]
            return _json(body | {"unit": wanted.unit, "lines": described})
        page, chosen = _page("series", answer.series)
        return _json(body | page | {"series": [_series(one) for one in chosen]})

    def _list(
        name: str,
        fields: Sequence[Any],
        chosen: Sequence[Any],
        entry: Callable[[Any], Mapping[str, Any]],
        **more: Any,
    ) -> ResponseReturnValue:
        if _wants_csv():
            return _csv(name, *records.table(fields, chosen))
        page, chosen = _page(name, chosen)
        return _json({"at": iso_time(fleet.now())} | page | more | {name: [entry(one) for one in chosen]})

    answers: dict[str, Callable[..., ResponseReturnValue]] = {
        "nodes": nodes,
        "node": node,
        "engines": engines,
        "models": models_,
        "series": series,
    }
    for route in ROUTES:
        api.add_url_rule(route.path, route.name, answers[route.name])

    @api.errorhandler(BadParameter)
    def refuse(error: BadParameter) -> ResponseReturnValue:
        return _json({"ok": False, "error": "bad_parameter", "message": str(error), "field": error.field}, 400)

    return api


def _page(name: str, entries: Sequence[Any]) -> tuple[dict[str, Any], Sequence[Any]]:
    """What is said of the page that the query asks for, and its entries. Raises BadParameter."""
    limit, offset = limits(request.args)
    about: dict[str, Any] = {"count": len(entries), "limit": limit, "offset": offset}
    if offset + limit < len(entries):
        asked = [(key, value) for key, value in request.args.items(multi=True) if key not in ("limit", "offset")]
        asked += [("limit", str(limit)), ("offset", str(offset + limit))]
        about["next"] = url_for(f"api.{name}", at=None) + "?" + urlencode(asked)
    return about, entries[offset : offset + limit]


def _node(node: Node) -> dict[str, Any]:
    found: dict[str, Any] = dict(records.record(NODE_FIELDS, node))
    found["labels"] = dict(node.measurement.host.labels)
    found["engines"] = [records.record(ENGINE_FIELDS, Placed(node, engine)) for engine in node.measurement.engines]
    if node.rejected:
        found["rejected"] = [{"field": path, "reason": reason} for path, reason in node.rejected]
    if node.numbers:
        message = to_mapping(node.numbers)
        found |= {part: message[part] for part in _PARTS if part in message}
    return found


def _answer(answer: Answer) -> dict[str, Any]:
    return {
        "start": iso_time(answer.range.start),
        "end": iso_time(answer.range.end),
        "step_seconds": answer.range.step,
        "as_of": iso_time(answer.as_of),
        "warnings": list(answer.warnings),
        "unheard": [{"start": iso_time(span.start), "end": iso_time(span.end), "reason": span.reason} for span in answer.unheard],
        "times": [iso_time(at) for at in answer.range.times],
    }


def _series(series: Series) -> dict[str, Any]:
    return {
        "metric": series.metric.name,
        "unit": series.metric.unit,
        "labels": dict(series.labels),
        "values": [_json_value(value) for value in series.values],
    }


def _columns(answer: Answer) -> tuple[list[str], list[list[records.Value]]]:
    """A column a series, for a metric that no chart puts together."""
    named = [(series, " ".join(f"{label}={value}" for label, value in series.labels)) for series in answer.series]
    head = ["time (UTC)", *(f"{labels} ({series.metric.unit})" for series, labels in named)]
    rows = zip(answer.range.times, *(series.values for series in answer.series))
    return head, [[iso_time(at), *values] for at, *values in rows]


def _json_value(value: records.Value) -> records.Value:
    """As precise as histories are, and None where JSON has no number for it."""
    if not isinstance(value, float):
        return value
    return seven_digits(value) if math.isfinite(value) else None


def _range(query: Mapping[str, str]) -> str:
    name = query.get("range", "1h")
    if named(name) is None:
        raise BadParameter("range", name, " or ".join(RANGES) + ", or a length such as 3h")
    return name


def _wants_csv() -> bool:
    wanted = request.args.get("format", "json")
    if wanted not in ("json", "csv"):
        raise BadParameter("format", wanted, "json or csv")
    return wanted == "csv"


def _json(body: Mapping[str, Any], code: int = 200) -> ResponseReturnValue:
    text = json.dumps(body, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    return Response(text + "\n", code, content_type="application/json")


def _csv(name: str, head: Sequence[str], rows: Sequence[Sequence[records.Value]]) -> ResponseReturnValue:
    answer = Response(csv_text(head, rows), content_type="text/csv; charset=utf-8")
    answer.headers["Content-Disposition"] = f'attachment; filename="{file_name(name)}.csv"'
    return answer


def file_name(text: str) -> str:
    """A name for a file, from text of any kind.

    >>> file_name("cpu-gpu/../01"), file_name("\\n")
    ('cpu-gpu-01', 'enginehouse')
    """
    return re.sub(r"[^A-Za-z0-9_-]+", "-", text).strip("-")[:80] or "enginehouse"
