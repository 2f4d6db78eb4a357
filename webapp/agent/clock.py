"""The three clocks, as one argument.

Rates divide by monotonic time (a suspended machine burns no CPU), ages are boot time (suspend counts: what was
measured before it is old), wall time is shown and decides nothing.
"""

from __future__ import annotations

import time

#: Linux only; elsewhere suspend is not counted.
_BOOTTIME = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Clock:
    """The machine's own clocks, in seconds."""

    def monotonic(self) -> float:
        """Time that passed while the machine was awake."""
        return time.monotonic()

    def boottime(self) -> float:
        """Time since boot, suspend included."""
        return time.clock_gettime(_BOOTTIME)

    def wall(self) -> float:
        """Unix time."""
        return time.time()
