"""Alerts that fire on the server, by the node and the engine that they name.

https://prometheus.io/docs/prometheus/latest/configuration/alerting_rules/#inspecting-alerts-during-runtime
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from webapp.history import HistoryUnavailable
from webapp.prometheus.copies import Copies, Renewal
from webapp.prometheus.promql import selector
from webapp.prometheus.queries import PrometheusServer
from webapp.prometheus.vocabulary import Vocabulary

#: Alerts are asked for again after this time.
FRESH_FOR_SECONDS = 15.0


@dataclass(frozen=True)
class Alert:
    """One alert that fires."""

    name: str
    #: The node, engine and model that its labels name; "" where they name none.
    node: str
    engine: str
    model: str
    severity: str
    labels: Mapping[str, str]


class Firing(NamedTuple):
    """The alerts of one moment."""

    at: float
    alerts: tuple[Alert, ...]


class PrometheusAlerts:
    """The alerts that fire now; never raises: why none are known is logged."""

    def __init__(
        self,
        server: PrometheusServer,
        vocabulary: Vocabulary,
        copies: Copies[Firing],
        *,
        extra: str = "",
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`extra` holds matchers that the selector carries."""
        self._server = server
        self._vocabulary = vocabulary
        self._copies = copies
        self._promql = selector("ALERTS", (("alertstate", "firing"),), extra)
        self._clock = clock

    def firing(self) -> tuple[Alert, ...]:
        """By name, node and engine; the last known ones while the server is away."""
        try:
            return self._firing().alerts
        except HistoryUnavailable:
            return ()

    def _firing(self) -> Firing:
        now = self._clock()
        return self._copies.get(
            "alerts", lambda known: abs(now - known.at) <= FRESH_FOR_SECONDS, lambda before: self._ask()
        ).value

    def _ask(self) -> Renewal[Firing]:
        at = self._clock()
        result = self._server.query(self._promql)
        # Each replica of the server reports the same alert.
        found = {self._alert(series.labels): None for series in result.series}
        alerts = sorted(found, key=lambda alert: (alert.name, alert.node, alert.engine))
        return Renewal(Firing(at, tuple(alerts)), good=not result.warnings)

    def _alert(self, labels: Mapping[str, str]) -> Alert:
        kept = {name: text for name, text in labels.items() if name not in ("__name__", "alertname", "alertstate")}
        return Alert(
            name=labels.get("alertname", ""),
            node=labels.get("node") or self._vocabulary.node(labels),
            engine=labels.get("shard", ""),
            model=labels.get("model", ""),
            severity=labels.get("severity", ""),
            labels=_Frozen(kept),
        )


class _Frozen(dict[str, str]):
    """Labels that can be compared as a part of an alert."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))
