"""The web application: the only place that hands the domain's objects to the views."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from flask import Flask
from htmx_flask import Htmx

from webapp import __version__, exposition, formats, gauges, placement
from webapp.alerts import Alert
from webapp.events import Events
from webapp.explanations import Queries
from webapp.fleet import WithInstances
from webapp.history import History
from webapp.instances import Instances
from webapp.metrics import Labels
from webapp.nodes import Fleet, Node
from webapp.palette import colour_index, on_dark
from webapp.registry import Registry
from webapp.selection import Selection
from webapp.summary import load_per_core, waiting
from webapp.trends import Trends
from webapp.views import assets, blocks, errors, fragments, framing, instance_pages, machines, pages, routing, security
from webapp.views import instances as instance_api
from webapp.views import placement as placement_views
from webapp.views.heartbeats import Heartbeats, Shortcut

#: templates/ and static/ lie in the package when it is installed, beside it in a checkout.
ASSETS = Path(__file__).parent if (Path(__file__).parent / "templates").is_dir() else Path(__file__).parent.parent


def create_app(
    registry: Registry,
    history: History,
    *,
    fleet: Fleet | None = None,
    instances: Instances | None = None,
    trends: Trends | None = None,
    events: Events | None = None,
    interval_s: float = 10.0,
    frame_ancestors: tuple[str, ...] = (),
    notices: Callable[[], list[str]] = list,
    idle_cores: Callable[[Node], float | None] = placement.idle_now,
    queries: Queries | None = None,
    alerts: Callable[[], Sequence[Alert]] = tuple,
    demo: bool = False,
    wall: Callable[[], float] = time.time,
) -> Flask:
    """The web application around a registry and a history.

    `fleet` feeds the pages where it isn't the registry. `notices` are sentences that every page shows.
    `idle_cores` of a node over the last minutes. `queries` and `alerts` are those of the Prometheus in use.
    """
    app = Flask(__name__, root_path=str(ASSETS))
    routing.take_any_name(app)
    app.jinja_options = {"trim_blocks": True, "lstrip_blocks": True}
    app.json.sort_keys = False  # type: ignore[attr-defined]
    Htmx(app)
    instances = Instances() if instances is None else instances
    own = WithInstances(registry, instances, socket.gethostname(), exposition.Lines)
    shown = own if fleet is None else WithInstances(fleet, instances, socket.gethostname(), exposition.Lines)

    def rank(wanted: placement.Wanted) -> list[placement.Candidate]:
        return placement.rank(shown.nodes(), wanted, idle_cores=idle_cores, stated=shown.admissions())

    heartbeats = Heartbeats(registry, interval_s)
    app.register_blueprint(
        machines.blueprint(
            registry,
            heartbeats,
            notices,
            exposed=own.exposed,
            more=_instance_metrics(instances, own),
            health_of_others=lambda: {"ttl_s": instances.ttl_s},
        )
    )
    app.register_blueprint(instance_api.blueprint(instances, wall))
    overview = blocks.Cluster(shown, trends or Trends(), events or Events(wall), wall, alerts)
    app.register_blueprint(pages.blueprint(shown, overview, notices, shown.residents, alerts))
    app.register_blueprint(fragments.blueprint(shown, overview, history, wall, shown.residents, queries, alerts))
    app.register_blueprint(instance_pages.blueprint(instances, shown, notices))
    app.register_blueprint(placement_views.blueprint(shown, rank, notices))
    _teach_templates(app, demo)
    framing.keep(app)
    assets.version_assets(app)
    errors.handle(app)
    security.protect(app, frame_ancestors)
    app.wsgi_app = Shortcut(app.wsgi_app, heartbeats, security.headers(frame_ancestors))  # type: ignore[method-assign]
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
