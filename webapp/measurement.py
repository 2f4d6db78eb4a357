"""What a node reports: one `Measurement`, everything that was read at one moment.

Each field says its unit and its source, so that the reader of the wire, the documentation and the pages
take both from here. A field that could not be measured is None, never 0.

Runs on nodes: standard library only, CPython 3.9 and later.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from webapp.fields import flag, number, part, parts, text, texts, whole

#: A measurement older than this is left out of /metrics, tables, sums and charts.
FRESH_FOR_SECONDS = 60.0

#: Fields that are parts, each with the field that is its whole.
Wholes = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Agent:
    """Who measured. `id` is the identity of a node; its name is only a label."""

    id: str | None = text("a UUID kept on the node's disk", 64)
    boot: str | None = text("a UUID of this run of the agent", 64)
    sequence: int | None = whole("messages", "counted by the agent from 1 in each run")
    version: str | None = text("the agent's version", 64)
    interval_s: float | None = number("seconds", "the agent's setting", 0.05, 3600)
    answered_s_ago: float | None = number("seconds", "the agent's clock: since this control plane last took a heartbeat of it")
    sent_at: float | None = number("seconds", "the node's wall clock; shown only, nothing depends on it", 0, 1e11)


@dataclass(frozen=True)
class Host:
    """The machine itself: what hardly changes."""

    address: str | None = text("the address that the node uses towards the control plane")
    kernel: str | None = text("uname")
    cpu_model: str | None = text("/proc/cpuinfo")
    uptime_s: float | None = number("seconds", "/proc/uptime")
    labels: Mapping[str, str] = texts("the agent's settings")


@dataclass(frozen=True)
class Load:
    """The node as a whole."""

    age_s: float | None = number("seconds", "the agent's clock: from reading /proc to sending")
    interval_s: float | None = number("seconds", "the agent's clock: between the two readings", 0, 1e7)
    cpu_percent: float | None = number("percent of all cores", "/proc/stat: all but idle and iowait", 0, 100)
    cpus: int | None = whole("cores", "/proc/stat: cpuN lines", 1, 100_000)
    load1: float | None = number("runnable tasks", "/proc/loadavg")
    load5: float | None = number("runnable tasks", "/proc/loadavg")
    load15: float | None = number("runnable tasks", "/proc/loadavg")
    memory_total_bytes: int | None = whole("bytes", "/proc/meminfo: MemTotal", 1)
    memory_used_bytes: int | None = whole("bytes", "/proc/meminfo: MemTotal - MemAvailable")
    memory_available_bytes: int | None = whole("bytes", "/proc/meminfo: MemAvailable")
    memory_free_bytes: int | None = whole("bytes", "/proc/meminfo: MemFree")
    memory_cache_bytes: int | None = whole("bytes", "/proc/meminfo: Cached + Buffers + SReclaimable - Shmem")
    memory_shared_bytes: int | None = whole("bytes", "/proc/meminfo: Shmem")
    memory_hugepages_bytes: int | None = whole("bytes", "/proc/meminfo: HugePages_Total x Hugepagesize")
    memory_arc_bytes: int | None = whole("bytes", "/proc/spl/kstat/zfs/arcstats: size")
    swap_total_bytes: int | None = whole("bytes", "/proc/meminfo: SwapTotal")
    swap_used_bytes: int | None = whole("bytes", "/proc/meminfo: SwapTotal - SwapFree")
    at_most: ClassVar[Wholes] = (
        ("memory_used_bytes", "memory_total_bytes"),
        ("memory_available_bytes", "memory_total_bytes"),
        ("memory_free_bytes", "memory_total_bytes"),
        ("swap_used_bytes", "swap_total_bytes"),
    )
    unreadable_processes: int | None = whole("processes", "/proc/<pid>/stat that this user may not read; unknown under hidepid=2")


@dataclass(frozen=True)
class Limits:
    """What the agent's own cgroup allows it, where the agent runs in a container."""

    cpus: float | None = number("cores", "cgroup cpu.max", 0)
    memory_bytes: int | None = whole("bytes", "cgroup memory.max", 1)
    memory_used_bytes: int | None = whole("bytes", "cgroup memory.current - inactive_file")


@dataclass(frozen=True)
class Disk:
    """One file system, counted once however often it is mounted."""

    mount: str | None = text("/proc/self/mountinfo", 1024)
    device: str | None = text("/proc/self/mountinfo", 1024)
    kind: str | None = text("/proc/self/mountinfo: the file system's type", 64)
    total_bytes: int | None = whole("bytes", "statvfs: f_blocks x f_frsize", 1)
    used_bytes: int | None = whole("bytes", "statvfs: (f_blocks - f_bfree) x f_frsize")
    available_bytes: int | None = whole("bytes", "statvfs: f_bavail x f_frsize")
    holds: str | None = text("model files stored on it", 1024)
    at_most: ClassVar[Wholes] = (("used_bytes", "total_bytes"), ("available_bytes", "total_bytes"))
    error: str | None = text("why it could not be read", 300)


@dataclass(frozen=True)
class Network:
    """One network device that carries traffic to and from the node."""

    device: str | None = text("/proc/net/dev", 64)
    receive_bytes_per_second: float | None = number("bytes/s", "/proc/net/dev: received bytes", 0, 1e13)
    transmit_bytes_per_second: float | None = number("bytes/s", "/proc/net/dev: sent bytes", 0, 1e13)
    speed_bits_per_second: float | None = number("bits/s", "/sys/class/net/<device>/speed", 1)


@dataclass(frozen=True)
class Gpu:
    """One GPU."""

    id: str | None = text("NVML: UUID; amdgpu: PCI address")
    index: int | None = whole("", "the driver's order")
    name: str | None = text("the driver")
    utilization_percent: float | None = number("percent", "NVML utilisation; amdgpu gpu_busy_percent", 0, 100)
    memory_total_bytes: int | None = whole("bytes", "NVML memory; amdgpu mem_info_vram_total", 1)
    memory_used_bytes: int | None = whole("bytes", "NVML memory; amdgpu mem_info_vram_used")
    at_most: ClassVar[Wholes] = (("memory_used_bytes", "memory_total_bytes"),)
    temperature_celsius: float | None = number("degrees Celsius", "the driver", -60, 200)
    power_watts: float | None = number("watts", "the driver", 0, 10_000)
    missing_since_s: float | None = number("seconds", "the agent: since the GPU was last seen")
    error: str | None = text("why it could not be read", 300)


@dataclass(frozen=True)
class Pressure:
    """Share of the interval in which tasks waited for a resource (PSI); `full`: all of them at once."""

    cpu_some: float | None = number("ratio", "/proc/pressure/cpu: some total", 0, 1)
    memory_some: float | None = number("ratio", "/proc/pressure/memory: some total", 0, 1)
    memory_full: float | None = number("ratio", "/proc/pressure/memory: full total", 0, 1)
    io_some: float | None = number("ratio", "/proc/pressure/io: some total", 0, 1)
    io_full: float | None = number("ratio", "/proc/pressure/io: full total", 0, 1)


@dataclass(frozen=True)
class Requests:
    """Requests inside an engine."""

    waiting: float | None = number("requests", "the engine's own metrics", 0, 1e12)
    running: float | None = number("requests", "the engine's own metrics", 0, 1e12)


@dataclass(frozen=True)
class Process:
    """One process of an engine, as proof of the engine's numbers."""

    pid: int | None = whole("", "/proc", 1)
    started_s_ago: float | None = number("seconds", "/proc/<pid>/stat: starttime")
    command: str | None = text("/proc/<pid>/stat: comm", 64)
    state: str | None = text("/proc/<pid>/stat: state", 1)
    ticks_before: int | None = whole("clock ticks", "/proc/<pid>/stat: utime + stime at the reading before")
    ticks_now: int | None = whole("clock ticks", "/proc/<pid>/stat: utime + stime at this reading")
    cpu_cores: float | None = number("cores", "ticks passed / (ticks a second x elapsed seconds)", 0, 100_000)
    memory_bytes: int | None = whole("bytes", "/proc/<pid>/stat: rss x page size")


@dataclass(frozen=True)
class Engine:
    """One LLM server: a group of processes on the node."""

    id: str | None = text("the agent's settings, or made from kind, model and port")
    model: str | None = text("the engine's command line or the agent's settings")
    kind: str | None = text("the table of engine kinds", 64)
    state: str | None = text(
        "running, orphaned (leader is gone), dead (only zombies, or declared and not there), silent (registered, not heard)",
        16,
    )
    declared: bool | None = flag("the agent's settings name this engine")
    unit: str | None = text("cgroup: systemd unit or container", 300)
    membership: str | None = text("how its processes were found: cgroup or (process) group", 64)
    pid: int | None = whole("", "the leader's", 1)
    port: int | None = whole("", "the engine's command line or the agent's settings", 1, 65535)
    cpu_cores: float | None = number("cores", "/proc/<pid>/stat of its processes: utime + stime", 0, 100_000)
    memory_bytes: int | None = whole(
        "bytes", "/proc/<pid>/status of its processes: sum of the next three; else stat: rss x page size"
    )
    memory_anonymous_bytes: int | None = whole("bytes", "/proc/<pid>/status: RssAnon")
    memory_file_bytes: int | None = whole("bytes", "/proc/<pid>/status: RssFile")
    memory_shared_bytes: int | None = whole("bytes", "/proc/<pid>/status: RssShmem")
    memory_proportional_bytes: int | None = whole("bytes", "/proc/<pid>/smaps_rollup: Pss")
    gpu_memory_bytes: int | None = whole("bytes", "NVML: memory of its processes")
    processes: int | None = whole("processes", "/proc")
    started_s_ago: float | None = number("seconds", "/proc/<pid>/stat: starttime of the leader")
    requests: Requests = part(Requests)
    kv_cache_usage_ratio: float | None = number("ratio", "the engine's own metrics", 0, 1)
    prompt_tokens_per_second: float | None = number("tokens/s", "the engine's own metrics", 0, 1e9)
    generation_tokens_per_second: float | None = number("tokens/s", "the engine's own metrics", 0, 1e9)
    metrics_error: str | None = text("why the engine's own metrics could not be read", 300)
    members: tuple[Process, ...] = parts(Process, ("pid",), 64)

    @property
    def is_running(self) -> int | None:
        """1, or None: a state that it is not in has no series."""
        return 1 if self.state == "running" else None

    @property
    def is_orphaned(self) -> int | None:
        return 1 if self.state == "orphaned" else None

    @property
    def is_dead(self) -> int | None:
        return 1 if self.state == "dead" else None


@dataclass(frozen=True)
class Measurement:
    """Everything that one node reported at one moment."""

    node: str
    agent: Agent = part(Agent)
    host: Host = part(Host)
    load: Load = part(Load)
    limits: Limits = part(Limits)
    disks: tuple[Disk, ...] = parts(Disk, ("mount",), 64)
    networks: tuple[Network, ...] = parts(Network, ("device",), 64)
    gpus: tuple[Gpu, ...] = parts(Gpu, ("id",), 64)
    gpu_error: str | None = text("why GPUs could not be read", 300)
    pressure: Pressure = part(Pressure)
    engines: tuple[Engine, ...] = parts(Engine, ("id",), 256)
    demo: bool | None = flag("made up by `enginehouse demo`")


def impossible(part: Load | Disk | Gpu) -> list[tuple[str, str]]:
    """The parts that are more than their whole, each with it.

    >>> impossible(Load(memory_total_bytes=100, memory_used_bytes=100, memory_available_bytes=101))
    [('memory_available_bytes', 'memory_total_bytes')]
    """
    return [
        (name, of) for name, of in part.at_most if (most := getattr(part, of)) is not None and (getattr(part, name) or 0) > most
    ]
