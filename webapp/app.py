"""The only place that builds things and hands them to others."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

from flask import Flask
from htmx_flask import Htmx

from webapp import __version__, exposition, formats, gauges, heartbeat
from webapp.embedded import EmbeddedHistory
from webapp.history import History
from webapp.listening import TICK_SECONDS, Listening
from webapp.nodes import Fleet
from webapp.notes import Notes
from webapp.palette import colour_index, on_dark
from webapp.registry import Registry, boottime
from webapp.selection import Selection
from webapp.settings import SettingError
from webapp.store import Store
from webapp.summary import load_per_core, waiting
from webapp.telemetry import Gauge, Telemetry
from webapp.views import admin, assets, errors, fragments, guard, login, machines, pages, routing, rules, security, timing
from webapp.views.callers import Access
from webapp.views.forwarding import Forwarding

#: Seconds between two looks for nodes to forget.
HOUSEKEEPING_SECONDS = 30.0

#: templates/ and static/ lie in the package when it is installed, beside it in a checkout.
ASSETS = Path(__file__).parent if (Path(__file__).parent / "templates").is_dir() else Path(__file__).parent.parent


class ControlPlane:
    """Everything that runs in one process; leaving the context closes it."""

    def __init__(
        self, app: Flask, registry: Registry, store: Store, telemetry: Telemetry, access: Access, listening: Listening
    ) -> None:
        self.app = app
        self.telemetry = telemetry
        self.registry = registry
        self.store = store
        self.access = access
        self._listening = listening
        self._closing = threading.Event()
        self._housekeeper = threading.Thread(target=self._keep_house, name="housekeeping", daemon=True)

    def __enter__(self) -> ControlPlane:
        self._housekeeper.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._closing.set()
        self._housekeeper.join()
        self.store.close()

    def _keep_house(self) -> None:
        looked = 0.0
        while not self._closing.wait(TICK_SECONDS):
            self._listening.tick()
            if time.monotonic() - looked > HOUSEKEEPING_SECONDS:
                looked = time.monotonic()
                self.registry.expire()


def build(settings: SimpleNamespace, *, demo: bool = False) -> ControlPlane:
    """What `settings` ask for (see `config`). Raises SettingError, StoreUnusable."""
    if not 1 <= settings.heartbeat_interval <= 20:
        raise SettingError(f"heartbeat_interval={settings.heartbeat_interval:g}: expected 1 to 20 seconds")
    if settings.keep_hours < 6:
        raise SettingError(f"keep_hours={settings.keep_hours:g}: expected at least 6 hours")
    access = rules.access(settings)
    store = Store(settings.data_dir and settings.data_dir / "history.sqlite", keep_seconds=settings.keep_hours * 3600)
    listening = Listening(boottime)
    registry = Registry(
        render=exposition.render,
        record=store.record,
        drop=store.forget,
        listening=listening,
        notes=Notes(settings.data_dir and settings.data_dir / "notes.json"),
        most_nodes=settings.most_nodes,
        forget_after_seconds=settings.forget_after_hours * 3600,
    )
    _restore(store, registry, listening)

    def notices() -> list[str]:
        return [sentence for sentence in (store.notice, store.problem, listening.notice) if sentence]

    telemetry = Telemetry()
    telemetry.add(
        Gauge(
            "enginehouse_store_write_lag_seconds", "How long the oldest sample waits to be written.", lambda: store.write_lag_s
        ),
        Gauge("enginehouse_store_dropped_samples_total", "Samples that the disk did not take.", lambda: store.dropped, "counter"),
    )
    app = create_app(
        registry,
        EmbeddedHistory(store),
        interval_s=settings.heartbeat_interval,
        notices=notices,
        access=access,
        telemetry=telemetry,
        limits=heartbeat.Limits(settings.largest_body, settings.most_engines),
        most_series=settings.most_series,
        hops=settings.proxy_hops,
        base_path=rules.base_path(settings),
        demo=demo,
    )
    return ControlPlane(app, registry, store, telemetry, access, listening)


def _restore(store: Store, registry: Registry, listening: Listening) -> None:
    """The nodes known before this start; the time without a control plane counts against none of them."""
    now = time.time()
    gaps = [(start, end) for start, end, _ in store.unheard(now - store.keep_seconds, now)]
    nodes = store.nodes()
    if nodes and gaps and gaps[-1][1] > now - 5:
        listening.began_after(gaps[-1][1] - gaps[-1][0])
    for known in nodes:
        registry.restore(
            known.measurement,
            silent_s=known.silent_s,
            heard_at=known.heard_at,
            first_heard_at=known.first_heard_at,
            unheard_s=min(known.silent_s, sum(max(0.0, end - max(start, known.heard_at)) for start, end in gaps)),
        )


def create_app(
    registry: Registry,
    history: History,
    *,
    fleet: Fleet | None = None,
    interval_s: float = 10.0,
    frame_ancestors: tuple[str, ...] = (),
    notices: Callable[[], list[str]] = list,
    access: Access | None = None,
    telemetry: Telemetry | None = None,
    limits: heartbeat.Limits = heartbeat.LIMITS,
    most_series: int = 2_000_000,
    hops: int = 0,
    base_path: str = "",
    demo: bool = False,
    wall: Callable[[], float] = time.time,
) -> Flask:
    """The web application around a registry and a history.

    `fleet` feeds the pages where it isn't the registry. `notices` are sentences that every page shows. `hops` proxies
    in front are believed; without `access` whoever reaches it may read and report, and act from this machine itself.
    """
    app = Flask(__name__, root_path=str(ASSETS))
    routing.take_any_name(app)
    app.jinja_options = {"trim_blocks": True, "lstrip_blocks": True}
    app.json.sort_keys = False  # type: ignore[attr-defined]
    Htmx(app)
    fleet = fleet or registry
    access = access or Access()
    telemetry = telemetry or Telemetry()
    timing.measure(app, telemetry)
    app.wsgi_app = Forwarding(app.wsgi_app, hops, base_path)  # type: ignore[method-assign]
    guard.guard(app, access, telemetry.refused)
    app.register_blueprint(login.blueprint(access, telemetry.refused))
    app.register_blueprint(admin.blueprint(registry))
    app.register_blueprint(machines.blueprint(registry, interval_s, notices, telemetry, limits, most_series))
    app.register_blueprint(pages.blueprint(fleet, notices))
    app.register_blueprint(fragments.blueprint(fleet, history, wall))
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
