"""What pages cost on the server: the nodes' block, the charts of a node, and what a first visit loads."""

from __future__ import annotations

import gzip
import re
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from flask import Flask
from flask.testing import FlaskClient

from benchmarks.report import Row, median, timed
from webapp import demo, heartbeat, schema
from webapp.app import create_app
from webapp.fleet.registry import Registry
from webapp.history import Answer, History
from webapp.history.embedded import EmbeddedHistory
from webapp.overview.trends import Trends
from webapp.storage.store import Store

HTMX = {"HX-Request": "true", "Accept-Encoding": "gzip"}


class Fleet:
    """Made-up nodes that report when they are told to, each 10 s later than before."""

    def __init__(self, nodes: int, record: Store | None = None) -> None:
        self.nodes = nodes
        self.registry = Registry(record=(lambda *heard: record.record(*heard)) if record else lambda *heard: None)
        self.trends = Trends()
        self._sequence = 0
        self._began = time.time()
        for number in range(nodes):
            measurement = demo.node(number, self._began)
            for step in range(30):
                self.trends.add(measurement, self._began - 3600 + step * 120)
        self.report()

    def report(self, every: int = 1) -> None:
        """Every so manieth of the nodes reports."""
        self._sequence += 1
        at = self._began + 10 * self._sequence
        for number in range(self._sequence % every, self.nodes, every):
            self.registry.accept(schema.read(heartbeat.write(demo.node(number, at, self._sequence))))


class NoHistory:
    def series(self, metrics: object, range: object, **subject: str) -> Answer:
        raise AssertionError("no page that is measured here asks for it")


def site(fleet: Fleet, history: History | None = None) -> tuple[Flask, FlaskClient]:
    app = create_app(fleet.registry, history or NoHistory(), trends=fleet.trends)  # type: ignore[arg-type]
    return app, app.test_client()


@contextmanager
def without_sharing() -> Iterator[None]:
    """Every row for every viewer, as a template would by itself."""
    from webapp.overview import selection
    from webapp.views import blocks, fragments, rows

    class Forgetful(rows.Rows):
        def __init__(self, before: object, *more: object) -> None:
            super().__init__({}, *more)  # type: ignore[arg-type]

    def never(nodes: int) -> float:
        return 0.0

    kept = selection.ROWS_A_PAGE, blocks.Rows, fragments.share_seconds
    selection.ROWS_A_PAGE, blocks.Rows, fragments.share_seconds = 10**6, Forgetful, never  # type: ignore[misc]
    blocks.share_seconds = never
    try:
        yield
    finally:
        selection.ROWS_A_PAGE, blocks.Rows, fragments.share_seconds = kept  # type: ignore[misc]
        blocks.share_seconds = fragments.share_seconds


def cluster_ms(nodes: int, rounds: int = 7) -> tuple[float, float, int]:
    """Server time of the block, in ms: half of the nodes have reported since, and shared; its bytes, packed."""
    fleet = Fleet(nodes)
    _, client = site(fleet)
    client.get("/fragments/cluster", headers=HTMX)
    changed, shared = [], []
    for _ in range(rounds):
        fleet.report(every=2)
        time.sleep(min(5.1, nodes / 1000 + 0.1))
        changed += timed(lambda: client.get("/fragments/cluster", headers=HTMX), 1, time.process_time)
        shared += timed(lambda: client.get("/fragments/cluster", headers=HTMX), 5, time.process_time)
    size = len(client.get("/fragments/cluster", headers=HTMX).data)
    return 1e3 * median(changed), 1e3 * median(shared), size


def run() -> list[Row]:
    return [*_cluster(), *_first_visit(), *_charts()]


def _cluster() -> list[Row]:
    changed, shared, size = cluster_ms(1000)
    fleet = Fleet(1000)
    _, client = site(fleet)
    first = client.get("/fragments/cluster", headers=HTMX)
    again = client.get("/fragments/cluster", headers=HTMX | {"If-None-Match": first.headers["ETag"]})
    with without_sharing():
        _, client = site(fleet)
        naive = 1e3 * median(timed(lambda: client.get("/fragments/cluster", headers=HTMX), 5, time.process_time))
        naive_size = len(gzip.decompress(client.get("/fragments/cluster", headers=HTMX).data))
    peer = f"all rows for each viewer: {naive:.0f} ms, {naive_size / 1000:,.0f} kB"
    return [
        Row(
            "nodes' block, 1,000 nodes, half of them changed",
            f"{changed:.0f} ms",
            "< 50 ms",
            changed < 50,
            peer,
            f"{naive / changed:.0f} x less",
        ),
        Row("the same, for the next viewer", f"{shared:.2f} ms", "< 1 ms", shared < 1, peer, f"{naive / shared:.0f} x less"),
        Row("its bytes, gzip", f"{size / 1000:.1f} kB", "< 60 kB", size < 60_000, peer, f"{naive_size / size:.0f} x fewer"),
        Row("its bytes where nothing changed", f"{again.status_code}, {len(again.data)} B", "304", again.status_code == 304),
    ]


def _first_visit() -> list[Row]:
    fleet = Fleet(1000)
    _, client = site(fleet)
    rows = []
    for title, path, goal in (("/", "/", 60_000), ("a node's page", f"/nodes/{demo.name_of(1)}", 0)):
        page = client.get(path, headers={"Accept-Encoding": "gzip"})
        addresses = re.findall(r'(?:href|src)="(/static/[^"]+\.(?:js|css)[^"]*)"', gzip.decompress(page.data).decode())
        sizes = {address: len(client.get(address, headers={"Accept-Encoding": "gzip"}).data) for address in addresses}
        plotly = sum(size for address, size in sizes.items() if "plotly-basic" in address)
        rest = sum(sizes.values()) - plotly
        rows.append(
            Row(
                f"first visit of {title}: script and style, gzip",
                f"{rest / 1000:.1f} kB{f' and {plotly / 1000:.0f} kB of plotly' if plotly else ''} in {len(sizes)} requests;"
                f" page {len(page.data) / 1000:.1f} kB",
                f"< {goal / 1000:.0f} kB, no plotly" if goal else "-",
                rest < goal and not plotly if goal else None,
            )
        )
    return rows


def _charts() -> list[Row]:
    now = time.time()
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        store = Store(Path(folder) / "history.sqlite", commit_every=None)
        past = ((demo.node(number, at), at) for number in range(100) for at in (now - 3700 + 10 * beat for beat in range(381)))
        store.fill(past)

        class Counting(EmbeddedHistory):
            asked = 0
            seconds = 0.0

            def series(self, *arguments: object, **subject: object) -> Answer:
                Counting.asked += 1
                began = time.process_time()
                try:
                    return super().series(*arguments, **subject)  # type: ignore[arg-type]
                finally:
                    Counting.seconds += time.process_time() - began

        fleet = Fleet(100)
        _, client = site(fleet, Counting(store))
        path = f"/fragments/charts/{demo.name_of(4)}"
        first = client.get(path, headers=HTMX)
        Counting.asked = 0
        took = 1e3 * median(timed(lambda: client.get(path, headers=HTMX), 15, time.process_time))
        asked = Counting.asked / 15
        assert first.status_code == 200, first.text
        figures = gzip.decompress(first.data).decode().count("<plotly-figure")
        tagged = client.get(path, headers=HTMX)
        again = client.get(path, headers=HTMX | {"If-None-Match": tagged.headers["ETag"]})
        time.sleep(15 - time.time() % 15 + 0.1)
        tail = client.get(path, headers=HTMX | {"If-None-Match": tagged.headers["ETag"], "A-IM": "figure-changes"})
        store.close()
    return [
        Row(
            f"{figures} charts x 1 h from the embedded history",
            f"{took:.0f} ms in {asked:.0f} query, {len(first.data) / 1000:.0f} kB gzip",
            "< 30 ms, one query",
            took < 30 and asked == 1,
        ),
        Row("a refresh of them with nothing new", f"{again.status_code}, {len(again.data)} B", "304", again.status_code == 304),
        Row(
            "a refresh of them with one new point",
            f"{tail.status_code}, {len(tail.data) / 1000:.1f} kB gzip",
            "< 5 kB",
            tail.status_code == 226 and len(tail.data) < 5000,
            f"all of them: {len(first.data) / 1000:.0f} kB",
            f"{len(first.data) / len(tail.data):.0f} x fewer",
        ),
    ]
