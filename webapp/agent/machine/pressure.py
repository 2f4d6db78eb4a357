"""Pressure stall information: the share of time in which tasks waited for CPU, memory or disks.

https://docs.kernel.org/accounting/psi.html
"""

from __future__ import annotations

from pathlib import Path

from webapp.measurement import Pressure

_RESOURCES = {"cpu": ("some",), "memory": ("some", "full"), "io": ("some", "full")}

#: The kernel's clock and ours are not read at the same moment; a share beyond this is a misread.
_LARGEST_SHARE = 1.1


class Pressures:
    """Shares of the time since the reading before."""

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._directory = proc / "pressure"
        self._before: dict[str, int] = {}

    def measure(self, elapsed_s: float | None) -> Pressure:
        """`elapsed_s`: since the call before; None at the first one. A kernel without PSI leaves all unknown."""
        now = {}
        for resource, kinds in _RESOURCES.items():
            try:
                text = (self._directory / resource).read_text("ascii", "replace")
            except OSError:  # older than 4.20, or switched off: then reading it is not supported
                continue
            totals = parse(text)
            now.update({f"{resource}_{kind}": totals[kind] for kind in kinds if kind in totals})
        shares = {name: _share(self._before.get(name), total, elapsed_s) for name, total in now.items()}
        self._before = now
        return Pressure(**shares)


def parse(text: str) -> dict[str, int]:
    """Microseconds of waiting since boot, by kind.

    >>> parse("some avg10=0.10 avg60=2.00 avg300=3.85 total=15\\nfull avg10=0.20 avg60=3.00 avg300=4.95 total=25\\n")
    {'some': 15, 'full': 25}
    """
    found = {}
    for line in text.splitlines():
        kind, _, rest = line.partition(" ")
        total = rest.rpartition("total=")[2].strip()
        if total.isdecimal() and len(total) < 25:
            found[kind] = int(total)
    return found


def _share(before: int | None, now: int, elapsed_s: float | None) -> float | None:
    """
    >>> _share(1_000_000, 3_500_000, 10.0)
    0.25
    """
    if before is None or elapsed_s is None or elapsed_s <= 0 or now < before:
        return None
    share = (now - before) / (elapsed_s * 1e6)
    return min(share, 1.0) if share <= _LARGEST_SHARE else None
