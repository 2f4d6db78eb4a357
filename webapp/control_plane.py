"""A whole control plane from settings: everything that runs in one process, built here and closed here."""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Iterable, Iterator
from types import SimpleNamespace

from flask import Flask

from webapp import heartbeat
from webapp.app import create_app
from webapp.charts.colours import Colours
from webapp.fleet.instances import Instances
from webapp.fleet.joined import NO_AGENT, Recorder, WithInstances
from webapp.fleet.listening import TICK_SECONDS, Listening
from webapp.fleet.notes import Notes
from webapp.fleet.registry import Registry
from webapp.history import History
from webapp.history.embedded import EmbeddedHistory
from webapp.history.past import FurtherBack, Past, StoredPast
from webapp.measurement import Measurement
from webapp.overview.asked_trends import AskedTrends
from webapp.overview.events import Events
from webapp.overview.looks import Looks
from webapp.overview.placement import RecentIdle
from webapp.overview.trends import Trends
from webapp.prometheus.connection import Connection, connect
from webapp.prometheus.copies import Copies
from webapp.prometheus.fleet import PrometheusFleet
from webapp.prometheus.managed import SCRAPE_SECONDS, ManagedPrometheus
from webapp.settings import SettingError
from webapp.storage.store import Store
from webapp.telemetry import Gauge, Telemetry
from webapp.views import rules

log = logging.getLogger(__name__)

#: Seconds between two looks for what fell silent, is to be kept or is to be forgotten.
HOUSEKEEPING_SECONDS = 5.0

#: Seconds between two readings of the fleet from Prometheus while nobody looks, so that a page opened after an hour
#: doesn't show an hour of silence.
WATCHING_SECONDS = 15.0


class ControlPlane:
    """Runs from entering the context to leaving it."""

    def __init__(self, settings: SimpleNamespace, *, demo: bool = False, prometheus: ManagedPrometheus | None = None) -> None:
        """What `settings` ask for (see `config`), with a Prometheus of our own perhaps.

        Raises SettingError, StoreUnusable, AccessUnusable.
        """
        self.access = rules.access(settings)
        connection = None if demo else _connection(settings, prometheus)
        self.store = Store(settings.data_dir and settings.data_dir / "history.sqlite", keep_seconds=settings.keep_hours * 3600)
        self._embedded = EmbeddedHistory(self.store)
        self._trends, self._events, self._idle = Trends(), Events(time.time), RecentIdle()
        self._listening = Listening()
        self.registry = Registry(
            record=self._heard,
            drop=self._forget,
            listening=self._listening,
            notes=Notes(settings.data_dir and settings.data_dir / "notes.json"),
            most_nodes=settings.most_nodes,
            forget_after_seconds=settings.forget_after_hours * 3600,
        )
        without_agent = self._restore()
        self._instances = Instances(settings.instance_ttl_s)
        self._fleet = WithInstances(self.registry, self._instances, socket.gethostname())
        self._recorder = Recorder(self._fleet, self._heard, self._forget, without_agent)
        self.telemetry = _telemetry(self.store)
        if connection is not None:
            connection.server.observe = self.telemetry.queries.observe
        self._closing = threading.Event()
        self._watcher: threading.Thread | None = None
        self.app = self._application(settings, connection, demo)
        self._housekeeper = threading.Thread(target=self._run, name="housekeeping", daemon=True)

    def _heard(self, measurement: Measurement, measured_at: float, message: bytes | None = None) -> None:
        self.store.record(measurement, measured_at, message)
        self._trends.add(measurement, measured_at)
        self._events.add(measurement, measured_at)
        self._idle.add(measurement)

    def _forget(self, name: str) -> None:
        self.store.forget(name)
        self._trends.forget(name)
        self._events.forget(name)

    def _restore(self) -> dict[str, float]:
        """Put back the nodes of before the restart; those without an agent, with the Unix time of their last sample."""
        without_agent = {}
        now = time.time()
        gaps = [(start, end) for start, end, _ in self.store.unheard(now - self.store.keep_seconds, now)]
        nodes = self.store.nodes()
        if nodes and gaps and gaps[-1][1] > now - TICK_SECONDS:
            self._listening.began_after(gaps[-1][1] - gaps[-1][0])
        for known in nodes:
            self._events.know(known.measurement)
            if known.measurement.agent.id == NO_AGENT:  # its instances register again by themselves
                without_agent[known.measurement.node] = known.heard_at
            else:
                unheard_s = sum(max(0.0, end - max(start, known.heard_at)) for start, end in gaps)
                self.registry.restore(
                    known.measurement,
                    silent_s=known.silent_s,
                    heard_at=known.heard_at,
                    first_heard_at=known.first_heard_at,
                    unheard_s=min(known.silent_s, unheard_s),
                    size=known.size,
                )
        return without_agent

    def _application(self, settings: SimpleNamespace, connection: Connection | None, demo: bool) -> Flask:
        history: History = connection.history if connection else self._embedded
        elsewhere = connection.fleet if connection and settings.fleet == "prometheus" else None
        hour = _asked_trends(connection) if connection and elsewhere else None
        events = self._events
        if elsewhere and hour:
            events = Events(time.time)
            watched = (elsewhere, hour, Looks(events))
            self._watcher = threading.Thread(target=self._watch, args=watched, name="watching", daemon=True)

        def notices() -> list[str]:
            own = [sentence for sentence in (self.store.notice, self.store.problem, self._listening.notice) if sentence]
            return [*own, *(elsewhere.notices() if elsewhere else ())]

        return create_app(
            self.registry,
            history,
            fleet=elsewhere,
            past=self._past(connection, elsewhere is not None),
            instances=self._instances,
            trends=hour or self._trends,
            events=events,
            colours=Colours(settings.data_dir and settings.data_dir / "colours.json"),
            idle_cores=self._idle.cores,
            queries=connection.queries if connection else None,
            alerts=connection.alerts.firing if connection else tuple,
            interval_s=settings.heartbeat_interval,
            frame_ancestors=settings.frame_ancestor,
            notices=notices,
            access=self.access,
            telemetry=self.telemetry,
            limits=heartbeat.Limits(settings.largest_body, settings.most_engines),
            most_series=settings.most_series,
            hops=settings.proxy_hops,
            base_path=rules.base_path(settings),
            demo=demo,
        )

    def _past(self, connection: Connection | None, from_prometheus: bool) -> Past:
        """Where past fleets come from: the store for what was heard here, a Prometheus for what was before, or for all of it."""
        own = StoredPast(self.store)
        if connection is None:
            return own
        return connection.fleet if from_prometheus else FurtherBack(own, connection.fleet)

    def __enter__(self) -> ControlPlane:
        self._housekeeper.start()
        if self._watcher is not None:
            self._watcher.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._closing.set()
        self._housekeeper.join()
        if self._watcher is not None:
            self._watcher.join()
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
        try:
            self._trends.fill(self._embedded, names, time.time(), self._closing.is_set)
        except Exception:
            log.exception("sparklines start empty")
        looked = time.monotonic()
        while not self._closing.wait(TICK_SECONDS):
            self._listening.tick()
            if time.monotonic() - looked >= HOUSEKEEPING_SECONDS:
                looked = time.monotonic()
                try:
                    self._keep_house()
                except Exception:  # without this thread a time in which nobody listened would look like silence
                    log.exception("housekeeping failed; it is tried again")

    def _watch(self, fleet: PrometheusFleet, hour: AskedTrends, looks: Looks) -> None:
        while True:
            nodes = fleet.nodes()
            if not fleet.notices():  # what is missing of an answer didn't stop, nor did what is old
                looks.look(nodes)
            hour.problem(time.time())
            if self._closing.wait(WATCHING_SECONDS):
                return

    def _keep_house(self) -> None:
        self._events.watch(self.registry.nodes())
        self.registry.expire()
        self._instances.expire()
        self._recorder.step()
        self._idle.keep_only([node.name for node in self._fleet.nodes()])


def _asked_trends(connection: Connection) -> AskedTrends:
    return AskedTrends(connection.hour, Copies(connection.server.name, patience=0.0, threads=1, most_kept=1))


def _telemetry(store: Store) -> Telemetry:
    telemetry = Telemetry()
    lag, dropped = "enginehouse_store_write_lag_seconds", "enginehouse_store_dropped_samples_total"
    telemetry.add(
        Gauge(lag, "How long the oldest sample has waited to be written.", lambda: store.write_lag_s),
        Gauge(dropped, "Samples that the disk did not take.", lambda: float(store.dropped), "counter"),
    )
    return telemetry


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
