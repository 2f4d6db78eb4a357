"""The page where a person shows a token, and the end of a session."""

from __future__ import annotations

import logging
from collections import Counter

from flask import Blueprint, abort, g, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue

from webapp.access import LONGEST_TOKEN
from webapp.views.callers import Access

log = logging.getLogger(__name__)


def blueprint(access: Access, refusals: Counter[str]) -> Blueprint:
    login = Blueprint("login", __name__, url_prefix="/login")

    def page(problem: str = "", code: int = 200) -> ResponseReturnValue:
        return render_template("login.html", problem=problem, next=request.values.get("next", "")[:2000], notices=[]), code

    @login.get("")
    def form() -> ResponseReturnValue:
        if not access.has_login:
            abort(404, "Nobody signs in here: no tokens of viewers or admins are set.")
        return page()

    @login.post("")
    def sign_in() -> ResponseReturnValue:
        if not access.has_login or g.caller.path:
            abort(404, "Nobody signs in here.")
        address = request.remote_addr or ""
        if wait_s := access.failures.wait_s(address):
            refusals["too_many_failures"] += 1
            return page(f"Too many wrong tokens from your address; wait {wait_s:.0f} s.", 429)
        found = access.role_of(request.form.get("token", "").strip()[: LONGEST_TOKEN + 1])
        if found is None:
            access.failures.add(address)
            refusals["login"] += 1
            log.warning("a wrong token was shown on the login page from %s", address)
            return page("This token is not known.", 401)
        answer = redirect(request.script_root + _within(request.form.get("next", "")), 303)
        access.sign_in(answer, request, *found)
        log.info("%s signed in from %s", "an admin" if found[0] == "admin" else "a viewer", address)
        return answer

    @login.post("/end")
    def sign_out() -> ResponseReturnValue:
        answer = redirect(url_for("login.form") if access.has_login else url_for("pages.cluster"), 303)
        access.sign_out(answer, request)
        return answer

    return login


def _within(path: str) -> str:
    r"""A path of this site; "/" for anything that could lead elsewhere.

    >>> _within("/nodes/a?range=6h"), _within("//evil.example"), _within("/\\evil"), _within("https://evil"), _within("")
    ('/nodes/a?range=6h', '/', '/', '/', '/')
    """
    leads_elsewhere = not path.startswith("/") or path[1:2] in ("/", "\\") or not path.isprintable()
    return "/" if leads_elsewhere else path
