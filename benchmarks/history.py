"""What the embedded history costs: disk, the hot path, a commit, the answers, a restart.

    python -m benchmarks.history [nodes] [hours]

Writes an hour of 1,000 nodes at one heartbeat each 10 s, three engines and 52 series a node, into a temporary
directory, as fast as it goes.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.fleet import MODELS, node_with_engines
from webapp import heartbeat
from webapp.charts.figure import figure
from webapp.history import Range
from webapp.history.embedded import EmbeddedHistory
from webapp.metrics import CHARTS, METRICS
from webapp.storage.store import Store

INTERVAL = 10


def timed(what: str, function: Callable[[], Any], times: int = 5) -> Any:
    took = []
    for _ in range(times):
        began = time.perf_counter()
        answer = function()
        took.append(time.perf_counter() - began)
    print(f"{what:<58} {min(took) * 1e3:9.2f} ms")
    return answer


def main(nodes: int = 1000, hours: float = 1.0) -> None:
    chance = random.Random(1)
    now = 1_800_000_000.0
    with tempfile.TemporaryDirectory(dir="/var/tmp") as directory:
        path = Path(directory) / "history.sqlite"
        store = Store(path, commit_every=None, clock=lambda: now, boottime=lambda: now)
        fleet = [node_with_engines(number, chance) for number in range(nodes)]
        messages = [heartbeat.write(one) for one in fleet]
        recorded = committed = longest = 0.0
        beats = round(hours * 3600 / INTERVAL)
        for _ in range(beats):
            for second in range(INTERVAL):
                now += 1
                began = time.perf_counter()
                for number in range(second, nodes, INTERVAL):
                    store.record(fleet[number], now, messages[number])
                between = time.perf_counter()
                store.commit()
                ended = time.perf_counter()
                recorded += between - began
                committed += ended - between
                longest = max(longest, ended - between)
        size = sum(part.stat().st_size for part in Path(directory).iterdir())
        samples = beats * nodes
        print(f"{nodes} nodes x {hours:g} h = {samples} samples")
        print(f"{'on disk, with the write-ahead log':<58} {size / 1e6:9.1f} MB")
        print(f"{'record(), a heartbeat':<58} {recorded / samples * 1e6:9.2f} µs")
        print(f"{'commit(), a heartbeat, its message at hand':<58} {committed / samples * 1e6:9.2f} µs")
        print(f"{'longest commit':<58} {longest * 1e3:9.2f} ms")
        history = EmbeddedHistory(store, clock=lambda: now)
        name = fleet[nodes // 2].node
        for label, seconds, step in (("an hour", 3600, 15), ("six hours", 21_600, 90), ("a day", 86_400, 360)):
            if seconds <= hours * 3600:
                end = now // step * step
                asked = Range(end - seconds, end, step)
                answer = timed(f"{label} of one node, all series", lambda asked=asked: history.series(METRICS, asked, node=name))
                timed(f"{label} of one node, all figures", lambda answer=answer: [figure(chart, answer) for chart in CHARTS])
        end = now // 15 * 15
        cores = [metric for metric in METRICS if metric.name == "llmgw_shard_cpu_cores"]
        asked = Range(end - 3600, end, 15)
        timed("an hour of one model on all nodes, one family", lambda: history.series(cores, asked, model=MODELS[0]), times=2)
        timed("a heartbeat written anew, where its message is not at hand", lambda: heartbeat.write(fleet[0]))
        store.close()

        def restart() -> None:
            store = Store(path, commit_every=None, clock=lambda: now)
            assert len(store.nodes()) == nodes
            store.close()

        timed("a restart: check, open, read the nodes", restart, times=2)


if __name__ == "__main__":
    main(*(kind(text) for kind, text in zip((int, float), sys.argv[1:])))
