"""What a refresh costs a browser: how long it can't be used, and whether its memory grows."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, Page

from benchmarks.pages import Fleet, site
from benchmarks.report import Row, median
from tests.browser import chromium
from webapp.history.embedded import EmbeddedHistory
from webapp.server.serving import Server
from webapp.storage.store import Store

REFRESHES = 15

_WATCH = """() => {
  window.tasks = [];
  const note = (list) => list.getEntries().forEach((entry) => window.tasks.push(entry.duration));
  new PerformanceObserver(note).observe({ entryTypes: ["longtask"] });
}"""
_REFRESH = """() => new Promise((done) => {
  window.tasks.length = 0;
  document.addEventListener("htmx:after:swap", () => setTimeout(() => done(Math.max(0, ...window.tasks)), 250), { once: true });
  htmx.trigger("#cluster", "refresh");
})"""


@contextmanager
def served(fleet: Fleet, history: EmbeddedHistory | None = None) -> Iterator[str]:
    app, _ = site(fleet, history)
    server = Server(app, "127.0.0.1", 0)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        yield server.url
    finally:
        server.stop()
        thread.join(10)


def run() -> list[Row]:
    with chromium() as browser:
        rows = [
            _refreshes(browser, nodes, query)
            for nodes, query in ((1000, ""), (5000, ""), (1000, "?view=map"), (5000, "?view=map"))
        ]
        return [*rows, _first_chart(browser)]


def _refreshes(browser: Browser, nodes: int, query: str) -> Row:
    fleet = Fleet(nodes)
    with served(fleet) as url:
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        page.goto(f"{url}/{query}")
        page.evaluate(_WATCH)
        session = page.context.new_cdp_session(page)
        session.send("Performance.enable")
        blocked, heaps = [], []
        for _ in range(REFRESHES):
            fleet.report(every=2)
            time.sleep(min(5.1, nodes / 1000 + 0.1))
            blocked.append(float(page.evaluate(_REFRESH)))
            session.send("HeapProfiler.collectGarbage")
            heaps.append(_heap_mb(session.send("Performance.getMetrics")))
        page.close()
    growth = median(heaps[-3:]) - median(heaps[2:5])
    return Row(
        f"{nodes:,} nodes in Chromium, {'map' if query else 'table'}: a refresh",
        f"main thread blocked {_shown(median(blocked))}, {_shown(max(blocked))} at most;"
        f" heap {growth:+.2f} MB over {REFRESHES} refreshes",
        "< 100 ms, heap flat",
        median(blocked) < 100 and growth < 0.5,
    )


def _shown(milliseconds: float) -> str:
    """Browsers tell of tasks from 50 ms on."""
    return f"{milliseconds:.0f} ms" if milliseconds else "< 50 ms"


def _heap_mb(metrics: dict[str, list[dict[str, float]]]) -> float:
    return next(metric["value"] for metric in metrics["metrics"] if metric["name"] == "JSHeapUsedSize") / 1e6


def _first_chart(browser: Browser) -> Row:
    from webapp import demo

    now = time.time()
    store = Store(None, commit_every=None)
    store.fill((demo.node(4, at), at) for at in (now - 3700 + 10 * beat for beat in range(371)))
    with served(Fleet(12), EmbeddedHistory(store)) as url:
        took = []
        for _ in range(5):
            context = browser.new_context()  # nothing is cached
            page: Page = context.new_page()
            began = time.monotonic()
            page.goto(
                f"{url}/nodes/cpu-05" if demo.name_of(4).startswith("cpu") else f"{url}/nodes/{demo.name_of(4)}",
                wait_until="commit",
            )
            page.wait_for_selector("plotly-figure .main-svg", timeout=20_000)
            took.append(time.monotonic() - began)
            context.close()
    store.close()
    return Row("a node's page draws its first chart, nothing cached", f"{median(took):.2f} s", "< 1 s", median(took) < 1)
