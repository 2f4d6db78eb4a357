"""Who may use each route. A new route falls under the rules at the end, none of which opens it to everyone."""

from __future__ import annotations

from typing import Literal, NamedTuple

Kind = Literal["machine", "page", "fragment", "asset", "form"]
Who = Literal["anyone", "agent", "viewer", "admin"]

#: Paths that programs use.
MACHINE_PATHS = ("/v1/", "/api/", "/debug/", "/metrics", "/healthz", "/agent.pyz")


class Audience(NamedTuple):
    kind: Kind
    who: Who


#: Exceptions to the rules.
_EXCEPTIONS: dict[str, Audience] = {
    "static": Audience("asset", "anyone"),
    "machines.health": Audience("machine", "anyone"),
    "machines.agent": Audience("machine", "anyone"),  # public code; a node fetches it before it has a token
    "login.form": Audience("page", "anyone"),
    "login.sign_in": Audience("form", "anyone"),
    "login.sign_out": Audience("form", "anyone"),
}

#: Blocks of each page; an embed link to a page opens these too.
BLOCKS: dict[str, tuple[str, ...]] = {
    "pages.cluster": ("fragments.cluster",),
    "pages.node": ("fragments.node", "fragments.charts", "fragments.about", "fragments.numbers"),
    "pages.models": ("fragments.models",),
    "pages.model": ("fragments.model", "fragments.model_charts", "fragments.about", "fragments.numbers"),
    "instances.index": ("instances.index_fragment",),
    "instances.page": ("instances.fragment",),
}


def audience(endpoint: str, path: str, method: str) -> Audience:
    """Who may use a route.

    >>> audience("machines.beat", "/v1/nodes/heartbeat", "POST")
    Audience(kind='machine', who='agent')
    >>> audience("new.page", "/new", "GET"), audience("new.form", "/new", "POST")
    (Audience(kind='page', who='viewer'), Audience(kind='form', who='admin'))
    """
    if endpoint in _EXCEPTIONS:
        return _EXCEPTIONS[endpoint]
    reads = method in ("GET", "HEAD", "OPTIONS")
    if path.startswith(MACHINE_PATHS):
        return Audience("machine", "viewer" if reads else "agent")
    if not reads:
        return Audience("form", "admin")
    return Audience("fragment" if path.startswith("/fragments/") else "page", "viewer")


def opens(page: str, endpoint: str) -> bool:
    """Whether an embed link to `page`, an endpoint, opens `endpoint` too."""
    return endpoint == page or endpoint in BLOCKS.get(page, ())
