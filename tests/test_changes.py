"""What a browser is sent of a figure that it has."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import scalars, values
from webapp.charts.changes import applied, change


@given(values, values)
def test_a_change_leads_from_any_value_to_any_other(before, after):
    carried = json.loads(json.dumps(change(before, after)))
    assert applied(before, carried) == after
    assert change(before, before) == {}


@given(st.lists(scalars, min_size=1, max_size=60), st.lists(scalars, max_size=5), st.data())
def test_a_list_that_slides_costs_what_is_new(before, tail, data):
    drop = data.draw(st.integers(0, len(before) - 1))
    after = before[drop:] + tail
    what = change(before, after)
    assert applied(before, what) == after
    if what:
        _, kept, new = what
        assert len(new) <= len(tail)
        assert kept >= len(before) - drop


@pytest.mark.parametrize("revised", [1, 2, 4])
def test_newest_values_that_a_server_revises_are_sent_again(revised):
    before = [float(place % 7) for place in range(240)]
    after = [*before[1:-revised], *[100.0] * revised, 101.0]
    assert change(before, after) == [1, 239 - revised, [100.0] * revised + [101.0]]


def test_a_trace_more_or_less_replaces_the_list_of_traces():
    one, two = [{"y": [1]}], [{"y": [1]}, {"y": [2]}]
    assert change(one, two) == [two]
    assert applied(two, change(two, one)) == one
