"""Charts as a browser gets them: whole, or as changes to those that it shows.

A browser that names what it has (`If-None-Match`) and takes changes (`A-IM: figure-changes`) is answered with them
(`226 IM Used`), as long as what it was sent is remembered here; any other gets all. https://www.rfc-editor.org/rfc/rfc3229
"""

from __future__ import annotations

import json
import threading
import zlib
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from flask import Response, render_template, request

from webapp.charts.changes import change
from webapp.views.compression import tag_of

#: The name of the changes that `static/js/plotly-figure.js` applies.
CHANGES = "figure-changes"

#: Blocks that are remembered, some 20 kB each.
MOST = 256

_Figures = dict[str, dict[str, Any]]


class Charts:
    """Answers with the block of charts; safe to use from many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        #: By tag; the one that was sent longest ago goes first.
        self._sent: OrderedDict[str, bytes] = OrderedDict()

    def respond(self, context: Mapping[str, Any]) -> Response:
        """`context`: what `fragments/charts.html` gets, but `figures`."""
        figures: _Figures = {chart.key: _versioned(figure) for chart, figure in context["cards"] if figure}
        whole = render_template("fragments/charts.html", **context, figures=figures)
        tag = tag_of(whole.encode("utf-8", "surrogatepass"))
        before = self._sent_before(tag)
        self._remember(tag, figures)
        if before is None:
            return Response(whole)  # it is tagged on its way out
        changes = {key: _change(before.get(key), figure) for key, figure in figures.items()}
        response = Response(render_template("fragments/charts.html", **context, figures=changes), 226, {"IM": CHANGES})
        response.set_etag(tag, weak=True)
        response.vary.update(("A-IM", "If-None-Match"))
        return response

    def _sent_before(self, tag: str) -> _Figures | None:
        """What the browser shows; None where it has this already, or is to get all."""
        if CHANGES not in request.headers.get("A-IM", "") or request.if_none_match.contains_weak(tag):
            return None
        with self._lock:
            packed = next((self._sent[known] for known in request.if_none_match.as_set(True) if known in self._sent), None)
        return json.loads(zlib.decompress(packed)) if packed else None

    def _remember(self, tag: str, figures: _Figures) -> None:
        with self._lock:
            known = tag in self._sent
            if known:
                self._sent.move_to_end(tag)
        if known:
            return
        packed = zlib.compress(json.dumps(figures).encode(), 1)
        with self._lock:
            self._sent[tag] = packed
            while len(self._sent) > MOST:
                self._sent.popitem(last=False)


def _versioned(figure: dict[str, Any]) -> dict[str, Any]:
    return {"version": tag_of(json.dumps(figure).encode())[:12], **figure}


def _change(before: dict[str, Any] | None, figure: dict[str, Any]) -> dict[str, Any]:
    """What leads from one to the other, and where from; all of it where there is nothing before it."""
    return figure if before is None else {"from": before["version"], "change": change(before, figure)}
