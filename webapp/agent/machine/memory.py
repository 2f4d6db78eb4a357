"""The machine's memory, from /proc/meminfo and ZFS."""

from __future__ import annotations

from collections.abc import Mapping

from webapp.agent.machine.proc import whole


def measure(meminfo: Mapping[str, int], arc_bytes: int | None = None) -> dict[str, int]:
    """The fields of `Load` that are about memory, in bytes; what is unknown is absent.

    Used is total less available, never less than nothing: lxcfs shows more available than total. ZFS's cache
    is reported beside it, never subtracted: inside a container it is the host's.

    >>> measure({"MemTotal": 100, "MemAvailable": 120, "MemFree": 90})
    {'memory_total_bytes': 100, 'memory_available_bytes': 100, 'memory_used_bytes': 0, 'memory_free_bytes': 90}
    """
    total = meminfo.get("MemTotal")
    if not total:
        return {}
    found = {"memory_total_bytes": total}
    available = _available(meminfo)
    if available is not None:
        found["memory_available_bytes"] = min(available, total)
        found["memory_used_bytes"] = total - found["memory_available_bytes"]
    if "MemFree" in meminfo:
        found["memory_free_bytes"] = min(meminfo["MemFree"], total)
    if "Cached" in meminfo:
        found["memory_cache_bytes"] = _cache(meminfo)
    if "Shmem" in meminfo:
        found["memory_shared_bytes"] = meminfo["Shmem"]
    if meminfo.get("HugePages_Total") and "Hugepagesize" in meminfo:
        found["memory_hugepages_bytes"] = meminfo["HugePages_Total"] * meminfo["Hugepagesize"]
    if arc_bytes and arc_bytes <= total:
        found["memory_arc_bytes"] = arc_bytes
    if "SwapTotal" in meminfo:
        found["swap_total_bytes"] = meminfo["SwapTotal"]
        if "SwapFree" in meminfo:  # WSL1 shows more swap free than there is
            found["swap_used_bytes"] = max(0, meminfo["SwapTotal"] - meminfo["SwapFree"])
    return found


def _available(meminfo: Mapping[str, int]) -> int | None:
    """MemAvailable; before Linux 3.14 and on WSL1 what is free or can be dropped at once."""
    if "MemAvailable" in meminfo:
        return meminfo["MemAvailable"]
    if "MemFree" in meminfo and "Cached" in meminfo:
        return meminfo["MemFree"] + _cache(meminfo)
    return None


def _cache(meminfo: Mapping[str, int]) -> int:
    """Page cache that can be dropped: shared memory is counted as cached but can't."""
    dropped = meminfo["Cached"] + meminfo.get("Buffers", 0) + meminfo.get("SReclaimable", 0)
    return max(0, dropped - meminfo.get("Shmem", 0))


def parse_arcstats(data: bytes) -> int | None:
    """Bytes that ZFS's cache holds, from /proc/spl/kstat/zfs/arcstats.

    >>> parse_arcstats(b"name  type data\\nhits  4  1\\nsize  4  6764573491\\n")
    6764573491
    """
    for line in data.split(b"\n"):
        words = line.split()
        if len(words) == 3 and words[0] == b"size":
            return whole(words[2])
    return None
