"""axe finds nothing on any page in either theme, and the keyboard reaches what the mouse does."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from tests.browser import served
from tests.conftest import GIB
from webapp.app import create_app
from webapp.history.embedded import EmbeddedHistory
from webapp.measurement import Disk, Engine, Gpu, Host, Network, Pressure, Process
from webapp.storage.store import Store

pytestmark = pytest.mark.browser


@pytest.fixture
def url(registry, wall, clock, beat) -> Iterator[str]:
    """A small fleet in which everything is wrong that can be."""
    beat("gone", agent="g")
    clock.advance(1000)
    beat("stale", agent="s")
    clock.advance(70)
    beat("late", agent="l")
    clock.advance(30)
    full = Disk("/models", "/dev/sdb", "xfs", 100 * GIB, 97 * GIB, 3 * GIB, error=None)
    engine = Engine(
        id="chat",
        model="m",
        kind="vllm",
        state="orphaned",
        cpu_cores=1.0,
        memory_bytes=GIB,
        members=(Process(7, 3.0, "x", "S", 1, 2, 1.0, GIB),),
    )
    beat(
        "cpu-07",
        host=Host(labels={"rack": "b2"}, cpu_model="AMD", kernel="6.1"),
        load={"cpu_percent": 97.0},
        disks=(full,),
        networks=(Network("eth0", 1e6, 1e6),),
        gpus=(Gpu(id="GPU-1", index=0, name="L4", utilization_percent=50.0), Gpu(id="GPU-2", missing_since_s=100.0)),
        pressure=Pressure(0.1, 0.0, 0.0, 0.0, 0.0),
        engines=(engine, Engine(id="b", metrics_error="metrics: 501")),
    )
    store = Store(None, clock=wall, commit_every=None)
    known = registry.node("cpu-07").measurement
    store.fill((known, wall() - 3600 + second) for second in range(0, 3600, 30))
    with served(create_app(registry, EmbeddedHistory(store, clock=wall), wall=wall)) as url:
        yield url
    store.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/?group=rack&view=map",
        "/nodes/cpu-07",
        "/nodes/gone",
        "/models",
        "/models/llama-3.1-8b",
        "/add",
        "/instances",
        "/placement",
        "/embed/check",
        "/nothing",
        "/?q=zzz",
    ],
)
def test_axe_finds_nothing(browser, url, path, scheme):
    context = browser.new_context(viewport={"width": 1280, "height": 900}, color_scheme=scheme)
    page = context.new_page()
    page.goto(url + path)
    page.wait_for_timeout(700)
    found = Axe().run(page, options={"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]})
    reported = [
        (one["id"], node["target"], node["failureSummary"][:300])
        for one in found.response["violations"]
        for node in one["nodes"][:3]
    ]
    assert not reported, "\n".join(f"{rule} {where} {why}" for rule, where, why in reported)
    context.close()


def test_the_keyboard_searches_moves_and_opens(page, url):
    page.goto(url)
    page.keyboard.press("/")
    expect(page.get_by_role("searchbox")).to_be_focused()
    page.keyboard.type("e")
    page.keyboard.press("Enter")
    expect(page.locator("#node-cpu-07")).to_have_count(0)
    page.keyboard.press("j")
    page.keyboard.press("j")
    expect(page.locator("#node-late .col-name > a").first).to_be_focused()
    page.keyboard.press("k")
    expect(page.locator("#node-gone .col-name > a").first).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("gone")


def test_the_list_of_keys_opens_and_closes(page, url):
    page.goto(url)
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).not_to_be_visible()


def test_the_choice_of_colours_is_kept_and_the_address_comes_first(page, url):
    page.goto(url)
    page.get_by_label("Colours").select_option("dark")
    background = "() => getComputedStyle(document.body.parentElement).backgroundColor"
    dark = page.evaluate(background)
    page.goto(url + "/nodes/cpu-07")
    assert page.evaluate(background) == dark
    page.goto(url + "/nodes/cpu-07?theme=light")
    assert page.evaluate(background) != dark
