"""Numbers as people read them. Unknown is written by the templates; what comes here is known.

A value that is not zero is never written as zero.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import lru_cache

_BYTE_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def number(value: float, digits: int = 1) -> str:
    """With at most `digits` decimals; below ten at least one significant digit.

    >>> number(43.21), number(5.34), number(0), number(0.004), number(12345.0), number(812.4, 2)
    ('43', '5.3', '0', '<0.1', '12,345', '812.4')
    """
    if value == 0:
        return "0"
    smallest = 10.0**-digits
    if abs(value) < smallest / 2:
        return f"<{smallest:g}" if value > 0 else f">-{smallest:g}"
    if abs(value) >= 1000 or (digits == 1 and abs(value) >= 10):
        return f"{value:,.0f}"
    written = f"{value:,.{digits}f}"
    return written.rstrip("0").rstrip(".") if "." in written and abs(value) >= 100 else written


def percent(value: float) -> str:
    """
    >>> percent(43.2), percent(99.96), percent(0.04), percent(100)
    ('43', '99.9', '<0.1', '100')
    """
    if 99.5 <= value < 100:  # only a full hundred is written as one
        return f"{min(value, 99.9):.1f}"
    return number(value)


def share(ratio: float) -> str:
    """A part of one in percent.

    >>> share(0.432), share(1)
    ('43 %', '100 %')
    """
    return f"{percent(100 * ratio)} %"


def byte_unit(size: float) -> str:
    """The unit in which a size has one to four digits.

    >>> byte_unit(0), byte_unit(5 * 2**30), byte_unit(1000 * 2**30)
    ('B', 'GiB', 'GiB')
    """
    unit = 0
    while abs(size) >= 1024 and unit < len(_BYTE_UNITS) - 1:
        size /= 1024
        unit += 1
    return _BYTE_UNITS[unit]


def bytes_in(size: float, unit: str) -> str:
    """A size in a unit, without it.

    >>> bytes_in(118 * 2**30, "GiB"), bytes_in(2**29, "GiB"), bytes_in(3, "GiB")
    ('118', '0.5', '<0.1')
    """
    scaled = size / 1024 ** _BYTE_UNITS.index(unit)
    return number(scaled)


def bytes_(size: float) -> str:
    """
    >>> bytes_(118 * 2**30), bytes_(1536), bytes_(0)
    ('118 GiB', '1.5 KiB', '0 B')
    """
    unit = byte_unit(size)
    return f"{bytes_in(size, unit)} {unit}"


def exact_bytes(size: float) -> str:
    """
    >>> exact_bytes(1536)
    '1,536 bytes'
    """
    return f"{size:,.0f} bytes"


def rate(bytes_per_second: float) -> str:
    """Network rates are in bits per second, powers of 1000, as the devices' speeds are.

    >>> rate(125_000_000), rate(1), rate(0)
    ('1.0 Gbit/s', '8.0 bit/s', '0 bit/s')
    """
    bits = bytes_per_second * 8
    for unit in ("bit/s", "kbit/s", "Mbit/s", "Gbit/s"):
        if abs(bits) < 1000 or unit == "Gbit/s":
            return f"{number(bits)} {unit}"
        bits /= 1000
    raise AssertionError("the last unit takes all")


def duration(seconds: float) -> str:
    """
    >>> [duration(s) for s in (0.4, 73, 119.6, 120, 7499, 100_000, 10_000_000)]
    ['0 s', '73 s', '119 s', '2 min', '2 h 4 min', '27 h', '115 d']
    """
    if seconds < 120:
        return f"{int(seconds)} s"
    minutes = int(seconds // 60)
    if minutes < 120:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 12:
        return f"{hours} h {minutes} min"
    return f"{hours} h" if hours < 72 else f"{hours // 24} d"


def moment(unix_seconds: float) -> str:
    """
    >>> moment(0)
    '1970-01-01 00:00:00 UTC'
    """
    return datetime.fromtimestamp(unix_seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def iso_time(unix_seconds: float) -> str:
    """As programs read it (ISO 8601, UTC); with milliseconds where they are not zero.

    >>> iso_time(1_800_000_000), iso_time(1_800_000_000.25)
    ('2027-01-15T08:00:00Z', '2027-01-15T08:00:00.250Z')
    """
    is_whole = unix_seconds == int(unix_seconds)
    at = datetime.fromtimestamp(unix_seconds, UTC)
    return at.isoformat(timespec="seconds" if is_whole else "milliseconds").replace("+00:00", "Z")


def clock_offset(seconds: float) -> str:
    """How far a node's clock is from ours.

    >>> clock_offset(300.2), clock_offset(-90), clock_offset(0.2)
    ('5 min ahead', '90 s behind', 'agrees')
    """
    if abs(seconds) < 2:
        return "agrees"
    return f"{duration(abs(seconds))} {'ahead' if seconds > 0 else 'behind'}"


def plural(count: float, one: str, many: str = "") -> str:
    """
    >>> plural(1, "node"), plural(3, "node"), plural(0, "process", "processes")
    ('1 node', '3 nodes', '0 processes')
    """
    return f"{count:,.0f} {one if count == 1 else many or one + 's'}"


@lru_cache(32_768)  # of the same nodes, at each refresh
def natural(name: str) -> str:
    """A name as it is put in order: the numbers in it by their value.

    >>> sorted(["cpu-100", "cpu-9", "CPU-10"], key=natural)
    ['cpu-9', 'CPU-10', 'cpu-100']
    """
    return re.sub(r"[0-9]+", lambda digits: digits[0].zfill(20), name.casefold())
