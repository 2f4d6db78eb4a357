"""Long lists, a page at a time: all that is wrong, all that changed in the last hour, engines of a model, instances."""

from __future__ import annotations

import re
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.answers import Page
from tests.conftest import HTMX
from webapp.app import create_app
from webapp.fleet.instances import Instances
from webapp.measurement import Engine, Measurement
from webapp.overview.events import Events
from webapp.overview.paging import ROWS_A_PAGE

CONCERN = re.compile(r'<li data-level="[a-z]+"><a href="[^"]+">([^<]+)</a> ([^<]+)</li>')


def concerns(html):
    return CONCERN.findall(html)


def link_called(html, pattern):
    found = re.search(f'<a href="([^"]+)"[^>]*>{pattern}</a>', html)
    return found.group(1).replace("&amp;", "&") if found else None


@pytest.fixture
def busy(beat):
    """So many nodes, each with a full CPU; every tenth is only nearly full."""

    def beat_all(count: int) -> None:
        for number in range(count):
            beat(f"n{number}", agent=str(number), load={"cpu_percent": 90.0 if number % 10 == 0 else 99.0})

    return beat_all


def test_the_rest_of_the_concerns_is_a_link_away_page_after_page(client, busy):
    busy(1000)
    page = client.get("/").text
    assert len(concerns(page)) == 8
    address = link_called(page, "and 992 more")
    found = []
    while address:
        html = client.get(address).text
        found += concerns(html)
        address = link_called(html, "next")
    assert [node for node, _ in found] == sorted(
        (f"n{number}" for number in range(1000)), key=lambda name: (int(name[1:]) % 10 == 0, int(name[1:]))
    )
    assert "1,000 concerns" in html


@pytest.mark.parametrize("count", [1000, pytest.param(10_000, marks=pytest.mark.slow)])
def test_a_list_of_concerns_refreshes_in_few_bytes_however_many_there_are(client, busy, count):
    busy(count)
    for path in ("/fragments/cluster", "/fragments/cluster?view=concerns"):
        answer = client.get(path, headers={**HTMX, "Accept-Encoding": "gzip"})
        assert answer.headers["Content-Encoding"] == "gzip"
        assert len(answer.data) < 60_000


def test_concerns_are_those_of_the_nodes_that_are_selected(client, busy):
    busy(20)
    html = client.get("/?view=concerns&q=n1").text
    assert len(concerns(html)) == 11
    assert "11 concerns of the nodes that are selected" in html
    assert "1 concern of the nodes that are selected" in client.get("/?view=concerns&q=n10").text


def test_a_calm_fleet_says_so(client, beat):
    beat()
    assert "Every node is heard, none is full, and no engine is in trouble." in client.get("/?view=concerns").text


def test_a_view_stands_in_the_address_and_its_form(client, beat):
    beat()
    for view in ("table", "map", "concerns", "changes", "nonsense"):
        html = client.get(f"/?view={view}").text
        chosen = [tag["value"] for tag in Page(html).all("input") if tag.get("name") == "view" and "checked" in tag]
        assert chosen == ["table" if view == "nonsense" else view]


def changed(registry, history, wall, count):
    """A client whose fleet had so many changes in the last hour."""
    events = Events(wall)
    for number in range(count):
        engine = Engine(id=f"e{number}", model="m")
        events.know(Measurement(f"n{number}"))
        events.add(Measurement(f"n{number}", engines=(engine,)), wall() - 10 - number)
    return create_app(registry, history, events=events, wall=wall).test_client()


def test_the_earlier_changes_are_a_link_away(registry, history, wall, beat):
    beat("n1")
    client = changed(registry, history, wall, 300)
    page = client.get("/").text
    address = link_called(page, "and 288 earlier")
    assert parse_qs(urlsplit(address).query) == {"view": ["changes"]}
    first = client.get(address).text
    second = client.get(link_called(first, "next")).text
    assert "300 changes in the last hour" in first
    assert [len(re.findall('<li data-kind="started">', html)) for html in (first, second)] == [200, 100]
    assert "1 change of the nodes that are selected" in client.get("/?view=changes&q=n1").text


def test_changes_say_since_when_they_are_noticed_until_that_is_an_hour(registry, history, wall, beat):
    client = changed(registry, history, wall, 0)
    beat()
    assert "Changes are noticed since 2026-" in client.get("/?view=changes").text
    assert "no engine started or stopped" in client.get("/?view=changes").text
    wall.advance(3600)
    assert "Changes are noticed since" not in client.get("/?view=changes").text


def test_the_engines_of_a_model_have_pages_that_keep_the_charts(client, beat):
    for number in range(ROWS_A_PAGE + 5):
        beat(f"n-{number:03}", agent=str(number), engines=(Engine(id="e", model="m"),))
    page = client.get("/models/m?range=6h&by=node").text
    assert page.count("<tr id=") == ROWS_A_PAGE
    (further,) = [one["href"] for one in Page(page).all("a") if one.get("rel") == "next"]
    assert further == "/models/m?page=2&range=6h&by=node"
    last = client.get(further).text
    assert last.count("<tr id=") == 5
    assert f"{ROWS_A_PAGE + 5} engines" in last
    (block,) = [one["hx-get"] for one in Page(last).all("section") if one.get("id") == "model"]
    assert client.get(block, headers=HTMX).text.count("<tr id=") == 5


def test_instances_have_pages_and_are_counted_in_full(registry, clock, wall):
    client = create_app(registry, object(), instances=Instances(30.0, clock=clock, wall=wall), wall=wall).test_client()
    for number in range(ROWS_A_PAGE + 5):
        answer = client.post("/v1/instance/register", json={"host": "10.0.0.9", "port": 8000 + number})
        assert answer.status_code == 200
    first, last = client.get("/instances").text, client.get("/instances?page=2").text
    assert [text.count("<tr data-state=") for text in (first, last)] == [ROWS_A_PAGE, 5]
    assert f"{ROWS_A_PAGE + 5} of {ROWS_A_PAGE + 5} instances alive" in first
    (block,) = [one["hx-get"] for one in Page(last).all("section") if one.get("id") == "instances"]
    assert client.get(block, headers=HTMX).text.count("<tr data-state=") == 5


def test_where_there_is_room_has_pages_that_keep_the_question(client, beat):
    for number in range(ROWS_A_PAGE + 5):
        beat(f"n-{number:03}", agent=str(number))
    first = client.get("/placement?memory_gib=1&cores=1&endpoint=x&_external=1&_anchor=y").text
    (further,) = [one["href"] for one in Page(first).all("a") if one.get("rel") == "next"]
    assert further == "/placement?page=2&memory_gib=1&cores=1"
    last = client.get(further).text
    assert [text.count("<tr data-fits=") for text in (first, last)] == [ROWS_A_PAGE, 5]
    assert all(f"of {ROWS_A_PAGE + 5} nodes have room" in text for text in (first, last))


def test_what_is_said_of_a_long_list_on_hostile_addresses_is_its_nearest_page(client, beat):
    beat("n1")
    for page in ("0", "-1", "99999", "999999999", "x", "%00", "²"):
        for path in ("/", "/placement?memory_gib=1", "/instances", "/models/llama-3.1-8b"):
            answer = client.get(f"{path}{'&' if '?' in path else '?'}page={page}")
            assert answer.status_code == 200
            assert 'class="pages"' not in answer.text
