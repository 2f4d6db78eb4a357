"""Which PromQL gives each metric."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from webapp.metrics import HEARTBEAT_AGE, Labels, Metric
from webapp.promql import over_time, selector


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


class Vocabulary(Protocol):
    """The words of one estate for what the table names."""

    def promql(self, metric: Metric, scope: Scope, window: Window) -> str | None:
        """An expression for the metric; None where the estate has no word for it, or it has no such scope."""
        ...

    def labels(self, metric: Metric, labels: Mapping[str, str]) -> Labels | None:
        """Node and the row's own labels, from those that the expression's series carry; None: not ours."""
        ...

    def contact(self, scope: Scope) -> Mapping[str, str]:
        """Expressions: `age`, seconds since each node's last heartbeat; `scraped`, since anyone's last sample."""
        ...

    def probe(self, scope: Scope) -> str:
        """A selector of a few series that are always there: their samples tell the scrape interval."""
        ...


@dataclass(frozen=True)
class Heartbeats:
    """Our own words, `llmgw_*`: the table itself."""

    #: Matchers that every selector carries, such as `cluster="eu"`.
    extra: str = ""

    def promql(self, metric: Metric, scope: Scope, window: Window) -> str | None:
        if scope.model and metric.each != "engines":
            return None
        samples = over_time(
            selector(metric.name, scope.labels + metric.fixed, self.extra), metric.over_time, window.step, window.lookback
        )
        # Replicas of Prometheus and of the control plane tell the same series once each.
        return f"max by ({', '.join(_kept(metric))}) ({samples})"

    def labels(self, metric: Metric, labels: Mapping[str, str]) -> Labels | None:
        return tuple((name, labels.get(name, "")) for name in _kept(metric))

    def contact(self, scope: Scope) -> Mapping[str, str]:
        age = selector(HEARTBEAT_AGE.name, () if scope.model else scope.labels, self.extra)
        silence = f"min by (node) ({age} + (time() - timestamp({age})))"
        if scope.model:
            engines = selector("llmgw_shard_cpu_cores", scope.labels, self.extra)
            silence = f"({silence} and on (node) max by (node) (last_over_time({engines}[120s])))"
        return {"age": silence, "scraped": f"min(time() - timestamp({age}))"}

    def probe(self, scope: Scope) -> str:
        if scope.model:
            return selector("llmgw_shard_cpu_cores", scope.labels, self.extra)
        return selector(HEARTBEAT_AGE.name, scope.labels, self.extra)


def _kept(metric: Metric) -> tuple[str, ...]:
    return ("node", *(name for name, _ in metric.fixed), *(name for name, _ in metric.labels))
