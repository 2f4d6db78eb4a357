"""How tests read what the application answers, and what every answer is held against."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html.parser import HTMLParser
from typing import Any
from urllib.parse import unquote

from werkzeug.routing import Map

from webapp import exposition
from webapp.fleet.nodes import Node
from webapp.unseen import replaced
from webapp.views.routing import NameConverter

#: Every route: its kind, who may use it, and a path that shows it.
ROUTES = {
    "static": ("asset", "anyone", "/static/icon.svg"),
    "machines.beat": ("machine", "agent", None),
    "machines.metrics": ("machine", "viewer", "/metrics"),
    "machines.agent": ("machine", "anyone", "/agent.pyz"),
    "machines.health": ("machine", "anyone", "/healthz"),
    "pages.cluster": ("page", "viewer", "/"),
    "pages.node": ("page", "viewer", "/nodes/cpu-07"),
    "pages.nodes": ("page", "viewer", "/nodes/"),
    "pages.add": ("page", "viewer", "/add"),
    "pages.embed_check": ("page", "viewer", "/embed/check"),
    "fragments.cluster": ("fragment", "viewer", "/fragments/cluster"),
    "fragments.node": ("fragment", "viewer", "/fragments/node/cpu-07"),
    "fragments.about": ("fragment", "viewer", "/fragments/about/cpu"),
    "fragments.charts": ("fragment", "viewer", "/fragments/charts/cpu-07"),
    "instances.index": ("page", "viewer", "/instances"),
    "instances.page": ("page", "viewer", "/instances/hp_cpu-07:8000"),
    "instances.index_fragment": ("fragment", "viewer", "/fragments/instances"),
    "instances.fragment": ("fragment", "viewer", "/fragments/instance/hp_cpu-07:8000"),
    "placement.page": ("page", "viewer", "/placement"),
    "placement.ask": ("machine", "viewer", "/v1/placement"),
    "instance_api.register": ("machine", "agent", None),
    "instance_api.beat": ("machine", "agent", None),
    "instance_api.report": ("machine", "agent", None),
    "instance_api.unregister": ("machine", "agent", None),
    "instance_api.list_all": ("machine", "viewer", "/v1/instance/list"),
    "instance_api.instance_resources": ("machine", "viewer", "/debug/instance_resources"),
    "instance_api.instance_loads": ("machine", "viewer", "/debug/instance_loads"),
    "instance_api.status": ("machine", "viewer", "/debug/status"),
    "instance_api.whole_pool": ("machine", "viewer", "/debug/pool_resource"),
    "instance_api.sources": ("machine", "viewer", "/debug/pool_resource_sources"),
    "login.form": ("page", "anyone", None),
    "login.sign_in": ("form", "anyone", None),
    "login.sign_out": ("form", "anyone", None),
    "admin.forget": ("form", "admin", None),
    "admin.note": ("form", "admin", None),
    "admin.hand_over": ("form", "admin", None),
    "pages.models": ("page", "viewer", "/models"),
    "pages.models_": ("page", "viewer", "/models/"),
    "pages.model": ("page", "viewer", "/models/llama-3.1-8b"),
    "reports.node": ("page", "viewer", "/reports/cpu-07"),
    "api.nodes": ("machine", "viewer", "/api/v1/nodes"),
    "api.node": ("machine", "viewer", "/api/v1/nodes/cpu-07"),
    "api.engines": ("machine", "viewer", "/api/v1/engines"),
    "api.models": ("machine", "viewer", "/api/v1/models"),
    "api.series": ("machine", "viewer", "/api/v1/series?node=cpu-07&chart=cpu"),
    "fragments.models": ("fragment", "viewer", "/fragments/models"),
    "fragments.model": ("fragment", "viewer", "/fragments/model/llama-3.1-8b"),
    "fragments.model_charts": ("fragment", "viewer", "/fragments/model-charts/llama-3.1-8b"),
    "fragments.numbers": ("fragment", "viewer", "/fragments/numbers?chart=cpu&node=cpu-07"),
}

#: Names that try to be more than text: in HTML, scripts, addresses, templates, PromQL, on terminals.
HOSTILE = [
    "<img src=x onerror=alert(1)>",
    '"><svg onload=alert(1)>',
    "'}]}//",
    "</script><script>x</script>",
    "<!--<script>",
    "a//b/../c?d#e%41",
    "/a/",
    "{{7*7}}",
    "a\u2028b",
    'rack 14" C:\\new\nx',
    "javascript:alert(1)",
    "n\t1\r",
    "💥 é",
]


class Page(HTMLParser):
    """Tags, texts and the attributes that load or run something."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attributes)))

    def handle_data(self, data: str) -> None:
        self.text += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def named(address: str) -> str:
    """The name in an address such as /nodes/a%20b, as the server reads it."""
    return NameConverter(Map()).to_python(unquote(address.split("/", 2)[2]))


def drawn(name: str) -> str:
    """A name as the text of a page holds it."""
    return replaced(name, str)


def strict(text: str) -> object:
    """The JSON in an answer; fails for NaN and infinities, which are none."""

    def refuse(constant: str) -> object:
        raise AssertionError(f"not strict JSON: {constant}")

    return json.loads(text, parse_constant=refuse)


def exposed(nodes: Sequence[Node], *more: Any, **how: Any) -> str:
    """What a scrape gets, as one text."""
    return b"".join(exposition.pieces(nodes, *more, **how)).decode()
