"""What most tests need: a clock that they move, a registry on it, and a measurement to vary."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from flask import Flask
from flask.templating import Environment
from flask.testing import FlaskClient
from hypothesis import HealthCheck, settings
from jinja2.bccache import Bucket, BytecodeCache

from webapp import heartbeat
from webapp.access import TokenFile
from webapp.app import create_app
from webapp.fleet.registry import Registry
from webapp.heartbeat import Reading
from webapp.history import Answer, History, Range
from webapp.measurement import Agent, Disk, Engine, Load, Measurement, Requests
from webapp.metrics import Metric
from webapp.storage.store import Store

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

GIB = 2**30

#: What htmx says of itself.
HTMX = {"HX-Request": "true"}

#: No test is about how long it takes. `make fuzz` sets HYPOTHESIS_PROFILE=fuzz, `make check` quick.
settings.register_profile("usual", deadline=None)
settings.register_profile("quick", deadline=None, max_examples=10)
settings.register_profile("fuzz", max_examples=10_000, deadline=None, suppress_health_check=list(HealthCheck))
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "usual"))


class Compiled(BytecodeCache):
    """Templates as they were compiled for another test's application; their text is part of the key."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str], bytes] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        kept = self._kept.get((bucket.key, bucket.checksum))
        if kept is not None:
            bucket.bytecode_from_string(kept)

    def dump_bytecode(self, bucket: Bucket) -> None:
        self._kept[bucket.key, bucket.checksum] = bucket.bytecode_to_string()


class Remembering(Environment):
    """Flask's, with the templates that were compiled before."""

    compiled = Compiled()

    def __init__(self, app: Flask, **options: object) -> None:
        super().__init__(app, bytecode_cache=self.compiled, **options)


Flask.jinja_environment = Remembering


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self, now: float = 1_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def wall() -> Clock:
    return Clock(1_796_000_000.0)


@pytest.fixture
def registry(clock: Clock, wall: Clock) -> Registry:
    return Registry(clock=clock, wall=wall)


@pytest.fixture
def tokens(tmp_path: Path, clock: Clock) -> Callable[..., TokenFile]:
    """A file of tokens: `tokens("agents", "first-token-0001", "second-token-002 cpu-07")`."""

    def write(name: str, *lines: str) -> TokenFile:
        path = tmp_path / name
        path.write_text("\n".join(lines) + "\n", "utf-8")
        path.chmod(0o600)
        return TokenFile(path, b"key", clock)

    return write


@pytest.fixture
def measurement() -> Measurement:
    return Measurement(
        node="cpu-07",
        agent=Agent(id="agent-a", boot="boot-1", sequence=1, interval_s=10.0),
        load=Load(
            age_s=0.0,
            interval_s=10.0,
            cpu_percent=43.25,
            cpus=64,
            load1=3.1,
            load5=2.9,
            load15=2.5,
            memory_total_bytes=256 * GIB,
            memory_used_bytes=118 * GIB,
            memory_available_bytes=138 * GIB,
            memory_free_bytes=100 * GIB,
            memory_cache_bytes=30 * GIB,
            memory_shared_bytes=0,
        ),
        disks=(Disk("/", "/dev/sda1", "ext4", 1000 * GIB, 400 * GIB, 550 * GIB),),
        engines=(
            Engine(
                id="llama-8b-0",
                model="llama-3.1-8b",
                kind="vllm",
                state="running",
                pid=4200,
                port=8000,
                cpu_cores=5.3,
                memory_bytes=20 * GIB,
                memory_anonymous_bytes=15 * GIB,
                memory_file_bytes=4 * GIB,
                memory_shared_bytes=1 * GIB,
                processes=4,
                started_s_ago=8123.0,
                requests=Requests(3.0, 5.0),
                kv_cache_usage_ratio=0.4,
            ),
        ),
    )


@pytest.fixture
def history() -> History:
    """A history that knows nothing."""

    class Nothing:
        def series(self, metrics: Sequence[Metric], range: Range, *, node: str = "", model: str = "") -> Answer:
            return Answer(range, (), as_of=range.end)

    return Nothing()


@pytest.fixture
def store(wall: Clock) -> Iterator[Store]:
    """A store in memory, which commits when a test says so."""
    store = Store(None, clock=wall, commit_every=None)
    yield store
    store.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A real Chromium; closed after the module, since it keeps an event loop running while it is open."""
    from tests.browser import chromium  # here: most runs need no browser

    with chromium() as browser:
        yield browser


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page of its own in the browser."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    yield context.new_page()
    context.close()


@pytest.fixture
def app(registry: Registry, history: History, wall: Clock) -> Flask:
    app = create_app(registry, history, wall=wall)
    app.testing = False  # errors are answered as in production
    return app


@pytest.fixture
def client(app: Flask) -> FlaskClient:
    return app.test_client()


Beat = Callable[..., str]


@pytest.fixture
def beat(registry: Registry, measurement: Measurement) -> Beat:
    """Send one heartbeat: `beat("cpu-07", agent="a", sequence=2, load={"cpu_percent": 5.0})`."""
    sequences: dict[tuple[str, str | None], int] = {}

    def send(
        node: str = "cpu-07",
        *,
        agent: str | None = "agent-a",
        boot: str = "boot-1",
        sequence: int | None = None,
        source: str = "",
        **parts: object,
    ) -> str:
        key = (node, agent)
        number = sequence if sequence is not None else sequences.get(key, 0) + 1
        sequences[key] = max(number, sequences.get(key, 0))
        load = replace(measurement.load, **parts.pop("load", {}))  # type: ignore[arg-type]
        who = replace(measurement.agent, id=agent, boot=boot, sequence=number, **parts.pop("agent_fields", {}))  # type: ignore[arg-type]
        sent = replace(measurement, node=node, agent=who, load=load, **parts)  # type: ignore[arg-type]
        return registry.accept(Reading(heartbeat.read(heartbeat.write(sent)).measurement, ()), source=source)

    return send


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write tests/golden/ anew; review the diff")
