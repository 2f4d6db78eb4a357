"""The table: one row a metric (`METRICS`), one row a chart (`CHARTS`).

A row is a lens on a `Measurement`: it says where the value lives, so that the same row reads it out for
/metrics, names it in PromQL, keeps it in the embedded history, and puts it back when the fleet is read
from Prometheus. `docs/metrics.md` is printed from here.

Names follow https://prometheus.io/docs/practices/naming/; those of `llmgw_` are fixed by systems that
already use them, and call an engine by its historical name, shard.
"""

from __future__ import annotations

from typing import Any

from webapp.lens import Chart, Contact, Labels, Metric

__all__ = ["CHARTS", "HEARTBEAT_AGE", "METRICS", "UP", "Chart", "Contact", "Labels", "Metric", "families"]

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
        "CPU utilization over all cores: time neither idle nor waiting for I/O.",
        "percent",
        "load.cpu_percent",
    ),
    _node("cpus", "Cores online.", "cores", "load.cpus", over_time="last"),
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
    _node("memory_bytes", "Total memory.", "bytes", "load.memory_total_bytes", over_time="last"),
    _node("memory_used_bytes", "Memory in use: total less available.", "bytes", "load.memory_used_bytes"),
    _node(
        "memory_available_bytes",
        "Memory available to new processes without swapping.",
        "bytes",
        "load.memory_available_bytes",
    ),
    _node("disk_bytes", "Size of the file system.", "bytes", "total_bytes", each="disks", labels=_DISK, over_time="last"),
    _node(
        "disk_available_bytes", "Space available to unprivileged users.", "bytes", "available_bytes", each="disks", labels=_DISK
    ),
    _node(
        "network_receive_bytes_per_second",
        "Bytes received per second.",
        "bytes/s",
        "receive_bytes_per_second",
        each="networks",
        labels=_NETWORK,
    ),
    _node(
        "network_transmit_bytes_per_second",
        "Bytes sent per second.",
        "bytes/s",
        "transmit_bytes_per_second",
        each="networks",
        labels=_NETWORK,
    ),
    *(
        _node(
            "pressure_ratio",
            "Share of time in which some tasks, or all (full), were stalled on the resource (PSI).",
            "ratio",
            f"pressure.{resource}_{kind}",
            fixed=(("resource", resource), ("kind", kind)),
        )
        for resource, kind in (("cpu", "some"), ("memory", "some"), ("memory", "full"), ("io", "some"), ("io", "full"))
    ),
    _node(
        "gpu_utilization_percent",
        "Share of time in which the GPU was busy.",
        "percent",
        "utilization_percent",
        each="gpus",
        labels=_GPU,
    ),
    _node(
        "gpu_memory_bytes",
        "Total memory of the GPU.",
        "bytes",
        "memory_total_bytes",
        each="gpus",
        labels=_GPU,
        over_time="last",
    ),
    _node(
        "gpu_memory_used_bytes",
        "Memory of the GPU in use.",
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
    _shard("memory_anonymous_bytes", "Resident anonymous memory of the engine's processes.", "bytes", "memory_anonymous_bytes"),
    _shard(
        "memory_file_bytes",
        "Resident file-backed memory of the engine's processes, such as mapped weights.",
        "bytes",
        "memory_file_bytes",
    ),
    _shard("processes", "Processes that belong to the engine.", "processes", "processes", over_time="last"),
    _shard(
        "start_time_seconds",
        "Unix time at which the engine started.",
        "seconds",
        "started_s_ago",
        ago=True,
        over_time="last",
    ),
    *(
        _shard(
            "state",
            "1 for the engine's current state: running, orphaned (its leader is gone) or dead.",
            "",
            f"is_{state}",
            fixed=(("state", state),),
            stands_for=("state", state),
            over_time="last",
        )
        for state in ("running", "orphaned", "dead")
    ),
    _shard("queue_depth", "Requests waiting in the engine's queue.", "requests", "requests.waiting", over_time="max"),
    _shard("requests_running", "Requests that the engine is processing.", "requests", "requests.running", over_time="max"),
    _shard("kv_cache_usage_ratio", "Share of the KV cache in use.", "ratio", "kv_cache_usage_ratio", over_time="max"),
    _shard("prompt_tokens_per_second", "Prompt tokens processed per second.", "tokens/s", "prompt_tokens_per_second"),
    _shard("generation_tokens_per_second", "Tokens generated per second.", "tokens/s", "generation_tokens_per_second"),
)


UP = Contact("llmgw_node_up", "1 while the node's last heartbeat is at most a minute old, else 0.", "")
HEARTBEAT_AGE = Contact("llmgw_node_heartbeat_age_seconds", "Seconds since the node's last heartbeat.", "seconds")


def _models(key: str, title: str, unit: str, family: str, **more: Any) -> Chart:
    """A line a model."""
    return Chart(key, title, unit, (family,), by="model", starts="llmgw_shard_start_time_seconds", **more)


def _gpus(key: str, title: str, unit: str, family: str, **more: Any) -> Chart:
    """A line a GPU."""
    return Chart(key, title, unit, (family,), by="gpu", optional=True, **more)


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
    _models(
        "engine_cpu",
        "CPU by model",
        "cores",
        "llmgw_shard_cpu_cores",
        stacked=True,
        whole=("llmgw_node_cpu_utilization_percent", "llmgw_node_cpus"),
        rest_title="rest of node",
    ),
    _models("engine_memory", "Memory by model", "bytes", "llmgw_shard_memory_bytes", stacked=True),
    _models("queue", "Requests waiting by model", "requests", "llmgw_shard_queue_depth", optional=True),
    _models("running", "Requests running by model", "requests", "llmgw_shard_requests_running", optional=True),
    _models(
        "kv_cache", "KV cache used by model", "ratio", "llmgw_shard_kv_cache_usage_ratio", together="max", top=1, optional=True
    ),
    _models("prompt", "Prompt tokens by model", "tokens/s", "llmgw_shard_prompt_tokens_per_second", optional=True),
    _models("generation", "Generated tokens by model", "tokens/s", "llmgw_shard_generation_tokens_per_second", optional=True),
    _gpus("gpu", "GPU busy", "% of the time", "llmgw_node_gpu_utilization_percent", together="max", top=100),
    _gpus("gpu_memory", "GPU memory used", "bytes", "llmgw_node_gpu_memory_used_bytes"),
    _gpus("gpu_power", "GPU power", "W", "llmgw_node_gpu_power_watts"),
    _gpus("gpu_temperature", "GPU temperature", "°C", "llmgw_node_gpu_temperature_celsius", together="max"),
    Chart("disk", "Disk space left", "bytes", ("llmgw_node_disk_available_bytes",), by="mount", optional=True),
    Chart("receive", "Network in", "bytes/s", ("llmgw_node_network_receive_bytes_per_second",), by="device", optional=True),
    Chart("transmit", "Network out", "bytes/s", ("llmgw_node_network_transmit_bytes_per_second",), by="device", optional=True),
    Chart(
        "pressure",
        "Time in which some task was stalled",
        "ratio",
        ("llmgw_node_pressure_ratio",),
        by="resource",
        where=(("kind", "some"),),
        together="max",
        optional=True,
    ),
)


def families() -> dict[str, tuple[Metric, ...]]:
    """The rows by family, in the table's order."""
    found: dict[str, tuple[Metric, ...]] = {}
    for metric in METRICS:
        found[metric.name] = (*found.get(metric.name, ()), metric)
    return found
