"""Files of /proc that describe the machine: each has a parser for its bytes; `read` fetches the bytes.

Parsers never guess: what they can't find is None or absent. All of them take any bytes without an exception,
other than ProcError where the docstring says so.
https://docs.kernel.org/filesystems/proc.html
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple

#: Kernel counters from here on are a misread: -1 as unsigned, or garbage of lxcfs.
MISREAD = 2**63


class ProcError(ValueError):
    """A file of /proc has another form than the kernel documents. The message quotes what was read."""


def read(path: Path | str, most: int = 4 * 1024 * 1024) -> bytes:
    """The first `most` bytes of a file. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        parts = []
        while most > 0:
            part = os.read(descriptor, min(most, 65536))
            if not part:
                break
            parts.append(part)
            most -= len(part)
        return b"".join(parts)
    finally:
        os.close(descriptor)


def read_or_empty(path: Path | str, most: int = 4 * 1024 * 1024) -> bytes:
    """Like `read`; a file that can't be read is empty."""
    try:
        return read(path, most)
    except OSError:
        return b""


class CpuTimes(NamedTuple):
    """Counters since boot, all cores together, in clock ticks."""

    #: user + nice + system + idle + iowait + irq + softirq + steal; guest times are inside user and nice.
    total: int | None
    #: idle + iowait
    idle: int | None
    #: cpuN lines: cores that are online. Their numbers may have holes.
    cpus: int | None


def parse_stat(data: bytes) -> CpuTimes:
    """The cpu lines of /proc/stat. Kernels give 4 to 10 numbers on a line.

    >>> parse_stat(b"cpu  2000 0 500 97000 500 0 0 0 9 9\\ncpu0 1 1 1 1\\ncpu8 1 1 1 1\\nintr 0\\n")
    CpuTimes(total=100000, idle=97500, cpus=2)
    """
    total = idle = None
    seen = False
    cpus = 0
    for line in data.split(b"\n"):
        if not line.startswith(b"cpu"):
            if cpus:
                break
            continue
        words = line.split()
        if words[0] == b"cpu":
            if not seen:  # lxcfs can print the line twice
                seen = True
                total, idle = _cpu_sums(words[1:9])
        elif words[0][3:].isdigit():
            cpus += 1
    return CpuTimes(total, idle, cpus or None)


def _cpu_sums(words: list[bytes]) -> tuple[int | None, int | None]:
    numbers = [whole(word) for word in words]
    if len(numbers) < 4 or any(number is None for number in numbers):
        return None, None
    known = [number for number in numbers if number is not None]
    return sum(known), sum(known[3:5])


def whole(word: bytes) -> int | None:
    """A counter; None if it is not a number or one that no kernel can have counted up to.

    >>> whole(b"42"), whole(b"18446744073709551615"), whole(b"-1"), whole(b"x")
    (42, None, None, None)
    """
    if not word.isdigit() or len(word) > 19:
        return None
    number = int(word)
    return number if number < MISREAD else None


class Averages(NamedTuple):
    """Runnable and uninterruptible tasks, averaged over 1, 5 and 15 minutes."""

    load1: float | None
    load5: float | None
    load15: float | None


_DECIMAL = re.compile(rb"[0-9]{1,9}(\.[0-9]{1,9})?\Z")


def parse_loadavg(data: bytes) -> Averages:
    """/proc/loadavg.

    >>> parse_loadavg(b"812.40 640.11 512.09 75/9123 4130022\\n")
    Averages(load1=812.4, load5=640.11, load15=512.09)
    >>> parse_loadavg(b"0.5 nan")
    Averages(load1=0.5, load5=None, load15=None)
    """
    words = data.split()[:3]
    numbers = [float(word) if _DECIMAL.match(word) else None for word in words]
    numbers += [None] * (3 - len(numbers))
    return Averages(*numbers)


def parse_uptime(data: bytes) -> float | None:
    """Seconds since boot, from /proc/uptime.

    >>> parse_uptime(b"2641.11 1800.00\\n")
    2641.11
    """
    words = data.split()[:1]
    return float(words[0]) if words and _DECIMAL.match(words[0]) else None


def parse_meminfo(data: bytes) -> dict[str, int]:
    """Bytes by name; the HugePages_ counts are pages. What is not a number is left out.

    WSL1 prints no blank after the colon.

    >>> parse_meminfo(b"MemTotal:       2048 kB\\nSwapFree:7 kB\\nHugePages_Total:      3\\nMemFree: lots")
    {'MemTotal': 2097152, 'SwapFree': 7168, 'HugePages_Total': 3}
    """
    found: dict[str, int] = {}
    for line in data.split(b"\n"):
        name, colon, rest = line.partition(b":")
        words = rest.split()
        number = whole(words[0]) if colon and words else None
        if number is not None:
            text = name.decode("ascii", "replace")
            found[text] = number if text.startswith("HugePages_") else number * 1024
    return found


def parse_cpu_model(data: bytes) -> str | None:
    """The first name that /proc/cpuinfo gives the processor: x86, then POWER and s390, then some ARM.

    >>> parse_cpu_model(b"processor\\t: 0\\nmodel name\\t: AMD EPYC  7B13\\n")
    'AMD EPYC 7B13'
    """
    for wanted in (b"model name", b"cpu", b"Model", b"Hardware", b"Processor"):
        for line in data.split(b"\n"):
            name, colon, value = line.partition(b":")
            if colon and name.strip() == wanted and value.strip():
                return " ".join(value.decode("utf-8", "replace").split())[:253]
    return None
