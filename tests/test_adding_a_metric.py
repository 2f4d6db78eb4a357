"""docs/adding-a-metric.md does what it says: applied to a copy of the tree, it gives a metric and a chart in three files."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "adding-a-metric.md").read_text("utf-8")

#: Runs in the copy: a node whose kernel says 4096 kB, from its /proc to /metrics, the history and the chart.
WITNESS = """
import time
from webapp import exposition, heartbeat
from webapp.charts.figure import figure
from webapp.agent.machine import memory
from webapp.agent.machine.proc import parse_meminfo
from webapp.history.embedded import EmbeddedHistory
from webapp.heartbeat import Reading
from webapp.history import Range
from webapp.measurement import Load, Measurement
from webapp.metrics import CHARTS, families
from webapp.fleet.registry import Registry
from webapp.storage.store import Store

read = memory.measure(parse_meminfo(b"MemTotal: 9000 kB\\nDirty: 4096 kB\\n"))
sent = Measurement("a", load=Load(age_s=0.0, interval_s=10.0, **read))
arrived = heartbeat.read(heartbeat.write(sent)).measurement
registry = Registry()
registry.accept(Reading(arrived, ()))
print(b"".join(exposition.pieces(registry.nodes())).decode())

start = time.time() // 10 * 10 - 60
store = Store(None)
store.fill((arrived, start + 10 * step) for step in range(4))
(chart,) = [chart for chart in CHARTS if "llmgw_node_memory_dirty_bytes" in chart.families]
rows = [row for name in chart.families for row in families()[name]]
answer = EmbeddedHistory(store).series(rows, Range(start, start + 30, 10.0), node="a")
print("history", [value for series in answer.series for value in series.values])
print("chart", figure(chart, answer))
"""


def changes() -> dict[str, list[tuple[str, str]]]:
    """File -> pairs of the line that is there and the lines that come after it."""
    found: dict[str, list[tuple[str, str]]] = {}
    for block in re.findall(r"```diff\n(.*?)```", PAGE, re.DOTALL):
        (file,) = re.findall(r"^\+\+\+ b/(\S+)$", block, re.MULTILINE)
        for hunk in block.split("@@\n")[1:]:
            lines = hunk.splitlines()
            there = [line[1:] for line in lines if line.startswith(" ")]
            new = [line[1:] for line in lines if line.startswith("+")]
            found.setdefault(file, []).append((there[0], "\n".join(new)))
    return found


@pytest.fixture(scope="module")
def copy(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("copy")
    for name in ("webapp", "docs", "deploy"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "screenshots"))
    for file, pairs in changes().items():
        text = (folder / file).read_text("utf-8")
        for there, new in pairs:
            assert text.count(there + "\n") == 1, f"{file} has not one line like this: {there}"
            text = text.replace(there + "\n", f"{there}\n{new}\n")
        (folder / file).write_text(text, "utf-8")
    return folder


def run(folder: Path, *arguments: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_three_files_are_touched():
    assert sorted(changes()) == ["webapp/agent/machine/memory.py", "webapp/measurement.py", "webapp/metrics.py"]


def test_the_number_reaches_metrics_history_and_chart(copy):
    said = run(copy, "-c", WITNESS)
    assert 'llmgw_node_memory_dirty_bytes{node="a"} 4194304\n' in said
    assert re.search(r"^history .*4194304", said, re.MULTILINE)
    assert re.search(r"^chart .*Memory waiting for the disk.*'y': \[4, 4, 4, 4\].*%{y} MiB", said, re.MULTILINE)


def test_the_printed_pages_have_it(copy):
    run(copy, "docs/generate.py")
    assert "| `llmgw_node_memory_dirty_bytes` | bytes |" in (copy / "docs" / "metrics.md").read_text("utf-8")
