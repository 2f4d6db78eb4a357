"""Where there is room for one more engine: nodes ranked by headroom, and why not the others.

Room is what new work can have without pushing anybody out: available memory (free and reclaimable), cores that
were idle over the last minutes, the largest free memory of one GPU. What is not known is no room.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from webapp import formats
from webapp.fleet.nodes import Node
from webapp.measurement import Measurement
from webapp.overview.summary import cores_used
from webapp.snapshot import ACCEPTING, DEGRADED, REJECTING, UNKNOWN, admission, free_ratio

GIB = 2**30

#: Minutes over which idle cores are averaged.
MINUTES = 5

#: Among nodes with room, those that take work come first.
_ORDER = {ACCEPTING: 0, UNKNOWN: 1, DEGRADED: 2, REJECTING: 3}


class BadQuestion(ValueError):
    """What was asked can't be understood. `field` is the parameter to blame."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}")
        self.field = field
        self.reason = reason


@dataclass(frozen=True)
class Wanted:
    """What one more engine needs; None: no matter."""

    memory_gib: float | None = None
    cores: float | None = None
    gpu_memory_gib: float | None = None
    #: Nodes that don't serve it yet come first, since a second engine elsewhere survives a node.
    model: str = ""

    @classmethod
    def of(cls, query: Mapping[str, str]) -> Wanted:
        """Raises BadQuestion."""
        return cls(
            _number(query, "memory_gib", "GiB, such as 40"),
            _number(query, "cores", "cores, such as 8"),
            _number(query, "gpu_memory_gib", "GiB, such as 24"),
            query.get("model", "").strip()[:253],
        )


def _number(query: Mapping[str, str], name: str, wanted: str) -> float | None:
    text = query.get(name, "").strip()
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1e9:
        raise BadQuestion(name, f"expected {wanted}, got {text[:40]!r}")
    return value


@dataclass(frozen=True)
class Candidate:
    """One node: what room it has, whether it is enough, and why not."""

    node: Node
    admission: str
    available_bytes: int | None
    idle_cores: float | None
    gpu_free_bytes: int | None
    serves: bool
    #: Why it doesn't fit; empty: it does.
    reasons: tuple[str, ...]
    #: What there is to know, though it fits.
    notes: tuple[str, ...]
    #: How many times the wanted would fit, by what is scarcest.
    score: float

    @property
    def fits(self) -> bool:
        return not self.reasons


def rank(
    nodes: Sequence[Node],
    wanted: Wanted,
    *,
    idle_cores: Callable[[Node], float | None] | None = None,
    stated: Mapping[str, str] | None = None,
) -> list[Candidate]:
    """Every node, the best first. `idle_cores` over the last minutes; `stated`: admission states by node's name."""
    found = [_candidate(node, wanted, (idle_cores or idle_now)(node), (stated or {}).get(node.name)) for node in nodes]
    return sorted(
        found,
        key=lambda one: (
            not one.fits,
            _ORDER.get(one.admission, 1),
            one.node.state != "fresh",
            one.serves and bool(wanted.model),
            -one.score,
            one.node.name,
        ),
    )


def _candidate(node: Node, wanted: Wanted, idle: float | None, stated: str | None) -> Candidate:
    numbers = node.numbers
    available = _available(numbers) if numbers else None
    gpu_free = _gpu_free(numbers) if numbers else None
    state = UNKNOWN if numbers is None else _worse(admission(free_ratio(numbers.load), numbers.load.cpu_percent), stated)
    serves = numbers is not None and any(engine.model == wanted.model for engine in numbers.engines)
    reasons: list[str] = []
    if numbers is None:
        silent = node.state in ("stale", "gone")
        reasons.append(f"not heard for {formats.duration(node.heard_s)}" if silent else "its numbers are too old")
    else:
        if state == REJECTING:
            reasons.append("turns new work away")
        reasons += _short(numbers, wanted, available, idle, gpu_free)
    notes = [] if numbers is None else _notes(node, wanted, state, serves)
    score = _score(numbers, wanted, available, idle, gpu_free) if numbers else 0.0
    return Candidate(node, state, available, idle, gpu_free, serves, tuple(reasons), tuple(notes), score)


def _short(numbers: Measurement, wanted: Wanted, available: int | None, idle: float | None, gpu_free: int | None) -> list[str]:
    found = []
    if wanted.memory_gib:
        if available is None:
            found.append("its available memory is not known")
        elif available < wanted.memory_gib * GIB:
            found.append(f"{formats.bytes_(available)} of memory available, {wanted.memory_gib:g} GiB wanted")
    if wanted.cores:
        if idle is None:
            found.append("its idle cores are not known")
        elif idle < wanted.cores:
            found.append(f"{formats.number(idle, 1)} cores idle, {wanted.cores:g} wanted")
    if wanted.gpu_memory_gib:
        if not numbers.gpus:
            found.append(f"no GPU: {numbers.gpu_error}" if numbers.gpu_error else "no GPU")
        elif gpu_free is None:
            found.append("the memory of its GPUs is not known")
        elif gpu_free < wanted.gpu_memory_gib * GIB:
            found.append(f"at most {formats.bytes_(gpu_free)} free on one GPU, {wanted.gpu_memory_gib:g} GiB wanted")
    return found


def _notes(node: Node, wanted: Wanted, state: str, serves: bool) -> list[str]:
    found = []
    if node.state == "late":
        found.append(f"heard {formats.duration(node.heard_s)} ago")
    if state == DEGRADED:
        found.append("slows new work down")
    elif state == UNKNOWN:
        found.append("whether it takes new work is not known")
    if serves and wanted.model:
        found.append("serves the model already")
    return found


def _worse(measured: str, stated: str | None) -> str:
    return max((measured, stated), key=lambda state: _ORDER[state]) if stated in _ORDER else measured


def _available(numbers: Measurement) -> int | None:
    """What new work can have: less where the node is a container with a limit of its own."""
    available, limits = numbers.load.memory_available_bytes, numbers.limits
    if available is None or limits.memory_bytes is None or limits.memory_used_bytes is None:
        return available
    return max(0, min(available, limits.memory_bytes - limits.memory_used_bytes))


def _gpu_free(numbers: Measurement) -> int | None:
    free = [
        max(0, gpu.memory_total_bytes - gpu.memory_used_bytes)
        for gpu in numbers.gpus
        if gpu.memory_total_bytes is not None and gpu.memory_used_bytes is not None and gpu.missing_since_s is None
    ]
    return max(free, default=None)


def _score(numbers: Measurement, wanted: Wanted, available: int | None, idle: float | None, gpu_free: int | None) -> float:
    shares = []
    if wanted.memory_gib:
        shares.append((available or 0) / (wanted.memory_gib * GIB))
    if wanted.cores:
        shares.append((idle or 0.0) / wanted.cores)
    if wanted.gpu_memory_gib:
        shares.append((gpu_free or 0) / (wanted.gpu_memory_gib * GIB))
    if shares:
        return min(shares)
    cpus = numbers.load.cpus
    return min(free_ratio(numbers.load) or 0.0, idle / cpus if idle is not None and cpus else 0.0)


def idle_now(node: Node) -> float | None:
    """Cores that are idle, by the last measurement."""
    return None if node.numbers is None else idle_of(node.numbers)


def idle_of(measurement: Measurement) -> float | None:
    """Cores that were idle; no more than the node may use."""
    busy, cpus = cores_used(measurement), measurement.load.cpus
    if busy is None or cpus is None:
        return None
    idle = max(0.0, cpus - busy)
    return idle if measurement.limits.cpus is None else min(idle, measurement.limits.cpus)


class RecentIdle:
    """Idle cores of each node over the last MINUTES. Safe to use from many threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        #: Node -> sums of a minute each: which minute, of what, of how many.
        self._minutes: dict[str, deque[tuple[int, float, int]]] = {}

    def add(self, measurement: Measurement) -> None:
        """Take in a measurement that was made just now."""
        idle = idle_of(measurement)
        if idle is None:
            return
        minute = int(self._clock() // 60)
        with self._lock:
            kept = self._minutes.setdefault(measurement.node, deque(maxlen=MINUTES))
            if kept and kept[-1][0] == minute:
                kept[-1] = minute, kept[-1][1] + idle, kept[-1][2] + 1
            else:
                kept.append((minute, idle, 1))

    def cores(self, node: Node) -> float | None:
        """The mean; that of the last measurement where no other is kept."""
        if node.numbers is None:
            return None
        first = int(self._clock() // 60) - MINUTES
        with self._lock:
            kept = [entry for entry in self._minutes.get(node.name, ()) if entry[0] > first]
        count = sum(entry[2] for entry in kept)
        return sum(entry[1] for entry in kept) / count if count else idle_now(node)

    def keep_only(self, names: Sequence[str]) -> None:
        """Forget all other nodes."""
        kept = set(names)
        with self._lock:
            for name in self._minutes.keys() - kept:
                del self._minutes[name]
