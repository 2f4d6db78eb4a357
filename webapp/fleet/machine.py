"""A resource snapshot as what a heartbeat would have carried, for machines without an agent."""

from __future__ import annotations

from webapp.measurement import Agent, Disk, Engine, Gpu, Host, Load, Measurement, Network, Requests
from webapp.snapshot import MEGABIT, MIB, EngineRow, GpuRow, Memory, Snapshot


def measurement(snapshot: Snapshot, node: str) -> Measurement:
    """The snapshot as a heartbeat would have reported it; its age is not in it."""
    cpu, memory = snapshot.devices.cpu, snapshot.devices.memory
    if memory.total_mb == 0:  # agents exist that write 0 for what they could not read
        memory = Memory()
    return Measurement(
        node=node,
        agent=Agent(version=snapshot.agent_version),
        host=Host(kernel=snapshot.host.kernel, cpu_model=snapshot.host.cpu_model),
        load=Load(
            cpu_percent=cpu.utilization_pct,
            cpus=cpu.cores,
            load1=cpu.load1,
            load5=cpu.load5,
            load15=cpu.load15,
            memory_total_bytes=_bytes(memory.total_mb) or None,
            memory_used_bytes=_bytes(memory.used_mb),
            memory_available_bytes=_bytes(memory.free_mb),
        ),
        disks=tuple(
            Disk(
                mount=disk.mount,
                total_bytes=_bytes(disk.total_mb) or None,
                used_bytes=_bytes(disk.used_mb),
                available_bytes=_bytes(disk.available_mb),
            )
            for disk in snapshot.devices.disk
        ),
        networks=tuple(
            Network(
                device=one.iface,
                receive_bytes_per_second=_bytes_per_second(one.rx_mbps),
                transmit_bytes_per_second=_bytes_per_second(one.tx_mbps),
                speed_bits_per_second=one.speed_mbps * MEGABIT if one.speed_mbps else None,
            )
            for one in snapshot.devices.network
        ),
        gpus=tuple(_gpu(row) for row in snapshot.gpus),
        gpu_error=snapshot.gpu_error[:300] if snapshot.gpu_error else None,
        engines=tuple(_engine(one) for one in snapshot.runtime.engines),
    )


def _gpu(row: GpuRow) -> Gpu:
    usage = row.utilization_pct if row.utilization_pct is not None else row.utilization_pct_avg
    return Gpu(
        id=row.uuid or f"gpu-{row.index}",
        index=row.index,
        name=row.name,
        utilization_percent=usage,
        memory_total_bytes=_bytes(row.memory_total_mb) or None,
        memory_used_bytes=_bytes(row.memory_used_mb) if row.memory_total_mb else None,
        temperature_celsius=row.temperature_c,
        power_watts=row.power_w,
        error=row.utilization_error[:300] if row.utilization_error else None,
    )


def _engine(one: EngineRow) -> Engine:
    return Engine(
        id=one.id,
        model=one.model,
        kind=one.kind,
        state=one.state,
        pid=one.pid,
        port=one.port,
        cpu_cores=one.cpu_cores,
        memory_bytes=_bytes(one.memory_mb),
        requests=Requests(one.requests_waiting, one.requests_running),
        kv_cache_usage_ratio=one.kv_cache_usage_ratio,
        metrics_error=one.metrics_error,
    )


def _bytes(mebibytes: float | None) -> int | None:
    return None if mebibytes is None else round(mebibytes * MIB)


def _bytes_per_second(megabits: float | None) -> float | None:
    return None if megabits is None else megabits * MEGABIT / 8
