"""History from any server that speaks Prometheus' HTTP API.

One joined query brings all charts of a page; a label marks which row of the table each series belongs to.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from statistics import median

from webapp.history import LOOKBACK_SECONDS, Answer, Range, Series, Span
from webapp.history.ranges import coarsened
from webapp.metrics import Labels, Metric
from webapp.prometheus.promql import MARK
from webapp.prometheus.queries import PrometheusServer, RawSeries
from webapp.prometheus.vocabulary import Heartbeats, Scope, Vocabulary, Window, marked_terms

#: The scrape interval that is assumed while it isn't known.
USUAL_SCRAPE_SECONDS = 15.0

#: The scrape interval is asked for again after this time.
_PROBE_EVERY_SECONDS = 600.0


class PrometheusHistory:
    """Answers range queries from a server; safe to use from many threads. See `history.History`."""

    def __init__(
        self,
        server: PrometheusServer,
        vocabulary: Vocabulary | None = None,
        *,
        scrape_interval: float | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`scrape_interval` in seconds; None: it is worked out from the samples."""
        self._server = server
        self._vocabulary = vocabulary or Heartbeats()
        self._given_interval = scrape_interval
        self._found_interval = (USUAL_SCRAPE_SECONDS, float("-inf"))
        self._clock = clock

    @property
    def name(self) -> str:
        """What messages call this history."""
        return self._server.name

    def series(self, metrics: Sequence[Metric], range: Range, *, node: str = "", model: str = "") -> Answer:
        scope = Scope(node, model)
        range = coarsened(range)
        asked_at = self._clock()
        window = Window(range.step, self._lookback(scope, range.end))
        terms = marked_terms(self._vocabulary, metrics, scope, window)
        if not terms:
            return Answer(range, (), asked_at)
        marked = [(mark, term.promql) for mark, (_, term) in terms.items()]
        contact = [("heard", self._vocabulary.heard(scope)), ("scraped", self._vocabulary.scraped(scope))]
        # The engines of a model may be on a thousand nodes: joining so many series costs the server more than asking anew.
        result = self._server.query_range_all([*marked, *contact], range, apart=bool(model))
        lines: dict[tuple[tuple[str, Labels], Labels], list[float | None]] = {}
        heard: dict[str, list[float | None]] = {}
        scraped = _unknown(range)
        for raw in result.series:
            mark = raw.labels.get(MARK, "")
            if mark == "heard":
                _fold(heard.setdefault(self._vocabulary.node(raw.labels), _unknown(range)), raw, range)
            elif mark == "scraped":
                _fold(scraped, raw, range)
            elif mark in terms:
                metric, term = terms[mark]
                labels = term.labels(raw.labels)
                if labels is not None:
                    _fold(lines.setdefault((metric.key, labels), _unknown(range)), raw, range)
        rows = {metric.key: metric for metric in metrics}
        for (key, labels), values in lines.items():
            _silence(values, heard.get(dict(labels)["node"], ()), rows[key], window, range)
        drawn = tuple(
            Series(rows[key], labels, values)
            for (key, labels), values in lines.items()
            if any(value is not None for value in values)
        )
        return Answer(range, drawn, asked_at, result.warnings, tuple(_unheard(scraped, window, range)))

    def promql(self, metric: Metric, step: float, *, node: str = "", model: str = "") -> str | None:
        """The expression behind one metric's lines, to be copied; None where there is none."""
        window = Window(step, self._known_lookback())
        terms = self._vocabulary.terms(metric, Scope(node, model), window)
        return " or ".join(term.promql for term in terms) or None

    def graph_url(self, metric: Metric, range: Range, *, node: str = "", model: str = "") -> str | None:
        """Where the server itself draws one metric's lines."""
        promql = self.promql(metric, range.step, node=node, model=model)
        return None if promql is None else self._server.graph_url(promql, range)

    def scrape_interval(self, at: float) -> float:
        """Seconds between scrapes, as far as it is known at that Unix time. Raises HistoryUnavailable."""
        self._lookback(Scope(), at)
        return self._given_interval or self._found_interval[0]

    def _known_lookback(self) -> float:
        # A sample must outlast the wait for the next one, and one scrape that came late.
        return max(LOOKBACK_SECONDS, 2 * (self._given_interval or self._found_interval[0]))

    def _lookback(self, scope: Scope, end: float) -> float:
        _, found_at = self._found_interval
        if self._given_interval is None and not 0 <= self._clock() - found_at < _PROBE_EVERY_SECONDS:
            interval = self._ask_interval(scope, end)
            if interval is not None:
                self._found_interval = (interval, self._clock())
        return self._known_lookback()

    def _ask_interval(self, scope: Scope, end: float) -> float | None:
        """Seconds between the samples of the last five minutes; None if there are too few."""
        at = min(end, self._clock())
        if scope == Scope():  # one node of the fleet is enough
            for raw in self._server.query(f"topk(1, {self._vocabulary.probe(scope)})", at).series:
                scope = Scope(node=self._vocabulary.node(raw.labels))
        probed = self._server.query(f"{self._vocabulary.probe(scope)}[300s]", at)
        gaps = [later - earlier for raw in probed.series for (earlier, _), (later, _) in pairwise(raw.samples)]
        return min(120.0, median(gaps)) if len(gaps) >= 2 else None


def _unknown(range: Range) -> list[float | None]:
    return [None] * len(range.times)


def _fold(values: list[float | None], raw: RawSeries, range: Range) -> None:
    """Add a series to a line: where two have a value, the larger is kept."""
    for at, value in raw.samples:
        # By time, never by position: some servers leave points out or begin a step early.
        index = round((at - range.start) / range.step)
        if value is not None and 0 <= index < len(values):
            before = values[index]
            values[index] = value if before is None else max(before, value)


def _silence(values: list[float | None], heard: Sequence[float | None], metric: Metric, window: Window, range: Range) -> None:
    """Take out the points at which the node had been silent for too long.

    A control plane repeats a measurement until it is a minute old; a chart must not.
    """
    if window.step > window.lookback and metric.over_time != "last":
        return
    for index, at in enumerate(heard):
        if at is not None and range.start + index * range.step - at > window.lookback:
            values[index] = None


def _unheard(scraped: Sequence[float | None], window: Window, range: Range) -> Iterator[Span]:
    """The times between two samples in which none was taken for longer than a point looks back."""
    times = range.times
    heard = [index for index, at in enumerate(scraped) if at is not None and times[index] - at <= window.lookback]
    for before, after in pairwise(heard):
        if after - before > 1:
            yield Span(times[before], times[after], "Prometheus took no samples, or the control plane did not answer it")
