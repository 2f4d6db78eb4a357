"""AMD GPUs, from what the kernel's amdgpu driver puts into /sys.

https://docs.kernel.org/gpu/amdgpu/driver-misc.html, https://docs.kernel.org/gpu/amdgpu/thermal.html
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from webapp.measurement import Gpu

_VENDOR = "0x1002"
_CARD = re.compile(r"card(\d+)$")


def cards(sys: Path) -> list[Path]:
    """The device directories of the cards, in the kernel's order."""
    try:
        names = os.listdir(sys / "class" / "drm")
    except OSError:
        return []
    numbers = sorted(int(match.group(1)) for match in map(_CARD.match, names) if match)
    devices = (sys / "class" / "drm" / f"card{number}" / "device" for number in numbers)
    return [device for device in devices if _line(device / "vendor") == _VENDOR and (device / "mem_info_vram_total").exists()]


def look(sys: Path) -> tuple[Gpu, ...]:
    """Each card as it is now. A card that sleeps is not woken up to be asked."""
    return tuple(_gpu(device, index) for index, device in enumerate(cards(sys)))


def _gpu(device: Path, index: int) -> Gpu:
    id = _id(device)
    name = _line(device / "product_name") or f"AMD GPU {_line(device / 'device')}".strip()
    if _line(device / "power" / "runtime_status") == "suspended":
        return Gpu(id=id, index=index, name=name, error="the GPU is asleep")
    total = _whole(device / "mem_info_vram_total") or None
    used = _whole(device / "mem_info_vram_used")
    return Gpu(
        id=id,
        index=index,
        name=name,
        utilization_percent=_within(_whole(device / "gpu_busy_percent"), 1, 100),
        memory_total_bytes=total,
        memory_used_bytes=used if total is not None and used is not None and used <= total else None,
        temperature_celsius=_within(_sensor(device, "temp1_input"), 1000, 200),
        power_watts=_within(_sensor(device, "power1_average", "power1_input"), 1_000_000, 10_000),
    )


def _id(device: Path) -> str:
    """The PCI address."""
    for line in _line(device / "uevent").split("\n"):
        key, _, value = line.partition("=")
        if key == "PCI_SLOT_NAME" and value:
            return value[:64]
    return os.path.basename(os.path.realpath(device))[:64]


def _sensor(device: Path, *names: str) -> int | None:
    for sensors in sorted((device / "hwmon").glob("hwmon*")):
        for name in names:
            value = _whole(sensors / name)
            if value is not None:
                return value
    return None


def _within(value: int | None, divisor: int, high: float) -> float | None:
    return None if value is None or value / divisor > high else value / divisor


def _whole(file: Path) -> int | None:
    text = _line(file)
    return int(text) if text.isdecimal() and len(text) < 20 else None


def _line(file: Path) -> str:
    try:
        return file.read_text("utf-8", "replace").strip()[:1000]
    except OSError:
        return ""
