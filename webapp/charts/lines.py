"""What a chart shows of an answer, as numbers: its lines, and when engines started and stopped."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from webapp.charts.palette import LIGHT, colour_index
from webapp.formats import natural
from webapp.history import Answer, Series
from webapp.metrics import Chart

Values = Sequence[float | None]

#: More lines than this are folded into one.
MOST_LINES = 8

#: Starts closer together than this, in seconds, are one start that was measured twice.
_SAME_START_SECONDS = 5.0

#: What is known at a time may have been read as long before, in seconds, and by a step of the range.
_LATE_SECONDS = 60.0


@dataclass(frozen=True)
class Line:
    """One line of a chart, in the chart's unit, with a value for each time of the answer's range."""

    name: str
    values: Values
    #: A limit is not part of the stack; others and the rest have no colour of their own.
    role: Literal["line", "others", "rest", "limit"] = "line"
    #: Place in the palette.
    colour: int = 0


class Mark(NamedTuple):
    """Something that happened at a Unix time."""

    time: float
    text: str


def lines(chart: Chart, answer: Answer, colour_of: Callable[[str], int] = colour_index) -> list[Line]:
    """The lines by name, then what is folded, then the rest of the whole, then the limit.

    A sum is of those that are known; it is None only where none is. `colour_of`: a model's place in the palette.
    """
    found = _grouped(chart, answer, colour_of)
    drawn = sorted(found, key=lambda line: -sum(value or 0.0 for value in line.values))
    kept = drawn if len(drawn) <= MOST_LINES else drawn[:MOST_LINES]
    folded = [line for line in found if line not in kept]
    answered = [line for line in found if line in kept]
    if chart.by not in ("", "model"):  # what has no colour of its own takes the next one
        answered = [replace(line, colour=place % len(LIGHT)) for place, line in enumerate(answered)]
    if folded:
        answered.append(Line(f"{len(folded)} others", _together([line.values for line in folded], chart), "others"))
    if rest := _rest(chart, answer, found):
        answered.append(Line(chart.rest_title, rest, "rest"))
    limits = [series for series in answer.series if series.metric.name == chart.limit]
    if len(limits) == 1:  # of several nodes there is no one limit
        answered.append(Line(chart.limit_title, limits[0].values, "limit"))
    return answered


def _grouped(chart: Chart, answer: Answer, colour_of: Callable[[str], int]) -> list[Line]:
    groups: dict[str, list[Series]] = {}
    for series in answer.series:
        if series.metric.name in chart.metrics and all(series.label(name) == value for name, value in chart.where):
            groups.setdefault(series.label(chart.by) if chart.by else "", []).append(series)
    drawn = []
    for value, group in sorted(groups.items(), key=lambda item: natural(item[0])):
        model = group[0].label("model")
        colour = colour_of(model) if model else 0
        drawn.append(Line(_name(chart, value, group[0]), _together([series.values for series in group], chart), colour=colour))
    return [line for line in drawn if any(value is not None for value in line.values)]


def _name(chart: Chart, value: str, series: Series) -> str:
    if not chart.by:
        return chart.title
    if chart.by == "gpu":
        return f"{series.label('name')} {value.removeprefix('GPU-')[:8]}".strip()
    return value or f"no {chart.by}"


def _together(parts: Sequence[Values], chart: Chart) -> Values:
    if len(parts) == 1:
        return parts[0]
    combine: Callable[[Iterable[float]], float] = max if chart.together == "max" else sum
    return [combine(known) if (known := [value for value in at if value is not None]) else None for at in zip(*parts)]


def _rest(chart: Chart, answer: Answer, parts: Sequence[Line]) -> Values:
    """What is left of the whole without the parts that are known; nothing where the whole is not known."""
    if not chart.whole:
        return []
    percent, of = ([series.values for series in answer.series if series.metric.name == name] for name in chart.whole)
    if len(percent) != 1 or len(of) != 1:
        return []
    taken = [sum(value for value in at if value is not None) for at in zip(*(line.values for line in parts))]
    return [
        None if share is None or count is None else max(0.0, share / 100 * count - part)
        for share, count, part in zip(percent[0], of[0], taken or [0.0] * len(percent[0]))
    ]


def marks(chart: Chart, answer: Answer) -> list[Mark]:
    """Starts and stops of engines within the range, oldest first."""
    times = answer.range.times
    found: list[Mark] = []
    ended: list[tuple[str, int, str]] = []
    for series in answer.series:
        if series.metric.name != chart.starts:
            continue
        engine = series.label("shard") or series.label("model")
        before: _Seen | None = None
        for place, value in enumerate(series.values):
            if value is not None:
                now = _Seen(times[place], value)
                is_another = before is None or _is_another(before, now, answer.range.step)
                if is_another and answer.range.start < value <= answer.range.end:
                    found.append(Mark(value, f"{engine} started"))
                before = now
            elif place and series.values[place - 1] is not None:
                ended.append((series.label("node"), place, engine))
    if ended:
        heard = _heard(answer, {node for node, _, _ in ended})
        found += [Mark(times[place], f"{engine} stopped") for node, place, engine in ended if heard[node][place]]
    return sorted(found)


class _Seen(NamedTuple):
    """An engine as it was seen at a time: Unix times."""

    at: float
    started_at: float


def _is_another(before: _Seen, now: _Seen, step: float) -> bool:
    """Whether an engine was started anew. Starts are told as an age, so that they move when the clock here is set.

    One that began before the other was last seen is the same, and so is one whose age is what it was before a silence.
    """
    moved, silence = now.started_at - before.started_at, now.at - before.at
    if moved <= _SAME_START_SECONDS or now.started_at < before.at - 2 * step - _LATE_SECONDS:
        return False
    return silence <= 3 * step or abs(moved - silence) > 2 * step


def _heard(answer: Answer, nodes: Iterable[str]) -> dict[str, list[bool]]:
    """For each of the nodes, at which times anything at all is known of it."""
    found = {node: [False] * len(answer.range.times) for node in nodes}
    for series in answer.series:
        known = found.get(series.label("node"))
        if known is None:
            continue
        for place, value in enumerate(series.values):
            known[place] = known[place] or value is not None
    return found
