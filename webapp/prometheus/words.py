"""How other programs' metrics say the rows of our table: one `Word` a way to say one row.

In a word's PromQL these are filled in: $match (matchers), $node and $model (the labels that name these), $engine
(the labels that identify an engine), $over and $window (the function over time that the row wants, and its time),
$rate (the time for `rate`). `max by` folds replicas of the server, each of which has the same series.

Here are node_exporter, DCGM exporter, nvidia_gpu_exporter, process-exporter and cAdvisor; the engines are in
`engine_words`. Sources: the programs' own documentation and code, and their output as captured in tests/fixtures.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from webapp.metrics import Labels


@dataclass(frozen=True)
class Word:
    """One way to say one row of the table."""

    #: `Metric.key` of the row.
    metric: tuple[str, Labels]
    promql: str
    #: Label of the row -> label of the series.
    labels: Labels = ()
    #: Kind of the engine.
    kind: str = ""
    #: Label that names the model; "": the metrics name none.
    model: str = ""
    #: One process serves several models.
    many: bool = False
    #: Label that names a group of processes or a container, which the operator says to be an engine.
    group: str = ""


def _node(row: str, promql: str, fixed: Labels = (), labels: Labels = ()) -> Word:
    return Word((f"llmgw_node_{row}", fixed), promql, labels)


def gauge(name: str, by: str = "$node", more: str = "") -> str:
    return f"max by ({by}) ($over({name}{{{more}$match}}[$window]))"


def rate(name: str, by: str = "$node", more: str = "") -> str:
    return f"max by ({by}) (rate({name}{{{more}$match}}[$rate]))"


# A file system in memory, or one that shows another one again, is no disk.
_DISKS = 'fstype!~"tmpfs|ramfs|overlay|squashfs|nsfs|fuse.*|autofs|rootfs", '
# Traffic of these passes a physical device as well.
_DEVICES = 'device!~"lo|veth.*|docker.*|br-.*|virbr.*|cali.*|flannel.*|cni.*|tun.*|tap.*|dummy.*|ifb.*", '

_AVAILABLE = (
    f"({gauge('node_memory_MemAvailable_bytes')} or "
    f"{gauge('node_memory_MemFree_bytes')} + {gauge('node_memory_Buffers_bytes')} + {gauge('node_memory_Cached_bytes')})"
)


def _node_exporter() -> Iterator[Word]:
    # idle includes iowait, steal is busy: as an agent counts.
    idle = 'sum by ($node) (rate(node_cpu_seconds_total{mode=~"idle|iowait", $match}[$rate]))'
    every = 'sum by ($node) (rate(node_cpu_seconds_total{mode!~"guest.*", $match}[$rate]))'
    yield _node("cpu_utilization_percent", f"100 * (1 - {idle} / {every})")
    yield _node("cpus", 'count by ($node) (count by ($node, cpu) (node_cpu_seconds_total{mode="idle", $match}))')
    for minutes in (1, 5, 15):
        yield _node("load", gauge(f"node_load{minutes}"), (("window", f"{minutes}m"),))
    yield _node("memory_bytes", gauge("node_memory_MemTotal_bytes"))
    yield _node("memory_available_bytes", _AVAILABLE)
    yield _node("memory_used_bytes", f"{gauge('node_memory_MemTotal_bytes')} - {_AVAILABLE}")
    mount = (("mount", "mountpoint"),)
    yield _node("disk_bytes", gauge("node_filesystem_size_bytes", "$node, mountpoint", _DISKS), labels=mount)
    yield _node("disk_available_bytes", gauge("node_filesystem_avail_bytes", "$node, mountpoint", _DISKS), labels=mount)
    for row, name in (("receive", "receive"), ("transmit", "transmit")):
        bytes_a_second = rate(f"node_network_{name}_bytes_total", "$node, device", _DEVICES)
        yield _node(f"network_{row}_bytes_per_second", bytes_a_second, labels=(("device", "device"),))
    for resource, kind, name in (
        ("cpu", "some", "cpu_waiting"),
        ("memory", "some", "memory_waiting"),
        ("memory", "full", "memory_stalled"),
        ("io", "some", "io_waiting"),
        ("io", "full", "io_stalled"),
    ):
        share = f"clamp_max({rate(f'node_pressure_{name}_seconds_total')}, 1)"
        yield _node("pressure_ratio", share, (("resource", resource), ("kind", kind)))


def _gpus() -> Iterator[Word]:
    dcgm: Labels = (("gpu", "UUID"), ("name", "modelName"))
    by = "$node, UUID, modelName"

    def sane(name: str) -> str:
        # DCGM writes a number near 2^63 for "not known".
        return f"({gauge(name, by)} < 1e15)"

    yield _node("gpu_utilization_percent", f"({gauge('DCGM_FI_DEV_GPU_UTIL', by)} <= 100)", labels=dcgm)
    used, free, reserved = (f"DCGM_FI_DEV_FB_{part}" for part in ("USED", "FREE", "RESERVED"))
    yield _node("gpu_memory_used_bytes", f"{sane(used)} * 1048576", labels=dcgm)
    total = f"({sane(used)} + {sane(free)} + ({sane(reserved)} or 0 * {sane(used)})) * 1048576"
    yield _node("gpu_memory_bytes", total, labels=dcgm)
    yield _node("gpu_temperature_celsius", sane("DCGM_FI_DEV_GPU_TEMP"), labels=dcgm)
    yield _node("gpu_power_watts", sane("DCGM_FI_DEV_POWER_USAGE"), labels=dcgm)
    smi: Labels = (("gpu", "uuid"), ("name", "name"))
    named = " * on ($node, uuid) group_left (name) max by ($node, uuid, name) (nvidia_smi_gpu_info{$match})"
    for row, name, factor in (
        ("utilization_percent", "utilization_gpu_ratio", "100 * "),
        ("memory_bytes", "memory_total_bytes", ""),
        ("memory_used_bytes", "memory_used_bytes", ""),
        ("temperature_celsius", "temperature_gpu", ""),
        ("power_watts", "power_draw_watts", ""),
    ):
        value = gauge(f"nvidia_smi_{name}", "$node, uuid")
        yield _node(f"gpu_{row}", f"{factor}{value}{named}", labels=smi)


def _groups() -> Iterator[Word]:
    """Engines by their processes: only groups and containers that the operator names."""
    for row, name, more in (
        ("memory_bytes", "memory_bytes", 'memtype="resident", '),
        ("processes", "num_procs", ""),
        ("start_time_seconds", "oldest_start_time_seconds", ""),
    ):
        value = gauge(f"namedprocess_namegroup_{name}", "$node, groupname", more)
        yield Word((f"llmgw_shard_{row}", ()), value, group="groupname")
    modes = rate("namedprocess_namegroup_cpu_seconds_total", "$node, groupname, mode")
    yield Word(("llmgw_shard_cpu_cores", ()), f"sum by ($node, groupname) ({modes})", group="groupname")
    cpus = rate("container_cpu_usage_seconds_total", "$node, name, cpu")
    yield Word(("llmgw_shard_cpu_cores", ()), f"sum by ($node, name) ({cpus})", group="name")
    # What the kernel calls rss in a cgroup is its anonymous memory.
    anonymous, mapped = (gauge(f"container_memory_{name}", "$node, name") for name in ("rss", "mapped_file"))
    for row, promql in (
        ("memory_bytes", f"{anonymous} + {mapped}"),
        ("memory_anonymous_bytes", anonymous),
        ("memory_file_bytes", mapped),
        ("start_time_seconds", gauge("container_start_time_seconds", "$node, name")),
    ):
        yield Word((f"llmgw_shard_{row}", ()), promql, group="name")


WORDS: tuple[Word, ...] = (*_node_exporter(), *_gpus(), *_groups())
