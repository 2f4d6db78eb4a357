"""Ten thousand nodes that report each 10 s for some minutes, while 50 viewers refresh and Prometheus scrapes."""

from __future__ import annotations

import random
import re
import sqlite3
import tempfile
import time
from pathlib import Path

from benchmarks.fleet import node_with_engines
from benchmarks.heartbeats import VIEWS
from benchmarks.programs import beat_request, control_plane, load, requests, view_request
from benchmarks.report import Row

NODES = 10_000
RATE = 1000


def run(minutes: float) -> list[Row]:
    chance = random.Random(1)
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        beats = requests(Path(folder) / "beats", [beat_request(node_with_engines(number, chance)) for number in range(NODES)])
        views = requests(Path(folder) / "views", [view_request(path) for path in VIEWS])
        data = Path(folder) / "data"
        seconds = 60 * minutes
        lags, scrapes = [], []
        with control_plane(data) as ours:
            before, began = ours.cpu_seconds(), time.monotonic()
            with (
                load(ours.port, seconds, views, rate=10, connections=50, fresh=False) as looked,
                load(ours.port, seconds, beats, rate=RATE, connections=400) as found,
            ):
                while (left := began + seconds - time.monotonic()) > 0:
                    time.sleep(min(15.0, left))
                    at = time.monotonic()
                    text = ours.get("/metrics").decode()
                    scrapes.append(time.monotonic() - at)
                    lags.append(float(re.search(r"^enginehouse_store_write_lag_seconds (\S+)", text, re.M)[1]))  # type: ignore[index]
                    dropped = float(re.search(r"^enginehouse_store_dropped_samples_total (\S+)", text, re.M)[1])  # type: ignore[index]
            busy = (ours.cpu_seconds() - before) / (time.monotonic() - began)
            rss = ours.peak_rss_bytes()
        with sqlite3.connect(data / "history.sqlite") as database:
            (kept,) = database.execute("SELECT count(*) FROM samples").fetchone()
        size = sum(file.stat().st_size for file in data.iterdir())
    lost = found["refused"] + found["failed"] + int(dropped) + found["answered"] - kept
    return [
        Row(
            f"{NODES:,} live nodes for {minutes:g} min, 50 viewers, a scrape each 15 s",
            f"{busy:.2f} cores, {rss / 2**20:,.0f} MiB at most",
            "< 1 core, < 1,500 MiB",
            busy < 1 and rss < 1500 * 2**20,
        ),
        Row(
            "their heartbeats",
            f"{found['answered']:,} answered, {lost} lost; p99 {found['p99_ms']:.1f} ms, longest {found['longest_ms']:.0f} ms",
            "none lost",
            lost == 0,
        ),
        Row(
            "their samples in the store",
            f"{max(lags):.2f} s behind at most; {size / 2**20:,.0f} MiB",
            "< 2 s behind",
            max(lags) < 2,
        ),
        Row(
            "their viewers and scrapes",
            f"viewers p50 {looked['p50_ms']:.0f} ms, p99 {looked['p99_ms']:.0f} ms; scrapes {max(scrapes):.2f} s at most",
            "none refused",
            looked["refused"] + looked["failed"] == 0,
        ),
    ]
