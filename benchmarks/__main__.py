"""Every benchmark, beside its peers, in one run.

    python -m benchmarks [--minutes 2] [--only NAME ...]

Prints a table as it goes, and writes benchmarks/results.md and benchmarks/growth.svg when all were run. Machines differ
and are never idle: compare the ratios.
"""

from __future__ import annotations

import argparse
import multiprocessing
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

from benchmarks import agents, browser, growth, heartbeats, live_fleet, pages, prometheus_queries, scrapes, start
from benchmarks.report import Row, machine, markdown, table

HERE = Path(__file__).parent

_TEXT = """# What it costs

Written by `make bench`. Each figure is a median of several, each ratio of one run in which ours and the peer took turns on the
same machine. CPU is user and system time together.

{machine}

{rows}
![Growth from 100 to 10,000 nodes](growth.svg)

## What the profile says is left

{left}
"""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    parser.add_argument("--minutes", type=float, default=2.0, help="how long ten thousand nodes report (10 for the full run)")
    parser.add_argument("--only", nargs="+", default=[], help="names of benchmarks; nothing is written then")
    flags = parser.parse_args()
    every: dict[str, Callable[[], list[Row]]] = {
        "agents": agents.run,
        "heartbeats": heartbeats.run,
        "live_fleet": partial(live_fleet.run, flags.minutes),
        "scrapes": scrapes.run,
        "pages": pages.run,
        "prometheus": prometheus_queries.run,
        "browser": browser.run,
        "start": start.run,
        "growth": partial(growth.run, HERE / "growth.svg"),
    }
    of = machine()
    print("\n".join(of), end="\n\n")
    rows: list[Row] = []
    began = time.monotonic()
    for name, benchmark in every.items():
        if flags.only and name not in flags.only:
            continue
        found = _alone(benchmark)
        rows += found
        print(f"{name}, {time.monotonic() - began:.0f} s\n{table(found)}", flush=True)
    if not flags.only:
        lines = "".join(f"- {line}\n" for line in of)
        left = (HERE / "profile.md").read_text("utf-8").rstrip()
        (HERE / "results.md").write_text(_TEXT.format(machine=lines, rows=markdown(rows), left=left), "utf-8")
    if missed := [row.work for row in rows if row.met is False]:
        print("goals that were not met:", *missed, sep="\n  ")


def _alone(benchmark: Callable[[], list[Row]]) -> list[Row]:
    """In a process of its own: what one benchmark leaves behind in memory slows the next one down."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        return process.submit(benchmark).result()


if __name__ == "__main__":
    main()
