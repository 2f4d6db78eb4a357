"""What each model takes of the fleet: its engines on all nodes, and totals that name what they leave out."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from webapp import formats
from webapp.fleet.nodes import Node
from webapp.measurement import Engine
from webapp.overview.gauges import NEARLY_FULL, NEVER, Gauge
from webapp.overview.summary import Total, total


class Placed(NamedTuple):
    """An engine and the node that it is on."""

    node: Node
    engine: Engine

    @property
    def numbers(self) -> Engine | None:
        """The engine while its node's measurement is young enough to be shown as true."""
        return self.engine if self.node.numbers else None

    @property
    def alone(self) -> Model:
        """The engine as if it were all that there is of its model."""
        return Model(self.engine.model or "", (self,))


@dataclass(frozen=True)
class Model:
    """A model with its engines, those on nodes that are not heard any more included. Pages ask twice for each total."""

    name: str
    placed: tuple[Placed, ...]

    def total(self, value: Callable[[Engine], float | None]) -> Total:
        """The sum over the engines whose numbers are young enough and hold it."""
        values = [None if engine is None else value(engine) for engine in self._young]
        return total((node for node, _ in self.placed), values, "engine", "on {} nodes")

    @cached_property
    def _young(self) -> list[Engine | None]:
        """The engines, None in place of those whose numbers are too old."""
        return [one.numbers for one in self.placed]

    @cached_property
    def engines(self) -> Total:
        return self.total(lambda engine: 1)

    @cached_property
    def nodes(self) -> list[Node]:
        """Those that it is on, by name."""
        return sorted({one.node.name: one.node for one in self.placed}.values(), key=lambda node: node.name)

    @cached_property
    def cores(self) -> Total:
        return self.total(lambda engine: engine.cpu_cores)

    @cached_property
    def memory(self) -> Total:
        return self.total(lambda engine: engine.memory_bytes)

    @cached_property
    def waiting(self) -> Total:
        return self.total(lambda engine: engine.requests.waiting)

    @cached_property
    def running(self) -> Total:
        return self.total(lambda engine: engine.requests.running)

    @cached_property
    def prompt_tokens(self) -> Total:
        return self.total(lambda engine: engine.prompt_tokens_per_second)

    @cached_property
    def generated_tokens(self) -> Total:
        return self.total(lambda engine: engine.generation_tokens_per_second)

    @cached_property
    def kv_cache(self) -> Placed | None:
        """The engine whose KV cache is the fullest; shares of caches have no sum."""
        known = [one for one, young in zip(self.placed, self._young) if young and young.kv_cache_usage_ratio is not None]
        return max(known, key=lambda one: one.engine.kv_cache_usage_ratio or 0.0, default=None)


def models(nodes: Iterable[Node]) -> list[Model]:
    """Every model that some node reported last, by name; engines that name none have no model."""
    found: dict[str, list[Placed]] = {}
    for node in nodes:
        for engine in node.measurement.engines:
            if engine.model:
                found.setdefault(engine.model, []).append(Placed(node, engine))
    return [Model(name, tuple(placed)) for name, placed in sorted(found.items())]


def model(nodes: Iterable[Node], name: str) -> Model:
    """One model; without engines where nobody reported it."""
    return next((one for one in models(nodes) if one.name == name), Model(name, ()))


def everything(nodes: Iterable[Node]) -> Model:
    """All engines of the fleet as if they served one model: for the totals below a table."""
    return Model("", tuple(Placed(node, engine) for node in nodes for engine in node.measurement.engines))


def cores_gauge(model: Model) -> Gauge | None:
    """Cores that the model keeps busy, of all cores of the nodes that it is on."""
    used = model.cores.value
    cores = [node.numbers.load.cpus for node in model.nodes if node.numbers and node.numbers.load.cpus]
    if used is None or not cores:
        return None
    percent = 100 * used / sum(cores)
    title = f"{used:.2f} of the {sum(cores):,} cores of {formats.plural(len(cores), 'node')}: {percent:.1f} %"
    return Gauge(percent, lambda: (f"{formats.number(used)} of {sum(cores):,}", title), NEVER)


def memory_gauge(model: Model) -> Gauge | None:
    """Memory of the model's engines, of all memory of the nodes that they are on."""
    used = model.memory.value
    sizes = [node.numbers.load.memory_total_bytes for node in model.nodes if node.numbers]
    total = sum(size for size in sizes if size)
    if used is None or not total:
        return None
    unit = formats.byte_unit(total)
    shown = formats.bytes_in(used, unit) if formats.byte_unit(used) == unit else formats.bytes_(used)
    text = f"{shown} / {formats.bytes_in(total, unit)} {unit}"
    title = f"{formats.exact_bytes(used)} resident, of the {formats.exact_bytes(total)} of its nodes: {100 * used / total:.1f} %"
    return Gauge(100 * used / total, lambda: (text, title), NEVER)


def kv_gauge(placed: Placed | None) -> Gauge | None:
    """How full an engine's KV cache is."""
    if placed is None or placed.numbers is None or placed.engine.kv_cache_usage_ratio is None:
        return None
    percent = 100 * placed.engine.kv_cache_usage_ratio
    title = f"{percent:.1f} % in {placed.engine.id} on {placed.node.name}"
    return Gauge(percent, lambda: (f"{formats.percent(percent)} %", title), NEARLY_FULL)
