"""NVIDIA GPUs, through NVML (package nvidia-ml-py, module pynvml).

What the driver does not report about a GPU is unknown; other GPUs are not affected. A driver that is lost,
or newer than the loaded library, is tried again from the beginning, less and less often.
https://docs.nvidia.com/deploy/nvml-api/
"""

from __future__ import annotations

import importlib
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable

from webapp.fields import printable
from webapp.measurement import Gpu

#: Codes of NVMLError.value.
_UNINITIALIZED = 1
_DRIVER_NOT_LOADED = 9
_LIBRARY_NOT_FOUND = 12
_GPU_IS_LOST = 15
_VERSION_MISMATCH = 18
_BEGIN_AGAIN = frozenset({_UNINITIALIZED, _DRIVER_NOT_LOADED, _VERSION_MISMATCH})

#: After a failure the next attempt comes this much later; each time twice as much, up to the longest.
_SHORTEST_PAUSE = 5.0
_LONGEST_PAUSE = 60.0

#: Linux gives no process a larger number.
_LARGEST_PID = 4_194_304

#: More memory than this in one process is a misread, where the GPU's own is not known.
_LARGEST_MEMORY = 2**50


@dataclass(frozen=True)
class Seen:
    """What one look at the GPUs found. No GPUs and no error: there are none."""

    gpus: tuple[Gpu, ...] = ()
    error: str | None = None
    #: Bytes of GPU memory by process, over all GPUs.
    memory_by_pid: dict[int, int] = field(default_factory=dict)
    #: Why GPUs that were there before do not answer, by id.
    lost: dict[str, str] = field(default_factory=dict)


class _BeginAgain(Exception):
    """The driver can't be talked to. The message says why."""


class _GpuLost(Exception):
    """One GPU does not answer any more."""


class Nvidia:
    """The GPUs that NVML reports. `nvml`: the module pynvml; None: imported when a driver is loaded."""

    def __init__(self, proc: Path, sys: Path, nvml: Any = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._proc = proc
        self._sys = sys
        self._nvml = nvml
        self._was_given = nvml is not None
        self._clock = clock
        self._is_ready = False
        self._error: str | None = None
        self._pause_s = _SHORTEST_PAUSE
        self._next_attempt = float("-inf")
        self._was_ready = False
        #: Number of a GPU -> its id, once that is known.
        self._ids: dict[int, str] = {}

    @property
    def may_be_there(self) -> bool:
        """A driver is loaded; /dev/dxg is the way to it under WSL."""
        modules = self._sys / "module"
        return self._was_given or (modules / "nvidia").exists() or (modules / "nvgpu").exists() or Path("/dev/dxg").exists()

    def look(self) -> Seen:
        """One look at all GPUs. May block for as long as the driver does."""
        if not self._is_ready and not self._begin():
            return Seen(error=self._error)
        try:
            return self._look()
        except _BeginAgain as error:
            self._fail(str(error))
            return Seen(error=self._error)

    def _begin(self) -> bool:
        now = self._clock()
        if now < self._next_attempt:
            return False
        if self._nvml is None:
            if not self.may_be_there:
                self._error = None
                return False
            try:
                self._nvml = importlib.import_module("pynvml")
            except ImportError:
                self._fail("an NVIDIA driver is loaded; the package nvidia-ml-py, which reads its GPUs, is not installed")
                return False
        try:
            self._nvml.nvmlInit()
        except Exception as error:
            self._fail(self._why_not(error))
            if getattr(error, "value", None) == _VERSION_MISMATCH:
                _unload(self._nvml)
            return False
        self._is_ready = self._was_ready = True
        self._error, self._pause_s = None, _SHORTEST_PAUSE
        return True

    def _fail(self, reason: str | None) -> None:
        if self._is_ready:
            try:
                self._nvml.nvmlShutdown()
            except Exception:  # noqa: S110 - it was lost anyhow
                pass
        self._is_ready, self._error = False, reason
        self._next_attempt = self._clock() + self._pause_s
        self._pause_s = min(2 * self._pause_s, _LONGEST_PAUSE)

    def _why_not(self, error: Exception) -> str | None:
        """Why NVML did not begin, or None where that means that there is no GPU."""
        code = getattr(error, "value", None)
        if code in (_LIBRARY_NOT_FOUND, _DRIVER_NOT_LOADED):
            if not self._was_ready and (self._was_given or not self.may_be_there):
                return None
            missing = "the library libnvidia-ml.so is not found" if code == _LIBRARY_NOT_FOUND else "it does not answer"
            return f"an NVIDIA driver was loaded, but {missing}"
        return _reason(error)

    def _look(self) -> Seen:
        nvml = self._nvml
        count = self._value(nvml.nvmlDeviceGetCount)
        if count is None:
            raise _BeginAgain("the NVIDIA driver does not report how many GPUs there are")
        gpus = []
        memory_by_pid: dict[int, int] = {}
        lost: dict[str, str] = {}
        for index in range(count):
            try:
                handle = nvml.nvmlDeviceGetHandleByIndex(index)
                gpu = self._gpu(handle, index)
            except Exception as error:
                _raise_if_begin_again(error)
                if index in self._ids:
                    lost[self._ids[index]] = _reason(error)
                else:
                    gpus.append(Gpu(id=f"nvidia-{index}", index=index, error=_reason(error)))
                continue
            gpus.append(gpu)
            for pid, used in self._processes(handle, gpu.memory_total_bytes).items():
                memory_by_pid[pid] = memory_by_pid.get(pid, 0) + used
        if count and not gpus:
            raise _BeginAgain("no NVIDIA GPU answers")
        return Seen(tuple(gpus), None, memory_by_pid, lost)

    def _gpu(self, handle: Any, index: int) -> Gpu:
        nvml = self._nvml
        uuid = _text(self._value(nvml.nvmlDeviceGetUUID, handle))
        id = self._ids[index] = uuid or self._ids.get(index) or f"nvidia-{index}"
        total, used = self._memory(handle)
        rates = self._value(nvml.nvmlDeviceGetUtilizationRates, handle)
        power = self._value(nvml.nvmlDeviceGetPowerUsage, handle)
        temperature = self._value(nvml.nvmlDeviceGetTemperature, handle, 0)  # 0: NVML_TEMPERATURE_GPU
        return Gpu(
            id=id,
            index=index,
            name=_text(self._value(nvml.nvmlDeviceGetName, handle)) or "NVIDIA GPU",
            utilization_percent=_within(getattr(rates, "gpu", None), 0, 100),
            memory_total_bytes=total,
            memory_used_bytes=used,
            temperature_celsius=_within(temperature, -60, 200),
            power_watts=None if power is None else _within(power / 1000, 0, 10_000),
            error="in MIG mode the driver reports no utilisation" if self._is_divided(handle) else None,
        )

    def _memory(self, handle: Any) -> tuple[int | None, int | None]:
        """Total and used. Version 2 leaves out what the driver keeps for itself, as nvidia-smi does."""
        nvml = self._nvml
        info = None
        if hasattr(nvml, "nvmlMemory_v2"):
            info = self._value(nvml.nvmlDeviceGetMemoryInfo, handle, nvml.nvmlMemory_v2)
        if info is None:
            info = self._value(nvml.nvmlDeviceGetMemoryInfo, handle)
        total, used = _count(getattr(info, "total", None)), _count(getattr(info, "used", None))
        if not total:  # memory shared with the host, as on GB10
            return None, None
        return total, used if used is not None and used <= total else None

    def _is_divided(self, handle: Any) -> bool:
        mode = self._value(self._nvml.nvmlDeviceGetMigMode, handle) if hasattr(self._nvml, "nvmlDeviceGetMigMode") else None
        return bool(mode and mode[0] == 1)

    def _processes(self, handle: Any, total: int | None) -> dict[int, int]:
        """Bytes by process; entries that can't be are dropped: some drivers shuffle their fields."""
        found: dict[int, int] = {}
        nvml = self._nvml
        for ask in (nvml.nvmlDeviceGetComputeRunningProcesses, nvml.nvmlDeviceGetGraphicsRunningProcesses):
            try:
                processes = self._value(ask, handle) or ()
            except _GpuLost:
                return {}
            for process in processes:
                pid, used = _count(getattr(process, "pid", None)), _count(getattr(process, "usedGpuMemory", None))
                if not pid or pid > _LARGEST_PID or used is None or used > (total or _LARGEST_MEMORY):
                    continue
                if (self._proc / str(pid)).exists():
                    found.setdefault(pid, used)  # a process may be in both lists
        return found

    def _value(self, ask: Callable[..., Any], *arguments: Any) -> Any:
        """What NVML answers, None where this GPU or driver does not say. Raises _GpuLost and _BeginAgain."""
        try:
            return ask(*arguments)
        except Exception as error:
            _raise_if_begin_again(error)
            if getattr(error, "value", None) == _GPU_IS_LOST:
                raise _GpuLost(_reason(error)) from error
            return None


def _raise_if_begin_again(error: Exception) -> None:
    if getattr(error, "value", None) in _BEGIN_AGAIN:
        raise _BeginAgain(_reason(error)) from error
    if isinstance(error, _BeginAgain):
        raise error


def _reason(error: Exception) -> str:
    if getattr(error, "value", None) == _VERSION_MISMATCH:
        return "the NVIDIA driver and its library are of different versions; was the driver updated?"
    return str(error) if isinstance(error, _GpuLost) else printable(f"NVML: {error}")[:200]


def _unload(nvml: Any) -> None:
    """Lets the next attempt load the library anew: after an update the loaded one is the old one for ever."""
    library = getattr(nvml, "nvmlLib", None)
    cache = getattr(nvml, "_nvmlGetFunctionPointer_cache", None)
    if library is None or cache is None:
        return
    import _ctypes

    cache.clear()
    nvml.nvmlLib = None
    _ctypes.dlclose(library._handle)


def _text(value: Any) -> str:
    """Older bindings give bytes, newer ones text.

    >>> _text(b"\\xf8\\x01bad"), _text("NVIDIA L4"), _text(None)
    ('��bad', 'NVIDIA L4', '')
    """
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else value if isinstance(value, str) else ""
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)[:200]


def _count(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value < 2**63 else None


def _within(value: Any, low: float, high: float) -> float | None:
    return float(value) if type(value) in (int, float) and low <= value <= high else None
