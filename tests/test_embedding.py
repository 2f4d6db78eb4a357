"""The pages in the frame of a portal of another origin, in a real Chromium."""

from __future__ import annotations

import functools
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser import Watched, served
from webapp.app import create_app

pytestmark = pytest.mark.browser

PORTAL = Path(__file__).parent.parent / "deploy" / "portal"


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """A portal that says nothing."""


@pytest.fixture
def portal() -> Iterator[str]:
    """The folder deploy/portal under an origin that is not the control plane's."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=PORTAL))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://localhost:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join(5)


def test_a_portal_that_may_frames_the_pages_and_follows_their_height(browser, portal, registry, history, beat):
    for number in range(30):
        beat(f"cpu-{number:02d}", agent=str(number))
    with served(create_app(registry, history, frame_ancestors=(portal,))) as url:
        context = browser.new_context(viewport={"width": 1200, "height": 900})
        page = context.new_page()
        page.goto(f"{portal}/?enginehouse={url}")
        fleet = page.frame_locator("iframe[title=Fleet]")
        expect(fleet.locator("#node-cpu-29")).to_be_attached()
        expect(fleet.locator("header.top")).to_have_count(0)
        expect(fleet.locator("thead th")).to_have_count(5)
        page.wait_for_function("document.querySelector('iframe[title=Fleet]').clientHeight > 700")
        beat("cpu-00", agent="0", load={"cpu_percent": 77.0})
        frame = next(frame for frame in page.frames if frame.url.startswith(url) and "/nodes/" not in frame.url)
        frame.evaluate("htmx.trigger('#cluster', 'refresh')")
        expect(fleet.locator("#node-cpu-00 .col-cpu")).to_contain_text("77 %")
        context.close()


def test_a_portal_that_may_not_gets_no_page(browser, portal, registry, history):
    with served(create_app(registry, history)) as url:
        context = browser.new_context()
        page = context.new_page()
        refused: list[str] = []
        page.on("console", lambda message: refused.append(message.text) if "frame-ancestors" in message.text else None)
        page.goto(f"{portal}/?enginehouse={url}")
        page.wait_for_timeout(800)
        assert refused
        assert all(not frame.url.startswith(url) for frame in page.frames[1:])
        context.close()


def test_a_frame_without_storage_and_cookies_works(browser, portal, registry, history, beat):
    """T131: a sandboxed frame has an origin of its own, so that storage and cookies are refused to it"""
    beat("cpu-07")
    with served(create_app(registry, history, frame_ancestors=(portal,))) as url:
        context = browser.new_context()
        page = context.new_page()
        watched = Watched(page, url)
        bare = f'<iframe sandbox="allow-scripts" src="{url}/?embed=1"></iframe>'
        page.goto(f"{portal}/portal.css")
        page.set_content(bare)
        expect(page.frame_locator("iframe").locator("#node-cpu-07")).to_be_visible()
        assert not [complaint for complaint in watched.complaints if "localStorage" in complaint]
        context.close()


def test_the_check_tells_what_is_right(browser, registry, history):
    with served(create_app(registry, history)) as url:
        context = browser.new_context()
        page = context.new_page()
        page.goto(f"{url}/embed/check")
        expect(page.locator(".checks li")).to_have_count(7)
        expect(page.locator('.checks li[data-good="false"]')).to_have_count(0)
        page.route(
            "**/fragments/cluster", lambda route: route.fulfill(status=200, content_type="text/html", body="<form>sign in</form>")
        )
        page.reload()
        expect(page.locator('.checks li[data-good="false"]').first).to_contain_text("a proxy or a sign-in page comes between")
        context.close()
