"""What the rows of the table in `metrics` are: lenses on a `Measurement`, and charts of their series."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Literal

from webapp.measurement import Measurement

#: Label names and values, without the node; part of a series' identity.
Labels = tuple[tuple[str, str], ...]

OverTime = Literal["mean", "max", "last"]


@dataclass(frozen=True)
class Metric:
    """One row: a family's name with the labels that this row fixes, and where its value lives."""

    name: str
    help: str
    unit: str
    #: Path inside a Measurement, or inside each item of `each`.
    path: str
    #: The Measurement's tuple whose items have one series each; "" for one series a node.
    each: str = ""
    #: Label name -> field of the item, for `each`.
    labels: Labels = ()
    #: Labels that are always the same.
    fixed: Labels = ()
    #: What a point of a chart says of the samples in its step.
    over_time: OverTime = "mean"
    #: The field holds "so many seconds ago"; the metric is the Unix time of that moment.
    ago: bool = False
    #: Field and text that a sample of 1 stands for, where the path leads to a property.
    stands_for: tuple[str, str] | tuple[()] = ()

    @property
    def key(self) -> tuple[str, Labels]:
        """Tells rows apart: rows of one family differ in what they fix."""
        return self.name, self.fixed

    @property
    def source(self) -> str:
        """Where the value is read, as its field says."""
        owner: type = Measurement
        path = self.stands_for[0] if self.stands_for else self.path
        *steps, last = ([self.each] if self.each else []) + path.split(".")
        for step in steps:
            owner = _kind(owner, step).of
        return str(_kind(owner, last).source)

    def read(self, measurement: Measurement, measured_at: float) -> Iterator[tuple[Labels, float]]:
        """Labels and value of each series that the measurement has; `measured_at` is a Unix time."""
        if not self.each:
            value = attrgetter(self.path)(measurement)
            if value is not None:
                yield self.fixed, round(measured_at - value) if self.ago else value
            return
        value_of = attrgetter(self.path)
        for item in getattr(measurement, self.each):
            value = value_of(item)
            if value is not None:
                labels = tuple((label, _label(getattr(item, field))) for label, field in self.labels)
                yield self.fixed + labels, round(measured_at - value) if self.ago else value

    def put(self, message: dict[str, Any], labels: Mapping[str, str], value: float, measured_at: float) -> None:
        """The way back: write a sample into a heartbeat message (see `heartbeat.from_mapping`)."""
        part = message
        if self.each:
            items = message.setdefault(self.each, [])
            wanted = {field: labels[label] for label, field in self.labels if labels.get(label)}
            part = next((item for item in items if all(item.get(field) == text for field, text in wanted.items())), {})
            if not part:
                part.update(wanted)
                items.append(part)
        if self.stands_for:
            if value == 1:
                field, text = self.stands_for
                part[field] = text
            return
        *steps, last = self.path.split(".")
        for step in steps:
            part = part.setdefault(step, {})
        part[last] = measured_at - value if self.ago else value


def _kind(owner: type, field: str) -> Any:
    return next(item for item in dataclasses.fields(owner) if item.name == field).metadata["kind"]


def _label(value: Any) -> str:
    return "" if value is None else str(value)


@dataclass(frozen=True)
class Contact:
    """One row about the contact with a node rather than about the node; its value is known at the scrape."""

    name: str
    help: str
    unit: str


@dataclass(frozen=True)
class Chart:
    """One chart: which series it draws and how."""

    key: str
    title: str
    unit: str
    #: Names of the families that are drawn.
    metrics: tuple[str, ...]
    #: The label that names a line; series that share its value are one line.
    by: str = ""
    #: What becomes of series that share a line.
    together: Literal["sum", "max"] = "sum"
    #: Lines are stacked; otherwise each starts at zero.
    stacked: bool = False
    #: Family drawn as a dashed line: a total or a limit.
    limit: str = ""
    #: What the dashed line is called.
    limit_title: str = ""
    #: Families of a percentage and of what it is a percentage of: the whole whose parts the lines are.
    whole: tuple[str, str] | tuple[()] = ()
    #: What the rest of the whole is called.
    rest_title: str = ""
    #: Upper end of the axis where the unit has one.
    top: float | None = None
    #: Family whose values are Unix times at which engines started; starts and stops are marked.
    starts: str = ""
    #: Drawn only on nodes that report it.
    optional: bool = False
    #: Series whose other labels have these values.
    where: Labels = ()

    @property
    def families(self) -> tuple[str, ...]:
        """Every family that the chart needs."""
        return tuple(name for name in dict.fromkeys((*self.metrics, self.limit, *self.whole, self.starts)) if name)
