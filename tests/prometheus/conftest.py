from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
import requests

from tests import answers
from tests.history_contract import Recording, record
from tests.prometheus.promlab import prometheus, victoria_metrics
from webapp.fleet.registry import Registry
from webapp.heartbeat import Reading

SCRAPE_SECONDS = 15.0


def scraped(recording: Recording, interval: float = SCRAPE_SECONDS, offset: float = 4.1) -> dict[str, list[str]]:
    """The recording as a control plane shows it, scraped every `interval` seconds: family -> timed samples."""
    now = recording.start
    registry = Registry(clock=lambda: now, wall=lambda: now)
    waiting = list(recording.heartbeats)
    found: dict[str, list[str]] = {}
    scrape = recording.start + offset
    while scrape <= recording.end:
        while waiting and waiting[0][0] <= scrape:
            now, measurement = waiting.pop(0)
            registry.accept(Reading(measurement, ()))
        now = scrape
        for line in answers.exposed(registry.nodes()).splitlines():
            if not line.startswith("#"):
                found.setdefault(line.partition("{")[0], []).append(f"{line} {scrape:.3f}")
        scrape += interval
    return found


@pytest.fixture(scope="session")
def recording() -> Recording:
    return record(time.time() // 60 * 60 - 120)


@pytest.fixture(scope="session")
def samples(recording: Recording) -> dict[str, list[str]]:
    return scraped(recording)


@pytest.fixture(scope="session")
def prometheus_url(samples: dict[str, list[str]], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    directory = tmp_path_factory.mktemp("prometheus")
    backfill(samples, directory)
    with prometheus(directory) as url:
        yield url


def backfill(samples: dict[str, list[str]], directory: Path) -> None:
    lines = [line for name, family in samples.items() for line in (f"# TYPE {name} gauge", *family)]
    (directory / "history.om").write_text("\n".join([*lines, "# EOF", ""]))
    command = ["promtool", "tsdb", "create-blocks-from", "openmetrics", f"{directory}/history.om", f"{directory}/data"]
    subprocess.run(command, check=True, capture_output=True)


def import_into_victoria(samples: dict[str, list[str]], url: str) -> None:
    lines = []
    for line in (line for family in samples.values() for line in family):
        sample, _, at = line.rpartition(" ")
        lines.append(f"{sample} {float(at) * 1000:.0f}")
    requests.post(f"{url}/api/v1/import/prometheus", data="\n".join(lines).encode(), timeout=30).raise_for_status()
    requests.get(f"{url}/internal/force_flush", timeout=30).raise_for_status()


@pytest.fixture(scope="session")
def victoria_url(samples: dict[str, list[str]], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with victoria_metrics(tmp_path_factory.mktemp("victoria")) as url:
        import_into_victoria(samples, url)
        yield url


@pytest.fixture(scope="session")
def planes_url(recording: Recording, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Prometheus that scrapes two control planes; agents send to both, one dies after 40 minutes."""
    first, second = (scraped(recording, offset=offset) for offset in (2.0, 9.0))
    both: dict[str, list[str]] = {}
    for plane, samples, until in (("a", first, recording.start + 2400), ("b", second, recording.end)):
        for name, lines in samples.items():
            kept = (line for line in lines if float(line.rpartition(" ")[2]) < until)
            both.setdefault(name, []).extend(line.replace("{", f'{{instance="plane-{plane}:8765",', 1) for line in kept)
    directory = tmp_path_factory.mktemp("planes")
    backfill(both, directory)
    with prometheus(directory) as url:
        yield url


@pytest.fixture(scope="session")
def deaf_url(recording: Recording, samples: dict[str, list[str]], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Prometheus that was down for five minutes, half an hour after the start."""
    directory = tmp_path_factory.mktemp("deaf")
    start = recording.start + 1800
    kept = {
        name: [line for line in lines if not start < float(line.rpartition(" ")[2]) < start + 300]
        for name, lines in samples.items()
    }
    backfill(kept, directory)
    with prometheus(directory) as url:
        yield url


def exposed(text: str, target: str, times: Iterable[float]) -> dict[str, list[str]]:
    """A metrics page as if it were scraped at `times` with the labels `target`; every counter grows steadily."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        sample = re.fullmatch(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? ([^ ]+)(?: [0-9]+)?", line.strip())
        if sample is None:
            continue
        name, labels, value = sample.groups()
        grows = name.endswith(("_total", "_sum", "_count", "_bucket"))
        for index, at in enumerate(times):
            number = float(value) * (1 + index / 10) if grows else float(value)
            found.setdefault(name, []).append(f"{name}{{{target}{',' + labels if labels else ''}}} {number!r} {at:.3f}")
    return found
