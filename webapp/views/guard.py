"""Asks every request who it is before anything else happens, and refuses it in its own format."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from flask import Flask, current_app, g, jsonify, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue
from werkzeug.exceptions import HTTPException

from webapp.addresses import is_loopback
from webapp.views.audience import audience, opens
from webapp.views.callers import NOBODY, Access, Caller, bearer

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

#: Says in a fragment's 401 that whoever reads the page must sign in again.
SIGNED_OUT = "X-Enginehouse-Signed-Out"

_MEANINGS = {401: "unauthorized", 403: "forbidden", 421: "misdirected_request", 429: "too_many_failures"}


def guard(app: Flask, access: Access, refusals: Counter[str]) -> None:
    """`refusals` counts the requests that were refused, by reason."""

    @app.before_request
    def ask() -> ResponseReturnValue | None:
        endpoint = request.endpoint
        if endpoint is None:  # no such route: the answer says nothing but that
            g.caller = NOBODY
            return None
        kind, who = audience(endpoint, request.path, request.method)
        g.caller = access.caller(request) if who != "agent" else NOBODY
        if access.only_local_names and not is_loopback(_host_name()):
            return refuse(kind, 421, "foreign_host", _FOREIGN_HOST)
        if request.method not in ("GET", "HEAD", "OPTIONS") and _comes_from_elsewhere():
            return refuse(kind, 403, "foreign_origin", "This request was sent by another site's page.")
        if who == "anyone":
            return None
        if who == "agent":
            return ask_agent()
        return ask_caller(kind, who, endpoint)

    def ask_agent() -> ResponseReturnValue | None:
        if access.agents is None:
            g.agent_node = ""
            return None
        holder = access.agents.holder(bearer(request))
        if holder is None:
            return fail("machine", "agent_token", "This control plane asks agents for a token; see --token-file.")
        g.agent_node = holder.node
        return None

    def ask_caller(kind: str, who: str, endpoint: str) -> ResponseReturnValue | None:
        caller: Caller = g.caller
        if caller.path and not _within_link(caller.path, endpoint):
            return refuse(kind, 403, "embed_scope", f"This link opens {caller.path} only.")
        if caller.role == "nobody":
            if caller.reason:
                return refuse(kind, 403, "embed_link", caller.reason)
            if bearer(request):
                return fail(kind, "viewer_token", "This token is not known.")
            return sign_in(kind)
        if who == "admin":
            if caller.role != "admin" or caller.path:
                return refuse(kind, 403, "not_admin", "Only an admin may do this.")
            if not access.is_our_form(caller, request.form.get("form_token", "")):
                return refuse(kind, 403, "form_token", "This form has expired, or was not made here. Reload the page.")
        return None

    def fail(kind: str, reason: str, message: str) -> ResponseReturnValue:
        """A wrong or missing token: counted, and no longer answered in full where there were too many."""
        address = request.remote_addr or ""
        wait_s = access.failures.wait_s(address)
        if wait_s:
            return refuse(kind, 429, "too_many_failures", f"Too many wrong tokens; wait {wait_s:.0f} s.", wait_s)
        access.failures.add(address)
        return refuse(kind, 401, reason, message)

    def sign_in(kind: str) -> ResponseReturnValue:
        if kind == "page" or (kind == "fragment" and "HX-Request" not in request.headers):
            framed = request.headers.get("Sec-Fetch-Dest") in ("iframe", "frame", "embed", "object")
            if access.has_login and not framed:
                query = request.query_string.decode("latin-1")
                return redirect(url_for("login.form", next=request.path + (f"?{query}" if query else "")))
            message = _SIGN_IN_ELSEWHERE if framed else _PROXY_IS_SILENT
            return refuse(kind, 401, "viewer", message)
        return refuse(kind, 401, "viewer", "Signed out: reload the page to sign in." if kind == "fragment" else _NO_TOKEN)

    def refuse(kind: str, code: int, reason: str, message: str, wait_s: float = 0.0) -> ResponseReturnValue:
        refusals[reason] += 1
        error = _MEANINGS[code]
        if kind == "machine":
            answer = jsonify(ok=False, error=error, message=message)
        elif kind == "fragment" and "HX-Request" in request.headers:
            answer = current_app.make_response(render_template("fragments/refused.html", message=message))
            if code == 401:
                answer.headers[SIGNED_OUT] = "1"
        else:
            name = {401: "Please sign in", 403: "Not allowed", 421: "Unknown address", 429: "Too many attempts"}[code]
            page = request.path if reason == "viewer" and access.has_login else ""
            answer = current_app.make_response(
                render_template("error.html", code=code, name=name, description=message, new_tab=page)
            )
        answer.status_code = code
        if code == 401:
            answer.headers["WWW-Authenticate"] = 'Bearer realm="enginehouse"'
        if wait_s:
            answer.headers["Retry-After"] = str(int(wait_s) + 1)
        return answer

    def _within_link(path: str, endpoint: str) -> bool:
        try:
            page, arguments = current_app.url_map.bind("").match(path, method="GET")
        except HTTPException:
            return False
        asked = request.view_args or {}
        if endpoint in ("fragments.about", "fragments.numbers"):  # of one chart; whose it is, is in the query
            subject, other = ("node", "model") if page == "pages.node" else ("model", "node")
            asked = {} if request.args.get(other) else {"name": request.args.get(subject, "")}
        return opens(page, endpoint) and arguments == asked

    @app.context_processor
    def who() -> dict[str, object]:
        caller: Caller = g.get("caller", NOBODY)
        acts = caller.role == "admin" and not caller.path
        return {
            "caller": caller,
            "asks_agents": access.agents is not None,
            "form_token": (lambda: access.form_token(caller)) if acts else None,
        }


def admit_agents(access: Access) -> Callable[[WSGIEnvironment], str | None]:
    """What `guard` asks of an agent, for requests that don't reach Flask: the only node that it may speak for, "" for any.

    None where `guard` itself must look, since something is wrong.
    """

    def admit(environ: WSGIEnvironment) -> str | None:
        if access.only_local_names and not _names_loopback(environ.get("HTTP_HOST", "")):
            return None
        if "HTTP_ORIGIN" in environ or "HTTP_SEC_FETCH_SITE" in environ:  # a browser
            return None
        if access.agents is None:
            return ""
        kind, _, token = environ.get("HTTP_AUTHORIZATION", "").partition(" ")
        holder = access.agents.holder(token.strip()) if kind.lower() == "bearer" else None
        return None if holder is None else holder.node

    return admit


_FOREIGN_HOST = (
    "This control plane serves its own machine only, and this address is not one of that machine. Behind a proxy, "
    "start it with --proxy-hops; to serve others, with tokens or --allow-anonymous."
)
_SIGN_IN_ELSEWHERE = "Nobody is signed in here, and a frame cannot ask. Open the page in a new tab, or use an embed link."
_PROXY_IS_SILENT = "The proxy in front did not say who you are."
_NO_TOKEN = "A viewer's token is needed: Authorization: Bearer TOKEN."  # noqa: S105


def _host_name() -> str:
    """The host that the browser asked, without its port; "" if it is none."""
    return _name_of(request.headers.get("Host", ""))


def _name_of(host: str) -> str:
    try:
        return urlsplit("//" + host).hostname or ""
    except ValueError:
        return ""


@lru_cache(maxsize=256)
def _names_loopback(host: str) -> bool:
    return is_loopback(_name_of(host))


def _comes_from_elsewhere() -> bool:
    """Whether a browser sent this for a page that is not ours. Agents and programs send neither header."""
    site = request.headers.get("Sec-Fetch-Site")
    if site is not None:
        return site not in ("same-origin", "none")
    origin = request.headers.get("Origin")
    return origin is not None and origin.partition("://")[2] != request.headers.get("Host")
