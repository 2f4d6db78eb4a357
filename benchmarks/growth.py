"""What each piece of work costs at 100, 1,000 and 10,000 nodes, and a plot of it."""

from __future__ import annotations

import math
import random
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from xml.sax.saxutils import escape

from benchmarks.fleet import node_with_engines, small_node
from benchmarks.pages import cluster_ms
from benchmarks.programs import beat_request, control_plane, loaded, requests
from benchmarks.report import Row, median, timed
from webapp import exposition, heartbeat
from webapp.fleet.registry import Registry
from webapp.heartbeat import Reading
from webapp.storage.store import Store

SIZES = (100, 1000, 10_000)

#: Name of a piece of work -> its cost at each size, in its unit.
Costs = dict[str, list[float]]


def run(plot: Path) -> list[Row]:
    costs = measured()
    plot.write_text(svg(costs), "utf-8")
    rows = []
    for name, found in costs.items():
        # 1 is linear: ten times the nodes, ten times the cost.
        order = math.log10(found[-1] / found[0]) / math.log10(SIZES[-1] / SIZES[0])
        shown = ", ".join(f"{cost:.3g}" for cost in found)
        rows.append(
            Row(f"growth at 100, 1,000, 10,000 nodes: {name}", shown, "linear or better", order < 1.1, ratio=f"n^{order:.2f}")
        )
    return rows


def measured() -> Costs:
    costs: Costs = {}

    def add(name: str, value: float) -> None:
        costs.setdefault(name, []).append(value)

    for size in SIZES:
        chance = random.Random(1)
        changed, shared, packed = cluster_ms(size, rounds=3)
        add("nodes' block, half changed, ms", changed)
        add("nodes' block, next viewer (made anew up to 100 nodes), ms", shared)
        add("nodes' block, kB", packed / 1000)
        fleet = Registry()
        for number in range(size):
            fleet.accept(Reading(small_node(number, chance), ()))
        add("/metrics, ms", 1e3 * median(timed(lambda fleet=fleet: exposition.pieces(fleet.nodes()), 3, time.process_time)))
        add("a commit of all nodes, ms", _commit(size, chance))
        _add_served(size, chance, add)
    return costs


def _commit(size: int, chance: random.Random) -> float:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        store = Store(Path(folder) / "history.sqlite", commit_every=None)
        fleet = [node_with_engines(number, chance) for number in range(size)]
        messages = [heartbeat.write(one) for one in fleet]
        took = []
        for turn in range(4):
            for one, message in zip(fleet, messages):
                store.record(one, time.time() + turn, message)
            took += timed(store.commit, 1, time.thread_time)
        store.close()
    return 1e3 * median(took[1:])


def _add_served(size: int, chance: random.Random, add) -> None:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        folder = Path(name)
        beats = requests(folder / "beats", [beat_request(node_with_engines(number, chance)) for number in range(size)])
        with control_plane(folder / "data") as ours:
            loaded(ours.port, max(1.0, size / 2500), beats)  # each node is known
            before = ours.cpu_seconds()
            found = loaded(ours.port, 4, beats, rate=min(1000, size), connections=100)
            add("CPU a heartbeat, µs", 1e6 * (ours.cpu_seconds() - before) / found["answered"])
            add("resident memory, MiB", ours.rss_bytes() / 2**20)
        began = time.monotonic()
        with control_plane(folder / "data"):
            add("a restart, s", time.monotonic() - began)


# The plot: both axes logarithmic, so that linear growth is a slope of one.

_COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8a7fd1", "#9a8b3c")
_WIDTH, _HEIGHT, _LEFT, _TOP, _PLOT_WIDTH, _PLOT_HEIGHT = 940, 420, 70, 30, 430, 340


def svg(costs: Costs) -> str:
    """Each cost relative to what it is at the smallest size."""
    highest = max(10.0, *(value / found[0] for found in costs.values() for value in found))
    lowest = min(1.0, *(value / found[0] for found in costs.values() for value in found)) * 0.8

    def x(size: float) -> float:
        return _LEFT + _PLOT_WIDTH * math.log(size / SIZES[0]) / math.log(SIZES[-1] / SIZES[0])

    def y(ratio: float) -> float:
        return _TOP + _PLOT_HEIGHT * (1 - math.log(ratio / lowest) / math.log(highest / lowest))

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif" font-size="12">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#fff"/>',
    ]
    for size in SIZES:
        parts.append(_line([(x(size), y(lowest)), (x(size), y(highest))], "#ddd"))
        parts.append(f'<text x="{x(size):.0f}" y="{_TOP + _PLOT_HEIGHT + 20}" text-anchor="middle">{size:,} nodes</text>')
    for power in range(math.floor(math.log10(lowest)), math.ceil(math.log10(highest))):
        if lowest <= 10**power <= highest:
            parts.append(_line([(x(SIZES[0]), y(10**power)), (x(SIZES[-1]), y(10**power))], "#ddd"))
            parts.append(f'<text x="{_LEFT - 8}" y="{y(10**power) + 4:.0f}" text-anchor="end">{10.0**power:g} x</text>')
    ends = [(SIZES[0], 1.0), (SIZES[-1], min(highest, SIZES[-1] / SIZES[0]))]
    parts.append(_line([(x(size), y(ratio)) for size, ratio in ends], "#888", dashed=True))
    parts.append(f'<text x="{_LEFT + _PLOT_WIDTH + 20}" y="{_TOP}" fill="#666">dashed: linear</text>')
    for place, (name, found) in enumerate(costs.items()):
        colour = _COLOURS[place % len(_COLOURS)]
        parts.append(_line([(x(size), y(value / found[0])) for size, value in zip(SIZES, found)], colour, width=2))
        at = _TOP + 24 + 22 * place
        parts.append(_line([(_LEFT + _PLOT_WIDTH + 20, at - 4), (_LEFT + _PLOT_WIDTH + 44, at - 4)], colour, width=2))
        shown = f"{name}: {found[0]:.3g} to {found[-1]:.3g}"
        parts.append(f'<text x="{_LEFT + _PLOT_WIDTH + 52}" y="{at}">{escape(shown)}</text>')
    return "\n".join([*parts, "</svg>\n"])


def _line(points: Sequence[tuple[float, float]], colour: str, *, width: float = 1, dashed: bool = False) -> str:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dash = ' stroke-dasharray="5 4"' if dashed else ""
    return f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{width}"{dash}/>'
