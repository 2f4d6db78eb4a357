"""An instance's resources in the protocol's normal form: null is unavailable, 0 is a measured zero."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from webapp.fleet.descriptions import ReportTimes
from webapp.fleet.instance import Instance
from webapp.snapshot import GpuRow, Snapshot

#: Words with which agents say that a look at a GPU failed.
_FAILED = ("invalid", "failed", "error", "command_error", "parse_error", "unsupported", "unavailable")


def normalised(instance: Instance, *, raw: bool = True) -> dict[str, Any]:
    """All fields, always; numbers that are too old are null, their times stay.

    `raw`: with `raw_resource`, the snapshot as it came; {} where it is too old.
    """
    report = instance.report
    times = report.times if report else ReportTimes()
    found = {
        **numbers(instance.resources),
        "resource_ts_ms": report.snapshot.timestamp_ms if report else None,
        "resource_reported_at": None if instance.reported_at is None else int(instance.reported_at),
        "resource_report_monotonic_ms": times.report_monotonic_ms,
        "resource_report_wall_time_ms": times.report_wall_time_ms,
        "reported_instance_id": times.reported_instance_id,
        "resource_age_s": None if instance.collected_s is None else round(instance.collected_s, 3),
    }
    if raw:
        found["raw_resource"] = json.loads(report.raw) if report and instance.resources else {}
    return found


def numbers(snapshot: Snapshot | None) -> dict[str, Any]:
    """What was measured; all null without a snapshot."""
    given = snapshot or Snapshot()
    memory = given.devices.memory
    traffic = given.devices.network[0] if given.devices.network else None
    return {
        "cpu_util": given.devices.cpu.utilization_pct,
        "memory_used_mb": memory.used_mb,
        "memory_total_mb": memory.total_mb,
        "memory_free_mb": memory.free_mb,
        "memory_free_ratio": given.memory_free_ratio,
        **_gpus(given.gpus, given.timestamp_ms),
        "network_rx_mbps": traffic.rx_mbps if traffic else None,
        "network_tx_mbps": traffic.tx_mbps if traffic else None,
        "admission_state": given.admission_state if snapshot else None,
    }


def _gpus(gpus: Sequence[GpuRow], collected_ms: int | None) -> dict[str, Any]:
    usable = [gpu for gpu in gpus if (gpu.utilization_sample_quality or "").lower() not in _FAILED]
    averages = _known(gpu.utilization_pct if gpu.utilization_pct_avg is None else gpu.utilization_pct_avg for gpu in usable)
    currents = _known(gpu.utilization_pct_current for gpu in usable)
    looks = _known(gpu.utilization_sample_timestamp_ms for gpu in gpus)
    memory = [gpu for gpu in gpus if gpu.memory_used_mb is not None and gpu.memory_total_mb]
    return {
        "gpu_util_avg": mean(averages),
        "gpu_util_current": mean(currents),
        "gpu_util_max": max(_known(gpu.utilization_pct_max for gpu in usable), default=None),
        "gpu_sample_count": total(gpu.utilization_sample_count for gpu in gpus),
        "gpu_sample_age_ms": max(0, collected_ms - max(looks)) if looks and collected_ms is not None else None,
        "gpu_sample_source": next((gpu.utilization_source for gpu in gpus if gpu.utilization_source), None),
        "gpu_sample_quality": "ok" if averages else next((gpu.utilization_sample_quality for gpu in gpus), None),
        "gpu_sample_window_ms": max(_known(gpu.utilization_window_ms for gpu in gpus), default=None),
        "gpu_mem_used_mb": total(gpu.memory_used_mb for gpu in memory),
        "gpu_mem_total_mb": total(gpu.memory_total_mb for gpu in memory),
    }


def _known(values: Iterable[Any]) -> list[Any]:
    return [value for value in values if value is not None]


def total(values: Iterable[float | None]) -> Any:
    """The sum of what is known; None where nothing is.

    >>> total([1, None, 2]), total([None]), total([0])
    (3, None, 0)
    """
    known = _known(values)
    return sum(known) if known else None


def mean(values: Iterable[float | None]) -> float | None:
    """The mean of what is known; None where nothing is."""
    known = _known(values)
    return sum(known) / len(known) if known else None
