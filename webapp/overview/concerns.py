"""What is wrong in the fleet now, the worst first: what an operator with a minute must see."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from webapp import formats
from webapp.fleet.nodes import Node
from webapp.overview import gauges
from webapp.overview.gauges import Level
from webapp.overview.summary import waiting
from webapp.prometheus.alerts import Alert


@dataclass(frozen=True)
class Concern:
    """One thing that is wrong with one node."""

    node: str
    level: Level
    text: str


def of(nodes: Sequence[Node], alerts: Sequence[Alert] = ()) -> list[Concern]:
    """Every concern: critical before warning, then by node. `alerts` fire in the Prometheus that is in use."""
    found = [concern for node in nodes for concern in _of_node(node)]
    names = {node.name for node in nodes}
    found += [Concern(alert.node, _level(alert), f"alert {_said(alert)}") for alert in alerts if alert.node in names]
    return sorted(found, key=lambda concern: (concern.level != "critical", formats.natural(concern.node)))


def _level(alert: Alert) -> Level:
    return "warning" if alert.severity in ("warning", "info", "none") else "critical"


def _said(alert: Alert) -> str:
    return f"{alert.name} ({alert.engine})" if alert.engine else alert.name


def _of_node(node: Node) -> Iterator[Concern]:
    if node.conflict:
        yield Concern(node.name, "critical", "is reported by two agents")
    if node.state == "stale":
        yield Concern(node.name, "critical", f"not heard for {formats.duration(node.heard_s)}")
    elif node.state == "gone":
        yield Concern(node.name, "warning", f"gone for {formats.duration(node.heard_s)}")
    numbers = node.numbers
    if numbers is None:
        return
    disk, fullest = gauges.fullest_disk(numbers) or (None, None)
    for what, gauge in (("CPU", gauges.cpu(numbers)), ("RAM", gauges.memory(numbers)), ("disk", fullest)):
        if gauge is not None and (level := gauge.level) != "normal":
            of = f"disk {disk.mount}" if disk and gauge is fullest else what
            yield Concern(node.name, level, f"{of} {formats.percent(gauge.percent)} %")
    queued = waiting(numbers.engines)[0] or 0.0
    if queued >= gauges.WAITING.warning:  # however many: batches queue by the hundred, and nothing is wrong with that
        yield Concern(node.name, "warning", f"{formats.plural(queued, 'request')} waiting")
    for engine in numbers.engines:
        if engine.state in _ENGINE_CONCERNS:
            level, said = _ENGINE_CONCERNS[engine.state]
            yield Concern(node.name, level, f"engine {engine.id} {said}")


#: By the engine's state.
_ENGINE_CONCERNS: dict[str | None, tuple[Level, str]] = {
    "orphaned": ("critical", "is orphaned"),
    "silent": ("warning", "is registered but not heard"),
    "dead": ("critical", "is dead"),
}
