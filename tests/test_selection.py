"""What an address selects, and the address of what is selected."""

from __future__ import annotations

from urllib.parse import parse_qsl

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webapp.measurement import Engine, Host, Requests
from webapp.overview.selection import COLUMNS, Selection


def selected(query: str) -> Selection:
    return Selection.of(parse_qsl(query.removeprefix("?"), keep_blank_values=True))


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["q", "state", "model", "label", "sort", "order", "x"]),
            st.text(max_size=6) | st.sampled_from(["fresh", "cpu", "asc", "a=b"]),
        ),
        max_size=6,
    )
)
def test_the_address_of_a_selection_selects_the_same(pairs):
    selection = Selection.of(pairs)
    assert selected(selection.query) == selection


def test_a_second_click_on_a_head_turns_the_order_round():
    by_cpu = Selection().sorted_by("cpu")
    assert (by_cpu.sort, by_cpu.descending) == ("cpu", True)
    assert by_cpu.sorted_by("cpu").descending is False
    assert by_cpu.sorted_by("name").query == ""


@pytest.mark.parametrize("column", [column.key for column in COLUMNS.all])
@pytest.mark.parametrize("order", ["asc", "desc"])
def test_nodes_that_do_not_tell_a_value_come_last_in_either_order(registry, clock, beat, column, order):
    beat("silent", agent="s")
    clock.advance(100)
    beat("b", agent="b", load={"cpu_percent": 10.0})
    beat("a", agent="a", load={"cpu_percent": 90.0}, engines=(Engine(id="x", requests=Requests(4.0, None)),))
    names = [node.name for node in selected(f"?sort={column}&order={order}").apply(registry.nodes())]
    assert sorted(names) == ["a", "b", "silent"]
    if column not in ("name", "state", "age"):
        assert names[-1] == "silent"


def test_search_looks_at_names_labels_models_and_engines_for_every_word(registry, beat):
    beat("cpu-01", agent="1", host=Host(labels={"rack": "B2"}))
    beat("cpu-02", agent="2", engines=(Engine(id="chat", model="Qwen3-32B"),))
    names = lambda text: [node.name for node in Selection(text=text).apply(registry.nodes())]  # noqa: E731
    assert names("b2") == ["cpu-01"]
    assert names("qwen cpu") == ["cpu-02"]
    assert names("qwen b2") == []
    assert names("") == ["cpu-01", "cpu-02"]


def test_racks_stand_in_the_order_of_their_numbers(registry, beat):
    for number in (10, 2, 1):
        beat(f"n{number}", agent=str(number), host=Host(labels={"rack": f"b{number}"}))
    beat("n0", agent="0")
    assert [rack for rack, _ in selected("?group=rack").grouped(registry.nodes())] == ["b1", "b2", "b10", ""]
