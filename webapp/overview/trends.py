"""The last hour of every node's CPU and RAM in a few steps, for the sparklines of the cluster page.

Fed by each heartbeat; filled once from the history after a start. Kept small: a table of a thousand nodes holds
two thousand of them.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from typing import NamedTuple

from webapp.history import History, HistoryUnavailable, Range
from webapp.measurement import Measurement
from webapp.metrics import families

log = logging.getLogger(__name__)

STEPS = 30
STEP_SECONDS = 120

#: A level a letter: "a" for 0 percent to "z" for 100; "-" where nothing was measured.
_LETTERS = "abcdefghijklmnopqrstuvwxyz"

CPU = "llmgw_node_cpu_utilization_percent"
USED = "llmgw_node_memory_used_bytes"
TOTAL = "llmgw_node_memory_bytes"


class Trend(NamedTuple):
    """Levels of the last hour, oldest first, one letter a step (see `_LETTERS`)."""

    cpu: str
    memory: str


#: Of a node of which no hour is known.
NOTHING = Trend("", "")


class _Track:
    """Sums and counts of one value by step, for the last hour."""

    def __init__(self) -> None:
        self.steps: dict[int, tuple[float, int]] = {}
        #: The letters of the steps before that one, until one of them changes.
        self._before: tuple[int, str] = (0, "")

    def add(self, step: int, percent: float) -> None:
        total, count = self.steps.get(step, (0.0, 0))
        self.steps[step] = (total + percent, count + 1)
        if step < self._before[0]:
            self._before = (0, "")
        if len(self.steps) > STEPS + 1:
            for old in [known for known in self.steps if known <= step - STEPS]:
                del self.steps[old]

    def letters(self, last: int) -> str:
        if self._before[0] != last:
            self._before = last, "".join(map(self._letter, range(last - STEPS + 1, last)))
        return self._before[1] + self._letter(last)

    def _letter(self, step: int) -> str:
        known = self.steps.get(step)
        return letter(None if known is None else known[0] / known[1])


def letter(percent: float | None) -> str:
    """
    >>> letter(0), letter(50), letter(100), letter(130), letter(None)
    ('a', 'm', 'z', 'z', '-')
    """
    return "-" if percent is None else _LETTERS[min(25, max(0, int(percent / 4)))]


class Trends:
    """Safe to use from many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tracks: dict[str, tuple[_Track, _Track]] = {}

    def add(self, measurement: Measurement, measured_at: float) -> None:
        """Take in what a node reported; `measured_at` is a Unix time."""
        load = measurement.load
        used, total = load.memory_used_bytes, load.memory_total_bytes
        memory = None if used is None or not total else 100 * used / total
        self._add(measurement.node, measured_at, load.cpu_percent, memory)

    def _add(self, node: str, at: float, cpu: float | None, memory: float | None) -> None:
        step = int(at // STEP_SECONDS)
        with self._lock:
            tracks = self._tracks.setdefault(node, (_Track(), _Track()))
            for track, percent in zip(tracks, (cpu, memory)):
                if percent is not None:
                    track.add(step, percent)

    def of(self, node: str, now: float) -> Trend:
        """The hour up to `now`, a Unix time; the step that has just begun may still move."""
        last = int(now // STEP_SECONDS)
        with self._lock:
            tracks = self._tracks.get(node)
            return Trend(*(track.letters(last) for track in tracks)) if tracks else NOTHING

    def problem(self, now: float) -> str:
        """Why lines are missing, in a sentence; always "", since they come with the heartbeats."""
        return ""

    def forget(self, node: str) -> None:
        with self._lock:
            self._tracks.pop(node, None)

    def fill(self, history: History, nodes: Iterable[str], now: float, stopping: Callable[[], bool] = lambda: False) -> None:
        """Put in what the history knows of the hour before `now`; stops at the first question without an answer."""
        rows = families()
        metrics = [metric for name in (CPU, USED, TOTAL) for metric in rows[name]]
        end = now // STEP_SECONDS * STEP_SECONDS
        wanted = Range(end - (STEPS - 1) * STEP_SECONDS, end, STEP_SECONDS)
        for node in nodes:
            if stopping():
                return
            try:
                answer = history.series(metrics, wanted, node=node)
            except HistoryUnavailable as error:
                log.warning("sparklines start empty: %s", error)
                return
            values = {series.metric.name: series.values for series in answer.series}
            unknown = [None] * len(wanted.times)
            for index, at in enumerate(wanted.times):
                used, total = values.get(USED, unknown)[index], values.get(TOTAL, unknown)[index]
                # A point of the history speaks for the step before its time.
                self._add(
                    node,
                    at - STEP_SECONDS / 2,
                    values.get(CPU, unknown)[index],
                    100 * used / total if used is not None and total else None,
                )
