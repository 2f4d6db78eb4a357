"""Whether this process listened: while it was stopped, or its machine slept, silence proves nothing about a node."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

#: Seconds between two ticks, and the gap between them from which on nobody listened.
TICK_SECONDS = 1.0
LONGEST_GAP_SECONDS = 5.0

#: Seconds for which the pages say that nobody listened: every live node has reported again by then.
NOTICE_SECONDS = 60.0


def boottime() -> float:
    """Seconds since this machine booted, time asleep included. https://man7.org/linux/man-pages/man2/clock_gettime.2.html"""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Listening:
    """Adds up the time in which this process did not run. While it runs, something must call `tick` each second."""

    def __init__(self, clock: Callable[[], float] = boottime) -> None:
        """`clock` is the registry's: seconds, time asleep included."""
        self._clock = clock
        self._lock = threading.Lock()
        self._last = clock()
        self._missed = 0.0
        self._resumed = float("-inf")
        self._gap = 0.0

    def tick(self) -> None:
        self.missed_s(self._clock())

    def missed_s(self, now: float) -> float:
        """Seconds until `now` in which nobody listened. A gap is seen by whoever asks first after it."""
        with self._lock:
            gap = now - self._last
            if gap > LONGEST_GAP_SECONDS:
                self._missed += gap
                self._resumed, self._gap = now, gap
            self._last = max(self._last, now)
            return self._missed

    def missed_at(self, moment: float) -> float:
        """As `missed_s`, for a moment that is past: one within the last gap has missed a part of it."""
        with self._lock:
            return self._missed - min(self._gap, max(0.0, self._resumed - moment))

    def began_after(self, seconds: float) -> None:
        """Says that nobody listened for `seconds` before now: the process had ended."""
        with self._lock:
            self._missed += seconds
            self._resumed, self._gap = self._clock(), seconds

    @property
    def notice(self) -> str | None:
        """What a reader must know about the states of now, in a sentence."""
        since = self._clock() - self._resumed
        if since > NOTICE_SECONDS:
            return None
        return (
            f"This control plane did not listen for {_span(self._gap)} until {_span(since)} ago: "
            "that time does not count against any node."
        )


def _span(seconds: float) -> str:
    """
    >>> _span(119.6), _span(600)
    ('120 s', '10 min')
    """
    return f"{seconds:.0f} s" if seconds < 180 else f"{seconds / 60:.0f} min"
