"""The table: one row a metric (`METRICS`), one row a chart (`CHARTS`).

A row is a lens on a `Measurement`: it says where the value lives, so that the same row reads it out for
/metrics, names it in PromQL, keeps it in the embedded history, and puts it back when the fleet is read
from Prometheus. `docs/metrics.md` is printed from here.

Names follow https://prometheus.io/docs/practices/naming/; those of `llmgw_` are fixed by systems that
already use them, and call an engine by its historical name, shard.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Literal

from webapp.measurement import Measurement

#: Label names and values, without the node; part of a series' identity.
Labels = tuple[tuple[str, str], ...]

OverTime = Literal["mean", "max", "last"]


@dataclass(frozen=True)
class Metric:
    """One row: a family's name with the labels that this row fixes, and where its value lives."""

    name: str
    help: str
    unit: str
    #: Path inside a Measurement, or inside each item of `each`.
    path: str
    #: The Measurement's tuple whose items have one series each; "" for one series a node.
    each: str = ""
    #: Label name -> field of the item, for `each`.
    labels: Labels = ()
    #: Labels that are always the same.
    fixed: Labels = ()
    #: What a point of a chart says of the samples in its step.
    over_time: OverTime = "mean"
    #: The field holds "so many seconds ago"; the metric is the Unix time of that moment.
    ago: bool = False

    @property
    def key(self) -> tuple[str, Labels]:
        """Tells rows apart: rows of one family differ in what they fix."""
        return self.name, self.fixed

    def read(self, measurement: Measurement, measured_at: float) -> Iterator[tuple[Labels, float]]:
        """Labels and value of each series that the measurement has; `measured_at` is a Unix time."""
        if not self.each:
            value = attrgetter(self.path)(measurement)
            if value is not None:
                yield self.fixed, round(measured_at - value) if self.ago else value
            return
        value_of = attrgetter(self.path)
        for item in getattr(measurement, self.each):
            value = value_of(item)
            if value is not None:
                labels = tuple((label, _label(getattr(item, field))) for label, field in self.labels)
                yield self.fixed + labels, round(measured_at - value) if self.ago else value

    def put(self, message: dict[str, Any], labels: Mapping[str, str], value: float, measured_at: float) -> None:
        """The way back: write a sample into a heartbeat message (see `heartbeat.from_mapping`)."""
        part = message
        if self.each:
            items = message.setdefault(self.each, [])
            wanted = {field: labels[label] for label, field in self.labels if labels.get(label)}
            part = next((item for item in items if all(item.get(field) == text for field, text in wanted.items())), {})
            if not part:
                part.update(wanted)
                items.append(part)
        *steps, last = self.path.split(".")
        for step in steps:
            part = part.setdefault(step, {})
        part[last] = measured_at - value if self.ago else value


def _label(value: Any) -> str:
    return "" if value is None else str(value)


_SHARD: Labels = (("shard", "id"), ("model", "model"))
_DISK: Labels = (("mount", "mount"),)
_NETWORK: Labels = (("device", "device"),)
_GPU: Labels = (("gpu", "id"), ("name", "name"))


def _node(name: str, help: str, unit: str, path: str, **more: Any) -> Metric:
    return Metric(f"llmgw_node_{name}", help, unit, path, **more)


def _shard(name: str, help: str, unit: str, path: str, **more: Any) -> Metric:
    return Metric(f"llmgw_shard_{name}", help, unit, path, each="engines", labels=_SHARD, **more)


METRICS: tuple[Metric, ...] = (
    _node(
        "cpu_utilization_percent",
        "CPU time not idle and not waiting for I/O, over all cores.",
        "percent",
        "load.cpu_percent",
    ),
    _node("cpus", "Cores that the kernel has online.", "cores", "load.cpus", over_time="last"),
    *(
        _node(
            "load",
            "Load average: tasks running or waiting to run.",
            "tasks",
            f"load.load{minutes}",
            fixed=(("window", f"{minutes}m"),),
        )
        for minutes in (1, 5, 15)
    ),
    _node("memory_bytes", "Memory of the node.", "bytes", "load.memory_total_bytes", over_time="last"),
    _node("memory_used_bytes", "Memory that is not available to new work.", "bytes", "load.memory_used_bytes"),
    _node(
        "memory_available_bytes",
        "Memory available to new work without swapping.",
        "bytes",
        "load.memory_available_bytes",
    ),
    _node("disk_bytes", "Size of the file system.", "bytes", "total_bytes", each="disks", labels=_DISK, over_time="last"),
    _node("disk_available_bytes", "Room left for ordinary users.", "bytes", "available_bytes", each="disks", labels=_DISK),
    _node(
        "network_receive_bytes_per_second",
        "Bytes received.",
        "bytes/s",
        "receive_bytes_per_second",
        each="networks",
        labels=_NETWORK,
    ),
    _node(
        "network_transmit_bytes_per_second",
        "Bytes sent.",
        "bytes/s",
        "transmit_bytes_per_second",
        each="networks",
        labels=_NETWORK,
    ),
    *(
        _node(
            "pressure_ratio",
            "Share of time in which some or all tasks waited for the resource.",
            "ratio",
            f"pressure.{resource}_{kind}",
            fixed=(("resource", resource), ("kind", kind)),
        )
        for resource, kind in (("cpu", "some"), ("memory", "some"), ("memory", "full"), ("io", "some"), ("io", "full"))
    ),
    _node(
        "gpu_utilization_percent",
        "Time in which the GPU was busy.",
        "percent",
        "utilization_percent",
        each="gpus",
        labels=_GPU,
    ),
    _node(
        "gpu_memory_bytes",
        "Memory of the GPU.",
        "bytes",
        "memory_total_bytes",
        each="gpus",
        labels=_GPU,
        over_time="last",
    ),
    _node(
        "gpu_memory_used_bytes",
        "Memory of the GPU that is in use.",
        "bytes",
        "memory_used_bytes",
        each="gpus",
        labels=_GPU,
    ),
    _node(
        "gpu_temperature_celsius",
        "Temperature of the GPU.",
        "degrees Celsius",
        "temperature_celsius",
        each="gpus",
        labels=_GPU,
        over_time="max",
    ),
    _node("gpu_power_watts", "Power drawn by the GPU.", "watts", "power_watts", each="gpus", labels=_GPU),
    _shard("cpu_cores", "Cores that the engine's processes kept busy.", "cores", "cpu_cores"),
    _shard("memory_bytes", "Resident memory of the engine's processes.", "bytes", "memory_bytes"),
    _shard("memory_anonymous_bytes", "Resident memory of the engine that no file backs.", "bytes", "memory_anonymous_bytes"),
    _shard(
        "memory_file_bytes",
        "Resident memory of the engine that files back: mapped weights.",
        "bytes",
        "memory_file_bytes",
    ),
    _shard("processes", "Processes of the engine.", "processes", "processes", over_time="last"),
    _shard(
        "start_time_seconds",
        "Unix time at which the engine started.",
        "seconds",
        "started_s_ago",
        ago=True,
        over_time="last",
    ),
    _shard("queue_depth", "Requests that wait inside the engine.", "requests", "requests.waiting", over_time="max"),
    _shard("requests_running", "Requests that the engine works on.", "requests", "requests.running", over_time="max"),
    _shard("kv_cache_usage_ratio", "Share of the KV cache in use.", "ratio", "kv_cache_usage_ratio", over_time="max"),
    _shard("prompt_tokens_per_second", "Prompt tokens read.", "tokens/s", "prompt_tokens_per_second"),
    _shard("generation_tokens_per_second", "Tokens generated.", "tokens/s", "generation_tokens_per_second"),
)


@dataclass(frozen=True)
class Contact:
    """One row about the contact with a node rather than about the node; its value is known at the scrape."""

    name: str
    help: str
    unit: str


UP = Contact("llmgw_node_up", "1 while the node's last heartbeat is at most a minute old, else 0.", "")
HEARTBEAT_AGE = Contact("llmgw_node_heartbeat_age_seconds", "Seconds since the node's last heartbeat.", "seconds")


@dataclass(frozen=True)
class Chart:
    """One chart: which series it draws and how."""

    key: str
    title: str
    unit: str
    #: Names of the families that are drawn.
    metrics: tuple[str, ...]
    #: The label that names a line; series that share its value are summed.
    by: str = ""
    #: Lines are stacked; otherwise each starts at zero.
    stacked: bool = False
    #: Family drawn as a dashed line: a total or a limit.
    limit: str = ""
    #: What the dashed line is called.
    limit_title: str = ""
    #: Upper end of the axis where the unit has one.
    top: float | None = None
    #: Drawn only on nodes that report it.
    optional: bool = False
    #: Series whose other labels have these values.
    where: Labels = ()

    @property
    def families(self) -> tuple[str, ...]:
        return self.metrics + ((self.limit,) if self.limit else ())


CHARTS: tuple[Chart, ...] = (
    Chart("cpu", "CPU", "% of all cores", ("llmgw_node_cpu_utilization_percent",), top=100),
    Chart(
        "memory",
        "Memory used",
        "bytes",
        ("llmgw_node_memory_used_bytes",),
        limit="llmgw_node_memory_bytes",
        limit_title="total",
    ),
    Chart("load", "Load", "tasks", ("llmgw_node_load",), by="window", limit="llmgw_node_cpus", limit_title="cores"),
    Chart("engine_cpu", "CPU by model", "cores", ("llmgw_shard_cpu_cores",), by="model", stacked=True),
    Chart("engine_memory", "Memory by model", "bytes", ("llmgw_shard_memory_bytes",), by="model", stacked=True),
    Chart("queue", "Requests waiting by model", "requests", ("llmgw_shard_queue_depth",), by="model"),
)


def families() -> dict[str, tuple[Metric, ...]]:
    """The rows by family, in the table's order."""
    found: dict[str, tuple[Metric, ...]] = {}
    for metric in METRICS:
        found[metric.name] = (*found.get(metric.name, ()), metric)
    return found
