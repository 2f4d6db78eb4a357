"""The pages of models, a past moment, numbers and reports, in a real Chromium with the strict content security policy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from playwright.sync_api import expect

from tests.answers import drawn
from tests.browser import Watched, refresh, served
from tests.conftest import GIB
from webapp.app import create_app
from webapp.history.embedded import EmbeddedHistory
from webapp.history.past import StoredPast, written
from webapp.measurement import Engine, Host, Requests
from webapp.storage.store import Store

pytestmark = pytest.mark.browser


@pytest.fixture
def url(registry, store, wall) -> Iterator[str]:
    app = create_app(registry, EmbeddedHistory(store, clock=wall), past=StoredPast(store, clock=wall), wall=wall)
    with served(app) as url:
        yield url


def fill_hour(store: Store, registry, wall, *names: str) -> None:
    """An hour of samples of each node, whose CPU shows the minutes that passed."""
    for name in names:
        known = registry.node(name).measurement
        store.fill(
            (replace(known, load=replace(known.load, cpu_percent=second / 60)), wall() - 3600 + second)
            for second in range(0, 3600, 10)
        )


def test_models_are_sorted_searched_and_refreshed_in_place(page, url, beat):
    watched = Watched(page, url)
    engines = (Engine(id="e0", model="a", cpu_cores=1.0), Engine(id="e1", model="b", cpu_cores=5.0))
    beat("n1", engines=engines)
    page.goto(f"{url}/models")
    rows = page.locator(".models tbody .col-name")
    expect(rows).to_have_text(["a", "b"])
    page.get_by_role("link", name="Cores", exact=True).click()
    page.wait_for_url("**/models?sort=cores&order=desc")
    expect(rows).to_have_text(["b", "a"])
    beat("n1", engines=(*engines, Engine(id="e2", model="c", cpu_cores=3.0)))
    refresh(page, "#models")
    expect(rows).to_have_text(["b", "c", "a"])
    page.get_by_role("searchbox").fill("c")
    expect(rows).to_have_text(["c"])
    page.locator(".models tbody a").first.click()
    expect(page.locator("h1")).to_have_text("c")
    watched.assert_calm()


def test_a_models_charts_are_summed_or_a_line_a_node(page, url, registry, store, wall, beat):
    watched = Watched(page, url)
    beat("n1", agent="a")
    beat("n2", agent="b")
    fill_hour(store, registry, wall, "n1", "n2")
    page.goto(f"{url}/models/llama-3.1-8b")
    cores = page.locator("#figure-engine_cpu")
    expect(cores.locator(".scatterlayer .trace").first).to_be_attached()
    assert cores.evaluate("figure => figure.canvas.data[0].y.at(-10)") == pytest.approx(10.6)
    page.get_by_role("link", name="a line a node").click()
    expect(cores.locator(".scatterlayer .trace").first).to_be_attached()
    assert cores.evaluate("figure => figure.canvas.data.map(trace => trace.name).filter(Boolean)") == ["n1", "n2"]
    watched.assert_calm()


def test_a_charts_numbers_are_fetched_when_they_are_opened_and_stay_through_refreshes(page, url, registry, store, wall, beat):
    watched = Watched(page, url)
    beat("cpu-07")
    fill_hour(store, registry, wall, "cpu-07")
    page.goto(f"{url}/nodes/cpu-07")
    expect(page.locator("#figure-cpu .main-svg").first).to_be_visible()
    assert not [asked for asked in watched.requests if "/fragments/numbers" in asked]
    summary = page.locator("#numbers-cpu summary")
    summary.focus()
    page.keyboard.press("Enter")
    table = page.locator("#numbers-cpu table").first
    expect(table).to_contain_text("59.8")
    refresh(page, "#charts")
    refresh(page, "#charts")
    expect(table).to_be_visible()
    assert len([asked for asked in watched.requests if "/fragments/numbers" in asked]) == 1
    page.keyboard.press("Enter")
    expect(table).to_be_hidden()
    assert len([asked for asked in watched.requests if "/fragments/numbers" in asked]) == 1
    watched.assert_calm()


def test_a_login_page_never_lands_in_the_numbers(page, url, registry, store, wall, beat):
    """T127"""
    beat("cpu-07")
    fill_hour(store, registry, wall, "cpu-07")
    page.goto(f"{url}/nodes/cpu-07")
    expect(page.locator("#figure-cpu .main-svg").first).to_be_visible()
    page.route("**/fragments/numbers**", lambda route: route.fulfill(content_type="text/html", body="<input type=password>"))
    with page.expect_response("**/fragments/numbers**"):
        page.locator("#numbers-cpu summary").click()
    page.wait_for_timeout(200)
    expect(page.locator("input[type=password]")).to_have_count(0)


def test_a_past_page_stands_still_and_leads_on_and_back(page, url, registry, store, wall, beat):
    watched = Watched(page, url)
    beat("cpu-07", load={"cpu_percent": 99.0})
    fill_hour(store, registry, wall, "cpu-07")
    page.goto(url)
    page.locator("#moment summary").click()
    page.locator("#moment input[name=at]").fill(written(wall() - 1800).removesuffix("Z")[:16])
    page.get_by_role("button", name="Show", exact=True).click()
    expect(page.locator(".past")).to_contain_text("As it was on")
    row = page.locator("#node-cpu-07 .col-cpu")
    shown = float(row.inner_text().split()[0])
    assert 28 <= shown <= 30
    asked = len(watched.requests)
    page.wait_for_timeout(6_500)
    assert watched.requests[asked:] == []
    expect(page.locator("#cluster")).not_to_have_attribute("data-unrefreshed", "")
    page.locator("#node-cpu-07 a").first.click()
    expect(page.locator(".past")).to_contain_text("As it was on")
    expect(page.locator("#figure-cpu .main-svg").first).to_be_visible()
    values = page.locator("#figure-cpu").evaluate("figure => figure.canvas.data[0].y.filter(value => value !== null)")
    assert max(values) <= 30
    page.get_by_role("link", name="5 min earlier").click()
    expect(page.locator(".past")).to_be_visible()
    assert float(page.locator(".tile .big").first.inner_text().split()[0]) == pytest.approx(shown - 5, abs=0.5)
    page.get_by_role("link", name="Back to now").click()
    expect(page.locator(".past")).to_have_count(0)
    expect(page.locator(".tile .big").first).to_contain_text("99")
    watched.assert_calm()


def test_a_report_draws_its_charts_from_a_file_and_asks_for_nothing(page, url, registry, store, wall, beat, tmp_path):
    beat("cpu-07")
    fill_hour(store, registry, wall, "cpu-07")
    page.goto(f"{url}/nodes/cpu-07")
    with page.expect_download() as started:
        page.get_by_role("link", name="Report").click()
    assert started.value.suggested_filename == "cpu-07-report.html"
    file = tmp_path / "report.html"
    started.value.save_as(file)
    watched = Watched(page, file.as_uri())
    page.context.set_offline(True)
    page.goto(file.as_uri())
    expect(page.locator("#figure-cpu .main-svg").first).to_be_visible()
    assert page.locator(".plotly-graph-div .main-svg").count() >= 12
    expect(page.locator("h1")).to_have_text("cpu-07")
    watched.assert_calm()


@pytest.mark.parametrize(
    "name",
    ["<img src=x onerror=alert(1)>", "</script><script>alert(1)</script>", "<!--<script>", "javascript:alert(1)", "a//b\nc?d#e"],
)
def test_a_hostile_model_runs_nothing_and_calls_no_one(page, url, registry, store, wall, beat, name, tmp_path):
    """T118, T134"""
    watched = Watched(page, url)
    engine = Engine(id=name, model=name, kind=name[:60], cpu_cores=1.0, memory_bytes=GIB)
    beat(name, host=Host(labels={name: name}), engines=(engine,))
    fill_hour(store, registry, wall, name)
    page.goto(f"{url}/models")
    refresh(page, "#models")
    page.locator(".models tbody a").first.click()
    assert page.locator("h1").evaluate("h1 => h1.textContent") == drawn(name)
    page.get_by_role("link", name="a line a node").click()
    expect(page.locator("#figure-engine_cpu .main-svg").first).to_be_visible()
    page.locator("#numbers-engine_cpu summary").click()
    expect(page.locator("#numbers-engine_cpu table").first).to_be_visible()
    refresh(page, "#model")
    page.locator(".placed tbody a").first.click()
    expect(page.locator("#figure-engine_cpu .main-svg").first).to_be_visible()
    with page.expect_download() as started:
        page.get_by_role("link", name="Report").click()
    watched.assert_calm()
    file = tmp_path / "report.html"
    started.value.save_as(file)
    offline = Watched(page, file.as_uri())
    page.goto(file.as_uri())
    expect(page.locator("#figure-engine_cpu .main-svg").first).to_be_visible()
    offline.assert_calm()


@pytest.mark.parametrize("width", [390, 768, 1440])
def test_no_page_is_wider_than_its_window(browser, url, registry, store, wall, beat, width):
    long = "x" * 200
    beat("cpu-07", engines=(Engine(id=long, model=long, cpu_cores=1.0), Engine(id="e", model="m", kv_cache_usage_ratio=0.5)))
    beat(long, agent="b")
    fill_hour(store, registry, wall, "cpu-07")
    at = written(wall() - 600)
    context = browser.new_context(viewport={"width": width, "height": 800})
    page = context.new_page()
    for path in ("/models", "/models/m", f"/models/{long}", f"/?at={at}", f"/nodes/cpu-07?at={at}", "/?at=x"):
        page.goto(url + path)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, path
    page.goto(f"{url}/nodes/cpu-07")
    expect(page.locator("#figure-engine_cpu .main-svg").first).to_be_visible()
    page.locator("#numbers-engine_cpu summary").click()
    expect(page.locator("#numbers-engine_cpu table").first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    context.close()


#: As on a fleet of today: of a length that is usual, with numbers of a usual size.
USUAL = (
    Engine(
        id="e0", model="bge-m3", cpu_cores=18.0, memory_bytes=55 * GIB, kv_cache_usage_ratio=0.74, requests=Requests(16.0, 3.0)
    ),
    Engine(id="e1", model="llama-3.3-70b-instruct", cpu_cores=9.5, memory_bytes=47 * GIB, generation_tokens_per_second=5572.0),
    Engine(id="e2", model="mistral-small-24b-instruct", cpu_cores=9.5, memory_bytes=47 * GIB),
)


@pytest.mark.parametrize("width", [390, 768, 1440])
def test_no_table_of_usual_names_is_wider_than_its_place(browser, url, beat, width):
    for number in range(20):
        beat(f"cpu-{number:02d}", agent=str(number), engines=USUAL)
    context = browser.new_context(viewport={"width": width, "height": 1024})
    page = context.new_page()
    instance = {"host": "cpu-07", "port": 9001, "meta": {"model": "mistral-small-24b-instruct"}}
    assert page.request.post(f"{url}/v1/instance/register", data=instance).ok
    for path in ("/", "/models", "/models/bge-m3", "/nodes/cpu-07", "/instances", "/placement?memory_gib=480"):
        page.goto(url + path)
        wider = page.locator(".scroll").evaluate_all("tables => tables.map((table) => table.scrollWidth - table.clientWidth)")
        assert wider, path
        assert max(wider) <= 0, path
    context.close()


@pytest.mark.parametrize("width", [390, 768, 1440])
def test_a_long_name_gives_way_to_a_short_one_beside_it(browser, url, beat, width):
    beat(engines=USUAL[:2] if width == 390 else USUAL)
    context = browser.new_context(viewport={"width": width, "height": 800})
    page = context.new_page()
    page.goto(url)
    cut = page.locator("td.col-engines .model span").evaluate_all(
        "names => names.map((name) => name.scrollWidth > name.clientWidth)"
    )
    assert cut == [False, *([True] * (len(cut) - 1))]
    context.close()
