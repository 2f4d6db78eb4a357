"""What the instance protocol costs: reports a second on one process, and pages of a fleet that is known by instances.

    python -m benchmarks.instances [instances] [seconds]

A control plane in a process of its own, served as by `enginehouse serve`; four clients on kept connections
post the snapshots of a node with a GPU. On two cores, which clients and server share.
"""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

from tests.programs import control_plane
from tests.test_instance_api import METADATA, SNAPSHOT

CLIENTS = 4
TICKS = os.sysconf("SC_CLK_TCK")


def body(name: str, now: float) -> bytes:
    stamp = round(now * 1000)
    return json.dumps(
        {
            "instance_id": name,
            "snapshot": {**SNAPSHOT, "instance_id": name, "timestamp_ms": stamp},
            "metadata": {**METADATA, "reported_instance_id": name, "report_wall_time_ms": stamp},
        }
    ).encode()


def cpu_seconds(process: subprocess.Popen[bytes]) -> float:
    fields = Path(f"/proc/{process.pid}/stat").read_text("utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def rss_mib(process: subprocess.Popen[bytes]) -> float:
    pages = int(Path(f"/proc/{process.pid}/statm").read_text("utf-8").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def post(connection: http.client.HTTPConnection, path: str, content: bytes) -> None:
    connection.request("POST", path, content, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    text = answer.read()
    assert answer.status == 200, text
    assert json.loads(text).get("ok", True), text


def reports(address: str, names: list[str], seconds: float) -> list[float]:
    """Seconds that each report took."""
    took: list[float] = []
    end = time.monotonic() + seconds

    def client(own: list[str]) -> None:
        connection = http.client.HTTPConnection(address)
        while True:
            for name in own:
                began = time.monotonic()
                if began >= end:
                    return
                post(connection, "/v1/instance/resource_snapshot", body(name, time.time()))
                took.append(time.monotonic() - began)

    threads = [threading.Thread(target=client, args=(names[number::CLIENTS],)) for number in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sorted(took)


def milliseconds_of(address: str, path: str) -> tuple[float, int]:
    connection = http.client.HTTPConnection(address)
    best = 1e9
    for _ in range(5):
        began = time.perf_counter()
        connection.request("GET", path, headers={"HX-Request": "true"})
        size = len(connection.getresponse().read())
        best = min(best, time.perf_counter() - began)
    return best * 1000, size


def main(count: int = 1000, seconds: float = 10.0) -> None:
    with tempfile.TemporaryDirectory() as folder, control_plane(Path(folder) / "log", "--data-dir", folder) as (url, process):
        address = urlsplit(url).netloc
        connection = http.client.HTTPConnection(address)
        names = [f"hp_10.0.{number // 250}.{number % 250 + 1}:8000" for number in range(count)]
        for name in names:
            host = name[3:].partition(":")[0]
            post(connection, "/v1/instance/register", json.dumps({"instance_id": name, "host": host, "port": 8000}).encode())
        before, began, memory = cpu_seconds(process), time.monotonic(), rss_mib(process)
        took = reports(address, names, seconds)
        busy = (cpu_seconds(process) - before) / (time.monotonic() - began)
        print(f"{len(took) / seconds:,.0f} reports/s of {len(body(names[0], 0)):,} bytes; server on {busy:.2f} cores")
        print(f"a report: {1000 * took[len(took) // 2]:.1f} ms, 99 %: {1000 * took[len(took) * 99 // 100]:.1f} ms")
        print(
            f"server: {1e6 * busy * seconds / len(took):,.0f} us of CPU a report; {rss_mib(process):.0f} MiB, {memory:.0f} before"
        )
        for path in (
            "/v1/instance/list",
            "/debug/pool_resource",
            "/metrics",
            "/fragments/cluster",
            "/fragments/instances",
            "/v1/placement",
        ):
            spent, size = milliseconds_of(address, path)
            print(f"{path} of {count:,} instances on as many hosts: {spent:.0f} ms, {size / 1000:,.0f} kB")


if __name__ == "__main__":
    main(*(int(word) for word in sys.argv[1:]))
