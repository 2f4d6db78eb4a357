"""The only place that builds things and hands them to others."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

from flask import Flask
from htmx_flask import Htmx

from webapp import __version__, exposition, formats, gauges, models, numbers
from webapp.embedded import EmbeddedHistory
from webapp.history import History
from webapp.nodes import Fleet
from webapp.palette import colour_index, on_dark
from webapp.past import Past, StoredPast
from webapp.registry import Registry
from webapp.selection import Selection
from webapp.settings import SettingError
from webapp.store import Store
from webapp.summary import by_model, load_per_core, waiting
from webapp.views import api, assets, errors, fragments, machines, pages, reports, routing, security
from webapp.views.moment import AsOf, keep_moment

#: Seconds between two looks for nodes to forget.
HOUSEKEEPING_SECONDS = 30.0

#: templates/ and static/ lie in the package when it is installed, beside it in a checkout.
ASSETS = Path(__file__).parent if (Path(__file__).parent / "templates").is_dir() else Path(__file__).parent.parent


class ControlPlane:
    """Everything that runs in one process; leaving the context closes it."""

    def __init__(self, app: Flask, registry: Registry, store: Store, forget: Callable[[], None]) -> None:
        self.app = app
        self.registry = registry
        self.store = store
        self._forget = forget
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
        while not self._closing.wait(HOUSEKEEPING_SECONDS):
            self._forget()


def build(settings: SimpleNamespace, *, demo: bool = False) -> ControlPlane:
    """What `settings` ask for (see `config`). Raises SettingError, StoreUnusable."""
    if not 1 <= settings.heartbeat_interval <= 20:
        raise SettingError(f"heartbeat_interval={settings.heartbeat_interval:g}: expected 1 to 20 seconds")
    if settings.keep_hours < 6:
        raise SettingError(f"keep_hours={settings.keep_hours:g}: expected at least 6 hours")
    store = Store(settings.data_dir and settings.data_dir / "history.sqlite", keep_seconds=settings.keep_hours * 3600)
    registry = Registry(render=exposition.render, record=store.record, forget_after_seconds=settings.forget_after_hours * 3600)
    for known in store.nodes():
        registry.restore(known.measurement, silent_s=known.silent_s, heard_at=known.heard_at, first_heard_at=known.first_heard_at)

    def forget() -> None:
        for name in registry.expire():
            store.forget(name)

    def notices() -> list[str]:
        return [sentence for sentence in (store.notice, store.problem) if sentence]

    app = create_app(
        registry,
        EmbeddedHistory(store),
        past=StoredPast(store),
        interval_s=settings.heartbeat_interval,
        notices=notices,
        demo=demo,
    )
    return ControlPlane(app, registry, store, forget)


def create_app(
    registry: Registry,
    history: History,
    *,
    fleet: Fleet | None = None,
    past: Past | None = None,
    interval_s: float = 10.0,
    frame_ancestors: tuple[str, ...] = (),
    notices: Callable[[], list[str]] = list,
    demo: bool = False,
    wall: Callable[[], float] = time.time,
) -> Flask:
    """The web application around a registry and a history.

    `fleet` feeds the pages where it isn't the registry; `past` does where an address names a moment. `notices` are
    sentences that every page shows.
    """
    app = Flask(__name__, root_path=str(ASSETS))
    routing.take_any_name(app)
    app.jinja_options = {"trim_blocks": True, "lstrip_blocks": True}
    app.json.sort_keys = False  # type: ignore[attr-defined]
    Htmx(app)
    shown = AsOf(fleet or registry, past, wall)

    def all_notices() -> list[str]:
        return [*notices(), *shown.notices()]

    app.register_blueprint(machines.blueprint(registry, interval_s, notices))
    app.register_blueprint(pages.blueprint(shown, all_notices))
    app.register_blueprint(fragments.blueprint(shown, history, shown.now))
    app.register_blueprint(api.blueprint(shown, history))
    app.register_blueprint(reports.blueprint(shown, history))
    keep_moment(app, wall)
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
        by_model,
        colour_index,
    ):
        app.jinja_env.filters[function.__name__] = function
    app.jinja_env.filters["bytes"] = formats.bytes_
    app.jinja_env.filters["figure"] = numbers.written
    app.jinja_env.globals.update(
        gauges=gauges,
        gauges_of=models,
        waiting=waiting,
        version=__version__,
        demo=demo,
        Selection=Selection,
        now=time.time,
        dark_colours=on_dark(),
    )
