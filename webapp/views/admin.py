"""What admins do, as forms on the page of a node: forget it, note that it drains, hand its name to another agent."""

from __future__ import annotations

import logging
from typing import Protocol

from flask import Blueprint, g, redirect, request, url_for
from flask.typing import ResponseReturnValue

from webapp.fleet.notes import LONGEST_NOTE
from webapp.views.errors import no_such_node

log = logging.getLogger(__name__)


class Acts(Protocol):
    """What can be done to a node; each is False if no such node is known."""

    def forget(self, name: str) -> bool: ...

    def annotate(self, name: str, text: str, by: str) -> bool: ...

    def hand_over(self, name: str) -> bool: ...


def blueprint(acts: Acts) -> Blueprint:
    admin = Blueprint("admin", __name__, url_prefix="/admin")

    def node() -> str:
        return request.form.get("node", "")

    def done(found: bool, what: str, name: str) -> None:
        """Log what was done, or answer with 404 where no node was `found`."""
        if not found:
            no_such_node(name)
        log.info("%s %s node %r from %s", g.caller.name or "an admin", what, name, request.remote_addr)

    @admin.post("/forget")
    def forget() -> ResponseReturnValue:
        name = node()
        done(acts.forget(name), "forgot", name)
        return redirect(url_for("pages.cluster"), 303)

    @admin.post("/note")
    def note() -> ResponseReturnValue:
        name, text = node(), " ".join(request.form.get("note", "").split())[:LONGEST_NOTE]
        done(acts.annotate(name, text, g.caller.name), "noted that it drains:" if text else "took the note off", name)
        return redirect(url_for("pages.node", name=name), 303)

    @admin.post("/name")
    def hand_over() -> ResponseReturnValue:
        name = node()
        done(acts.hand_over(name), "handed to the other agent the name of", name)
        return redirect(url_for("pages.node", name=name), 303)

    return admin
