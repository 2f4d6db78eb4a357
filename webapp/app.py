"""The only place that builds things and hands them to others."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace

from flask import Flask
from htmx_flask import Htmx

from webapp import __version__, exposition, formats, gauges
from webapp.connection import Connection, connect
from webapp.embedded import EmbeddedHistory
from webapp.events import Events
from webapp.history import History
from webapp.managed_prometheus import SCRAPE_SECONDS, ManagedPrometheus
from webapp.measurement import Measurement
from webapp.nodes import Fleet
from webapp.palette import colour_index, on_dark
from webapp.registry import Registry
from webapp.selection import Selection
from webapp.settings import SettingError
from webapp.store import Store
from webapp.summary import load_per_core, waiting
from webapp.trends import Trends
from webapp.views import assets, blocks, errors, fragments, machines, pages, routing, security

#: Seconds between two looks for nodes that fell silent or are to be forgotten.
HOUSEKEEPING_SECONDS = 5.0

#: templates/ and static/ lie in the package when it is installed, beside it in a checkout.
ASSETS = Path(__file__).parent if (Path(__file__).parent / "templates").is_dir() else Path(__file__).parent.parent


class ControlPlane:
    """Everything that runs in one process; leaving the context closes it."""

    def __init__(
        self,
        app: Flask,
        registry: Registry,
        store: Store,
        trends: Trends,
        events: Events,
        history: History,
        keep_house: Callable[[], None],
    ) -> None:
        self.app = app
        self.registry = registry
        self.store = store
        self._trends = trends
        self._events = events
        self._history = history
        self._keep_house = keep_house
        self._closing = threading.Event()
        self._housekeeper = threading.Thread(target=self._run, name="housekeeping", daemon=True)

    def __enter__(self) -> ControlPlane:
        self._housekeeper.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._closing.set()
        self._housekeeper.join()
        self.store.close()

    def fill(self, past: Iterable[tuple[Measurement, float]]) -> None:
        """Take in measurements of earlier times, each node's in order, as if they had been heard then."""

        def seen() -> Iterator[tuple[Measurement, float]]:
            for measurement, at in past:
                self._trends.add(measurement, at)
                self._events.know(measurement)
                yield measurement, at

        self.store.fill(seen())

    def _run(self) -> None:
        names = [node.name for node in self.registry.nodes()]
        self._trends.fill(self._history, names, time.time(), self._closing.is_set)
        while not self._closing.wait(HOUSEKEEPING_SECONDS):
            self._keep_house()


def build(settings: SimpleNamespace, *, demo: bool = False, prometheus: ManagedPrometheus | None = None) -> ControlPlane:
    """What `settings` ask for (see `config`), with a Prometheus of our own perhaps. Raises SettingError, StoreUnusable."""
    if not 1 <= settings.heartbeat_interval <= 20:
        raise SettingError(f"heartbeat_interval={settings.heartbeat_interval:g}: expected 1 to 20 seconds")
    if settings.keep_hours < 6:
        raise SettingError(f"keep_hours={settings.keep_hours:g}: expected at least 6 hours")
    connection = None if demo else _connection(settings, prometheus)
    store = Store(settings.data_dir and settings.data_dir / "history.sqlite", keep_seconds=settings.keep_hours * 3600)
    history = EmbeddedHistory(store)
    trends, events = Trends(), Events(time.time)

    def record(measurement: Measurement, measured_at: float) -> None:
        store.record(measurement, measured_at)
        trends.add(measurement, measured_at)
        events.add(measurement, measured_at)

    registry = Registry(render=exposition.render, record=record, forget_after_seconds=settings.forget_after_hours * 3600)
    for known in store.nodes():
        registry.restore(known.measurement, silent_s=known.silent_s, heard_at=known.heard_at, first_heard_at=known.first_heard_at)
        events.know(known.measurement)

    def keep_house() -> None:
        events.watch(registry.nodes())
        for name in registry.expire():
            for keeper in (store, trends, events):
                keeper.forget(name)

    def notices() -> list[str]:
        return [sentence for sentence in (store.notice, store.problem) if sentence]

    charted: History = connection.history if connection else history
    prometheus_fleet = connection.fleet if connection and settings.fleet == "prometheus" else None
    app = create_app(
        registry,
        charted,
        fleet=prometheus_fleet,
        trends=trends,
        events=events,
        interval_s=settings.heartbeat_interval,
        notices=lambda: [*notices(), *(prometheus_fleet.notices() if prometheus_fleet else ())],
        demo=demo,
    )
    return ControlPlane(app, registry, store, trends, events, history, keep_house)


def _connection(settings: SimpleNamespace, managed: ManagedPrometheus | None) -> Connection | None:
    if managed is not None and settings.prometheus is not None:
        raise SettingError("with_prometheus and prometheus: expected one of them")
    if managed is not None:
        return connect(settings, managed.url, scrape_interval=SCRAPE_SECONDS)
    if settings.prometheus is not None:
        return connect(settings, settings.prometheus)
    if settings.fleet == "prometheus":
        raise SettingError("fleet=prometheus: expected --prometheus too, which says where it is")
    return None


def create_app(
    registry: Registry,
    history: History,
    *,
    fleet: Fleet | None = None,
    trends: Trends | None = None,
    events: Events | None = None,
    interval_s: float = 10.0,
    frame_ancestors: tuple[str, ...] = (),
    notices: Callable[[], list[str]] = list,
    demo: bool = False,
    wall: Callable[[], float] = time.time,
) -> Flask:
    """The web application around a registry and a history.

    `fleet` feeds the pages where it isn't the registry. `notices` are sentences that every page shows.
    """
    app = Flask(__name__, root_path=str(ASSETS))
    routing.take_any_name(app)
    app.jinja_options = {"trim_blocks": True, "lstrip_blocks": True}
    app.json.sort_keys = False  # type: ignore[attr-defined]
    Htmx(app)
    fleet = fleet or registry
    app.register_blueprint(machines.blueprint(registry, interval_s, notices))
    overview = blocks.Cluster(fleet, trends or Trends(), events or Events(wall), wall)
    app.register_blueprint(pages.blueprint(fleet, overview, notices))
    app.register_blueprint(fragments.blueprint(fleet, overview, history, wall))
    _teach_templates(app, demo)
    assets.version_assets(app)
    errors.handle(app)
    security.protect(app, frame_ancestors)
    return app


def _teach_templates(app: Flask, demo: bool) -> None:
    for function in (
        formats.number,
        formats.percent,
        formats.exact_bytes,
        formats.rate,
        formats.duration,
        formats.moment,
        formats.clock_offset,
        formats.plural,
        load_per_core,
        colour_index,
    ):
        app.jinja_env.filters[function.__name__] = function
    app.jinja_env.filters["bytes"] = formats.bytes_
    app.jinja_env.globals.update(
        gauges=gauges, waiting=waiting, version=__version__, demo=demo, Selection=Selection, now=time.time, dark_colours=on_dark()
    )
