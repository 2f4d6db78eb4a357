"""Tokens a second, from an engine's counters of tokens.

Some engines count a request's tokens only when it ends. From one reading to the next their rate would be 0
while they work and a burst afterwards, so theirs is taken over the last minute.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from webapp.agent.engines.exposition import Values
from webapp.measurement import FRESH_FOR_SECONDS

#: So many earlier counts are kept.
_MOST_COUNTS = 64

#: More tokens a second than this are a misread.
_FASTEST = 1e9


class _Counts(NamedTuple):
    """The counters at one moment of the monotonic clock."""

    at: float
    prompt: Values
    generation: Values


class TokenRates:
    """The rates of one engine."""

    def __init__(self, over_a_minute: bool) -> None:
        self._over_a_minute = over_a_minute
        self._counts: deque[_Counts] = deque(maxlen=_MOST_COUNTS)

    def add(self, at: float, prompt: Values, generation: Values) -> tuple[float | None, float | None]:
        """Takes the counters read at the monotonic time `at`; gives prompt tokens and generated tokens a second."""
        counts = self._counts
        while counts and at - counts[0].at > FRESH_FOR_SECONDS:
            counts.popleft()
        rates: tuple[float | None, float | None] = (None, None)
        if counts and (began_anew(counts[-1].prompt, prompt) or began_anew(counts[-1].generation, generation)):
            counts.clear()
        elif counts:
            before = counts[0] if self._over_a_minute else counts[-1]
            rates = rate(before.prompt, prompt, at - before.at), rate(before.generation, generation, at - before.at)
        counts.append(_Counts(at, prompt, generation))
        return rates


def rate(before: Values, now: Values, elapsed_s: float) -> float | None:
    """What counters gained a second. A series that is new began at 0; one that fell or ended makes it unknown.

    >>> rate({(("rank", "0"),): 10.0}, {(("rank", "0"),): 30.0, (("rank", "1"),): 5.0}, 10.0)
    2.5
    >>> rate({(("rank", "0"),): 10.0}, {(("rank", "0"),): 3.0}, 10.0) is None
    True
    """
    if not before or not 0 < elapsed_s <= FRESH_FOR_SECONDS or not before.keys() <= now.keys():
        return None
    gained = 0.0
    for labels, value in now.items():
        earlier = before.get(labels, 0.0)
        if value is None or earlier is None or value < earlier:
            return None
        gained += value - earlier
    return gained / elapsed_s if gained / elapsed_s <= _FASTEST else None


def began_anew(before: Values, now: Values) -> bool:
    """A counter fell: its engine was started anew.

    >>> began_anew({(): 10.0}, {(): 3.0}), began_anew({(): 10.0}, {(): None})
    (True, False)
    """
    return any(
        value is not None and earlier is not None and value < earlier
        for labels, earlier in before.items()
        for value in (now.get(labels),)
    )
