"""A real Chromium, and the application on a real port around a test's registry."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from flask import Flask
from playwright.sync_api import Browser, Page, sync_playwright
from werkzeug.serving import make_server

#: Chromium's own calls to the outside are switched off; a page's are refused by `Watched`.
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@contextmanager
def chromium() -> Iterator[Browser]:
    program = shutil.which("chromium")
    assert program, "chromium is missing: apt-get install chromium"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=FLAGS)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def served(app: Flask, port: int = 0) -> Iterator[str]:
    """The application's address."""
    server = make_server("127.0.0.1", port, app, threaded=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)


class Watched:
    """A page that must not complain, run foreign code or call anyone but us."""

    def __init__(self, page: Page, url: str) -> None:
        self.page = page
        self.complaints: list[str] = []
        self.requests: list[str] = []
        page.on("console", lambda message: message.type == "error" and self.complaints.append(message.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("dialog", lambda dialog: (self.complaints.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        page.on("request", lambda request: self._see(request.url, url))

    def _see(self, asked: str, ours: str) -> None:
        self.requests.append(asked)
        if not asked.startswith((ours, "data:", "blob:")):
            self.complaints.append(f"asked for {asked}")

    def assert_calm(self) -> None:
        assert self.complaints == []


def refresh(page: Page, selector: str) -> None:
    """Let a block refresh now, and wait until it has."""
    page.evaluate(
        """selector => new Promise(done => {
            const block = document.querySelector(selector);
            block.addEventListener("htmx:after:swap", () => done(), { once: true });
            htmx.trigger(block, "refresh");
        })""",
        selector,
    )
