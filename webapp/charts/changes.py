"""The changes that lead from one JSON value to another, so that a browser is sent only what is new in a figure that it has.

A change is one of

    {}                   nothing
    [value]              this instead
    []                   no longer there (of an object's member)
    [drop, keep, tail]   a list that slid: `keep` of its items from place `drop` on, then those of `tail`
    {name: change, ...}  an object's members that changed, or by place the items of a list that is as long as before

`static/js/plotly-figure.js` applies them.
"""

from __future__ import annotations

from typing import Any

Change = dict[str, Any] | list[Any]

_NOTHING: Change = {}


def change(before: Any, after: Any) -> Change:
    """
    >>> change({"x0": "8:00", "y": [1, 2, 3], "name": "a"}, {"x0": "8:15", "y": [2, 3, 4], "name": "a"})
    {'x0': ['8:15'], 'y': [1, 2, [4]]}
    >>> change([{"y": 1}, {"y": 2}], [{"y": 1}, {"y": 3}]), change({"a": 1, "b": 2}, {"b": 2})
    ({'1': {'y': [3]}}, {'a': []})
    """
    if isinstance(before, dict) and isinstance(after, dict):
        found = {name: part for name, value in after.items() if (part := _member(before, name, value)) != _NOTHING}
        return found | {name: [] for name in before if name not in after}
    if isinstance(before, list) and isinstance(after, list) and before != after:
        return _of_lists(before, after)
    return _NOTHING if before == after else [after]


def applied(before: Any, what: Change) -> Any:
    """The value after a change; what the browser does.

    >>> applied({"x0": "8:00", "y": [1, 2, 3]}, {"x0": ["8:15"], "y": [1, 2, [4]]})
    {'x0': '8:15', 'y': [2, 3, 4]}
    """
    if isinstance(what, list):
        if len(what) == 1:
            return what[0]
        drop, keep, tail = what
        return before[drop : drop + keep] + tail
    if isinstance(before, list):
        return [applied(item, what.get(str(place), _NOTHING)) for place, item in enumerate(before)]
    if not what:
        return before
    kept = {name: value for name, value in before.items() if what.get(name) != []}
    return kept | {name: applied(before.get(name), part) for name, part in what.items() if part != []}


def _member(before: dict[str, Any], name: str, value: Any) -> Change:
    return change(before[name], value) if name in before else [value]


def _of_lists(before: list[Any], after: list[Any]) -> Change:
    if any(isinstance(item, (dict, list)) for item in after):
        if len(before) != len(after):
            return [after]
        return {str(place): part for place, pair in enumerate(zip(before, after)) if (part := change(*pair)) != _NOTHING}
    drop, keep = _slid(before, after)
    return [drop, keep, after[keep:]] if keep else [after]


def _slid(before: list[Any], after: list[Any]) -> tuple[int, int]:
    """How many items went from the front, and how many of the rest are still the first: as many as can be."""
    best = (0, 0)
    for drop in range(len(before)):
        if len(before) - drop <= best[1]:
            break
        keep = _same(before, after, drop)
        if keep > best[1]:
            best = (drop, keep)
    return best


def _same(before: list[Any], after: list[Any], drop: int) -> int:
    """How many items of the one, from a place on, are the first of the other."""
    count = 0
    for one, other in zip(before[drop:], after):
        if one != other:
            break
        count += 1
    return count
