"""How long a heartbeat was under way, without trusting anyone's wall clock.

The node states its uptime at sending; this machine's clock says when the message arrived. Both run at one
speed, so their difference is constant but for the way. A message that a proxy held back for minutes shows a
difference that is minutes larger than the smallest one known.
"""

from __future__ import annotations

#: A difference that has been larger without a break for this long is a new constant: a paused virtual machine,
#: or clocks that drift apart, not messages that are held back.
SETTLED_AFTER_SECONDS = 120.0

#: Messages further apart than this do not prove that the difference lasted.
LONGEST_BREAK_SECONDS = 60.0


class Transit:
    """What is known of the way from one run of one node."""

    def __init__(self) -> None:
        self._least: float | None = None
        self._recent_least = 0.0
        self._recent_since = 0.0
        self._last_arrival = 0.0
        self._last_sent = 0.0

    def delay(self, sent: float, arrived: float) -> float:
        """Seconds that a message took longer than the quickest one.

        `sent` is the node's uptime at sending, `arrived` this machine's clock, both in seconds.
        """
        difference = arrived - sent
        if self._least is None or sent < self._last_sent - LONGEST_BREAK_SECONDS:  # the first, or the node rebooted
            self._least = difference
            self._restart(difference, arrived)
        elif arrived - self._last_arrival > LONGEST_BREAK_SECONDS:
            self._restart(difference, arrived)
        self._last_arrival = arrived
        self._last_sent = sent
        self._recent_least = min(self._recent_least, difference)
        if arrived - self._recent_since > SETTLED_AFTER_SECONDS:
            self._least = self._recent_least
            self._restart(difference, arrived)
        self._least = min(self._least, difference)
        return difference - self._least

    def _restart(self, difference: float, arrived: float) -> None:
        self._recent_least = difference
        self._recent_since = arrived
