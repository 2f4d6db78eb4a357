"""What property tests of several modules draw from."""

from __future__ import annotations

import dataclasses
from typing import Any

from hypothesis import strategies as st

from webapp.fields import Flag, Part, Parts, Quantity, Text, Texts
from webapp.measurement import Measurement, impossible

#: What JSON can hold, small.
scalars = st.none() | st.integers(-3, 3) | st.floats(-1e6, 1e6) | st.text(max_size=3)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(max_size=2), inner, max_size=4), max_leaves=20
)


def _strategy(kind: Any) -> st.SearchStrategy[Any]:
    if isinstance(kind, Quantity):
        if kind.whole:
            return st.none() | st.integers(int(kind.low), int(kind.high))
        return st.none() | st.floats(kind.low, kind.high, allow_nan=False)
    if isinstance(kind, Text):
        return st.none() | st.text(
            st.characters(exclude_categories=("Cs",), exclude_characters="\x00"), max_size=min(kind.longest, 12)
        )
    if isinstance(kind, Texts):
        return st.dictionaries(
            st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\x00"), max_size=5), st.just("v"), max_size=3
        )
    if isinstance(kind, Flag):
        return st.none() | st.booleans()
    if isinstance(kind, Part):
        return _instances(kind.of)
    assert isinstance(kind, Parts)
    items = _instances(kind.of).filter(lambda item: all(getattr(item, name) not in (None, "") for name in kind.key))
    return st.lists(items, max_size=2, unique_by=lambda item: tuple(getattr(item, name) for name in kind.key)).map(tuple)


def _instances(of: type) -> st.SearchStrategy[Any]:
    made = st.builds(
        of, **{item.name: _strategy(item.metadata["kind"]) for item in dataclasses.fields(of) if "kind" in item.metadata}
    )
    if not hasattr(of, "at_most"):
        return made
    return made.map(lambda part: dataclasses.replace(part, **{name: None for name, _ in impossible(part)}))


#: Measurements of any content that an agent may report.
measurements = st.builds(
    lambda name, measurement: dataclasses.replace(measurement, node=name),
    st.sampled_from(["n1", 'rack 14" C:\\new\nx{y="1"} 2', "é'tab\t模型💥"]),
    st.builds(
        Measurement,
        node=st.just("n"),
        **{i.name: _strategy(i.metadata["kind"]) for i in dataclasses.fields(Measurement) if "kind" in i.metadata},
    ),
)
