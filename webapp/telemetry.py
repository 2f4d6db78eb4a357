"""What the control plane says about itself on /metrics: counts, gauges and how long requests took."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable

from webapp.exposition import Counters, Family, escaped, head, written

#: Upper bounds of a request's duration, in seconds.
BOUNDS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


class Gauge:
    """A number that is asked for at each scrape; left out while it is None."""

    def __init__(self, name: str, help: str, value: Callable[[], float | None], kind: str = "gauge") -> None:
        """`kind` is "gauge" or "counter"; the name of a counter ends in _total."""
        self._name, self._help, self._value, self._kind = name, help, value, kind

    def text(self, openmetrics: bool) -> str:
        value = self._value()
        if value is None:
            return ""
        family = self._name.removesuffix("_total") if openmetrics and self._kind == "counter" else self._name
        return f"{head(family, self._help, self._kind)}{self._name} {written(value)}\n"


class Durations:
    """A histogram of seconds, by one label."""

    def __init__(self, name: str, help: str, label: str) -> None:
        self._name, self._help, self._label = name, help, label
        self._lock = threading.Lock()
        self._counts: dict[str, list[int]] = {}
        self._sums: Counter[str] = Counter()

    def observe(self, which: str, seconds: float) -> None:
        with self._lock:
            self._counts.setdefault(which, [0] * (len(BOUNDS) + 1))[bisect_left(BOUNDS, seconds)] += 1
            self._sums[which] += seconds  # type: ignore[assignment]

    def text(self, openmetrics: bool) -> str:
        with self._lock:
            found = [(which, list(counts), float(self._sums[which])) for which, counts in sorted(self._counts.items())]
        lines = [head(self._name, self._help, "histogram")]
        for which, counts, total in found:
            label, so_far = f'{self._label}="{escaped(which)}"', 0
            for bound, count in zip((*map(str, BOUNDS), "+Inf"), counts):
                so_far += count
                lines.append(f'{self._name}_bucket{{{label},le="{bound}"}} {so_far}\n')
            lines.append(f"{self._name}_sum{{{label}}} {written(total)}\n{self._name}_count{{{label}}} {so_far}\n")
        return "".join(lines)


class Telemetry:
    """Everything that one control plane counts."""

    def __init__(self) -> None:
        #: Requests that were not let in, and connections that were closed, by reason.
        self.refused: Counter[str] = Counter()
        self.closed: Counter[str] = Counter()
        self.durations = Durations("enginehouse_request_duration_seconds", "Time to answer a request.", "route")
        self.queries = Durations("enginehouse_prometheus_query_duration_seconds", "Time that Prometheus took.", "kind")
        #: Seconds that the last scrape of /metrics took.
        self.scrape_s: float | None = None
        self._lock = threading.Lock()
        self._running = 0
        self._families: list[Family] = [
            Counters("enginehouse_refused_requests_total", "Requests that were not let in.", "reason", self.refused),
            Counters("enginehouse_closed_connections_total", "Connections that were closed on a client.", "reason", self.closed),
            self.durations,
            self.queries,
            Gauge("enginehouse_requests_running", "Requests being answered.", lambda: float(self._running)),
            Gauge("enginehouse_scrape_duration_seconds", "Time that the scrape before this one took.", lambda: self.scrape_s),
        ]

    def add(self, *families: Family) -> None:
        self._families.extend(families)

    @property
    def families(self) -> Iterable[Family]:
        return tuple(self._families)

    def started(self) -> None:
        with self._lock:
            self._running += 1

    def ended(self, route: str, seconds: float) -> None:
        with self._lock:
            self._running -= 1
        self.durations.observe(route, seconds)
