"""The only place that builds things and hands them to others."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

from flask import Flask
from htmx_flask import Htmx

from webapp import __version__, exposition, formats, gauges, placement
from webapp.embedded import EmbeddedHistory
from webapp.fleet import NO_AGENT, Recorder, WithInstances
from webapp.history import History
from webapp.instances import Instances
from webapp.measurement import Measurement
from webapp.metrics import Labels
from webapp.nodes import Fleet, Node
from webapp.palette import colour_index, on_dark
from webapp.placement import RecentIdle
from webapp.registry import Registry
from webapp.selection import Selection
from webapp.settings import SettingError
from webapp.store import Store
from webapp.summary import load_per_core, waiting
from webapp.views import assets, errors, fragments, instance_pages, machines, pages, routing, security
from webapp.views import instances as instance_api
from webapp.views import placement as placement_views

#: Seconds between two looks for what is to be kept and to be forgotten.
HOUSEKEEPING_SECONDS = 10.0

#: templates/ and static/ lie in the package when it is installed, beside it in a checkout.
ASSETS = Path(__file__).parent if (Path(__file__).parent / "templates").is_dir() else Path(__file__).parent.parent


class ControlPlane:
    """Everything that runs in one process; leaving the context closes it."""

    def __init__(self, app: Flask, registry: Registry, store: Store, keep_house: Callable[[], None]) -> None:
        self.app = app
        self.registry = registry
        self.store = store
        self._keep = keep_house
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
            self._keep()


def build(settings: SimpleNamespace, *, demo: bool = False) -> ControlPlane:
    """What `settings` ask for (see `config`). Raises SettingError, StoreUnusable."""
    if not 1 <= settings.heartbeat_interval <= 20:
        raise SettingError(f"heartbeat_interval={settings.heartbeat_interval:g}: expected 1 to 20 seconds")
    if settings.keep_hours < 6:
        raise SettingError(f"keep_hours={settings.keep_hours:g}: expected at least 6 hours")
    if not 1 <= settings.instance_ttl_s <= 3600:
        raise SettingError(f"instance_ttl_s={settings.instance_ttl_s:g}: expected 1 to 3600 seconds")
    store = Store(settings.data_dir and settings.data_dir / "history.sqlite", keep_seconds=settings.keep_hours * 3600)
    recent = RecentIdle()

    def record(measurement: Measurement, measured_at: float) -> None:
        store.record(measurement, measured_at)
        recent.add(measurement)

    registry = Registry(render=exposition.render, record=record, forget_after_seconds=settings.forget_after_hours * 3600)
    without_agent = {}
    for known in store.nodes():
        if known.measurement.agent.id == NO_AGENT:  # its instances register again by themselves
            without_agent[known.measurement.node] = known.heard_at
            continue
        registry.restore(known.measurement, silent_s=known.silent_s, heard_at=known.heard_at, first_heard_at=known.first_heard_at)
    instances = Instances(settings.instance_ttl_s)
    fleet = WithInstances(registry, instances, socket.gethostname(), exposition.render)
    recorder = Recorder(fleet, record, store.forget, without_agent)

    def keep_house() -> None:
        for name in registry.expire():
            store.forget(name)
        instances.expire()
        recorder.step()
        recent.keep_only([node.name for node in fleet.nodes()])

    def notices() -> list[str]:
        return [sentence for sentence in (store.notice, store.problem) if sentence]

    app = create_app(
        registry,
        EmbeddedHistory(store),
        instances=instances,
        interval_s=settings.heartbeat_interval,
        notices=notices,
        idle_cores=recent.cores,
        demo=demo,
    )
    return ControlPlane(app, registry, store, keep_house)


def create_app(
    registry: Registry,
    history: History,
    *,
    fleet: Fleet | None = None,
    instances: Instances | None = None,
    interval_s: float = 10.0,
    frame_ancestors: tuple[str, ...] = (),
    notices: Callable[[], list[str]] = list,
    idle_cores: Callable[[Node], float | None] = placement.idle_now,
    demo: bool = False,
    wall: Callable[[], float] = time.time,
) -> Flask:
    """The web application around a registry and a history.

    `fleet` feeds the pages where it isn't the registry. `notices` are sentences that every page shows.
    `idle_cores` of a node over the last minutes.
    """
    app = Flask(__name__, root_path=str(ASSETS))
    routing.take_any_name(app)
    app.jinja_options = {"trim_blocks": True, "lstrip_blocks": True}
    app.json.sort_keys = False  # type: ignore[attr-defined]
    Htmx(app)
    instances = Instances() if instances is None else instances
    own = WithInstances(registry, instances, socket.gethostname(), exposition.render)
    shown = own if fleet is None else WithInstances(fleet, instances, socket.gethostname(), exposition.render)

    def rank(wanted: placement.Wanted) -> list[placement.Candidate]:
        return placement.rank(shown.nodes(), wanted, idle_cores=idle_cores, stated=shown.admissions())

    app.register_blueprint(
        machines.blueprint(
            registry,
            interval_s,
            notices,
            exposed=own.exposed,
            more=_instance_metrics(instances, own),
            health_of_others=lambda: {"ttl_s": instances.ttl_s},
        )
    )
    app.register_blueprint(instance_api.blueprint(instances, wall))
    app.register_blueprint(pages.blueprint(shown, notices, shown.residents))
    app.register_blueprint(fragments.blueprint(shown, history, wall, shown.residents))
    app.register_blueprint(instance_pages.blueprint(instances, shown, notices))
    app.register_blueprint(placement_views.blueprint(shown, rank, notices))
    _teach_templates(app, demo)
    assets.version_assets(app)
    errors.handle(app)
    security.protect(app, frame_ancestors)
    return app


def _instance_metrics(instances: Instances, fleet: WithInstances) -> tuple[exposition.Family, ...]:
    def up() -> list[tuple[Labels, float]]:
        homes = fleet.homes()
        return [
            ((("instance_id", one.instance_id), ("node", homes.get(one.instance_id, ""))), float(one.is_alive))
            for one in instances.all()
        ]

    return (
        exposition.Gauges("llmgw_instance_up", "Whether a registered engine was heard within its TTL.", up),
        exposition.Counters(
            "enginehouse_instance_messages_total", "Messages of the instance protocol.", "outcome", instances.messages
        ),
    )


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
