"""GPUs of the node: what they do, and how much of their memory each process holds.

Drivers may hang. They are asked in a thread of their own, and an answer that is too old counts as unknown.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Callable

from webapp.agent.machine import gpu_amd
from webapp.agent.machine.gpu_nvidia import Nvidia, Seen
from webapp.agent.patience import started
from webapp.measurement import Gpu

#: A look older than this is unknown.
FRESH_FOR_SECONDS = 10.0

#: Between two looks.
LOOK_SECONDS = 2.0

#: Utilisation is the mean over this time, unless another is wanted.
WINDOW_SECONDS = 10.0

#: After this long without a measurement nobody looks any more.
_UNASKED_SECONDS = 60.0

#: As many as a heartbeat carries.
_MOST_GPUS = 64


@dataclass(frozen=True)
class GpuReading:
    """GPUs, and why they could not be looked for. No GPUs and no error: there are none."""

    gpus: tuple[Gpu, ...] = ()
    error: str | None = None
    #: Bytes of GPU memory by process, over all GPUs.
    memory_by_pid: Mapping[int, int] = field(default_factory=dict)


class Gpus:
    """All GPUs of the node. `nvml`: the module pynvml, imported where None."""

    def __init__(
        self,
        sys: Path = Path("/sys"),
        proc: Path = Path("/proc"),
        nvml: Any = None,
        clock: Callable[[], float] = time.monotonic,
        look_seconds: float = LOOK_SECONDS,
        window_seconds: float = WINDOW_SECONDS,
    ) -> None:
        self._sys = sys
        self._clock = clock
        self._nvidia = Nvidia(proc, sys, nvml, clock)
        self._look_seconds = look_seconds
        self._window_seconds = window_seconds
        self._changed = threading.Condition()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None
        self._seen: Seen | None = None
        #: When the last look ended; while there was none, when looking began.
        self._seen_at = 0.0
        self._asked_at = 0.0
        #: GPUs that were there once, by id, and when they were there last.
        self._known: dict[str, tuple[Gpu, float]] = {}
        self._utilizations: dict[str, deque[tuple[float, float]]] = {}

    def measure(self) -> GpuReading:
        """The GPUs as last seen. Never waits for a driver."""
        with self._changed:
            now = self._asked_at = self._clock()
            if not self._start(now):
                return GpuReading()
            age_s = now - self._seen_at
            if age_s > FRESH_FOR_SECONDS:
                return self._unanswered(f"the GPU driver has not answered for {age_s:.0f} s")
            if self._seen is None:
                return GpuReading(error="GPUs are still being looked for")
            seen = self._seen
            present = {gpu.id for gpu in seen.gpus}
            missing = tuple(
                replace(
                    gpu,
                    missing_since_s=max(0.0, now - last),
                    error=seen.error or seen.lost.get(id, "the driver does not list it"),
                )
                for id, (gpu, last) in self._known.items()
                if id not in present
            )
            return GpuReading((seen.gpus + missing)[:_MOST_GPUS], seen.error, seen.memory_by_pid)

    def wait(self, seconds: float) -> bool:
        """Waits for the first look after the first measurement, for `seconds` at most; whether it came."""
        with self._changed:
            return self._changed.wait_for(lambda: self._thread is None or self._seen is not None, seconds)

    def close(self) -> None:
        """Nobody looks any more after the look that goes on."""
        self._closed.set()

    def _start(self, now: float) -> bool:
        """Starts looking unless that has begun; False where there is nothing to look at."""
        if self._thread is not None:
            return True
        if not self._known and not self._may_be_there():
            return False
        self._seen, self._seen_at = None, now
        thread = threading.Thread(target=self._look_on, name="gpus", daemon=True)
        if started(thread):
            self._thread = thread  # else the next measurement tries again
        return True

    def _may_be_there(self) -> bool:
        return self._nvidia.may_be_there or bool(gpu_amd.cards(self._sys))

    def _unanswered(self, reason: str) -> GpuReading:
        return GpuReading(tuple(replace(gpu, error=reason) for gpu, _ in self._known.values())[:_MOST_GPUS], reason)

    def _look_on(self) -> None:
        while True:
            self._take(self._look())
            is_closed = self._closed.wait(self._look_seconds)
            with self._changed:
                if is_closed or self._clock() - self._asked_at > _UNASKED_SECONDS:
                    self._thread = None
                    return

    def _take(self, seen: Seen) -> None:
        with self._changed:
            now = self._clock()
            self._seen, self._seen_at = seen, now
            for gpu in seen.gpus:
                self._known[gpu.id or ""] = Gpu(id=gpu.id, index=gpu.index, name=gpu.name), now
            self._changed.notify_all()

    def _look(self) -> Seen:
        try:
            nvidia = self._nvidia.look()
            gpus = nvidia.gpus + gpu_amd.look(self._sys)
            return replace(nvidia, gpus=tuple(self._smoothed(gpu) for gpu in gpus))
        except Exception as error:  # whatever a driver does, the node reports
            return Seen(error=f"GPUs could not be read: {type(error).__name__}")

    def _smoothed(self, gpu: Gpu) -> Gpu:
        """The GPU with its mean utilisation of late: a driver gives that of the last second or less."""
        if gpu.utilization_percent is None:
            return gpu
        now = self._clock()
        window = self._utilizations.setdefault(gpu.id or "", deque())
        window.append((now, gpu.utilization_percent))
        while window[0][0] <= now - self._window_seconds:
            window.popleft()
        return replace(gpu, utilization_percent=sum(percent for _, percent in window) / len(window))
