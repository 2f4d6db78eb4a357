"""The fleet as Prometheus tells it: every node with its engines, now or at a past moment, without heartbeats.

The metric table is read backwards: each sample is put into the message of its node, and the messages are read
like any other. So any number of dashboards can show what any number of control planes, or an estate of
exporters, let a server keep.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from webapp.fleet.nodes import USUAL_INTERVAL_SECONDS, Node, state
from webapp.heartbeat import HeartbeatRefused, Reading, from_mapping
from webapp.history import HistoryUnavailable
from webapp.measurement import FRESH_FOR_SECONDS
from webapp.metrics import METRICS
from webapp.prometheus.copies import Copies, Copy, Renewal
from webapp.prometheus.history import PrometheusHistory
from webapp.prometheus.promql import MARK
from webapp.prometheus.queries import PrometheusServer
from webapp.prometheus.vocabulary import Scope, Vocabulary, Window

#: The fleet is asked for again after this time.
ASKED_EVERY_SECONDS = 5.0

#: A fleet that is older than this is said to be: each node's age says so before.
_WORTH_SAYING_SECONDS = 15.0


@dataclass(frozen=True)
class Told:
    """What the server told at one moment: readings by node, and the Unix times at which the nodes were last heard."""

    at: float
    readings: Mapping[str, Reading]
    heard: Mapping[str, float]
    #: Seconds of the past of which the server tells nothing yet.
    unseen: float
    warnings: tuple[str, ...] = ()


class PrometheusFleet:
    """A `nodes.Fleet`; never raises: `notices` say what is wrong, and the last good fleet stays with growing ages."""

    def __init__(
        self,
        server: PrometheusServer,
        vocabulary: Vocabulary,
        history: PrometheusHistory,
        copies: Copies[Told],
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
        told = self._told()
        if isinstance(told, HistoryUnavailable):
            return []
        return [self._node(name, told.value) for name in sorted(told.value.heard)]

    def node(self, name: str) -> Node | None:
        told = self._told()
        if isinstance(told, HistoryUnavailable) or name not in told.value.heard:
            return None
        return self._node(name, told.value)

    def notices(self) -> list[str]:
        """What the reader must know about the fleet, in sentences."""
        told = self._told()
        if isinstance(told, HistoryUnavailable):
            return [f"{told}."]
        found = [f"{warning}." for warning in told.value.warnings]
        if told.reason and told.age_s > _WORTH_SAYING_SECONDS:
            found.append(f"{told.reason}; the nodes are shown as they were {told.age_s:.0f} s ago.")
        elif not told.value.heard:
            found.append(f"{self._server.name} knows no node: {self._vocabulary.heard(Scope())} is empty.")
        return found

    def _told(self) -> Copy[Told] | HistoryUnavailable:
        now = self._clock()
        if self._at is None:
            key, is_fresh = None, lambda told: now - told.at <= ASKED_EVERY_SECONDS
        else:
            key, is_fresh = self._at, lambda told: True
        try:
            return self._copies.get(("fleet", key), is_fresh, lambda before: self._ask())
        except HistoryUnavailable as error:
            return error

    def _ask(self) -> Renewal[Told]:
        at = self._clock() if self._at is None else self._at
        interval = self._history.scrape_interval(at)
        window = Window(0, max(FRESH_FOR_SECONDS, 2 * interval), latest=True)
        terms = {
            str(index): (metric, term)
            for index, (metric, term) in enumerate(
                (metric, term) for metric in METRICS for term in self._vocabulary.terms(metric, Scope(), window)
            )
        }
        heard_by = self._vocabulary.heard(Scope())
        # A node that no server shows any more was still there a moment ago.
        before = f"max_over_time({heard_by}[{_REMEMBERED}])"
        contact = [("heard", f"({heard_by} or {before})"), ("scraped", self._vocabulary.scraped(Scope()))]
        asked = [*contact, *((mark, term.promql) for mark, (_, term) in terms.items())]
        result = self._server.query_all(asked, at)
        heard: dict[str, float] = {}
        scraped = at
        for series in result.series:
            last = series.samples[-1][1] if series.samples else None
            if last is None:
                continue
            if series.labels.get(MARK) == "scraped":
                scraped = last
            if series.labels.get(MARK) == "heard" and (name := self._vocabulary.node(series.labels)):
                heard[name] = max(last, heard.get(name, last))
        messages: dict[str, dict[str, Any]] = {name: {"node": name} for name in heard}
        for series in result.series:
            metric, term = terms.get(series.labels.get(MARK, ""), (None, None))
            value = series.samples[-1][1] if series.samples else None
            labels = dict(term.labels(series.labels) or ()) if term is not None else {}
            name = labels.get("node", "")
            if metric is None or term is None or value is None or name not in messages:
                continue
            metric.put(messages[name], labels, value, heard[name])
            fields = term.fields(series.labels)
            if fields and metric.each:
                _describe(messages[name][metric.each], labels.get("shard", ""), fields)
        readings = _read(messages)
        unseen = min(FRESH_FOR_SECONDS, max(interval, at - scraped))
        told = Told(at, readings, {name: heard[name] for name in readings}, unseen, result.warnings)
        return Renewal(told, good=not result.warnings)

    def _node(self, name: str, told: Told) -> Node:
        now = self._clock() if self._at is None else self._at
        reading = told.readings[name]
        silence = max(0.0, now - told.heard[name])
        # What came since the last scrape is not known yet: it is taken to have come. VictoriaMetrics holds the
        # newest 30 s back besides.
        return Node(
            name=name,
            measurement=reading.measurement,
            state=state(max(0.0, silence - told.unseen), USUAL_INTERVAL_SECONDS),
            heard_s=silence,
            measured_s=silence,
            heard_at=told.heard[name],
            first_heard_at=told.heard[name],
            source=self._server.name,
            rejected=reading.rejected,
        )


#: How long a node is remembered that no server shows any more, and how finely.
_REMEMBERED = "1h:1m"


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
