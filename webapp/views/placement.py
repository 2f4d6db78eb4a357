"""Where one more engine fits: the answer for programs, and a form for people."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from flask import Blueprint, jsonify, render_template, request
from flask.typing import ResponseReturnValue

from webapp.fleet.nodes import Fleet
from webapp.overview import paging
from webapp.overview.placement import GIB, BadQuestion, Candidate, Wanted
from webapp.overview.selection import models_of

#: The parts of an address that ask.
_QUESTION = ("memory_gib", "cores", "gpu_memory_gib", "model")

Rank = Callable[[Wanted], Sequence[Candidate]]


def blueprint(fleet: Fleet, rank: Rank, notices: Callable[[], list[str]]) -> Blueprint:
    views = Blueprint("placement", __name__)

    @views.get("/v1/placement")
    def ask() -> ResponseReturnValue:
        try:
            wanted = Wanted.of(request.args)
        except BadQuestion as error:
            return jsonify(ok=False, error="bad_request", message=str(error), field=error.field), 400
        found = rank(wanted)
        return jsonify(
            ok=True,
            wanted={name: value for name, value in asdict(wanted).items() if value not in (None, "")},
            fitting=sum(one.fits for one in found),
            nodes=[_candidate(one, bool(wanted.model)) for one in found],
        )

    @views.get("/placement")
    def page() -> ResponseReturnValue:
        problem, wanted = "", Wanted()
        found: Sequence[Candidate] | None = None
        try:
            wanted = Wanted.of(request.args)
            if wanted != Wanted():
                found = rank(wanted)
        except BadQuestion as error:
            problem = str(error)
        part = paging.part(paging.page_of(request.args.get("page", "")), len(found or ()))
        return render_template(
            "placement.html",
            asked=request.args,
            question={name: request.args[name] for name in _QUESTION if request.args.get(name)},
            wanted=wanted,
            problem=problem,
            candidates=None if found is None else part.of(found),
            part=part,
            fitting=sum(one.fits for one in found or ()),
            models=models_of(fleet.nodes()),
            notices=notices(),
        ), 400 if problem else 200

    return views


def _candidate(one: Candidate, with_model: bool) -> dict[str, Any]:
    found = {
        "node": one.node.name,
        "fits": one.fits,
        "reasons": one.reasons,
        "notes": one.notes,
        "state": one.node.state,
        "admission_state": one.admission,
        "memory_available_gib": None if one.available_bytes is None else round(one.available_bytes / GIB, 3),
        "idle_cores": None if one.idle_cores is None else round(one.idle_cores, 2),
        "gpu_memory_free_gib": None if one.gpu_free_bytes is None else round(one.gpu_free_bytes / GIB, 3),
    }
    return {**found, "serves_model": one.serves} if with_model else found
