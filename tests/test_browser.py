"""What a reader of the pages sees and keeps, in a real Chromium with the strict content security policy."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from flask import Flask
from playwright.sync_api import expect

from tests.browser import Watched, refresh, served
from tests.conftest import GIB
from webapp.app import create_app
from webapp.embedding import link
from webapp.history import HistoryUnavailable
from webapp.history.embedded import EmbeddedHistory
from webapp.measurement import Engine, Host
from webapp.overview.events import Events
from webapp.storage.store import Store
from webapp.views.callers import Access

pytestmark = pytest.mark.browser


@pytest.fixture
def url(registry, store, wall) -> Iterator[str]:
    with served(create_app(registry, EmbeddedHistory(store, clock=wall), wall=wall)) as url:
        yield url


def fill_hour(store: Store, registry, wall, name: str = "cpu-07", *, but: range = range(0)) -> None:
    """An hour of samples of a node, each 10 s, without those of the seconds in `but`."""
    known = registry.node(name).measurement
    store.fill((known, wall() - 3600 + second) for second in range(-30, 3600, 10) if second not in but)


def test_the_table_is_whole_before_any_script_and_refreshes_in_place(page, url, registry, beat):
    watched = Watched(page, url)
    beat("cpu-07")
    page.goto(url)
    row = page.locator("#node-cpu-07")
    expect(row.locator(".col-cpu")).to_contain_text("43 % of 64")
    row.evaluate("row => { row.kept = true }")
    beat("cpu-07", load={"cpu_percent": 96.5})
    beat("cpu-08", agent="b")
    refresh(page, "#cluster")
    expect(row.locator(".col-cpu")).to_contain_text("96 % of 64")
    expect(row.locator(".col-cpu .bar")).to_have_attribute("data-level", "critical")
    expect(page.locator("#node-cpu-08")).to_be_visible()
    assert row.evaluate("row => row.kept") is True
    watched.assert_calm()


def test_what_the_reader_does_survives_a_hundred_refreshes(page, url, beat):
    """T125"""
    for number in range(60):
        beat(f"cpu-{number:02d}", agent=str(number))
    page.goto(url)
    search = page.get_by_role("searchbox")
    search.fill("cpu")
    search.evaluate("input => input.setSelectionRange(1, 2)")
    page.wait_for_url("**/?q=cpu")
    page.locator("#cluster .scroll").evaluate("element => { element.scrollTop = 700 }")
    for number in range(100):
        beat("cpu-50", agent="50", load={"cpu_percent": float(number)})
        refresh(page, "#cluster")
    expect(page.locator("#node-cpu-50 .col-cpu")).to_contain_text("99 % of 64")
    assert search.evaluate(
        "input => [document.activeElement === input, input.value, input.selectionStart, input.selectionEnd]"
    ) == [True, "cpu", 1, 2]
    assert page.locator("#cluster .scroll").evaluate("element => element.scrollTop") == 700


def test_filter_order_and_state_stand_in_the_address_and_come_back_from_it(page, url, beat):
    for number, percent in enumerate((30.0, 90.0, 60.0)):
        beat(f"n{number}", agent=str(number), load={"cpu_percent": percent}, host=Host(labels={"rack": f"b{number % 2}"}))
    page.goto(url)
    page.get_by_role("link", name="CPU", exact=True).click()
    page.wait_for_url("**/?sort=cpu&order=desc")
    rows = page.locator(".nodes tbody tr .col-name > a:first-child")
    expect(rows).to_have_text(["n1", "n2", "n0"])
    page.get_by_role("searchbox").fill("b0")
    expect(rows).to_have_text(["n2", "n0"])
    page.locator(".toggles label", has_text="fresh").click()
    page.wait_for_function("location.search.includes('state=fresh')")
    page.reload()
    expect(rows).to_have_text(["n2", "n0"])
    expect(page.get_by_role("searchbox")).to_have_value("b0")
    expect(page.locator("input[name=state]:checked")).to_have_count(1)


def test_charts_are_drawn_a_silence_is_a_gap_and_a_zoom_survives_refreshes(page, url, registry, store, wall, beat):
    """T113, T115"""
    watched = Watched(page, url)
    beat("cpu-07")
    fill_hour(store, registry, wall, but=range(1200, 1800))
    page.goto(f"{url}/nodes/cpu-07")
    figure = page.locator("#figure-cpu")
    expect(figure.locator(".scatterlayer .trace").first).to_be_attached()
    values = figure.evaluate("figure => figure.canvas.data[0].y")
    silent = [index for index, value in enumerate(values) if value is None]
    assert 35 <= len(silent) <= 45
    assert silent == list(range(silent[0], silent[-1] + 1))
    assert page.locator("plotly-figure .main-svg").count() >= 6
    wanted = figure.evaluate("figure => { const [a, b] = figure.canvas.layout.xaxis.range; return [a, b]; }")
    figure.scroll_into_view_if_needed()
    box = figure.locator(".nsewdrag").bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.3, box["y"] + 40)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + 40, steps=5)
    page.mouse.up()
    page.wait_for_timeout(300)
    zoomed = figure.evaluate("figure => figure.canvas.layout.xaxis.range")
    assert zoomed != wanted
    for _ in range(3):
        wall.advance(15)
        refresh(page, "#charts")
    assert figure.evaluate("figure => figure.canvas.layout.xaxis.range") == zoomed
    assert page.locator("#figure-memory").evaluate("figure => figure.canvas.layout.xaxis.range") == zoomed
    watched.assert_calm()


def test_times_are_utc_unless_the_reader_wants_local_ones(browser, url, registry, store, wall, beat):
    beat("cpu-07")
    fill_hour(store, registry, wall)
    context = browser.new_context(timezone_id="Asia/Kolkata", viewport={"width": 1440, "height": 900})
    page = context.new_page()
    page.goto(f"{url}/nodes/cpu-07")
    expect(page.locator("#figure-cpu .main-svg").first).to_be_visible()
    starts = "figure => figure.canvas.layout.xaxis.range[0]"
    utc = page.locator("#figure-cpu").evaluate(starts)
    page.get_by_label("times in").select_option("local")
    local = page.locator("#figure-cpu").evaluate(starts)
    shift = datetime.fromisoformat(local) - datetime.fromisoformat(utc.removesuffix("Z"))
    assert shift == timedelta(hours=5, minutes=30)
    refresh(page, "#charts")
    assert page.locator("#figure-cpu").evaluate(starts) == local
    context.close()


def test_in_the_night_in_which_clocks_are_set_back_local_times_stay_in_line(browser, url, registry, store, wall, beat):
    """What lies before that is measured by the clock of after it, which the choice names; grey bands move along."""
    wall.advance(datetime(2026, 10, 25, 1, 30, tzinfo=UTC).timestamp() + 0.4 - wall())
    beat("cpu-07")
    store.fill((registry.node("cpu-07").measurement, wall() - 1800 + second) for second in range(0, 1800, 10))
    context = browser.new_context(timezone_id="Europe/Berlin", viewport={"width": 1440, "height": 900})
    page = context.new_page()
    page.goto(f"{url}/nodes/cpu-07")
    expect(page.locator("#figure-cpu .main-svg").first).to_be_visible()
    times = """figure => {
        const { xaxis, shapes } = figure.canvas.layout;
        const band = shapes.find((shape) => shape.type === "rect");
        const times = [...xaxis.range, figure.canvas.data[0].x0, band.x0, band.x1];
        return times.map((time) => Date.parse(time.replace("Z", "") + "Z"));
    }"""
    utc = page.locator("#figure-cpu").evaluate(times)
    page.get_by_label("times in").select_option("local")
    shifts = [local - before for local, before in zip(page.locator("#figure-cpu").evaluate(times), utc)]
    assert shifts == [3_600_000] * 5
    expect(page.get_by_label("times in").locator("[value=local]")).to_have_text("local time, UTC+1")
    context.close()


def test_a_name_that_turns_the_writing_around_turns_no_number(page, registry, history, wall, beat):
    events = Events(time.time)
    with served(create_app(registry, history, events=events, wall=wall)) as url:
        beat("\u202eabc")
        events.add(registry.node("\u202eabc").measurement, time.time() - 30)
        page.goto(url)
        places = """time => [0, 1].map((digit) => {
            const range = document.createRange();
            range.setStart(time.firstChild, digit);
            range.setEnd(time.firstChild, digit + 1);
            return range.getBoundingClientRect().left;
        })"""
        reported = page.locator("#events summary time")
        expect(reported).to_have_text(re.compile("[0-9]{2} s ago"))
        one, two = reported.evaluate(places)
        assert one < two


def test_a_node_and_a_model_called_dot_dot_have_their_pages(page, url, beat):
    """A browser would go up the path, at "%2e%2e" too."""
    watched = Watched(page, url)
    beat("..", engines=(Engine(id="e", model="."),))
    page.goto(url)
    page.locator("td.col-engines a").click()
    expect(page.locator("h1")).to_have_text(".")
    page.locator(".placed tbody th a").click()
    expect(page.locator("h1")).to_have_text("..")
    refresh(page, "#node")
    expect(page.locator("#charts .chart").first).to_be_visible()
    watched.assert_calm()


def test_what_the_first_concerns_leave_out_is_a_click_away_and_refreshes(page, url, beat):
    watched = Watched(page, url)
    for number in range(12):
        beat(f"n{number}", agent=str(number), load={"cpu_percent": 99.0})
    page.goto(url)
    expect(page.locator(".concerns li")).to_have_count(9)
    page.get_by_role("link", name="and 4 more").click()
    expect(page.locator(".concerns li")).to_have_count(12)
    beat("n3", agent="3", load={"cpu_percent": 9.0})
    refresh(page, "#cluster")
    expect(page.locator(".list h2")).to_contain_text("11 concerns")
    page.get_by_role("searchbox").fill("n11")
    expect(page.locator(".concerns li")).to_have_count(1)
    page.locator(".views label", has_text="Table").click()
    expect(page.locator(".nodes tbody tr")).to_have_count(1)
    watched.assert_calm()


def test_changes_that_were_opened_stay_open_and_lead_to_all_of_them(page, registry, history, wall, beat):
    beat()
    events = Events(wall)
    for number in range(20):
        events.add(replace(registry.node("cpu-07").measurement, node=f"n{number}"), wall() - number)
    with served(create_app(registry, history, events=events, wall=wall)) as url:
        page.goto(url)
        page.locator("#events summary").click()
        beat(load={"cpu_percent": 77.0})
        events.add(replace(registry.node("cpu-07").measurement, node="n20"), wall())
        refresh(page, "#cluster")
        expect(page.locator("#events summary")).to_contain_text("21 changes")
        expect(page.locator("#events li")).to_have_count(13)
        page.get_by_role("link", name="and 9 earlier").click()
        expect(page.locator(".list li")).to_have_count(21)


def test_a_chart_that_was_hidden_takes_its_containers_size_when_it_is_shown(page, url, registry, store, wall, beat):
    """T116"""
    beat("cpu-07")
    fill_hour(store, registry, wall)
    page.add_init_script(
        "addEventListener('DOMContentLoaded', () => { document.querySelector('.history').style.display = 'none'; })"
    )
    page.goto(f"{url}/nodes/cpu-07")
    page.wait_for_selector("#figure-cpu", state="attached")
    page.evaluate("document.querySelector('.history').style.display = ''")
    expect(page.locator("#figure-cpu .main-svg").first).to_be_visible()
    widths = page.locator("#figure-cpu").evaluate("figure => [figure.clientWidth, figure.querySelector('.main-svg').clientWidth]")
    assert widths[0] == widths[1] > 200


def test_a_block_that_could_not_be_refreshed_says_so_keeps_its_rows_and_recovers(page, url, beat):
    """T128"""
    beat("cpu-07")
    page.goto(url)
    page.locator("#cluster").evaluate("block => { block.dataset.block = 0.2 }")
    page.route("**/fragments/**", lambda route: route.fulfill(status=502, content_type="text/html", body="<h1>Bad Gateway</h1>"))
    page.evaluate("htmx.trigger('#cluster', 'refresh')")
    expect(page.locator("#cluster")).to_have_attribute("data-unrefreshed", "not refreshed for 3 s", timeout=8000)
    expect(page.locator("#node-cpu-07")).to_contain_text("43 % of 64")
    expect(page.locator("body")).not_to_contain_text("Bad Gateway")
    page.unroute("**/fragments/**")
    refresh(page, "#cluster")
    expect(page.locator("#cluster")).not_to_have_attribute("data-unrefreshed", "not refreshed for 3 s")


def test_a_login_page_never_lands_in_the_table(page, url, beat):
    """T127"""
    beat("cpu-07")
    page.goto(url)
    page.locator("#cluster").evaluate("block => { block.dataset.block = 0.2 }")
    page.route(
        "**/fragments/**",
        lambda route: route.fulfill(status=200, content_type="text/html", body="<form><input type=password></form>"),
    )
    page.evaluate("htmx.trigger('#cluster', 'refresh')")
    expect(page.locator("#cluster")).to_have_attribute("data-unrefreshed", "not refreshed for 3 s", timeout=8000)
    expect(page.locator("input[type=password]")).to_have_count(0)
    expect(page.locator("#node-cpu-07")).to_be_visible()


def test_a_session_that_ends_is_reported_and_the_last_rows_stay(page, registry, history, tokens, wall, beat):
    """T127"""
    beat("cpu-07")
    access = Access(viewers=tokens("viewers", "viewer-token-0001"), wall=wall)
    with served(create_app(registry, history, wall=wall, access=access)) as url:
        page.goto(f"{url}/?sort=cpu")
        page.get_by_label("Token").fill("viewer-token-0001")
        page.get_by_role("button", name="Sign in").click()
        page.wait_for_url(f"{url}/?sort=cpu")
        refresh(page, "#cluster")
        wall.advance(13 * 3600)
        page.evaluate("htmx.trigger('#cluster', 'refresh')")
        expect(page.locator("#cluster")).to_have_attribute(
            "data-unrefreshed", re.compile("^signed out: reload the page to sign in")
        )
        expect(page.locator("#node-cpu-07")).to_contain_text("43 % of 64")
        expect(page.locator("input[type=password]")).to_have_count(0)
        page.reload()
        expect(page.get_by_label("Token")).to_be_visible()


def test_an_embed_link_works_in_a_frame_of_another_site_without_cookies(browser, registry, store, wall, tokens, beat):
    """T131"""
    beat("cpu-07")
    fill_hour(store, registry, wall)
    access = Access(viewers=tokens("viewers", "viewer-token-0001"), wall=wall)
    portal = Flask("portal")
    with served(portal) as outside:
        outside = outside.replace("127.0.0.1", "localhost")
        app = create_app(registry, EmbeddedHistory(store, clock=wall), wall=wall, access=access, frame_ancestors=(outside,))
        with served(app) as url:
            address = url + link(access.links, "/nodes/cpu-07", 3600)
            portal.add_url_rule(
                "/",
                view_func=lambda: f'<link rel="icon" href="data:,"><iframe src="{address}" width="1000" height="900"></iframe>',
            )
            context = browser.new_context()
            page = context.new_page()
            watched = Watched(page, "http")
            page.goto(outside)
            frame = page.frame_locator("iframe")
            expect(frame.locator("h1")).to_have_text("cpu-07")
            expect(frame.locator("#figure-cpu .main-svg").first).to_be_attached()
            inner = page.frames[1]
            beat("cpu-07", load={"cpu_percent": 77.0})
            inner.evaluate("htmx.trigger('#node', 'refresh')")
            expect(frame.locator("#node .tile").first).to_contain_text("77")
            assert context.cookies() == []
            watched.assert_calm()
            context.close()


def test_a_hidden_tab_asks_for_nothing_and_at_once_when_it_is_shown_again(page, url, beat):
    beat("cpu-07")
    watched = Watched(page, url)
    page.goto(url)
    page.evaluate("Object.defineProperty(document, 'hidden', { get: () => window.away, configurable: true })")
    page.evaluate("window.away = true; document.dispatchEvent(new Event('visibilitychange'))")
    before = len(watched.requests)
    for _ in range(5):
        page.evaluate("htmx.trigger('#cluster', 'every')")
        page.evaluate("htmx.trigger('#cluster', 'refresh')")
    page.wait_for_timeout(300)
    assert len(watched.requests) == before
    with page.expect_request("**/fragments/cluster*"):
        page.evaluate("window.away = false; document.dispatchEvent(new Event('visibilitychange'))")


def test_a_laptop_that_slept_asks_at_once_and_tells_the_age(page, url, beat):
    beat("cpu-07")
    page.clock.install()
    page.goto(url)
    page.clock.run_for(2000)
    page.route("**/fragments/**", lambda route: route.abort())
    slept = "const real = Date.now; Date.now = () => real.call(Date) + 300000"  # the browser's own clock stood still
    page.evaluate(slept)
    with page.expect_request("**/fragments/cluster*"):
        page.clock.run_for(1000)
    page.clock.run_for(1000)
    expect(page.locator("#cluster")).to_have_attribute("data-unrefreshed", re.compile("not refreshed for 5 min"))


def test_one_timer_polls_however_often_the_block_was_swapped(page, url, beat):
    """T122: a burst of refreshes adds no timer"""
    beat("cpu-07")
    watched = Watched(page, url)
    page.goto(url)
    for _ in range(20):
        refresh(page, "#cluster")
    before, started = len(watched.requests), time.monotonic()
    page.wait_for_timeout(11_000)
    polls = len(watched.requests) - before
    assert polls == pytest.approx((time.monotonic() - started) / 5, abs=1.01)


def test_a_slow_answer_is_waited_for_and_never_doubled(page, url, beat):
    """T124"""
    beat("cpu-07")
    page.goto(url)
    held = []
    page.route("**/fragments/**", lambda route: held.append(route))
    for _ in range(6):
        page.evaluate("htmx.trigger('#cluster', 'refresh')")
    page.wait_for_timeout(300)
    assert len(held) == 1
    held[0].continue_()
    page.wait_for_timeout(300)
    assert len(held) == 2
    held[1].continue_()


@pytest.mark.parametrize(
    "name",
    [
        "<img src=x onerror=alert(1)>",
        '"><svg onload=alert(1)>',
        "</script><script>alert(1)</script>",
        "<!--<script>",
        "javascript:alert(1)",
    ],
)
def test_hostile_text_runs_nothing_and_calls_no_one(page, url, registry, store, wall, beat, name):
    """T118, T134"""
    watched = Watched(page, url)
    engine = Engine(id=name, model=name, kind=name[:60], cpu_cores=1.0, memory_bytes=GIB)
    beat(name, host=Host(labels={name: name}, cpu_model=name), engines=(engine,))
    fill_hour(store, registry, wall, name)
    page.goto(url)
    refresh(page, "#cluster")
    page.locator(".nodes tbody a").first.click()
    expect(page.locator("h1")).to_have_text(name)
    expect(page.locator("#figure-engine_cpu .main-svg").first).to_be_visible()
    page.locator("#figure-engine_cpu").scroll_into_view_if_needed()
    box = page.locator("#figure-engine_cpu .nsewdrag").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    expect(page.locator("#figure-engine_cpu .hoverlayer .legend")).to_be_attached()
    expect(page.locator("#figure-engine_memory .hoverlayer .legend")).to_be_attached()
    refresh(page, "#node")
    watched.assert_calm()


def test_prometheus_being_away_holds_nothing_up_and_the_last_drawing_stays(page, registry, store, wall, beat):
    class Flaky:
        away = False

        def series(self, metrics, range, *, node="", model=""):
            if self.away:
                raise HistoryUnavailable("Prometheus at http://p:9090 did not answer within 3 s")
            return EmbeddedHistory(store, clock=wall).series(metrics, range, node=node, model=model)

    history = Flaky()
    beat("cpu-07")
    fill_hour(store, registry, wall)
    with served(create_app(registry, history, wall=wall)) as url:
        page.goto(f"{url}/nodes/cpu-07")
        expect(page.locator("#figure-cpu .main-svg").first).to_be_visible()
        history.away = True
        refresh(page, "#charts")
        expect(page.locator("#charts .problem")).to_contain_text("did not answer within 3 s")
        expect(page.locator("#figure-cpu")).to_have_attribute("data-old", "")
        expect(page.locator("#figure-cpu .main-svg").first).to_be_visible()
        assert _said_instead(page) == "none"
        page.reload()
        expect(page.locator("#charts .problem")).to_contain_text("did not answer within 3 s")
        assert _said_instead(page) == '"No answer yet that could be drawn."'
        history.away = False
        refresh(page, "#charts")
        expect(page.locator("#figure-cpu")).not_to_have_attribute("data-old", "")
        assert _said_instead(page) == "none"


def _said_instead(page) -> str:
    """What the place of a chart says where none was drawn."""
    return page.locator("#figure-cpu").evaluate("figure => getComputedStyle(figure.firstElementChild, '::before').content")


@pytest.mark.parametrize("width", [390, 768, 1440])
@pytest.mark.parametrize("path", ["/", "/nodes/cpu-07", "/add", "/nothing"])
def test_no_page_is_wider_than_its_window(browser, url, beat, width, path):
    beat("cpu-07", host=Host(labels={"a-rather-long-label-name": "a-rather-long-label-value"}))
    beat("x" * 200, agent="b")
    context = browser.new_context(viewport={"width": width, "height": 800})
    page = context.new_page()
    page.goto(url + path)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    context.close()
