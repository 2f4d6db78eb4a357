"""All instances as one pool, for schedulers that work with pools: counts, sums, and where each of them comes from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from webapp.fleet.instance import Instance
from webapp.fleet.resource import mean, numbers, total
from webapp.snapshot import ACCEPTING, DEGRADED, REJECTING, UNKNOWN

NULL_SEMANTICS = "0 means measured zero; null means unavailable, not wired, or unknown"

_STATES = (ACCEPTING, DEGRADED, REJECTING)


def pool_resource(instances: Sequence[Instance], *, ttl_s: float, now: float, name: str) -> dict[str, Any]:
    """The pool at the Unix time `now`. Sums are over alive instances whose numbers are young enough."""
    alive = [one for one in instances if one.is_alive]
    reported = [numbers(one.resources) for one in alive if one.resources]
    states = [resource["admission_state"] for resource in reported]
    counts = {state: states.count(state) for state in _STATES}
    inflight = total(one.current_load.inflight for one in alive)
    qps = total(one.current_load.qps_1m for one in alive)
    state = pool_state(len(alive), counts)
    return {
        "schema_version": 1,
        "proxy_id": name,
        "generated_at": now,
        "ttl_s": ttl_s,
        "metric_source": _sources(bool(reported), inflight is not None, qps is not None),
        "metric_quality": {
            "resource": quality(len(reported), len(alive)),
            "load": quality(sum(one.current_load.inflight is not None for one in alive), len(alive)),
            "queue": "missing",
        },
        "resource_freshness_s": _spread([one.collected_s for one in alive if one.resources and one.collected_s is not None]),
        "instances": {
            "total": len(instances),
            "alive": len(alive),
            "stale": len(instances) - len(alive),
            "with_resource": len(reported),
            "missing_resource": len(alive) - len(reported),
            **counts,
        },
        "load": {
            "inflight_total": inflight,
            "qps_1m_total": qps,
            "load_ratio": None,
            "capacity": None,
            "prepare_queue_depth": None,
            "ready_queue_depth": None,
            "queue_pressure": None,
        },
        "utilization": _utilization(reported),
        "pool_admission_state": state,
        "pool_admission_reason": ", ".join(f"{count} {word}" for word, count in counts.items()) + f", {len(alive)} alive",
    }


def pool_state(alive: int, counts: dict[str, int]) -> str:
    """Whether the pool takes new work: unknown where no living instance reports, degraded where some can't or don't.

    >>> pool_state(0, {"accepting": 0, "degraded": 0, "rejecting": 0})
    'rejecting'
    >>> pool_state(2, {"accepting": 1, "degraded": 0, "rejecting": 0})
    'degraded'
    """
    if not alive or counts[REJECTING] == alive:
        return REJECTING
    if not sum(counts.values()):
        return UNKNOWN
    return ACCEPTING if counts[ACCEPTING] == alive else DEGRADED


def _utilization(reported: Sequence[dict[str, Any]]) -> dict[str, Any]:
    def known(name: str) -> list[Any]:
        return [resource[name] for resource in reported if resource[name] is not None]

    def ratio(used: str, of: str) -> float | None:
        pairs = [(one[used], one[of]) for one in reported if one[used] is not None and one[of]]
        return sum(pair[0] for pair in pairs) / sum(pair[1] for pair in pairs) if pairs else None

    return {
        "cpu_avg": mean(known("cpu_util")),
        "cpu_max": max(known("cpu_util"), default=None),
        "memory_used_mb": total(known("memory_used_mb")),
        "memory_total_mb": total(known("memory_total_mb")),
        "memory_used_ratio": ratio("memory_used_mb", "memory_total_mb"),
        "memory_free_ratio_min": min(known("memory_free_ratio"), default=None),
        "gpu_util_avg": mean(known("gpu_util_avg")),
        "gpu_util_max": max(known("gpu_util_avg"), default=None),
        "gpu_mem_used_mb": total(known("gpu_mem_used_mb")),
        "gpu_mem_total_mb": total(known("gpu_mem_total_mb")),
        "gpu_mem_used_ratio": ratio("gpu_mem_used_mb", "gpu_mem_total_mb"),
        "network_rx_mbps_total": total(known("network_rx_mbps")),
        "network_tx_mbps_total": total(known("network_tx_mbps")),
    }


def _sources(resource: bool, inflight: bool, qps: bool) -> dict[str, str]:
    def source(name: str, is_there: bool) -> str:
        return name if is_there else "unavailable"

    return {
        "instances": "instance_registry_ttl",
        "resource": source("instance_resource_snapshot", resource),
        "inflight_total": source("instance_heartbeat", inflight),
        "qps_1m_total": source("instance_heartbeat", qps),
        "load_ratio": "unavailable",
        "capacity": "unavailable",
        "prepare_queue_depth": "unavailable",
        "ready_queue_depth": "unavailable",
        "queue_pressure": "unavailable",
        "utilization": source("instance_resource_snapshot", resource),
        "pool_admission_state": "derived_from_instance_resource_admission",
        "resource_freshness_s": source("derived_from_instance_resource_collection_time", resource),
    }


def quality(reported: int, alive: int) -> str:
    """
    >>> quality(0, 3), quality(2, 3), quality(3, 3), quality(0, 0)
    ('missing', 'partial', 'complete', 'missing')
    """
    return "missing" if not reported else "complete" if reported == alive else "partial"


def _spread(ages: Sequence[float]) -> dict[str, float | None]:
    return {"min": min(ages, default=None), "avg": mean(ages), "max": max(ages, default=None)}
