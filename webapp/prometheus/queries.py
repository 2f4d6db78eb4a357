"""Queries to a Prometheus-compatible server, and their answers as plain series.

prometheus-api-client speaks the two calls; the session under it (`session`) sends forms, ends in time,
and believes only what is Prometheus' JSON.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from time import monotonic
from typing import Any
from urllib.parse import urlencode

from prometheus_api_client import PrometheusConnect
from urllib3.util import Retry

from webapp.fields import printable
from webapp.history import HistoryUnavailable, Range
from webapp.prometheus.promql import LONGEST_QUERY, joined
from webapp.prometheus.session import Access, PrometheusSession


@dataclass(frozen=True)
class RawSeries:
    """Labels (the metric's name is `__name__`) and samples: Unix time and value, None for NaN and infinities."""

    labels: Mapping[str, str]
    samples: Sequence[tuple[float, float | None]]


@dataclass(frozen=True)
class Result:
    """What a query brought."""

    series: tuple[RawSeries, ...]
    #: Sentences of the server on why it may be incomplete.
    warnings: tuple[str, ...] = ()


class PrometheusServer:
    """One server; safe to use from many threads."""

    def __init__(self, access: Access, session: PrometheusSession | None = None) -> None:
        self.access = access
        session = session or PrometheusSession(access)
        # No retries beside those of the session: theirs would take longer than the page waits.
        self._connect = PrometheusConnect(
            url=access.url, session=session, timeout=access.timeout, method="POST", retry=Retry(0, read=False)
        )
        session.bound()
        #: Called after each query with its kind ("instant", "range"), and the seconds that it took, answered or not.
        self.observe: Callable[[str, float], None] = lambda kind, seconds: None
        # Lets a server stop working on what nobody waits for any more.
        self._bound = {"timeout": f"{access.timeout:g}s"}

    @property
    def name(self) -> str:
        """What messages call the server."""
        return self.access.name

    def query(self, promql: str, at: float | None = None) -> Result:
        """The value of each series now, or at a Unix time. Raises HistoryUnavailable."""
        when = {} if at is None else {"time": f"{at:.3f}"}
        with self._timed("instant"):
            return self._result(self._connect.custom_query(promql, params={**self._bound, **when}))

    def query_range(self, promql: str, range: Range) -> Result:
        """The values of each series on a grid of whole seconds. Raises HistoryUnavailable."""
        start, end = (datetime.fromtimestamp(time, UTC) for time in (range.start, range.end))
        with self._timed("range"):
            return self._result(self._connect.custom_query_range(promql, start, end, f"{range.step:g}", params=dict(self._bound)))

    @contextmanager
    def _timed(self, kind: str) -> Iterator[None]:
        started = monotonic()
        try:
            yield
        finally:
            self.observe(kind, monotonic() - started)

    def query_all(self, terms: Iterable[tuple[str, str]], at: float | None = None) -> Result:
        """As `query`, for many marked expressions; see `promql.joined`."""
        return _together(self.query(promql, at) for promql in joined(terms))

    def query_range_all(self, terms: Iterable[tuple[str, str]], range: Range, *, apart: bool = False) -> Result:
        """As `query_range`, for many marked expressions; see `promql.joined`. `apart`: a query each."""
        return _together(self.query_range(promql, range) for promql in joined(terms, 0 if apart else LONGEST_QUERY))

    def graph_url(self, promql: str, range: Range) -> str:
        """Where the server's own pages draw a query over a range."""
        until = datetime.fromtimestamp(range.end, UTC).strftime("%Y-%m-%d %H:%M:%S")
        shown = {"g0.expr": promql, "g0.tab": "0", "g0.range_input": f"{range.end - range.start:.0f}s", "g0.end_input": until}
        return f"{self.access.url}/graph?{urlencode(shown)}"

    def _result(self, answered: Any) -> Result:
        try:
            return Result(tuple(_series(item) for item in answered), answered.warnings)
        except (TypeError, ValueError, KeyError, AttributeError, IndexError, OverflowError) as error:
            raise HistoryUnavailable(f"{self.name} answered in a form that is not the API's") from error


def _together(results: Iterable[Result]) -> Result:
    found = list(results)
    warnings = dict.fromkeys(warning for result in found for warning in result.warnings)
    return Result(tuple(series for result in found for series in result.series), tuple(warnings))


def _series(item: Mapping[str, Any]) -> RawSeries:
    # A native histogram has `histograms` in place of `values`: nothing that a line could show.
    samples = item.get("values", [item["value"]] if "value" in item else [])
    labels = {str(name): printable(str(text)) for name, text in item["metric"].items()}
    return RawSeries(labels, [(float(time), _value(text)) for time, text in samples])


def _value(text: str) -> float | None:
    """
    >>> _value("1.5"), _value("NaN"), _value("+Inf")
    (1.5, None, None)
    """
    value = float(text)
    return value if math.isfinite(value) else None
