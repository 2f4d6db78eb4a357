"""Where a chart's lines begin and end, in words."""

from __future__ import annotations

from webapp.history import Answer, Range, Series, Span
from webapp.history.extent import extent
from webapp.metrics import families

CPU = "llmgw_node_cpu_utilization_percent"


def answer(*unheard: Span) -> Answer:
    values = [None] * 120 + [5.0] * 121
    series = Series(families()[CPU][0], (("node", "a"),), values)
    return Answer(Range(0, 3600, 15), (series,), 3600, unheard=unheard)


def test_lines_that_begin_where_the_listening_began_need_no_words():
    assert extent(answer(Span(-1e9, 1790, "no control plane ran")), [CPU]) == ""


def test_lines_that_begin_later_than_the_listening_are_explained():
    assert extent(answer(Span(-1e9, 900, "no control plane ran")), [CPU]) == "nothing before 00:30:00 UTC"
    assert extent(answer(), [CPU]) == "nothing before 00:30:00 UTC"
