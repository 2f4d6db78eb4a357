"""A refresh of charts sends what is new of them, and the browser ends up with what a fresh page gets."""

from __future__ import annotations

import gzip
import html
import json
import re
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from playwright.sync_api import expect

from tests.browser import Watched, refresh, served
from tests.conftest import HTMX, Clock
from tests.strategies import values
from webapp import demo
from webapp.app import create_app
from webapp.charts.changes import applied, change
from webapp.fleet.registry import Reading
from webapp.history.embedded import EmbeddedHistory
from webapp.storage.store import Store

#: Nodes of the made-up fleet: with GPUs, and without.
NODES = (4, 2)

CHANGES = {"A-IM": "figure-changes"}


@pytest.fixture
def store(wall: Clock) -> Iterator[Store]:
    """An hour of two of the demo's nodes, and some minutes more."""
    store = Store(None, clock=wall, commit_every=None)
    store.fill((demo.node(number, at), at) for at in (wall() - 3700 + 10 * beat for beat in range(460)) for number in NODES)
    yield store
    store.close()


@pytest.fixture
def site(registry, store, wall):
    for number in NODES:
        registry.accept(Reading(demo.node(number, wall()), ()))
    return create_app(registry, EmbeddedHistory(store, clock=wall), wall=wall)


def address(number: int) -> str:
    return f"/fragments/charts/{demo.name_of(number)}"


def figures(text: str) -> list[dict]:
    return [json.loads(html.unescape(attribute)) for attribute in re.findall(r"figure='([^']*)'", text)]


@pytest.mark.parametrize("number", NODES)
def test_a_refresh_with_one_new_point_sends_less_than_five_kilobytes(site, wall, number):
    client = site.test_client()
    whole = client.get(address(number), headers=HTMX)
    assert whole.status_code == 200
    shown = figures(whole.text)
    assert len(shown) >= 13
    tag = whole.headers["ETag"]
    for _ in range(4):
        wall.advance(15)
        answer = client.get(address(number), headers=HTMX | CHANGES | {"If-None-Match": tag, "Accept-Encoding": "gzip"})
        assert (answer.status_code, answer.headers["IM"]) == (226, "figure-changes")
        assert len(answer.data) < 5_000
        sent = figures(gzip.decompress(answer.data).decode())
        assert [one["from"] for one in sent] == [one["version"] for one in shown]
        shown = [applied(before, one["change"]) for before, one in zip(shown, sent)]
        anew = client.get(address(number), headers=HTMX)
        assert shown == figures(anew.text)
        tag = answer.headers["ETag"]
        assert tag == anew.headers["ETag"]


def test_what_did_not_change_is_not_sent_and_what_is_not_known_is_sent_whole(site, wall):
    client = site.test_client()
    tag = client.get(address(4), headers=HTMX).headers["ETag"]
    assert client.get(address(4), headers=HTMX | CHANGES | {"If-None-Match": tag}).status_code == 304
    wall.advance(15)
    assert client.get(address(4), headers=HTMX | {"If-None-Match": tag}).status_code == 200  # it takes no changes
    unknown = client.get(address(4), headers=HTMX | CHANGES | {"If-None-Match": 'W/"another"'})
    assert unknown.status_code == 200
    assert all("data" in figure for figure in figures(unknown.text))


def test_what_was_sent_is_forgotten_in_the_end(site, wall, monkeypatch):
    monkeypatch.setattr("webapp.views.figures.MOST", 2)
    client = site.test_client()
    tags = []
    for _ in range(3):
        tags.append(client.get(address(4), headers=HTMX).headers["ETag"])
        wall.advance(15)
    codes = [client.get(address(4), headers=HTMX | CHANGES | {"If-None-Match": tag}).status_code for tag in (tags[0], tags[2])]
    assert codes == [200, 226]


@pytest.mark.browser
def test_after_changes_a_page_shows_what_a_fresh_one_shows(page, browser, site, wall):
    drawn = "[...document.querySelectorAll('plotly-figure')].map(figure => figure.whole)"
    canvas = "document.querySelector('#figure-cpu').canvas.data[0].y"
    with served(site) as url:
        watched = Watched(page, url)
        statuses: list[int] = []
        page.on("response", lambda answer: "/fragments/charts/" in answer.url and statuses.append(answer.status))
        page.goto(f"{url}/nodes/{demo.name_of(4)}")
        expect(page.locator("#figure-cpu .main-svg").first).to_be_visible()
        for _ in range(3):
            wall.advance(30)
            refresh(page, "#charts")
        assert statuses == [200, 226, 226, 226]
        fresh = browser.new_page()
        fresh.goto(f"{url}/nodes/{demo.name_of(4)}")
        expect(fresh.locator("#figure-cpu .main-svg").first).to_be_visible()
        assert page.evaluate(drawn) == fresh.evaluate(drawn)
        assert page.evaluate(canvas) == fresh.evaluate(canvas)
        fresh.close()
        # A page that lost what it was sent is sent all of it.
        page.evaluate("document.querySelector('#figure-cpu').whole = null")
        wall.advance(15)
        with page.expect_response(lambda answer: "/fragments/charts/" in answer.url and answer.status == 200):
            refresh(page, "#charts")
        page.wait_for_function("document.querySelector('#figure-cpu').whole !== null")
        watched.assert_calm()


@pytest.mark.browser
def test_the_browser_applies_changes_as_the_server_means_them(page, site):
    """The figures of this test hold any JSON; nothing is drawn."""
    with served(site) as url:
        page.goto(f"{url}/nodes/{demo.name_of(2)}")
        expect(page.locator("#figure-cpu .main-svg").first).to_be_visible()
        page.evaluate("window.figure = document.createElement('plotly-figure')")

        @settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
        @given(values, values)
        def holds(before, after):
            sent = [{"version": "a", "data": before}, {"from": "a", "change": change({"data": before}, {"data": after})}]
            page.evaluate("sent => sent.forEach(one => figure.setAttribute('figure', JSON.stringify(one)))", sent)
            assert page.evaluate("figure.whole.data") == after

        holds()
