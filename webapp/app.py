"""The web application: the only place that hands the domain's objects to the views."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from flask import Flask
from htmx_flask import Htmx

from webapp import __version__, exposition, formats, heartbeat
from webapp.charts import numbers
from webapp.charts.colours import Colours
from webapp.charts.explanations import Queries
from webapp.charts.palette import on_dark
from webapp.fleet.instance import Instance
from webapp.fleet.instances import Instances
from webapp.fleet.joined import WithInstances
from webapp.fleet.nodes import Fleet, Node
from webapp.fleet.registry import Registry
from webapp.history import History
from webapp.history.past import Past
from webapp.metrics import Labels
from webapp.overview import gauges, models, placement
from webapp.overview.events import Events
from webapp.overview.selection import models_of
from webapp.overview.summary import by_model, load_per_core, waiting
from webapp.overview.trends import Trends
from webapp.prometheus.alerts import Alert
from webapp.telemetry import Telemetry
from webapp.views import (
    admin,
    api,
    assets,
    blocks,
    compression,
    errors,
    fragments,
    framing,
    guard,
    instance_api,
    instance_pages,
    login,
    machines,
    pages,
    placing,
    reports,
    routing,
    security,
    timing,
)
from webapp.views import placement as placement_views
from webapp.views.callers import Access
from webapp.views.forwarding import Forwarding
from webapp.views.heartbeats import Heartbeats, Shortcut
from webapp.views.moment import AsOf, keep_moment

#: templates/ and static/ lie in the package when it is installed, beside it in a checkout.
ASSETS = Path(__file__).parent if (Path(__file__).parent / "templates").is_dir() else Path(__file__).parent.parent


def create_app(
    registry: Registry,
    history: History,
    *,
    fleet: Fleet | None = None,
    instances: Instances | None = None,
    trends: blocks.LastHour | None = None,
    events: Events | None = None,
    colours: Colours | None = None,
    past: Past | None = None,
    interval_s: float = 10.0,
    frame_ancestors: tuple[str, ...] = (),
    notices: Callable[[], list[str]] = list,
    idle_cores: Callable[[Node], float | None] = placement.idle_now,
    queries: Queries | None = None,
    alerts: Callable[[], Sequence[Alert]] = tuple,
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

    `fleet` feeds the pages where it isn't the registry; `past` does where an address names a moment. `notices` are
    sentences that every page shows. `idle_cores` of a node over the last minutes. `queries` and `alerts` are those of
    the Prometheus in use.
    `hops` proxies in front are believed; without `access` whoever reaches it may read and report, and act from this
    machine itself.
    """
    app = Flask(__name__, root_path=str(ASSETS))
    routing.take_any_name(app)
    app.jinja_options = {"trim_blocks": True, "lstrip_blocks": True, "extensions": [placing.Placing]}
    app.json.sort_keys = False  # type: ignore[attr-defined]
    Htmx(app)
    access, telemetry = access or Access(), telemetry or Telemetry()
    timing.measure(app, telemetry)
    guard.guard(app, access, telemetry.refused)
    instances = Instances() if instances is None else instances
    own = WithInstances(registry, instances, socket.gethostname())
    now = own if fleet is None else WithInstances(fleet, instances, socket.gethostname())
    shown = AsOf(now, past, wall)

    def rank(wanted: placement.Wanted) -> list[placement.Candidate]:
        return placement.rank(now.nodes(), wanted, idle_cores=idle_cores, stated=now.admissions())

    def residents(node: str) -> Sequence[Instance]:
        return now.residents(node) if shown.is_now() else ()

    kept_colours = colours or Colours()

    def colour_index(model: str) -> int:
        return kept_colours.of(model, lambda: models_of(now.nodes()))

    def firing() -> Sequence[Alert]:
        return alerts() if shown.is_now() else ()

    def all_notices() -> list[str]:
        return [*notices(), *shown.notices()]

    heartbeats = Heartbeats(registry, interval_s, telemetry.refused, limits)
    app.register_blueprint(
        machines.blueprint(
            registry,
            heartbeats,
            notices,
            exposed=own.nodes,
            more=_instance_metrics(instances, own),
            health_of_others=lambda: {"ttl_s": instances.ttl_s},
            telemetry=telemetry,
            most_series=most_series,
        )
    )
    app.register_blueprint(instance_api.blueprint(instances, wall))
    overview = blocks.Cluster(shown, trends or Trends(), events or Events(wall), wall, firing, shown.is_now)
    app.register_blueprint(pages.blueprint(shown, overview, all_notices, residents, firing))
    app.register_blueprint(
        fragments.blueprint(shown, overview, history, shown.now, residents, queries, firing, colour_index, all_notices)
    )
    app.register_blueprint(api.blueprint(shown, history))
    app.register_blueprint(reports.blueprint(shown, history, colour_index))
    app.register_blueprint(instance_pages.blueprint(instances, now, notices))
    app.register_blueprint(placement_views.blueprint(now, rank, notices))
    app.register_blueprint(login.blueprint(access, telemetry.refused))
    app.register_blueprint(admin.blueprint(registry))
    keep_moment(app, wall)
    _teach_templates(app, demo, colour_index)
    framing.keep(app)
    assets.version_assets(app)
    compression.compress(app)
    errors.handle(app)
    security.protect(app, frame_ancestors)
    shortcut = Shortcut(app.wsgi_app, heartbeats, telemetry, security.headers(frame_ancestors), guard.admit_agents(access))
    app.wsgi_app = Forwarding(shortcut, hops, base_path)  # type: ignore[method-assign]
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


def _but_none(write: Callable[..., str]) -> Callable[..., str | None]:
    """What is not known stays so: the macro `known` writes it as a dash with its reason."""

    def written(value: float | None, *more: int) -> str | None:
        return None if value is None else write(value, *more)

    return written


def _teach_templates(app: Flask, demo: bool, colour_index: Callable[[str], int]) -> None:
    for write in (
        formats.number,
        formats.percent,
        formats.share,
        formats.bytes_,
        formats.exact_bytes,
        formats.rate,
        formats.duration,
        formats.moment,
        formats.clock_offset,
    ):
        app.jinja_env.filters[write.__name__.rstrip("_")] = _but_none(write)
    for function in (formats.plural, load_per_core, by_model, colour_index):
        app.jinja_env.filters[function.__name__] = function
    app.jinja_env.filters["figure"] = _but_none(numbers.written)
    app.jinja_env.globals.update(
        gauges=gauges,
        gauges_of=models,
        waiting=waiting,
        version=__version__,
        demo=demo,
        now=time.time,
        dark_colours=on_dark(),
    )
