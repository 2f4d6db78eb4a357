"""The fleet as Prometheus knows it: every node with its engines, now or at a past moment, without heartbeats.

The metric table is read backwards: each sample is put into the message of its node, and the messages are read
like any other. So any number of dashboards can show what any number of control planes, or an estate of
exporters, let a server keep.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from webapp.fleet.nodes import USUAL_INTERVAL_SECONDS, Node, state
from webapp.heartbeat import HeartbeatRefused, Reading, from_mapping
from webapp.history import HistoryUnavailable
from webapp.measurement import FRESH_FOR_SECONDS
from webapp.metrics import METRICS, Metric
from webapp.prometheus.copies import Copies, Copy, Renewal
from webapp.prometheus.history import PrometheusHistory
from webapp.prometheus.promql import MARK
from webapp.prometheus.queries import PrometheusServer, RawSeries
from webapp.prometheus.vocabulary import Scope, Term, Vocabulary, Window, marked_terms

#: The fleet is asked for again after this time.
ASKED_EVERY_SECONDS = 5.0

#: A fleet that is older than this is said to be: each node's age says so before.
_WORTH_SAYING_SECONDS = 15.0


@dataclass(frozen=True)
class FleetReading:
    """What the server holds of one moment: readings by node, and the Unix times at which the nodes were last heard."""

    at: float
    readings: Mapping[str, Reading]
    heard: Mapping[str, float]
    #: Seconds before that moment of which the server has no samples yet.
    unseen: float
    warnings: tuple[str, ...] = ()


class PrometheusFleet:
    """A `nodes.Fleet`; never raises: `notices` say what is wrong, and the last good fleet stays with growing ages."""

    def __init__(
        self,
        server: PrometheusServer,
        vocabulary: Vocabulary,
        history: PrometheusHistory,
        copies: Copies[FleetReading],
        *,
        at: float | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`history` is asked for the scrape interval; `at` is the Unix time to show, None for now."""
        self._server = server
        self._vocabulary = vocabulary
        self._history = history
        self._copies = copies
        self._at = at
        self._clock = clock

    def at(self, moment: float) -> PrometheusFleet:
        """The fleet as it was at a Unix time."""
        return PrometheusFleet(self._server, self._vocabulary, self._history, self._copies, at=moment, clock=self._clock)

    def nodes(self) -> list[Node]:
        known = self._latest()
        if isinstance(known, HistoryUnavailable):
            return []
        return [self._node(name, known.value) for name in sorted(known.value.heard)]

    def node(self, name: str) -> Node | None:
        known = self._latest()
        if isinstance(known, HistoryUnavailable) or name not in known.value.heard:
            return None
        return self._node(name, known.value)

    def notices(self) -> list[str]:
        """What the reader must know about the fleet, in sentences."""
        known = self._latest()
        if isinstance(known, HistoryUnavailable):
            return [f"{known}."]
        found = [f"{warning}." for warning in known.value.warnings]
        if known.reason and known.age_s > _WORTH_SAYING_SECONDS:
            found.append(f"{known.reason}; the nodes are shown as they were {known.age_s:.0f} s ago.")
        elif not known.value.heard:
            found.append(f"{self._server.name} knows no node: {self._vocabulary.heard(Scope())} is empty.")
        return found

    def _latest(self) -> Copy[FleetReading] | HistoryUnavailable:
        now = self._clock()
        if self._at is None:
            key, is_fresh = None, lambda reading: abs(now - reading.at) <= ASKED_EVERY_SECONDS  # our clock may be set back
        else:
            key, is_fresh = self._at, lambda reading: True
        try:
            return self._copies.get(("fleet", key), is_fresh, lambda before: self._ask())
        except HistoryUnavailable as error:
            return error

    def _ask(self) -> Renewal[FleetReading]:
        at = self._clock() if self._at is None else self._at
        interval = self._history.scrape_interval(at)
        window = Window(0, max(FRESH_FOR_SECONDS, 2 * interval), latest=True)
        terms = marked_terms(self._vocabulary, METRICS, Scope(), window)
        heard_by = self._vocabulary.heard(Scope())
        # A node that no server shows any more was still there a moment ago.
        before = f"max_over_time({heard_by}[{_REMEMBERED}])"
        contact = [("heard", f"({heard_by} or {before})"), ("scraped", self._vocabulary.scraped(Scope()))]
        result = self._server.query_all([*contact, *((mark, term.promql) for mark, (_, term) in terms.items())], at)
        samples = [
            (series.labels.get(MARK, ""), series.labels, value)
            for series in result.series
            if (value := _last(series)) is not None
        ]
        heard = self._heard([(labels, value) for mark, labels, value in samples if mark == "heard"])
        scraped = next((value for mark, _, value in samples if mark == "scraped"), at)
        messages: dict[str, dict[str, Any]] = {name: {"node": name} for name in heard}
        for mark, labels, value in samples:
            if mark in terms:
                _put(messages, heard, *terms[mark], labels, value)
        readings = _read(messages)
        unseen = min(FRESH_FOR_SECONDS, max(interval, at - scraped))
        found = FleetReading(at, readings, {name: heard[name] for name in readings}, unseen, result.warnings)
        return Renewal(found, good=not result.warnings)

    def _heard(self, samples: Iterable[tuple[Mapping[str, str], float]]) -> dict[str, float]:
        """The Unix time at which each node was last heard; of several series of one node, the latest."""
        found: dict[str, float] = {}
        for labels, at in samples:
            if name := self._vocabulary.node(labels):
                found[name] = max(at, found.get(name, at))
        return found

    def _node(self, name: str, known: FleetReading) -> Node:
        now = self._clock() if self._at is None else self._at
        reading = known.readings[name]
        silence = max(0.0, now - known.heard[name])
        # What came since the last scrape is not known yet: it is taken to have come. VictoriaMetrics holds the
        # newest 30 s back besides.
        return Node(
            name=name,
            measurement=reading.measurement,
            state=state(max(0.0, silence - known.unseen), USUAL_INTERVAL_SECONDS),
            heard_s=silence,
            measured_s=silence,
            heard_at=known.heard[name],
            first_heard_at=known.heard[name],
            source=self._server.name,
            rejected=reading.rejected,
        )


#: How long a node is remembered that no server shows any more, and how finely.
_REMEMBERED = "1h:1m"


def _last(series: RawSeries) -> float | None:
    return series.samples[-1][1] if series.samples else None


def _put(
    messages: Mapping[str, dict[str, Any]],
    heard: Mapping[str, float],
    metric: Metric,
    term: Term,
    series_labels: Mapping[str, str],
    value: float,
) -> None:
    """Put a sample into the message of its node, if that is of the fleet."""
    labels = dict(term.labels(series_labels) or ())
    name = labels.get("node", "")
    if name not in messages:
        return
    metric.put(messages[name], labels, value, heard[name])
    fields = term.fields(series_labels)
    if fields and metric.each:
        _describe(messages[name][metric.each], labels.get("shard", ""), fields)


def _describe(items: list[dict[str, Any]], id: str, fields: Mapping[str, Any]) -> None:
    for item in items:
        if item.get("id") == id:
            item.update(fields)


def _read(messages: Mapping[str, Mapping[str, Any]]) -> dict[str, Reading]:
    found = {}
    for name, message in messages.items():
        try:
            found[name] = from_mapping(message)
        except HeartbeatRefused:  # a name that is too long is not of this fleet
            continue
    return found
