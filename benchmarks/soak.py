"""A page left open: 2,000 refreshes of the nodes' and of a node's page in Chromium.

`python -m benchmarks.soak [REFRESHES]` prints heap, DOM nodes and listeners before and after; a leak shows as growth
that goes on with the number of refreshes.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import CDPSession, Page

from tests.browser import chromium, refresh
from tests.programs import control_plane


def counts(page: Page, session: CDPSession) -> dict[str, float]:
    """Megabytes of heap in use after a collection, DOM nodes and event listeners."""
    session.send("HeapProfiler.collectGarbage")
    found = {metric["name"]: metric["value"] for metric in session.send("Performance.getMetrics")["metrics"]}
    return {"heap MB": found["JSHeapUsedSize"] / 1e6, "nodes": found["Nodes"], "listeners": found["JSEventListeners"]}


def main(refreshes: int) -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        chromium() as browser,
        control_plane(Path(folder) / "log", "--nodes", "40", command="demo") as (url, _),
    ):
        for path, blocks in (("/", ["#cluster"]), ("/nodes/cpu-01", ["#node", "#charts"])):
            page = browser.new_page(viewport={"width": 1440, "height": 900})
            session = page.context.new_cdp_session(page)
            session.send("Performance.enable")
            page.goto(url + path)
            page.wait_for_timeout(1500)
            for _ in range(20):
                for block in blocks:
                    refresh(page, block)
            before, started = counts(page, session), time.monotonic()
            for _ in range(refreshes):
                for block in blocks:
                    refresh(page, block)
            after = counts(page, session)
            grown = ", ".join(f"{name} {before[name]:.1f} -> {after[name]:.1f}" for name in before)
            print(f"{path}: {refreshes} refreshes of {len(blocks)} blocks in {time.monotonic() - started:.0f} s: {grown}")
            page.close()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2000)
