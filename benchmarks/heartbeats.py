"""Heartbeats that one process takes, beside FastAPI; and how long they take while people look."""

from __future__ import annotations

import random
import sys
import tempfile
from pathlib import Path

from benchmarks.fleet import node_with_engines
from benchmarks.programs import beat_request, control_plane, free_port, load, loaded, requests, running, view_request
from benchmarks.report import Row, median

NODES = 10_000
ROUNDS = 3
SECONDS = 3.0

#: Some viewers look at the whole fleet, others at a part.
VIEWS = (
    *(["/fragments/cluster"] * 6),
    "/fragments/cluster?sort=cpu",
    "/fragments/cluster?view=map",
    "/fragments/models",
    "/fragments/node/node-00007",
)


def run() -> list[Row]:
    chance = random.Random(1)
    fleet = [node_with_engines(number, chance) for number in range(NODES)]
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        files = {
            "fresh": requests(Path(folder) / "fresh", [beat_request(one) for one in fleet]),
            "kept": requests(Path(folder) / "kept", [beat_request(one, keep=True) for one in fleet]),
        }
        views = requests(Path(folder) / "views", [view_request(path) for path in VIEWS])
        return [*_rates(files, Path(folder)), _while_fifty_look(files["fresh"], views, Path(folder))]


def _rates(files: dict[str, Path], folder: Path) -> list[Row]:
    def peer(kind: str) -> list[str]:
        return [sys.executable, "-m", "benchmarks.peers.fastapi_heartbeats", str(ports[kind]), kind]

    ports = {"minimal": free_port(), "tuned": free_port()}
    rates: dict[tuple[str, str], list[float]] = {}
    cpu: dict[tuple[str, str], list[float]] = {}
    with (
        control_plane(folder / "data") as ours,
        running(peer("minimal"), ports["minimal"]) as minimal,
        running(peer("tuned"), ports["tuned"]) as tuned,
    ):
        for kind, file in files.items():
            loaded(ours.port, 2, file, fresh=kind == "fresh")  # every node is known
        for _ in range(ROUNDS):
            for kind, file in files.items():
                for name, server in (("ours", ours), ("minimal", minimal), ("tuned", tuned)):
                    before = server.cpu_seconds()
                    found = loaded(server.port, SECONDS, file, fresh=kind == "fresh")
                    used = server.cpu_seconds() - before
                    assert found["refused"] == found["failed"] == 0, (name, found)
                    rates.setdefault((name, kind), []).append(found["rate"])
                    cpu.setdefault((name, kind), []).append(1e6 * used / found["answered"])
    rows = []
    for kind, title in (("fresh", "a connection each, as agents do"), ("kept", "kept connections")):
        mine, mine_cpu = median(rates["ours", kind]), median(cpu["ours", kind])
        for name, peer_title, goal in (("minimal", "FastAPI + uvicorn", 3.0), ("tuned", "the same with uvloop and httptools", 0)):
            theirs, theirs_cpu = median(rates[name, kind]), median(cpu[name, kind])
            rows.append(
                Row(
                    f"heartbeats, {title}",
                    f"{mine:,.0f}/s, {mine_cpu:.0f} µs of CPU",
                    f">= {goal:g} x" if goal else "-",
                    mine >= goal * theirs if goal else None,
                    f"{peer_title}: {theirs:,.0f}/s, {theirs_cpu:.0f} µs",
                    f"{mine / theirs:.1f} x the rate, {theirs_cpu / mine_cpu:.1f} x less CPU",
                )
            )
    return rows


def _while_fifty_look(beats: Path, views: Path, folder: Path) -> Row:
    with control_plane(folder / "viewed") as ours:
        loaded(ours.port, 2, beats)
        with load(ours.port, 15, views, rate=10, connections=50, fresh=False) as looked:
            found = loaded(ours.port, 15, beats, rate=1000, connections=400)
    return Row(
        "1,000 heartbeats/s while 50 viewers refresh",
        f"p50 {found['p50_ms']:.1f} ms, p99 {found['p99_ms']:.1f} ms, longest {found['longest_ms']:.0f} ms;"
        f" viewers p50 {looked['p50_ms']:.0f} ms, p99 {looked['p99_ms']:.0f} ms",
        "p99 < 100 ms, none refused",
        found["p99_ms"] < 100 and found["refused"] + found["failed"] + looked["failed"] == 0,
    )
