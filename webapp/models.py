"""What each model takes of the fleet: its engines on all nodes, and totals that name what they leave out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter, itemgetter
from typing import NamedTuple

from webapp import formats
from webapp.gauges import Gauge
from webapp.measurement import Engine
from webapp.nodes import STATES, Node
from webapp.summary import Total, added


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


#: Paths of what a model tells of its engines together.
_TOLD = (
    "cpu_cores",
    "memory_bytes",
    "requests.waiting",
    "requests.running",
    "prompt_tokens_per_second",
    "generation_tokens_per_second",
    "kv_cache_usage_ratio",
)


_told_by = attrgetter(*_TOLD)


@dataclass(frozen=True)
class Model:
    """A model with its engines, those on nodes that are not heard any more included. Totals are kept: a page asks twice."""

    name: str
    placed: tuple[Placed, ...]

    def _total(self, path: str) -> Total:
        """The sum over the engines whose numbers are young enough and hold it."""
        return self._added([value for value in self._told.get(path, ()) if value is not None], attrgetter(path))

    def _added(self, known: Sequence[float], value: Callable[[Engine], object]) -> Total:
        left_out: Counter[str] = Counter()
        if len(known) < len(self.placed):
            silent = (one for one in self.placed if one.numbers is None or value(one.numbers) is None)
            left_out.update(map(_why_left_out, silent))
        return added(known, len(self.placed), left_out, _REASONS, "engine")

    @cached_property
    def _told(self) -> dict[str, Sequence[float | None]]:
        """What the engines that are heard tell, by path: read at once, which of many is quickest."""
        return dict(zip(_TOLD, zip(*(_told_by(one.engine) for one in self._heard))))

    @cached_property
    def _heard(self) -> list[Placed]:
        return [one for one in self.placed if one.node.numbers]

    @cached_property
    def engines(self) -> Total:
        return self._added([1.0] * len(self._heard), lambda engine: 1)

    @cached_property
    def nodes(self) -> list[Node]:
        """Those that it is on, by name."""
        return sorted({one.node.name: one.node for one in self.placed}.values(), key=lambda node: node.name)

    @cached_property
    def cores(self) -> Total:
        return self._total("cpu_cores")

    @cached_property
    def memory(self) -> Total:
        return self._total("memory_bytes")

    @cached_property
    def waiting(self) -> Total:
        return self._total("requests.waiting")

    @cached_property
    def running(self) -> Total:
        return self._total("requests.running")

    @cached_property
    def prompt_tokens(self) -> Total:
        return self._total("prompt_tokens_per_second")

    @cached_property
    def generated_tokens(self) -> Total:
        return self._total("generation_tokens_per_second")

    @cached_property
    def kv_cache(self) -> Placed | None:
        """The engine whose KV cache is the fullest; shares of caches have no sum."""
        told = [(ratio, one) for ratio, one in zip(self._told.get("kv_cache_usage_ratio", ()), self._heard) if ratio is not None]
        return max(told, key=itemgetter(0))[1] if told else None


def _why_left_out(one: Placed) -> str:
    if one.node.state in ("stale", "gone"):
        return f"on {one.node.state} nodes"
    return "not told" if one.numbers else "with old numbers"


_REASONS = (*(f"on {state} nodes" for state in STATES), "not told", "with old numbers")


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
    cores = [cpus for node in model.nodes if (numbers := node.numbers) and (cpus := numbers.load.cpus)]
    if used is None or not cores:
        return None
    percent = 100 * used / sum(cores)
    title = f"{used:.2f} of the {sum(cores):,} cores of {formats.plural(len(cores), 'node')}: {percent:.1f} %"
    return Gauge(percent, lambda: (f"{formats.number(used)} of {sum(cores):,}", title), 101, 101)


def memory_gauge(model: Model) -> Gauge | None:
    """Memory of the model's engines, of all memory of the nodes that they are on."""
    used = model.memory.value
    total = sum(numbers.load.memory_total_bytes or 0 for node in model.nodes if (numbers := node.numbers))
    if used is None or not total:
        return None
    unit = formats.byte_unit(total)
    shown = formats.bytes_in(used, unit) if formats.byte_unit(used) == unit else formats.bytes_(used)
    text = f"{shown} / {formats.bytes_in(total, unit)} {unit}"
    title = f"{formats.exact_bytes(used)} resident, of the {formats.exact_bytes(total)} of its nodes: {100 * used / total:.1f} %"
    return Gauge(100 * used / total, lambda: (text, title), 101, 101)


def kv_gauge(placed: Placed | None) -> Gauge | None:
    """How full an engine's KV cache is."""
    if placed is None or placed.numbers is None or placed.engine.kv_cache_usage_ratio is None:
        return None
    percent = 100 * placed.engine.kv_cache_usage_ratio
    title = f"{percent:.1f} % in {placed.engine.id} on {placed.node.name}"
    return Gauge(percent, lambda: (f"{formats.percent(percent)} %", title), 85, 95)
