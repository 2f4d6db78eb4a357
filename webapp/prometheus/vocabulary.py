"""Which PromQL gives each metric: what any estate must be able to say, and our own words for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from webapp.lens import Labels, Metric, OverTime
from webapp.metrics import HEARTBEAT_AGE
from webapp.prometheus.promql import duration, selector


@dataclass(frozen=True)
class Scope:
    """Whose series are wanted: one node's, those of one model's engines, or, with neither, everyone's."""

    node: str = ""
    model: str = ""

    @property
    def labels(self) -> Labels:
        return tuple((name, value) for name, value in (("node", self.node), ("model", self.model)) if value)


@dataclass(frozen=True)
class Window:
    """How far a point looks back, in seconds: over the step, or over the lookback."""

    step: float
    lookback: float
    #: Only the latest sample counts, whatever the metric says of its points.
    latest: bool = False

    def over(self, kind: OverTime) -> tuple[str, str]:
        """The function, and the time that it covers, for what `history.History.series` promises.

        >>> Window(15, 30).over("mean"), Window(60, 30).over("mean"), Window(15, 30).over("max")
        (('last_over_time', '30s'), ('avg_over_time', '60s'), ('max_over_time', '30s'))
        """
        if self.latest or kind == "last" or (kind == "mean" and self.step <= self.lookback):
            return "last_over_time", duration(self.lookback)
        if kind == "mean":
            return "avg_over_time", duration(self.step)
        return "max_over_time", duration(max(self.step, self.lookback))


@dataclass(frozen=True)
class Term:
    """An expression that gives a metric, and how to read the labels of its series."""

    promql: str
    #: Node and the row's own labels, from those of a series; None: it is not of the fleet.
    labels: Callable[[Mapping[str, str]], Labels | None]
    #: Further fields of the engine, disk, ... that the series belongs to.
    fields: Callable[[Mapping[str, str]], Mapping[str, Any]] = lambda labels: {}


class Vocabulary(Protocol):
    """The words of one estate for what the table names."""

    def terms(self, metric: Metric, scope: Scope, window: Window) -> Sequence[Term]:
        """Expressions for the metric, of which each may give some of its series; none where there are no words for it."""
        ...

    def heard(self, scope: Scope) -> str:
        """An expression for the Unix time at which each node was last heard."""
        ...

    def scraped(self, scope: Scope) -> str:
        """An expression for the Unix time at which the server last took a sample for `scope`: one series."""
        ...

    def node(self, labels: Mapping[str, str]) -> str:
        """The node that the labels of a series name; "" if they name none."""
        ...

    def probe(self, scope: Scope) -> str:
        """A selector of a few series that are always there: their samples show the scrape interval."""
        ...


#: A server that puts a label `node` of its own on all that it scrapes renames ours: the whole fleet would be one node.
_OWN_NODE: Labels = (("exported_node", ""),)


def marked_terms(
    vocabulary: Vocabulary, metrics: Iterable[Metric], scope: Scope, window: Window
) -> dict[str, tuple[Metric, Term]]:
    """Every term for the metrics, by a mark that tells its series from the others' (see `promql.joined`)."""
    found = [(metric, term) for metric in metrics for term in vocabulary.terms(metric, scope, window)]
    return {str(index): pair for index, pair in enumerate(found)}


@dataclass(frozen=True)
class Heartbeats:
    """Our own words, `llmgw_*`: the table itself, as any number of control planes export it."""

    #: Matchers that every selector carries, such as `cluster="eu"`.
    extra: str = ""

    def terms(self, metric: Metric, scope: Scope, window: Window) -> Sequence[Term]:
        if scope.model and metric.each != "engines":
            return ()
        kept = ("node", *(name for name, _ in metric.fixed), *(name for name, _ in metric.labels))
        samples = self._selector(metric.name, scope.labels + metric.fixed)
        if not window.latest:  # else what the server holds to be there is there: it knows of scrapes without the series
            function, time = window.over(metric.over_time)
            samples = f"{function}({samples}[{time}])"
        # Each replica of Prometheus and of the control plane has the same series.
        promql = f"max by ({', '.join(kept)}) ({samples})"
        return (Term(promql, lambda labels: tuple((name, labels.get(name, "")) for name in kept)),)

    def heard(self, scope: Scope) -> str:
        age = self._age(scope)
        heard = f"max by (node) (timestamp({age}) - {age})"
        if not scope.model:
            return heard
        engines = self._selector("llmgw_shard_cpu_cores", scope.labels)
        return f"({heard} and on (node) max by (node) (last_over_time({engines}[120s])))"

    def scraped(self, scope: Scope) -> str:
        return f"max(timestamp({self._age(scope)}))"

    def node(self, labels: Mapping[str, str]) -> str:
        return labels.get("node", "")

    def probe(self, scope: Scope) -> str:
        return self._selector("llmgw_shard_cpu_cores", scope.labels) if scope.model else self._age(scope)

    def _age(self, scope: Scope) -> str:
        return self._selector(HEARTBEAT_AGE.name, () if scope.model else scope.labels)

    def _selector(self, name: str, labels: Labels) -> str:
        return selector(name, labels + _OWN_NODE, self.extra)
