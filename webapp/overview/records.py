"""Nodes, engines and models as flat records: one table of fields each, for the API, for CSV and for its documentation.

The same truth as on the pages: numbers that are too old are left out, and so is what is not known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from webapp.fleet.nodes import Node
from webapp.overview import gauges
from webapp.overview.models import Model, Placed
from webapp.overview.summary import Summary, Total, cores_used, waiting

T = TypeVar("T")

#: What a field of a record holds; None where it is not known.
Value = str | float | None


@dataclass(frozen=True)
class Field(Generic[T]):
    """One field; its key ends with the unit."""

    key: str
    help: str
    value: Callable[[T], Value]
    #: As the head of a table names it; the key says the rest.
    unit: str = ""

    @property
    def head(self) -> str:
        """The head of its column, with the unit."""
        return f"{self.key} ({self.unit})" if self.unit else self.key


def _number(value: Callable[[Node], float | None]) -> Callable[[Node], float | None]:
    """Nothing of a node whose numbers are too old."""
    return lambda node: value(node) if node.numbers else None


def _fullest(node: Node) -> tuple[str | None, float] | None:
    found = gauges.fullest_disk(node.numbers) if node.numbers else None
    return (found[0].mount, round(found[1].percent, 2)) if found else None


NODE_FIELDS: tuple[Field[Node], ...] = (
    Field("node", "Its name.", lambda node: node.name),
    Field("state", "fresh, late, stale or gone.", lambda node: node.state),
    Field("heard_seconds_ago", "Since its last heartbeat.", lambda node: round(node.heard_s, 1), "s"),
    Field("measured_seconds_ago", "Since its last measurement was taken.", lambda node: round(node.measured_s, 1), "s"),
    Field("cpu_percent", "CPU busy, over all cores.", _number(lambda node: node.measurement.load.cpu_percent), "% of all cores"),
    Field("cpu_cores_used", "Cores in use.", _number(lambda node: _rounded(cores_used(node.measurement))), "cores"),
    Field("cpu_cores", "Cores.", _number(lambda node: node.measurement.load.cpus), "cores"),
    Field("memory_used_bytes", "Memory in use.", _number(lambda node: node.measurement.load.memory_used_bytes), "bytes"),
    Field("memory_total_bytes", "Total memory.", _number(lambda node: node.measurement.load.memory_total_bytes), "bytes"),
    Field("load1", "Load average over one minute.", _number(lambda node: node.measurement.load.load1), "tasks"),
    Field("fullest_disk", "Mount point of its fullest file system.", lambda node: (_fullest(node) or (None, 0))[0]),
    Field("fullest_disk_percent", "How full that file system is.", lambda node: (_fullest(node) or (None, None))[1], "%"),
    Field("engines", "Number of engines on it.", _number(lambda node: len(node.measurement.engines)), "engines"),
    Field(
        "requests_waiting",
        "Over the engines that report them.",
        _number(lambda node: waiting(node.measurement.engines)[0]),
        "requests",
    ),
)


def _engine(field: str) -> Callable[[Placed], Value]:
    return lambda one: getattr(one.numbers, field) if one.numbers else None


def _requests(field: str) -> Callable[[Placed], Value]:
    return lambda one: getattr(one.numbers.requests, field) if one.numbers else None


ENGINE_FIELDS: tuple[Field[Placed], ...] = (
    Field("node", "The node that it is on.", lambda one: one.node.name),
    Field("engine", "Its name on that node.", lambda one: one.engine.id),
    Field("model", "What it serves.", lambda one: one.engine.model),
    Field("kind", "vllm, llama.cpp, ...", lambda one: one.engine.kind),
    Field("port", "The port that it listens on.", lambda one: one.engine.port),
    Field("node_state", "The node's: fresh, late, stale or gone.", lambda one: one.node.state),
    Field("measured_seconds_ago", "Since its last measurement was taken.", lambda one: round(one.node.measured_s, 1), "s"),
    Field("engine_state", "running, orphaned or dead.", _engine("state")),
    Field("cpu_cores_used", "Cores that its processes use.", _engine("cpu_cores"), "cores"),
    Field("memory_bytes", "Resident memory.", _engine("memory_bytes"), "bytes"),
    Field("memory_anonymous_bytes", "Of that, anonymous memory.", _engine("memory_anonymous_bytes"), "bytes"),
    Field("memory_file_bytes", "Of that, mapped from files.", _engine("memory_file_bytes"), "bytes"),
    Field("memory_shared_bytes", "Of that, shared memory.", _engine("memory_shared_bytes"), "bytes"),
    Field("processes", "Number of its processes.", _engine("processes"), "processes"),
    Field("requests_waiting", "Requests waiting in its queue.", _requests("waiting"), "requests"),
    Field("requests_running", "Requests that it is processing.", _requests("running"), "requests"),
    Field("kv_cache_usage_ratio", "Share of its KV cache in use.", _engine("kv_cache_usage_ratio"), "ratio"),
    Field("prompt_tokens_per_second", "Prompt tokens processed.", _engine("prompt_tokens_per_second"), "tokens/s"),
    Field("generation_tokens_per_second", "Tokens generated.", _engine("generation_tokens_per_second"), "tokens/s"),
    Field("up_seconds", "Since it was started.", _engine("started_s_ago"), "s"),
)

#: Totals of a model: field -> total and unit. Each names in JSON what it leaves out.
MODEL_TOTALS: dict[str, tuple[Callable[[Model], Total], str]] = {
    "engines": (lambda model: model.engines, "engines"),
    "cpu_cores_used": (lambda model: model.cores, "cores"),
    "memory_bytes": (lambda model: model.memory, "bytes"),
    "requests_waiting": (lambda model: model.waiting, "requests"),
    "requests_running": (lambda model: model.running, "requests"),
    "prompt_tokens_per_second": (lambda model: model.prompt_tokens, "tokens/s"),
    "generation_tokens_per_second": (lambda model: model.generated_tokens, "tokens/s"),
}


def _total_of(total: Callable[[Model], Total]) -> Callable[[Model], Value]:
    return lambda model: _rounded(total(model).value)


MODEL_FIELDS: tuple[Field[Model], ...] = (
    Field("model", "Its name.", lambda model: model.name),
    Field("nodes", "Number of nodes that it is on.", lambda model: len(model.nodes), "nodes"),
    Field(
        "engines_known",
        "Number of its engines, including those on stale and gone nodes.",
        lambda model: len(model.placed),
        "engines",
    ),
    *(
        Field(key, "Sum over the engines that report it, on nodes that are heard.", _total_of(total), unit)
        for key, (total, unit) in MODEL_TOTALS.items()
    ),
    Field(
        "kv_cache_usage_ratio",
        "KV cache in use, of the engine where it is fullest.",
        lambda model: model.kv_cache.engine.kv_cache_usage_ratio if model.kv_cache else None,
        "ratio",
    ),
)


def _rounded(value: float | None) -> float | None:
    """Without the dust of sums; what is counted is whole."""
    if not isinstance(value, float):
        return value
    return int(value) if value.is_integer() else round(value, 6)


def record(fields: Sequence[Field[T]], item: T) -> dict[str, Value]:
    """The fields that are known."""
    return {field.key: value for field in fields if (value := field.value(item)) is not None}


def table(fields: Sequence[Field[T]], items: Iterable[T]) -> tuple[list[str], list[list[Value]]]:
    """Head and rows; None where a value is not known."""
    return [field.head for field in fields], [[field.value(item) for field in fields] for item in items]


def total(of: Total) -> dict[str, Any]:
    """A total with what it leaves out; without a value where none reported it."""
    found: dict[str, Any] = {} if of.value is None else {"value": _rounded(of.value)}
    return found | {"counted": of.counted, "of": of.of, "left_out": dict(of.left_out)}


def fleet_totals(summary: Summary) -> dict[str, Any]:
    """The totals of the cluster page."""
    queued = {} if summary.waiting is None else {"value": _rounded(summary.waiting)}
    return {
        "nodes_by_state": dict(summary.by_state),
        "cpu_cores_used": total(summary.cores_used),
        "cpu_cores": total(summary.cores),
        "memory_used_bytes": total(summary.memory_used),
        "memory_total_bytes": total(summary.memory),
        "engines": total(summary.engines_by_node),
        "requests_waiting": queued | {"counted": summary.waiting_engines, "of": summary.engines},
    }


def model_totals(model: Model) -> dict[str, Any]:
    """The totals of a model, or of all."""
    return {key: total(of(model)) for key, (of, _) in MODEL_TOTALS.items()}
