"""/metrics with 200,000 samples, beside a custom collector of prometheus_client; and a real Prometheus that scrapes it."""

from __future__ import annotations

import contextlib
import json
import random
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterable
from pathlib import Path

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily

from benchmarks.fleet import small_node
from benchmarks.programs import beat_request, control_plane, free_port, loaded, requests, running
from benchmarks.report import Row, median, timed
from webapp import exposition
from webapp.fleet.registry import Registry
from webapp.heartbeat import Reading
from webapp.measurement import Measurement
from webapp.metrics import families

NODES = 10_000


class Collector:
    """What the client library asks of a program that knows its numbers by itself."""

    def __init__(self, fleet: Iterable[Measurement]) -> None:
        self._fleet = list(fleet)

    def collect(self) -> Iterable[GaugeMetricFamily]:
        contact = [GaugeMetricFamily(row.name, row.help, labels=["node"]) for row in (exposition.UP, exposition.HEARTBEAT_AGE)]
        for measurement in self._fleet:
            for family in contact:
                family.add_metric([measurement.node], 1.0)
        yield from contact
        for name, rows in families().items():
            labels = ["node", *(label for label, _ in (*rows[0].fixed, *rows[0].labels))]
            family = GaugeMetricFamily(name, rows[0].help, labels=labels)
            for measurement in self._fleet:
                for row in rows:
                    for found, value in row.read(measurement, 0.0):
                        family.add_metric([measurement.node, *(text for _, text in found)], value)
            if family.samples:
                yield family


def run() -> list[Row]:
    chance = random.Random(1)
    fleet = [small_node(number, chance) for number in range(NODES)]
    cold, warm, theirs = [], [], []
    registry = CollectorRegistry()
    registry.register(Collector(fleet))  # type: ignore[arg-type]
    for _ in range(3):
        for _ in range(3):  # the first one finds memory as the peer has left it
            ours = Registry()  # each node has just reported
            for one in fleet:
                ours.accept(Reading(one, ()))
            cold += timed(lambda ours=ours: exposition.pieces(ours.nodes()), 1, time.process_time)
            warm += timed(lambda ours=ours: exposition.pieces(ours.nodes()), 1, time.process_time)
        theirs += timed(lambda: generate_latest(registry), 1, time.process_time)
    samples = sum(not line.startswith(b"#") for line in b"".join(exposition.pieces(ours.nodes())).splitlines())
    assert samples == sum(not line.startswith(b"#") for line in generate_latest(registry).splitlines())
    rows = []
    for title, found in (("every node has reported since the last scrape", cold), ("none has", warm)):
        mine, peer = median(found), median(theirs)
        rows.append(
            Row(
                f"/metrics with {samples:,} samples, {title}",
                f"{mine:.3f} s",
                "< 0.5 s, >= 20 x",
                mine < 0.5 and peer >= 20 * mine,
                f"prometheus_client's custom collector: {peer:.2f} s",
                f"{peer / mine:.0f} x faster",
            )
        )
    return [*rows, _scraped(fleet)]


def _scraped(fleet: list[Measurement]) -> Row:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        folder = Path(name)
        beats = requests(folder / "beats", [beat_request(one) for one in fleet])
        with control_plane(folder / "data") as ours:
            (folder / "prometheus.yml").write_text(
                "global: {scrape_interval: 5s, scrape_timeout: 4s}\n"
                f"scrape_configs: [{{job_name: fleet, static_configs: [{{targets: ['127.0.0.1:{ours.port}']}}]}}]\n"
            )
            port = free_port()
            command = ["prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/tsdb"]
            with running([*command, f"--web.listen-address=127.0.0.1:{port}"], port):
                found = loaded(ours.port, 20, beats, rate=1000, connections=200)
                assert found["refused"] + found["failed"] == 0
                took = _asked(port, "max_over_time(scrape_duration_seconds[15s])")
                samples = _asked(port, "scrape_samples_scraped")
                up = _asked(port, "min_over_time(up[15s])")
    return Row(
        "a real Prometheus scrapes it while 1,000 nodes a second report",
        f"{took:.2f} s at most, {samples:,.0f} samples",
        "in time, each time",
        up == 1 and samples > 190_000,
    )


def _asked(port: int, query: str) -> float:
    for _ in range(40):
        with contextlib.suppress(OSError, LookupError):
            address = f"http://127.0.0.1:{port}/api/v1/query?query={urllib.request.quote(query)}"  # type: ignore[attr-defined]
            with urllib.request.urlopen(address, timeout=10) as answer:
                return float(json.load(answer)["data"]["result"][0]["value"][1])
        time.sleep(0.25)
    raise RuntimeError(f"Prometheus knows nothing of {query}")


if __name__ == "__main__":
    for row in run():
        print(*row.cells, sep=" | ", file=sys.stdout)
