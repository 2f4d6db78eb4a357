"""Bodies of the instance protocol, as its clients send them."""

from __future__ import annotations

#: What a resource agent measured, as the instance protocol carries it.
SNAPSHOT = {
    "schema_version": "resource_snapshot_v1",
    "agent_version": "0.1.0",
    "instance_id": "hp_127.0.0.1:9001",
    "timestamp_ms": 1_796_000_000_000,
    "devices": {
        "gpu": [
            {
                "index": 0,
                "uuid": "GPU-a",
                "name": "L4",
                "utilization_pct": 30.0,
                "utilization_pct_current": 50.0,
                "utilization_pct_avg": 30.0,
                "utilization_pct_max": 50.0,
                "utilization_sample_count": 3,
                "utilization_window_ms": 5000,
                "utilization_sample_ok": True,
                "utilization_source": "nvidia-smi",
                "utilization_sample_timestamp_ms": 1_795_999_999_900,
                "utilization_raw_value": "50",
                "utilization_error": None,
                "utilization_sample_quality": "ok",
                "memory_used_mb": 1024,
                "memory_total_mb": 24576,
                "memory_free_mb": 23552,
                "temperature_c": 61.0,
                "power_w": 50.5,
                "health": "ok",
            }
        ],
        "cpu": {"utilization_pct": 43.25, "load1": 3.1, "load5": 2.9, "load15": 2.5},
        "memory": {"used_mb": 7000, "total_mb": 16000, "free_mb": 9000},
        "network": [{"iface": "eth0", "rx_mbps": 12.5, "tx_mbps": 0.0, "speed_mbps": 25000}],
    },
    "runtime": {},
    "capacity_hint": {"memory_free_ratio": 0.5625, "admission_state": "accepting"},
}

#: What the instance says beside the snapshot that it passes on.
METADATA = {
    "reported_instance_id": "hp_127.0.0.1:9001",
    "report_monotonic_ms": 123456,
    "report_wall_time_ms": 1_796_000_000_250,
    "agent_snapshot_timestamp_ms": 1_796_000_000_000,
}
