"""What is wrong in the fleet now, the worst first: what an operator with a minute must see."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from webapp import formats
from webapp.fleet.nodes import Node
from webapp.overview import gauges
from webapp.overview.gauges import Gauge, Level
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
    fullest = gauges.fullest_disk(numbers)
    measured: list[tuple[str, Gauge | None]] = [("CPU", gauges.cpu(numbers)), ("RAM", gauges.memory(numbers))]
    if fullest:
        measured.append((f"disk {fullest[0].mount}", fullest[1]))
    for what, gauge in measured:
        if gauge is not None and gauge.level != "normal":
            yield Concern(node.name, gauge.level, f"{what} {formats.percent(gauge.percent)} %")
    for engine in numbers.engines:
        if engine.state == "orphaned":
            yield Concern(node.name, "critical", f"engine {engine.id} is orphaned")
        elif engine.state == "silent":
            yield Concern(node.name, "warning", f"engine {engine.id} is registered but not heard")
        elif engine.state == "dead":
            yield Concern(node.name, "critical", f"engine {engine.id} is dead")
