"""Everything that is asked of Prometheus, built from the settings."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace

from webapp.prometheus.alerts import Firing, PrometheusAlerts
from webapp.prometheus.copies import Copies
from webapp.prometheus.estate import EstateRefused, estate
from webapp.prometheus.fleet import FleetReading, PrometheusFleet
from webapp.prometheus.history import PrometheusHistory
from webapp.prometheus.queries import PrometheusServer
from webapp.prometheus.session import access
from webapp.prometheus.shared_history import Kept, SharedHistory
from webapp.prometheus.vocabulary import Heartbeats, Vocabulary
from webapp.settings import SettingError


@dataclass(frozen=True)
class Connection:
    """What one server gives the pages."""

    server: PrometheusServer
    #: For charts: shared by all viewers, never slow.
    history: SharedHistory
    #: For PromQL to copy and links to the server's own pages.
    queries: PrometheusHistory
    fleet: PrometheusFleet
    #: For the last hour of all nodes at once: asked in the thread of whoever asks.
    hour: SharedHistory
    alerts: PrometheusAlerts


def connect(settings: SimpleNamespace, url: str, *, scrape_interval: float | None = None) -> Connection:
    """A connection to the server at `url`, with the credentials and words of the settings (see `config`).

    Nothing is asked yet. Raises SettingError.
    """
    server = PrometheusServer(
        access(
            url,
            timeout=settings.prometheus_timeout,
            **({"username": settings.prometheus_username} if settings.prometheus_username else {}),
            password_file=settings.prometheus_password_file,
            bearer_token_file=settings.prometheus_token_file,
            headers=settings.prometheus_header,
            ca_file=settings.prometheus_ca_file,
            insecure=settings.prometheus_insecure,
            parameters=settings.prometheus_parameter,
        )
    )
    for name in ("prometheus_password_file", "prometheus_token_file", "prometheus_ca_file"):
        path = getattr(settings, name)
        if path is not None and not path.is_file():
            raise SettingError(f"{name}={path}: expected a file that can be read")
    words = _vocabulary(settings)
    queries = PrometheusHistory(server, words, scrape_interval=scrape_interval or settings.prometheus_scrape_interval)
    readings: Copies[FleetReading] = Copies(server.name, threads=1, most_waiting=4, most_kept=16)
    firing: Copies[Firing] = Copies(server.name, threads=1, most_waiting=1)
    kept: Copies[Kept] = Copies(server.name)
    return Connection(
        server=server,
        history=SharedHistory(queries, kept),
        queries=queries,
        hour=SharedHistory(queries, Copies(server.name, threads=1, most_kept=2, spawn=lambda work: work())),
        fleet=PrometheusFleet(server, words, queries, readings),
        alerts=PrometheusAlerts(server, words, firing, extra=settings.prometheus_selector or ""),
    )


def _vocabulary(settings: SimpleNamespace) -> Vocabulary:
    if settings.vocabulary == "enginehouse":
        return Heartbeats(settings.prometheus_selector or "")
    try:
        return estate(settings.estate, extra=settings.prometheus_selector or "")
    except EstateRefused as error:
        raise SettingError(str(error)) from error
