"""The last hour of every node's CPU and RAM where the fleet comes from Prometheus: one query for all nodes, shared.

Nobody waits for it. Until it is answered a page has no lines; what could not be asked anew ends where it ended.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from webapp.history import Answer, History, HistoryUnavailable, Range
from webapp.metrics import families
from webapp.overview.trends import CPU, NOTHING, STEP_SECONDS, STEPS, TOTAL, USED, Trend, letter
from webapp.prometheus.copies import Copies, NotYet, Renewal


@dataclass(frozen=True)
class Hour:
    """The trends of all nodes up to the end of a step, which is a Unix time."""

    end: float
    trends: Mapping[str, Trend]


class AskedTrends:
    """As `trends.Trends`, from a history that may be slow or away. Safe to use from many threads."""

    def __init__(self, history: History, copies: Copies[Hour]) -> None:
        """`history` is asked in the threads of `copies`, which should have no patience: then no caller waits."""
        self._history = history
        self._copies = copies

    def of(self, node: str, now: float) -> Trend:
        """The hour up to `now`, a Unix time."""
        hour, _ = self._hour(now)
        known = hour.trends.get(node, NOTHING) if hour else NOTHING
        missed = round((_end(now) - hour.end) / STEP_SECONDS) if hour else 0
        return Trend(*(_moved(levels, missed) for levels in known)) if known.cpu else NOTHING

    def problem(self, now: float) -> str:
        """Why lines are missing or end early, in a sentence; "" while all is well, or the first answer is on its way."""
        hour, reason = self._hour(now)
        return reason if hour is None or _end(now) - hour.end > STEP_SECONDS else ""

    def _hour(self, now: float) -> tuple[Hour | None, str]:
        end = _end(now)
        try:
            copy = self._copies.get("hour", lambda hour: hour.end >= end, lambda before: self._asked(end))
        except NotYet:
            return None, ""
        except HistoryUnavailable as error:
            return None, str(error)
        return copy.value, copy.reason

    def _asked(self, end: float) -> Renewal[Hour]:
        rows = families()
        metrics = [metric for name in (CPU, USED, TOTAL) for metric in rows[name]]
        answer = self._history.series(metrics, Range(end - (STEPS - 1) * STEP_SECONDS, end, STEP_SECONDS))
        return Renewal(Hour(end, _trends(answer)), good=not answer.warnings)


def _end(now: float) -> float:
    return now // STEP_SECONDS * STEP_SECONDS


def _moved(levels: str, missed: int) -> str:
    """
    >>> _moved("abc", 1), _moved("abc", 9)
    ('bc-', '---')
    """
    return levels[missed:] + "-" * min(missed, len(levels))


def _trends(answer: Answer) -> dict[str, Trend]:
    found: dict[str, dict[str, list[float | None]]] = {}
    for series in answer.series:
        found.setdefault(series.label("node"), {})[series.metric.name] = list(series.values)
    unknown: list[float | None] = [None] * len(answer.range.times)
    return {
        node: Trend(
            "".join(map(letter, lines.get(CPU, unknown))),
            "".join(
                letter(100 * used / total if used is not None and total else None)
                for used, total in zip(lines.get(USED, unknown), lines.get(TOTAL, unknown))
            ),
        )
        for node, lines in found.items()
    }
