"""The other wire: resource_snapshot_v1. `agent.resource_snapshot` writes it, `fleet.machine` makes a measurement of it.

What a resource agent answers on /v1/resource/snapshot, and what reporters pass on to a control plane. Memory is
in MiB, traffic in megabits a second. null means unknown, 0 means measured zero. Reading is as tolerant as that of
heartbeats: one bad field costs that field. Fields that the protocol doesn't name (cores, disks, engines, host,
age_ms) are ours; readers pass over those that they don't know.

Runs on nodes: standard library only, CPython 3.9 and later.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from webapp.fields import LARGEST_WHOLE, Rejection, Rejections, number, part, parts, shown, text, values, whole
from webapp.measurement import Load, Wholes

SCHEMA = "resource_snapshot_v1"

MIB = 2**20
MEGABIT = 1e6
_LATEST_MS = 10**14

#: Less free memory than this, as a share of all, and new work is turned away.
REJECTING_BELOW_FREE_RATIO = 0.05

#: Busier than this, and new work is slowed down.
DEGRADED_ABOVE_CPU_PERCENT = 95.0

ACCEPTING, DEGRADED, REJECTING, UNKNOWN = "accepting", "degraded", "rejecting", "unknown"


def admission(memory_free_ratio: float | None, cpu_percent: float | None) -> str:
    """Whether new work is welcome; unknown where a value that decides was not measured.

    >>> admission(0.04, None), admission(0.05, 95.1), admission(0.5, 95.0), admission(0.5, None), admission(None, 99.0)
    ('rejecting', 'degraded', 'accepting', 'unknown', 'unknown')
    """
    if memory_free_ratio is None:
        return UNKNOWN
    if memory_free_ratio < REJECTING_BELOW_FREE_RATIO:
        return REJECTING
    if cpu_percent is None:
        return UNKNOWN
    return DEGRADED if cpu_percent > DEGRADED_ABOVE_CPU_PERCENT else ACCEPTING


def free_ratio(load: Load) -> float | None:
    """Available memory as a share of all."""
    if load.memory_available_bytes is None or not load.memory_total_bytes:
        return None
    return load.memory_available_bytes / load.memory_total_bytes


@dataclass(frozen=True)
class _Cpu:
    utilization_pct: float | None = number("percent", "devices.cpu", 0, 100)
    load1: float | None = number("runnable tasks", "devices.cpu")
    load5: float | None = number("runnable tasks", "devices.cpu")
    load15: float | None = number("runnable tasks", "devices.cpu")
    cores: int | None = whole("cores", "devices.cpu; ours", 1, 100_000)


@dataclass(frozen=True)
class Memory:
    used_mb: float | None = number("MiB", "devices.memory", 0, 1e12)
    total_mb: float | None = number("MiB", "devices.memory", 0, 1e12)
    free_mb: float | None = number("MiB", "devices.memory: available", 0, 1e12)
    at_most: ClassVar[Wholes] = (("used_mb", "total_mb"), ("free_mb", "total_mb"))


@dataclass(frozen=True)
class _Interface:
    iface: str | None = text("devices.network", 64)
    rx_mbps: float | None = number("Mbit/s", "devices.network", 0, 8e7)
    tx_mbps: float | None = number("Mbit/s", "devices.network", 0, 8e7)
    speed_mbps: float | None = number("Mbit/s", "devices.network", 0, 1e7)


@dataclass(frozen=True)
class _Disk:
    mount: str | None = text("devices.disk; ours", 1024)
    total_mb: float | None = number("MiB", "devices.disk; ours", 0, 1e12)
    used_mb: float | None = number("MiB", "devices.disk; ours", 0, 1e12)
    available_mb: float | None = number("MiB", "devices.disk; ours", 0, 1e12)
    at_most: ClassVar[Wholes] = (("used_mb", "total_mb"), ("available_mb", "total_mb"))


@dataclass(frozen=True)
class GpuRow:
    """One GPU as the snapshot has it."""

    index: int | None = whole("", "devices.gpu", 0, 10_000)
    uuid: str | None = text("devices.gpu")
    name: str | None = text("devices.gpu")
    utilization_pct: float | None = number("percent", "devices.gpu", 0, 100)
    utilization_pct_current: float | None = number("percent", "devices.gpu", 0, 100)
    utilization_pct_avg: float | None = number("percent", "devices.gpu", 0, 100)
    utilization_pct_max: float | None = number("percent", "devices.gpu", 0, 100)
    utilization_sample_count: int | None = whole("samples", "devices.gpu")
    utilization_window_ms: int | None = whole("ms", "devices.gpu")
    utilization_sample_timestamp_ms: int | None = whole("ms", "devices.gpu", 0, _LATEST_MS)
    utilization_source: str | None = text("devices.gpu", 64)
    utilization_sample_quality: str | None = text("devices.gpu", 64)
    utilization_error: str | None = text("devices.gpu", 1000)
    memory_used_mb: float | None = number("MiB", "devices.gpu", 0, 1e12)
    memory_total_mb: float | None = number("MiB", "devices.gpu", 0, 1e12)
    memory_free_mb: float | None = number("MiB", "devices.gpu", 0, 1e12)
    at_most: ClassVar[Wholes] = (("memory_used_mb", "memory_total_mb"), ("memory_free_mb", "memory_total_mb"))
    temperature_c: float | None = number("degrees Celsius", "devices.gpu", -60, 200)
    power_w: float | None = number("watts", "devices.gpu", 0, 10_000)
    health: str | None = text("devices.gpu", 64)


@dataclass(frozen=True)
class _Devices:
    cpu: _Cpu = part(_Cpu)
    memory: Memory = part(Memory)
    network: tuple[_Interface, ...] = parts(_Interface, ("iface",), 64)
    disk: tuple[_Disk, ...] = parts(_Disk, ("mount",), 64)
    gpu_error: str | None = text("devices.gpu_error; ours", 300)


@dataclass(frozen=True)
class EngineRow:
    id: str | None = text("runtime.engines; ours")
    model: str | None = text("runtime.engines; ours")
    kind: str | None = text("runtime.engines; ours", 64)
    state: str | None = text("runtime.engines; ours", 16)
    pid: int | None = whole("", "runtime.engines; ours", 1)
    port: int | None = whole("", "runtime.engines; ours", 1, 65535)
    cpu_cores: float | None = number("cores", "runtime.engines; ours", 0, 100_000)
    memory_mb: float | None = number("MiB", "runtime.engines; ours", 0, 1e12)
    requests_waiting: float | None = number("requests", "runtime.engines; ours", 0, 1e12)
    requests_running: float | None = number("requests", "runtime.engines; ours", 0, 1e12)
    kv_cache_usage_ratio: float | None = number("ratio", "runtime.engines; ours", 0, 1)
    metrics_error: str | None = text("runtime.engines; ours", 300)


@dataclass(frozen=True)
class _Runtime:
    engines: tuple[EngineRow, ...] = parts(EngineRow, ("id",), 256)


@dataclass(frozen=True)
class _Hint:
    memory_free_ratio: float | None = number("ratio", "capacity_hint", 0, 1)
    admission_state: str | None = text("capacity_hint", 32)


@dataclass(frozen=True)
class _Host:
    name: str | None = text("host; ours")
    kernel: str | None = text("host; ours")
    cpu_model: str | None = text("host; ours")


@dataclass(frozen=True)
class Snapshot:
    """What a resource agent said at one moment. Unknown is None."""

    schema_version: str | None = text("the protocol", 64)
    agent_version: str | None = text("the agent", 64)
    instance_id: str | None = text("the agent's setting")
    timestamp_ms: int | None = whole("ms", "the agent's wall clock when it sampled", 0, _LATEST_MS)
    #: From sampling to answering, by the agent's monotonic clock; ours.
    age_ms: float | None = number("ms", "the agent's boot clock", 0, LARGEST_WHOLE)
    devices: _Devices = part(_Devices)
    runtime: _Runtime = part(_Runtime)
    capacity_hint: _Hint = part(_Hint)
    host: _Host = part(_Host)
    gpus: tuple[GpuRow, ...] = ()
    gpu_error: str | None = None

    @property
    def admission_state(self) -> str:
        """As the agent says; derived from its numbers where it says nothing."""
        stated = (self.capacity_hint.admission_state or "").strip().lower()
        return stated or admission(self.memory_free_ratio, self.devices.cpu.utilization_pct)

    @property
    def memory_free_ratio(self) -> float | None:
        memory = self.devices.memory
        if self.capacity_hint.memory_free_ratio is not None:
            return self.capacity_hint.memory_free_ratio
        return memory.free_mb / memory.total_mb if memory.free_mb is not None and memory.total_mb else None


def read(message: Mapping[str, Any]) -> tuple[Snapshot, tuple[Rejection, ...]]:
    """The snapshot in a parsed message, and the fields of it that could not be used."""
    rejected = Rejections()
    snapshot = Snapshot(**values(Snapshot, message, "", rejected))
    devices = message.get("devices")
    gpus, error = _gpus(devices.get("gpu") if isinstance(devices, dict) else None, rejected)
    return replace(snapshot, gpus=gpus, gpu_error=snapshot.devices.gpu_error or error), rejected.reported()


def _gpus(rows: Any, rejected: list[Rejection]) -> tuple[tuple[GpuRow, ...], str | None]:
    """GPUs, and why there may be more. Agents exist that report a failed look as one "unknown GPU": that is no GPU."""
    if not isinstance(rows, list):
        if rows is not None:
            rejected.append(Rejection("devices.gpu", f"expected a list, got {shown(rows)}"))
        return (), None
    found: dict[Any, GpuRow] = {}
    error = None
    for place, item in enumerate(rows[:64]):
        where = f"devices.gpu[{place}]"
        if not isinstance(item, dict):
            rejected.append(Rejection(where, f"expected an object, got {shown(item)}"))
            continue
        row = GpuRow(**values(GpuRow, item, where + ".", rejected))
        if row.index is None and row.uuid in (None, "", "unknown"):
            error = row.utilization_error or "a GPU without index and uuid was reported"
        else:
            found.setdefault(row.uuid or row.index, row)
    return tuple(found.values()), error
