"""What the resource agent answers: `Measurement` -> resource_snapshot_v1 JSON. `webapp.snapshot` is the way back."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from webapp.measurement import Engine, Gpu, Measurement, Network
from webapp.snapshot import MEGABIT, MIB, SCHEMA, admission, free_ratio


@dataclass(frozen=True)
class Utilization:
    """One GPU's utilisation over a window: what the last look saw, and mean and maximum of all looks, in percent."""

    current: float | None = None
    average: float | None = None
    highest: float | None = None
    samples: int = 0


class GpuWindows:
    """Utilisation of each GPU over the last `window_ms`, of at most `most` looks."""

    def __init__(self, window_ms: float, most: int) -> None:
        self.window_ms = window_ms
        self._most = most
        self._seen: dict[str, deque[tuple[float, float]]] = {}

    def add(self, gpus: Sequence[Gpu], now_ms: float) -> dict[str, Utilization]:
        """The windows by GPU id after a look at `now_ms` of a monotonic clock; GPUs that are gone are forgotten."""
        looks = {gpu.id or "": gpu.utilization_percent if gpu.missing_since_s is None else None for gpu in gpus}
        self._seen = {id: self._seen.get(id, deque(maxlen=self._most)) for id in looks}
        found = {}
        for id, percent in looks.items():
            window = self._seen[id]
            if percent is not None:
                window.append((now_ms, percent))
            while window and window[0][0] < now_ms - self.window_ms:
                window.popleft()
            values = [value for _, value in window]
            average = sum(values) / len(values) if values else None
            found[id] = Utilization(percent, average, max(values, default=None), len(values))
        return found


def to_mapping(
    measurement: Measurement,
    *,
    instance_id: str,
    timestamp_ms: int,
    gpu_windows: Mapping[str, Utilization] | None = None,
    gpu_window_ms: int = 0,
) -> dict[str, Any]:
    """The snapshot of a measurement. `gpu_windows` by GPU id; None where GPUs were not looked for."""
    load = measurement.load
    ratio = free_ratio(load)
    devices: dict[str, Any] = {
        "cpu": {
            "utilization_pct": _rounded(load.cpu_percent),
            "load1": load.load1,
            "load5": load.load5,
            "load15": load.load15,
            "cores": load.cpus,
        },
        "memory": {
            "used_mb": _mebibytes(load.memory_used_bytes),
            "total_mb": _mebibytes(load.memory_total_bytes),
            "free_mb": _mebibytes(load.memory_available_bytes),
        },
        "network": [_interface(one) for one in busiest_first(measurement.networks)],
        "disk": [
            {
                "mount": disk.mount,
                "total_mb": _mebibytes(disk.total_bytes),
                "used_mb": _mebibytes(disk.used_bytes),
                "available_mb": _mebibytes(disk.available_bytes),
            }
            for disk in measurement.disks
        ],
    }
    if measurement.gpu_error is not None:
        devices["gpu_error"] = measurement.gpu_error
    if measurement.gpus or (measurement.gpu_error is None and gpu_windows is not None):
        devices["gpu"] = [
            _gpu_row(gpu, (gpu_windows or {}).get(gpu.id or "", Utilization()), timestamp_ms, gpu_window_ms)
            for gpu in measurement.gpus
        ]
    return {
        "schema_version": SCHEMA,
        "agent_version": measurement.agent.version,
        "instance_id": instance_id,
        "timestamp_ms": timestamp_ms,
        "devices": devices,
        "runtime": {"engines": [_engine_row(engine) for engine in measurement.engines]},
        "capacity_hint": {
            "memory_free_ratio": _rounded(ratio, 4),
            "admission_state": admission(ratio, load.cpu_percent),
        },
        "host": {"name": measurement.node, "kernel": measurement.host.kernel, "cpu_model": measurement.host.cpu_model},
    }


def busiest_first(networks: Sequence[Network]) -> list[Network]:
    """By traffic in both directions; those of which none is known last, all else in the kernel's order."""
    return sorted(networks, key=lambda one: -((one.receive_bytes_per_second or 0.0) + (one.transmit_bytes_per_second or 0.0)))


def _interface(one: Network) -> dict[str, Any]:
    def megabits(rate: float | None) -> float | None:
        return None if rate is None else _rounded(rate * 8 / MEGABIT, 6)

    return {
        "iface": one.device,
        "rx_mbps": megabits(one.receive_bytes_per_second),
        "tx_mbps": megabits(one.transmit_bytes_per_second),
        "speed_mbps": None if one.speed_bits_per_second is None else _rounded(one.speed_bits_per_second / MEGABIT),
    }


def _gpu_row(gpu: Gpu, usage: Utilization, timestamp_ms: int, window_ms: int) -> dict[str, Any]:
    is_known = gpu.memory_total_bytes is not None and gpu.memory_used_bytes is not None
    free = (gpu.memory_total_bytes or 0) - (gpu.memory_used_bytes or 0) if is_known else None
    ok = usage.current is not None
    return {
        "index": gpu.index,
        "uuid": gpu.id,
        "name": gpu.name,
        "utilization_pct": _rounded(usage.average),
        "utilization_pct_current": _rounded(usage.current),
        "utilization_pct_avg": _rounded(usage.average),
        "utilization_pct_max": _rounded(usage.highest),
        "utilization_sample_count": usage.samples,
        "utilization_window_ms": window_ms,
        "utilization_sample_ok": ok,
        "utilization_source": "nvml" if (gpu.id or "").startswith(("GPU-", "MIG-")) else "sysfs",
        "utilization_sample_timestamp_ms": timestamp_ms if ok else None,
        "utilization_raw_value": None if gpu.utilization_percent is None else f"{gpu.utilization_percent:g}",
        "utilization_error": None if ok else gpu.error or "the driver does not report it",
        "utilization_sample_quality": "ok" if ok else "unavailable",
        "memory_used_mb": _mebibytes(gpu.memory_used_bytes),
        "memory_total_mb": _mebibytes(gpu.memory_total_bytes),
        "memory_free_mb": _mebibytes(free),
        "temperature_c": gpu.temperature_celsius,
        "power_w": gpu.power_watts,
        "health": "missing" if gpu.missing_since_s is not None else "error" if gpu.error else "ok",
    }


def _engine_row(engine: Engine) -> dict[str, Any]:
    return {
        "id": engine.id,
        "model": engine.model,
        "kind": engine.kind,
        "state": engine.state,
        "pid": engine.pid,
        "port": engine.port,
        "cpu_cores": _rounded(engine.cpu_cores, 4),
        "memory_mb": _mebibytes(engine.memory_bytes),
        "requests_waiting": engine.requests.waiting,
        "requests_running": engine.requests.running,
        "kv_cache_usage_ratio": engine.kv_cache_usage_ratio,
        "metrics_error": engine.metrics_error,
    }


def _mebibytes(size: float | None) -> float | None:
    return None if size is None else _rounded(size / MIB, 7)  # exact to the byte


def _rounded(value: float | None, digits: int = 3) -> float | None:
    """No more digits than were measured; what is not a number is unknown.

    >>> _rounded(33.33333), _rounded(float("nan")), _rounded(None)
    (33.333, None, None)
    """
    return round(value, digits) if value is not None and math.isfinite(value) else None
