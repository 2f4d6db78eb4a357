"""The three clocks, as one argument; when it is time again.

Rates divide by monotonic time (a suspended machine burns no CPU), ages are boot time (suspend counts: what was
measured before it is old), wall time is shown and decides nothing.
"""

from __future__ import annotations

import time

#: Linux only; elsewhere suspend is not counted.
_BOOTTIME = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def next_due(due: float, now: float, interval_s: float) -> float:
    """The moment after `due`, in steps of `interval_s`, that has not passed `now`: what is late is left out.

    >>> next_due(100.0, 100.5, 10.0), next_due(100.0, 125.0, 10.0)
    (110.0, 130.0)
    """
    return due + interval_s * max(1, -(-(now - due) // interval_s))


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
