"""The moment that an address names by `?at=`: which fleet its page shows, and how its links keep it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

from flask import Flask, abort, g, has_request_context, request, url_for

from webapp.fleet.nodes import Fleet, Node
from webapp.history import HistoryUnavailable
from webapp.history.past import BadMoment, Past, PastFleet, TooLongAgo, moment_of, written

#: Blueprints whose pages can show the past.
_KNOW_THE_PAST = ("pages", "fragments", "api", "reports")

#: Pages of them that only know now.
_ONLY_NOW = ("pages.add", "pages.embed_check")


def asked(wall: Callable[[], float]) -> float | None:
    """The Unix time that the request names, None for now. Answers the request with 400 where it can't be shown."""
    text = request.args.get("at", "")
    if not text:
        return None
    if "moment" not in g:
        try:
            g.moment = moment_of(text, wall())
        except BadMoment as error:
            abort(400, str(error))
    found: float = g.moment
    return found


class AsOf:
    """A `Fleet`: that of now, or of the moment that the request names."""

    def __init__(self, now: Fleet, past: Past | None, wall: Callable[[], float]) -> None:
        """`past`: where it may come from, None where the history can't show past fleets."""
        self._now = now
        self._past = past
        self._wall = wall

    def now(self) -> float:
        """The Unix time that is shown."""
        moment = asked(self._wall)
        return self._wall() if moment is None else moment

    def is_now(self) -> bool:
        return asked(self._wall) is None

    def nodes(self) -> list[Node]:
        fleet = self._fleet()
        try:
            return fleet.nodes()
        except HistoryUnavailable as error:
            abort(503, str(error))

    def node(self, name: str) -> Node | None:
        fleet = self._fleet()
        try:
            return fleet.node(name)
        except HistoryUnavailable as error:
            abort(503, str(error))

    def notices(self) -> list[str]:
        """What the reader must know about a past fleet."""
        past = self._past_fleet()
        return past.notices() if past else []

    def _fleet(self) -> Fleet:
        return self._past_fleet() or self._now

    def _past_fleet(self) -> PastFleet | None:
        moment = asked(self._wall)
        if moment is None:
            return None
        if self._past is None:
            abort(404, "The history of this control plane can't show the fleet at a past moment.")
        try:
            return self._past.at(moment)
        except TooLongAgo as error:
            abort(404, str(error))
        except HistoryUnavailable as error:
            abort(503, str(error))


def keep_moment(app: Flask, wall: Callable[[], float]) -> None:
    """Let links keep the moment, and give it to the templates."""

    @app.url_defaults
    def keep(endpoint: str, values: dict[str, Any]) -> None:
        if endpoint.partition(".")[0] not in _KNOW_THE_PAST or endpoint in _ONLY_NOW:
            return
        if has_request_context() and request.args.get("at"):
            values.setdefault("at", request.args["at"])

    @app.context_processor
    def tell() -> dict[str, Any]:
        """`moment`: Unix time, None for now; `moment_text`: as addresses hold it; `at_moment`: this page at another one."""
        bad = request.args.get("at") and "moment" not in g
        moment = None if bad or not request.args.get("at") else g.moment

        def at_moment(other: float | None) -> str:
            """This page's address at another moment, or now; "" where that lies in the future."""
            if other is not None and other > wall():
                return ""
            kept = [(name, value) for name, value in request.args.items(multi=True) if name != "at"]
            kept += [("at", written(other))] if other is not None else []
            page = url_for(request.endpoint or "pages.cluster", **(request.view_args or {}), at=None)
            return page.partition("?")[0] + ("?" + urlencode(kept) if kept else "")

        shows_past = request.endpoint in ("pages.cluster", "pages.node", "pages.models", "pages.model")
        text = None if moment is None else request.args["at"]
        return {"moment": moment, "moment_text": text, "at_moment": at_moment, "can_show_past": shows_past}
