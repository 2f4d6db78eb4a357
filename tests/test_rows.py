"""What a refresh costs, counted in renderings, bytes and requests: none of it depends on the machine."""

from __future__ import annotations

import gc
import gzip
import re
from collections import Counter
from dataclasses import replace
from types import FrameType

import pytest
from flask import url_for
from jinja2.runtime import Context
from markupsafe import Markup

from tests.conftest import HTMX
from webapp.fleet.nodes import Node
from webapp.measurement import Measurement
from webapp.overview.paging import ROWS_A_PAGE
from webapp.overview.selection import Selection
from webapp.overview.trends import Trend
from webapp.views import rows as rows_module
from webapp.views.rows import AGE, Rows


def test_a_row_is_rendered_again_only_when_its_node_has_reported(app, client, registry, beat, clock, monkeypatch):
    rendered: list[str] = []

    class Counting(Rows):
        def row(self, node, render, shown=()):
            def counted(node, *more):
                rendered.append(node.name)
                return render(node, *more)

            return super().row(node, counted, shown)

    monkeypatch.setattr("webapp.views.blocks.Rows", Counting)
    for number in range(5):
        beat(f"cpu-{number}", agent=f"agent-{number}")
    first = client.get("/fragments/cluster", headers=HTMX).text
    assert len(rendered) == 5
    rendered.clear()
    clock.advance(7)
    beat("cpu-3", agent="agent-3")
    second = client.get("/fragments/cluster", headers=HTMX).text
    assert rendered == ["cpu-3"]
    rendered.clear()
    assert re.findall(r"<time [^>]*>([^<]*)</time>", first) == ["0 s"] * 5
    assert re.findall(r"<time [^>]*>([^<]*)</time>", second) == ["7 s", "7 s", "7 s", "0 s", "7 s"]
    clock.advance(16)
    assert client.get("/fragments/cluster", headers=HTMX).text.count('data-state="late"><i>') >= 4
    assert rendered == ["cpu-0", "cpu-1", "cpu-2", "cpu-4"]  # their state has changed


def test_a_row_whose_numbers_are_left_out_says_for_how_long_each_time(client, beat, clock):
    beat()
    clock.advance(61)
    assert "not heard for 61 s" in client.get("/fragments/cluster", headers=HTMX).text
    clock.advance(9)
    assert "not heard for 70 s" in client.get("/fragments/cluster", headers=HTMX).text


@pytest.mark.parametrize(
    "name", ["cpu-07", 'a"b<c>', "a//b/", "é模型 💥", "%2F%00", "a?b#c&d=e", "\\n", "a\nb", "a;b,c~(d)", "..", "a/../b"]
)
def test_a_rows_links_are_what_flask_makes_of_them(app, name):
    for address in ("/fragments/cluster", "/?embed=1&theme=dark", "/?at=2026-11-30T03:00Z"):
        with app.test_request_context(address):
            found = Rows({}, Selection(), Counter(), lambda node: Trend("", ""))
            assert found.node_href(name) == url_for("pages.node", name=name)
            wanted = url_for("pages.cluster", **Selection().with_label("rack", name).arguments)
            assert [found.label_href("rack", name) for _ in range(2)] == [wanted] * 2


def test_the_kept_rows_are_those_of_the_last_rendering(app, registry, beat):
    beat("a", agent="1")
    beat("b", agent="2")

    rendered: list[str] = []

    def render(node: Node, *more: object):
        rendered.append(node.name)
        return Markup("<tr>{} {}</tr>").format(node.name, AGE)

    with app.test_request_context("/"):
        first = Rows({}, Selection(), Counter(), lambda node: Trend("a", "b"))
        assert [first.row(node, render) for node in registry.nodes()] == ["<tr>a 0 s</tr>", "<tr>b 0 s</tr>"]
        registry.forget("b")
        second = Rows(first.kept, Selection(), Counter(a=1), lambda node: Trend("a", "b"))
        second.row(registry.nodes()[0], render)
    assert rendered == ["a", "b", "a"]  # an alert fires now
    assert list(second.kept) == ["a"]


def test_a_refresh_leaves_no_cycles_that_hold_the_fleet(client, beat):
    """Else its memory is given back only when all measurements are looked through for garbage."""
    beat()
    blocks = ("cluster", "cluster?view=map", "models", "model/llama-3.1-8b", "node/cpu-07")
    paths = (*(f"/fragments/{block}" for block in blocks), "/metrics")
    for path in paths:
        client.get(path, headers=HTMX)
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        for path in paths:
            client.get(path, headers=HTMX)
        gc.collect()
        kinds = {type(thing) for thing in gc.garbage}
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    assert not kinds & {Node, Measurement, Rows, Context, FrameType, Markup}


def test_small_fleets_are_rendered_for_each_request(client, beat):
    beat(load={"cpu_percent": 11.0})
    assert "11 %" in client.get("/fragments/cluster", headers=HTMX).text
    beat(load={"cpu_percent": 77.0})
    assert "77 %" in client.get("/fragments/cluster", headers=HTMX).text


def test_a_long_table_has_pages_and_keeps_its_groups_whole_in_number(client, beat):
    for number in range(ROWS_A_PAGE + 5):
        beat(f"n-{number:03}", agent=str(number))
    first, second = (client.get(f"/fragments/cluster?page={page}", headers=HTMX).text for page in (1, 2))
    assert first.count("<tr id=") == ROWS_A_PAGE
    assert second.count("<tr id=") == 5
    assert "page=2" in first
    assert 'rel="next"' not in second
    assert f"{ROWS_A_PAGE + 1} to {ROWS_A_PAGE + 5} of {ROWS_A_PAGE + 5}" in second
    assert client.get("/fragments/cluster?page=99", headers=HTMX).text.count("<tr id=") == 5
    assert "page=" not in client.get("/fragments/cluster?page=2&sort=cpu", headers=HTMX).text.partition("</thead>")[0]


def test_rows_of_groups_are_cut_at_the_page():
    nodes = list(range(ROWS_A_PAGE + 20))
    groups = [("a", nodes[:150]), ("b", nodes[150:])]
    part, shown = Selection(page=2).rows(groups)  # type: ignore[arg-type]
    assert part == (2, 2, ROWS_A_PAGE + 1, ROWS_A_PAGE + 20, ROWS_A_PAGE + 20)
    assert shown == [("b", nodes[ROWS_A_PAGE:])]
    assert replace(Selection(), page=3).sorted_by("cpu").page == 1


# Bytes


def test_what_a_viewer_has_is_not_sent_again(client, beat):
    beat()
    first = client.get("/fragments/cluster", headers=HTMX)
    again = client.get("/fragments/cluster", headers=HTMX | {"If-None-Match": first.headers["ETag"]})
    assert (again.status_code, again.data) == (304, b"")
    assert again.headers["X-Enginehouse-Fragment"] == "1"
    beat(load={"cpu_percent": 1.0})
    assert client.get("/fragments/cluster", headers=HTMX | {"If-None-Match": first.headers["ETag"]}).status_code == 200


@pytest.mark.parametrize("path", ["/fragments/node/cpu-07", "/fragments/charts/cpu-07", "/fragments/models"])
def test_every_block_has_a_tag(client, beat, path):
    beat()
    first = client.get(path, headers=HTMX)
    assert client.get(path, headers=HTMX | {"If-None-Match": first.headers["ETag"]}).status_code == 304


@pytest.mark.parametrize("path", ["/", "/fragments/cluster", "/metrics", "/fragments/node/cpu-07"])
@pytest.mark.parametrize(("accepts", "packed"), [("gzip", True), ("br, gzip;q=0.5", True), ("", False), ("gzip;q=0", False)])
def test_text_is_packed_for_whoever_takes_it_so(client, beat, path, accepts, packed):
    beat()
    answer = client.get(path, headers=HTMX | {"Accept-Encoding": accepts})
    assert "Accept-Encoding" in answer.headers["Vary"]
    assert answer.headers.get("Content-Encoding") == ("gzip" if packed else None)
    text = gzip.decompress(answer.data) if packed else answer.data
    assert b"cpu-07" in text
    assert int(answer.headers["Content-Length"]) == len(answer.data)


def test_the_first_load_of_the_nodes_page_is_small_and_without_plotly(client, beat):
    beat()
    page = client.get("/").text
    addresses = re.findall(r'(?:href|src)="(/static/[^"]+)"', page)
    loaded = {address: client.get(address, headers={"Accept-Encoding": "gzip"}) for address in addresses}
    assert all(answer.headers["Content-Encoding"] == "gzip" for answer in loaded.values())
    assert all("immutable" in answer.headers["Cache-Control"] for answer in loaded.values())
    assert sum(len(answer.data) for answer in loaded.values()) < 60_000
    assert len(addresses) <= 16
    assert not any("plotly" in address for address in addresses)


def test_only_assets_that_pages_name_are_packed(client, beat):
    beat()
    client.get("/")
    for address in ("/static/vendor/README.md?v=1", "/static/js/refresh.js?v=wrong", "/static/js/refresh.js"):
        with client.get(address, headers={"Accept-Encoding": "gzip"}) as answer:
            assert (answer.status_code, answer.headers.get("Content-Encoding")) == (200, None)


def test_no_text_can_stand_for_the_age():
    assert rows_module.AGE == "\x00"


def test_a_table_without_ages_has_none_beside_its_rows(client, beat, clock):
    """It stood above the table: what no cell holds, a browser moves out of it."""
    beat("n1")
    clock.advance(3)
    for _ in range(2):
        shown = client.get("/fragments/cluster?columns=state,cpu", headers=HTMX).text
        assert re.search(r"</tr>\s*</tbody>", shown)
        assert "3 s" not in shown


def test_a_cell_of_the_map_is_one_element_that_names_its_node(client, beat, clock):
    beat('old "node"', agent="agent-old")
    clock.advance(70)
    beat("cpu-07")
    cells = re.findall(r"<a [^>]*data-st[^>]*>[^<]*</a>", client.get("/fragments/cluster?view=map", headers=HTMX).text)
    assert cells == [
        '<a href="/nodes/cpu-07" data-step="2" title="cpu-07: CPU 43 %">cpu-07</a>',
        (
            '<a href="/nodes/old%20%22node%22" data-state="stale" title="old &#34;node&#34;: not heard for 70 s; '
            'numbers left out">old &#34;node&#34;</a>'
        ),
    ]


def test_cells_of_a_large_map_tell_their_names_in_their_titles(client, beat):
    for number in range(151):
        beat(f"cpu-{number:03}", agent=f"agent-{number}")
    page = client.get("/fragments/cluster?view=map", headers=HTMX).text
    assert '<a href="/nodes/cpu-150" data-step="2" title="cpu-150: CPU 43 %"></a>' in page
