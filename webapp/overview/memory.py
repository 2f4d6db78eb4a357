"""Where a node's memory is: parts that add up to all of it."""

from __future__ import annotations

from dataclasses import dataclass

from webapp.measurement import Engine, Measurement


@dataclass(frozen=True)
class Segment:
    """One part of a memory bar."""

    key: str
    title: str
    bytes: int
    #: What exactly is counted, and from which file.
    source: str


def segments(measurement: Measurement) -> list[Segment]:
    """The parts of MemTotal, used first; [] where total or free memory is not known.

    Pages that an engine maps from files lie in the page cache, so they are taken out of the cache's part.
    Pages that several processes map are counted once by the kernel's totals but once a process in RSS; what
    that makes too much is taken off the engines' file-backed and shared parts, never shown as used twice.
    """
    load = measurement.load
    total, free = load.memory_total_bytes, load.memory_free_bytes
    if total is None or free is None:
        return []
    left = max(0, total - free)

    def take(wanted: int | None) -> int:
        nonlocal left
        taken = min(left, wanted or 0)
        left -= taken
        return taken

    huge = take(load.memory_hugepages_bytes)
    arc = take(load.memory_arc_bytes)
    all_cache = take(load.memory_cache_bytes)
    all_shared = take(load.memory_shared_bytes)
    files = min(all_cache, _sum(measurement, "memory_file_bytes"))
    shared = min(all_shared, _sum(measurement, "memory_shared_bytes"))
    anonymous = take(sum(_anonymous(engine) for engine in measurement.engines))
    found = [
        Segment(
            "anonymous", "engines, anonymous", anonymous, "RssAnon of the engines' processes; RSS where the split is not readable"
        ),
        Segment("files", "engines, from files", files, "RssFile of the engines' processes: mapped weights and libraries"),
        Segment("shared", "engines, shared", shared, "RssShmem of the engines' processes"),
        Segment("huge", "huge pages", huge, "HugePages_Total x Hugepagesize"),
        Segment("arc", "ZFS cache", arc, "arcstats size"),
        Segment("tmpfs", "shared memory of others", all_shared - shared, "Shmem less the engines' part: tmpfs and shared memory"),
        Segment("other", "everything else", left, "MemTotal less all other parts: other processes and the kernel"),
        Segment(
            "cache", "page cache of others", all_cache - files, "Cached + Buffers + SReclaimable - Shmem less the engines' part"
        ),
        Segment("free", "free", total - max(0, total - free), "MemFree"),
    ]
    return [segment for segment in found if segment.bytes or segment.key in ("other", "free")]


def _anonymous(engine: Engine) -> int:
    if engine.memory_anonymous_bytes is not None:
        return engine.memory_anonymous_bytes
    return engine.memory_bytes or 0


def _sum(measurement: Measurement, field: str) -> int:
    return sum(getattr(engine, field) or 0 for engine in measurement.engines)
