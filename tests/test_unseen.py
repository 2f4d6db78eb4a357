"""Names with characters that nobody sees, on every page and chart; as they are in addresses, forms and data."""

from __future__ import annotations

import json
from html.parser import HTMLParser

import pytest
from flask import Flask
from jinja2 import Environment

from tests.answers import named
from tests.conftest import HTMX
from webapp.app import create_app
from webapp.fleet.instances import Instances
from webapp.fleet.refusals import HeartbeatConflict
from webapp.history.embedded import EmbeddedHistory
from webapp.measurement import Disk, Engine, Gpu, Host, Network
from webapp.overview.events import Events
from webapp.storage.store import Store
from webapp.unseen import UNSEEN
from webapp.views.placing import Placing

ZWSP = "\u200b"
#: A zero-width space, a mark that turns the writing around, a control, a filler, a line break, a wide space, a tag.
NAME = f"n{ZWSP}\u202e\x07\u3164\n\u00a0\U000e0041x"
SHOWN = "nU+200BU+202EU+0007U+3164U+000AU+00A0U+E0041x"


class Reader(HTMLParser):
    """What a reader sees of a page, and reads in its titles: (element or attribute, text)."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.read: list[tuple[str, str]] = []
        self.links: list[str] = []
        self.values: list[str] = []
        self._open = [""]
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self._open.append(tag)
        self.read += [(name, given[name]) for name in ("title", "aria-label", "placeholder") if name in given]
        self.links += [given[name] for name in ("href", "hx-get", "action") if given.get(name)]
        self.values += [given["value"]] if "value" in given else []

    def handle_endtag(self, tag):
        self._open.append("")

    def handle_data(self, data):
        self.read.append((self._open[-1], data))


@pytest.fixture
def everywhere(registry, store: Store, wall, beat) -> Flask:
    """A fleet in which everything that can have a name has this one."""
    beat(
        NAME,
        host=Host(labels={NAME: NAME}, cpu_model=NAME, kernel=NAME),
        disks=(Disk(NAME, NAME, NAME, error=NAME),),
        networks=(Network(NAME, 1.0, 1.0),),
        gpus=(Gpu(id=NAME, index=0, name=NAME),),
        engines=(Engine(id=NAME, model=NAME, kind=NAME, unit=NAME, state="orphaned", metrics_error=NAME, cpu_cores=1.0),),
        source=NAME,
    )
    with pytest.raises(HeartbeatConflict):
        beat(NAME, agent=f"another{ZWSP}", source=NAME)
    known = registry.node(NAME).measurement
    store.fill((known, wall() - 3600 + second) for second in range(0, 3600, 10))
    events = Events(wall)
    events.add(known, wall() - 5)
    instances = Instances()
    app = create_app(
        registry,
        EmbeddedHistory(store, clock=wall),
        events=events,
        instances=instances,
        wall=wall,
        notices=lambda: [f"notice {NAME}"],
    )
    body = {"instance_id": NAME, "host": "10.0.0.9", "port": 8000, "tags": [NAME], "meta": {"model": NAME}}
    assert app.test_client().post("/v1/instance/register", json=body).status_code == 200
    return app


def pages(app: Flask):
    """Every page and block that leads on from the first, with its address."""
    client = app.test_client()
    ahead = ["/", "/?view=map", "/?view=concerns", "/?view=changes", "/?group=n&q=n", "/models", "/instances", "/add"]
    ahead += ["/placement?memory_gib=1", f"/?model={ZWSP}&q={ZWSP}a&label={ZWSP}=b", f"/nodes/un{ZWSP}known"]
    seen = set()
    while ahead:
        address = ahead.pop()
        if address in seen or not address.startswith("/") or address.startswith(("/static/", "/metrics", "/healthz", "/agent")):
            continue
        seen.add(address)
        answer = client.get(address, headers=HTMX if address.startswith("/fragments/") else {})
        if answer.mimetype == "text/html":
            reader = Reader(answer.text)
            if len(seen) < 150:
                ahead += reader.links
            yield address, reader


def test_no_page_writes_what_nobody_sees(everywhere):
    found = []
    seen = set()
    for address, reader in pages(everywhere):
        seen.add(address.partition("?")[0].split("/")[1])
        if address.startswith("/fragments/"):
            seen.add(address.split("/")[2].partition("?")[0])
        for where, text in reader.read:
            if where not in ("script", "style", "pre", "") and UNSEEN.search(text.replace("\n", "").replace("  ", "")):
                found.append((address, where, text))
            if where in ("title", "option", "aria-label") and "unseen" in text:
                found.append((address, where, text))
    assert found == []
    assert {"", "nodes", "models", "instances", "placement", "reports", "node", "model", "charts", "numbers", "about"} <= seen


def test_a_name_is_shown_with_boxes_and_leads_to_itself(everywhere):
    client = everywhere.test_client()
    html = client.get("/").text
    reader = Reader(html)
    assert SHOWN in "".join(text for where, text in reader.read if where not in ("title", "aria-label"))
    assert NAME in {named(link) for link in reader.links if link.startswith("/nodes/")}
    assert NAME in reader.values  # of the choice of a model
    assert NAME in [node["node"] for node in client.get("/api/v1/nodes").get_json()["nodes"]]
    assert f'node="{NAME}"'.replace("\n", "\\n") in client.get("/metrics").text


def test_two_nodes_that_differ_by_what_nobody_sees_look_different(client, beat):
    beat("cpu-07", agent="a")
    beat(f"cpu-07{ZWSP}", agent="b")
    beat("gpu 1", agent="c")
    beat("gpu  1", agent="d")
    html = client.get("/").text
    for shown in (">cpu-07<", '>cpu-07<code class="unseen"', ">gpu 1<", '>gpu <code class="unseen"'):
        assert shown in html


def test_charts_name_what_nobody_sees(everywhere):
    client = everywhere.test_client()
    link = next(link for link in Reader(client.get("/").text).links if link.startswith("/nodes/"))
    html = client.get(link.replace("/nodes/", "/fragments/charts/"), headers=HTMX).text
    assert "[U+200B]" in html
    assert not UNSEEN.search(json.dumps(html, ensure_ascii=False).replace("  ", ""))


@pytest.mark.parametrize(
    ("template", "written"),
    [
        ("<p>{{ x }}</p>", '<p>a<code class="unseen" title="a character that can&#39;t be seen">U+200B</code>&lt;</p>'),
        ("<p title='{{ x }}'>y</p>", "<p title='a[U+200B]&lt;'>y</p>"),
        ("<a href='{{ x }}' title=\"it's > {{ x }}\">y</a>", "<a href='a\u200b&lt;' title=\"it's > a[U+200B]&lt;\">y</a>"),
        (
            '<!-- <p title=\'-->{{ x[:1] }}<option value="{{ x }}">{{ x }}',
            '<!-- <p title=\'-->a<option value="a\u200b&lt;">a[U+200B]&lt;',
        ),
        ("{% block title %}{{ x }}{% endblock %}", "a[U+200B]&lt;"),
        ("<title>b</title><script>{{ x }}</script>", "<title>b</title><script>a\u200b&lt;</script>"),
        ("<b {% if x %}data-x{% endif %}>{{ 1 if x else x }}{{ none }}</b>", "<b data-x>1None</b>"),
    ],
)
def test_what_is_written_depends_on_its_place(template, written):
    environment = Environment(autoescape=True, extensions=[Placing])
    assert environment.from_string(template).render(x=f"a{ZWSP}<").replace("can't", "can&#39;t") == written
