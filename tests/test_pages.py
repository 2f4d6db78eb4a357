"""The pages and their blocks, as they come from the server."""

from __future__ import annotations

import html
import re
from dataclasses import replace
from pathlib import Path
from urllib.parse import urljoin

import pytest

from tests.answers import HOSTILE, ROUTES, Page, drawn, named
from tests.conftest import GIB, HTMX
from webapp.app import create_app
from webapp.history import HistoryUnavailable
from webapp.measurement import Disk, Engine, Host, Requests
from webapp.overview.trends import Trends
from webapp.unseen import bracketed
from webapp.views.audience import BLOCKS, audience

TEMPLATES = Path(__file__).parent.parent / "templates"

#: What needs the node to be there.
OF_THE_NODE = {
    "pages.node",
    "reports.node",
    "api.node",
    "fragments.node",
    "fragments.charts",
    "instances.page",
    "instances.fragment",
}


def test_every_route_is_classified(app):
    found = {}
    for rule in app.url_map.iter_rules():
        method = "POST" if "POST" in rule.methods else "GET"
        found[rule.endpoint] = audience(rule.endpoint, rule.rule, method)
    assert found == {endpoint: (kind, who) for endpoint, (kind, who, _) in ROUTES.items()}


def test_a_get_changes_nothing(app):
    """Whoever may act or report does it by POST."""
    writes = [rule for rule in app.url_map.iter_rules() if ROUTES[rule.endpoint][1] in ("agent", "admin")]
    assert all(rule.methods == {"POST", "OPTIONS"} for rule in writes)


def test_every_block_belongs_to_a_page_that_an_embed_link_can_open(app):
    assert {block for blocks in BLOCKS.values() for block in blocks} == {
        endpoint for endpoint, (kind, _, _) in ROUTES.items() if kind == "fragment"
    }


@pytest.mark.parametrize("endpoint", [name for name, (_, _, path) in ROUTES.items() if path])
@pytest.mark.parametrize("fleet", ["empty", "one node"])
def test_every_route_answers_in_its_format(client, beat, endpoint, fleet):
    kind, _, path = ROUTES[endpoint]
    if fleet == "one node":
        beat("cpu-07")
        client.post("/v1/instance/register", json={"host": "cpu-07", "port": 8000})
    answer = client.get(path, headers=HTMX if kind == "fragment" else {}, buffered=True)
    known = fleet == "one node" or endpoint not in OF_THE_NODE
    assert answer.status_code == (302 if path in ("/nodes/", "/models/") else 200 if known else 404)
    assert answer.mimetype == {
        "/metrics": "text/plain",
        "/healthz": "application/json",
        "/agent.pyz": "application/zip",
        "/static/icon.svg": "image/svg+xml",
    }.get(path, "application/json" if path.startswith(("/v1/", "/debug/", "/api/")) else "text/html")
    assert "frame-ancestors 'self'" in answer.headers["Content-Security-Policy"]
    assert "unsafe-eval" not in answer.headers["Content-Security-Policy"]
    assert "script-src 'self';" in answer.headers["Content-Security-Policy"]
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert "X-Frame-Options" not in answer.headers


@pytest.mark.parametrize(
    ("path", "page"),
    [
        ("/fragments/cluster", "/"),
        ("/fragments/node/cpu-07", "/nodes/cpu-07"),
        ("/fragments/charts/cpu-07", "/nodes/cpu-07"),
        ("/fragments/models", "/models"),
        ("/fragments/model/a//b", "/models/a//b"),
        ("/fragments/model-charts/a%0Ab", "/models/a%0Ab"),
        ("/fragments/numbers?chart=cpu&node=cpu-07", "/nodes/cpu-07"),
        ("/fragments/numbers?chart=queue&model=m", "/models/m"),
        ("/fragments/about/cpu?node=cpu-07", "/nodes/cpu-07"),
        ("/fragments/about/cpu", "/"),
    ],
)
def test_a_fragment_opened_by_itself_leads_to_its_page(client, beat, path, page):
    beat("cpu-07")
    answer = client.get(path)
    assert answer.status_code == 302
    assert answer.headers["Location"] == page


def test_no_script_is_inline_and_nothing_comes_from_elsewhere(client, beat):
    """T119, T121"""
    beat("cpu-07")
    for path in ("/", "/nodes/cpu-07", "/models", "/models/llama-3.1-8b", "/add", "/nothing"):
        page = Page(client.get(path).text)
        assert all(script.get("src", "").startswith("/static/") for script in page.all("script"))
        assert all(link["href"].startswith("/static/") for link in page.all("link"))
        assert not [name for _, attributes in page.tags for name in attributes if name.startswith(("on", "hx-on"))]


def test_an_empty_fleet_says_how_to_fill_it(client):
    page = Page(client.get("/").text)
    assert "No node has reported yet" in page.text
    assert {"href": "/add"} in [{"href": a.get("href")} for a in page.all("a")]


def test_what_the_reader_must_know_comes_with_each_refresh(registry, history, beat):
    said: list[str] = []
    client = create_app(registry, history, notices=lambda: list(said)).test_client()
    beat("n1", engines=(Engine(id="e", model="m"),))
    blocks = {
        "/": "/fragments/cluster",
        "/nodes/n1": "/fragments/node/n1",
        "/models": "/fragments/models",
        "/models/m": "/fragments/model/m",
    }
    assert not any('class="notice"' in client.get(block, headers=HTMX).text for block in blocks.values())
    said.append("Prometheus can't be reached.")
    for page, block in blocks.items():
        assert client.get(block, headers=HTMX).text.count("Prometheus can&#39;t be reached.") == 1
        assert client.get(page).text.count("Prometheus can&#39;t be reached.") == 1


def test_what_an_address_of_this_machine_alone_is_good_for_is_said(client):
    assert "which on another machine means that machine itself" in client.get("/add").text
    assert "which on another machine means" not in client.get("/add", base_url="http://control:8765").text


def test_the_charts_of_a_new_node_show_a_quarter_of_an_hour(registry, history, beat, measurement, wall):
    """At the edge of an hour, the first minutes would be a hair."""
    trends = Trends()
    client = create_app(registry, history, trends=trends, wall=wall).test_client()
    beat("n1", agent="a", engines=(Engine(id="e", model="m"),))
    for minutes, usual in ((0, "1h"), (1, "15m"), (13, "15m"), (3, "1h")):
        wall.advance(60 * minutes)
        if minutes:
            trends.add(replace(measurement, node="n1"), wall())
        for path in ("/nodes/n1", "/models/m"):
            assert f'range={usual}" aria-current="true"' in client.get(path).text
            assert 'range=6h" aria-current="true"' in client.get(f"{path}?range=6h").text


def test_a_row_shows_what_the_node_reported(client, beat):
    beat("cpu-07", host=Host(labels={"rack": "b2"}))
    text = " ".join(Page(client.get("/").text).text.split())
    for shown in ("cpu-07", "b2", "fresh", "43 % of 64", "118 / 256 GiB", "0.05", "42 %", "llama-3.1-8b"):
        assert shown in text


def test_unknown_is_a_dash_with_its_reason_and_zero_is_a_zero(client, beat):
    """T68, T22, T26"""
    beat("n1", load={"cpu_percent": None, "memory_total_bytes": None, "load1": 0.0}, disks=(), engines=())
    html = client.get("/fragments/cluster", headers=HTMX).text
    row = html[html.index('<tr id="node-n1"') :]
    assert row.count('<span class="unknown" title="not reported by the node">–</span>') == 3
    assert '<td class="col-load"><span data-level="normal"' in row
    assert ">0.00<" in row


def test_a_silent_nodes_numbers_are_left_out_and_the_totals_say_so(client, beat, clock):
    beat("old", agent="old", load={"cpu_percent": 97.0})
    clock.advance(73)
    beat("new", agent="new", load={"cpu_percent": 10.0})
    text = " ".join(Page(client.get("/").text).text.split())
    assert "97 %" not in text
    assert "6.4 of 64 cores" in text
    assert "1 of 2 nodes; 1 stale" in text
    assert 'title="not heard for 73 s; numbers left out"' in client.get("/").text


def test_a_late_nodes_bars_are_marked_as_old(client, beat, clock):
    beat("n1")
    assert "data-old" not in client.get("/").text
    clock.advance(30)
    assert "data-old" in client.get("/").text


def test_the_address_holds_filter_and_order(client, beat):
    for number, percent in enumerate((30.0, 90.0, 60.0)):
        beat(f"n{number}", agent=str(number), load={"cpu_percent": percent}, host=Host(labels={"rack": f"b{number % 2}"}))
    names = lambda query: re.findall(r'<tr id="node-(\w+)"', client.get("/" + query).text)  # noqa: E731
    assert names("") == ["n0", "n1", "n2"]
    assert names("?sort=cpu") == ["n1", "n2", "n0"]
    assert names("?sort=cpu&order=asc") == ["n0", "n2", "n1"]
    assert names("?label=rack%3Db0") == ["n0", "n2"]
    assert names("?q=N2") == ["n2"]
    assert names("?model=llama-3.1-8b&state=fresh") == ["n0", "n1", "n2"]
    assert names("?state=gone") == []
    assert names("?sort=nonsense&order=5&state=x&label=y&model=") == ["n0", "n1", "n2"]


def test_nothing_matching_is_not_an_empty_fleet(client, beat):
    beat("n1")
    assert "No node matches" in client.get("/?q=zzz").text


@pytest.mark.parametrize("name", [".", "..", "~..", "a/../b", "../nodes/b", "a/.", "a/..\n"])
def test_a_browser_finds_the_node_the_model_and_the_instance_whose_names_go_up(client, beat, name):
    """It resolves "/nodes/a/../b" to "/nodes/b", another node, before it asks."""
    beat(name, engines=(Engine(id="e", model=name),))
    beat("b", agent="other")
    client.post("/v1/instance/register", json={"instance_id": name, "host": "10.0.0.9", "port": 8000})
    for index, kind in (("/", "nodes"), ("/models", "models"), ("/instances", "instances")):
        links = {a["href"] for a in Page(client.get(index).text).all("a") if a["href"].startswith(f"/{kind}/")}
        pages = [client.get(urljoin(index, link)).text for link in links]
        assert f"<title>{bracketed(name)} · Enginehouse</title>" in [
            page[page.index("<title>") : page.index("</title>") + 8] for page in pages
        ]
        for block in re.findall('hx-get="([^"]+)"', "".join(pages)):
            assert client.get(urljoin(index, html.unescape(block)), headers=HTMX).status_code == 200


def test_the_report_of_a_node_hides_no_node(client, beat):
    beat("x")
    beat("x/report.html", agent="other")
    assert "<h1>x/report.html</h1>" in client.get("/nodes/x/report.html").text
    report = next(a["href"] for a in Page(client.get("/nodes/x").text).all("a") if a["href"].startswith("/reports/"))
    assert "attachment" in client.get(report).headers["Content-Disposition"]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_stays_text_everywhere(client, beat, name):
    """T118, T134"""
    engine = Engine(id=name, model=name, kind=name[:64], unit=name, metrics_error=name, cpu_cores=1.0)
    beat(
        name,
        host=Host(labels={name: name}, cpu_model=name, kernel=name),
        disks=(Disk(name, name, error=name),),
        engines=(engine,),
        source=name,
    )
    for path in ("/", "/fragments/cluster"):
        page = Page(client.get(path, headers=HTMX if "fragments" in path else {}).text)
        links = [a["href"] for a in page.all("a") if a["href"].startswith("/nodes/")]
        assert named(links[0]) == name
        assert not page.all("img")
        assert {tag for tag, _ in page.tags} <= TAGS
    answer = client.get(links[0])
    assert answer.status_code == 200
    page = Page(answer.text)
    assert {tag for tag, _ in page.tags} <= TAGS
    assert all("src" in script for script in page.all("script"))
    assert not [attributes for _, attributes in page.tags if any(key.startswith("on") for key in attributes)]
    assert client.get(next(s["hx-get"] for s in page.all("section") if s.get("id") == "node"), headers=HTMX).status_code == 200
    assert_models_are_text(client, name)


def assert_models_are_text(client, name):
    for path in ("/models", "/fragments/models"):
        page = Page(client.get(path, headers=HTMX if "fragments" in path else {}).text)
        links = [a["href"] for a in page.all("a") if a["href"].startswith("/models/")]
        assert [named(link) for link in links] == [name]
        assert {tag for tag, _ in page.tags} <= TAGS
    page = Page(client.get(links[0]).text)
    assert {tag for tag, _ in page.tags} <= TAGS
    assert drawn(name) in page.text
    assert all("src" in script for script in page.all("script"))
    assert not [attributes for _, attributes in page.tags if any(key.startswith("on") for key in attributes)]
    asked = [block["hx-get"] for tag in ("section", "div") for block in page.all(tag) if "hx-get" in block]
    assert len(asked) == 2
    for fragment in asked:
        assert client.get(fragment, headers=HTMX).status_code == 200
    taken = [a["href"] for a in page.all("a") if a["href"].startswith("/api/")]
    assert [client.get(path).mimetype for path in taken] == ["text/csv", "application/json"]
    assert client.get(taken[1]).get_json()["engines"][0]["model"] == name


TAGS = {
    tag
    for path in TEMPLATES.rglob("*.html")
    if path.name != "report.html"
    for tag in re.findall(r"<([a-z][a-z0-9-]*)", path.read_text("utf-8"))
} - {"plotly-figure"}


def test_an_embedded_page_has_no_navigation_and_keeps_its_ways_on_every_link(client, beat):
    beat("cpu-07", host=Host(labels={"rack": "b2"}))
    for path in ("/?embed=1&theme=dark&refresh=30&sort=cpu", "/nodes/cpu-07?embed=1&theme=dark&refresh=30"):
        page = Page(client.get(path).text)
        assert not page.all("nav") or all("Pages" not in (nav.get("aria-label") or "") for nav in page.all("nav"))
        files = ("/api/", "/static/")
        links = [
            a["href"]
            for a in page.all("a")
            if a["href"].startswith("/") and "download" not in a and not a["href"].startswith(files)
        ]
        assert links
        assert all("embed=1" in link and "theme=dark" in link and link.count("?") == 1 for link in links)
        blocks = [s for s in page.all("section") if "hx-get" in s]
        assert all("every 30s" in block["hx-trigger"] for block in blocks)
    assert "embed" not in Page(client.get("/?sort=cpu").text).all("a")[3]["href"]


@pytest.mark.parametrize(("asked", "every"), [("1", 5), ("30", 30), ("9999", 300), ("-3", 5), ("x", 5), ("٣", 5), ("", 5)])
def test_refresh_is_never_faster_than_usual(client, asked, every):
    section = next(s for s in Page(client.get(f"/?embed=1&refresh={asked}").text).all("section") if s.get("id") == "cluster")
    assert section["data-block"] == str(every)


def test_who_may_frame_is_on_every_answer_errors_and_assets_included(registry, history):
    """T130"""
    client = create_app(registry, history, frame_ancestors=("https://portal.example",)).test_client()
    for path in ("/", "/nothing", "/metrics", "/static/icon.svg", "/v1/nothing"):
        answer = client.get(path, buffered=True)
        assert "frame-ancestors 'self' https://portal.example" in answer.headers["Content-Security-Policy"]
        assert "X-Frame-Options" not in answer.headers


def test_both_directions_of_contact_are_reported(client, beat):
    beat("n1", agent_fields={"answered_s_ago": 10.0})
    assert "our last answer reached it 10 s before" in client.get("/nodes/n1").text
    beat("n1", agent_fields={"answered_s_ago": 300.0})
    assert "Our answers have not reached its agent for 5 min, though we hear it." in client.get("/nodes/n1").text


@pytest.mark.parametrize(
    ("asked", "shown"), [("6h", "6h"), ("3h", "3h"), ("30d", "30d"), ("31d", "1h"), ("x", "1h"), ("0m", "1h"), ("", "1h")]
)
def test_a_range_is_a_name_or_a_length(client, beat, asked, shown):
    beat("n1")
    page = Page(client.get(f"/nodes/n1?range={asked}").text)
    charts = next(div["hx-get"] for div in page.all("div") if div.get("id") == "charts")
    assert f"range={shown}" in charts
    assert client.get(charts, headers=HTMX).status_code == 200


def test_a_name_conflict_is_shown_on_row_and_page(client, beat):
    beat("gpu01", agent="a")
    with pytest.raises(Exception, match="reported by agent a"):
        beat("gpu01", agent="b", source="192.0.2.9")
    assert "name conflict" in client.get("/").text
    assert "Another agent (b, 192.0.2.9)" in client.get("/nodes/gpu01").text


def test_the_memory_bar_adds_up_to_the_total(client, beat, registry):
    from webapp.overview.memory import segments

    beat("n1")
    assert sum(segment.bytes for segment in segments(registry.node("n1").measurement)) == 256 * GIB
    assert "everything else" in client.get("/nodes/n1").text


def test_everything_else_on_the_node_is_the_nodes_cores_less_the_engines(client, beat):
    beat("n1", load={"cpu_percent": 50.0, "cpus": 10}, engines=(Engine(id="a", cpu_cores=1.5), Engine(id="b", cpu_cores=0.25)))
    text = " ".join(Page(client.get("/nodes/n1").text).text.split())
    assert "Everything else on the node 3.25" in text


def test_an_engine_that_does_not_tell_its_queue_is_not_an_empty_queue(client, beat):
    beat(
        "n1",
        engines=(
            Engine(id="a", model="m", metrics_error="metrics: 501, start with --metrics"),
            Engine(id="b", model="m", requests=Requests(0.0, 0.0)),
        ),
    )
    html = client.get("/nodes/n1").text
    assert html.count('title="metrics: 501, start with --metrics"') == 3
    assert "from 1 of 2 engines" in " ".join(Page(client.get("/").text).text.split())


def test_an_engine_without_a_model_stands_beside_one_with(client, beat):
    beat("n1", engines=(Engine(id="a", model="m"), Engine(id="b"), Engine(id="c", model="m")))
    text = " ".join(Page(client.get("/").text).text.split())
    assert "m ×2" in text
    assert "1 engine without a model" in text


def test_a_history_that_is_away_is_an_answer_in_the_charts_and_holds_nothing_up(registry, beat, wall):
    class Away:
        def series(self, metrics, range, *, node="", model=""):
            raise HistoryUnavailable("Prometheus at http://p:9090 did not answer within 3 s")

    client = create_app(registry, Away(), wall=wall).test_client()
    beat("n1")
    assert client.get("/nodes/n1").status_code == 200
    answer = client.get("/fragments/charts/n1", headers=HTMX)
    assert answer.status_code == 200
    assert "did not answer within 3 s; charts that were drawn stay as they were" in answer.text


def test_a_fault_of_ours_is_a_page_without_the_details(registry, history, caplog):
    class Broken:
        def nodes(self):
            raise RuntimeError("secret")

        def node(self, name):
            raise RuntimeError("secret")

    client = create_app(registry, history, fleet=Broken()).test_client()
    answer = client.get("/")
    assert answer.status_code == 500
    assert "secret" not in answer.text
    assert "secret" in caplog.text


def test_assets_are_kept_for_ever_under_an_address_of_their_content(client):
    link = next(link["href"] for link in Page(client.get("/").text).all("link") if "tokens" in link["href"])
    assert "immutable" in client.get(link, buffered=True).headers["Cache-Control"]
    assert client.get("/").headers["Cache-Control"] == "no-store"
