"""The colours of models: distinguishable for every reader, in both themes, and kept for good."""

from __future__ import annotations

import json
import math
import re
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import HTMX
from webapp.charts.colours import MOST_MODELS, Colours
from webapp.charts.palette import DARK, LIGHT, PLACES, is_hollow, preference
from webapp.measurement import Engine

CSS = Path(__file__).parent.parent / "static" / "css"

#: What readers without one kind of cone see, in linear RGB. https://www.inf.ufrgs.br/~oliveira/pubs_files/CVD_Simulation/
SIGHT = {
    "all cones": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "no red": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "no green": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "no blue": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
}

#: https://bottosson.github.io/posts/oklab/
TO_LMS = (
    (0.4122214708, 0.5363325363, 0.0514459929),
    (0.2119034982, 0.6806995451, 0.1073969566),
    (0.0883024619, 0.2817188376, 0.6299787005),
)
TO_LAB = (
    (0.2104542553, 0.7936177850, -0.0040720468),
    (1.9779984951, -2.4285922050, 0.4505937099),
    (0.0259040371, 0.7827717662, -0.8086757660),
)


def linear(colour: str) -> list[float]:
    parts = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    return [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]


def times(matrix, vector) -> list[float]:
    return [sum(a * b for a, b in zip(row, vector)) for row in matrix]


def seen(colour: str, sight: str) -> list[float]:
    shown = [min(1.0, max(0.0, part)) for part in times(SIGHT[sight], linear(colour))]
    lms = times(TO_LMS, shown)
    return times(TO_LAB, [math.cbrt(part) for part in lms])


def luminance(colour: str) -> float:
    return sum(a * b for a, b in zip((0.2126, 0.7152, 0.0722), linear(colour)))


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def tokens(name: str) -> tuple[str, ...]:
    text = (CSS / "tokens.css").read_text("utf-8")
    return re.search(rf"--{name}: light-dark\((#\w+), (#\w+)\)", text).groups()


@pytest.mark.parametrize(("palette", "theme"), [(LIGHT, 0), (DARK, 1)])
def test_every_reader_can_tell_any_two_hues_apart(palette, theme):
    for sight, least in (("all cones", 0.13), ("no red", 0.09), ("no green", 0.09), ("no blue", 0.09)):
        for one, other in combinations(palette, 2):
            assert math.dist(seen(one, sight), seen(other, sight)) >= least, (sight, one, other)


@pytest.mark.parametrize(("palette", "theme"), [(LIGHT, 0), (DARK, 1)])
def test_each_hue_stands_out_from_what_is_behind_it(palette, theme):
    for ground in ("panel", "sunken"):
        assert min(contrast(colour, tokens(ground)[theme]) for colour in palette) >= 3


def test_the_pages_have_the_charts_colours():
    assert [tokens(f"model-{place}") for place in range(len(LIGHT))] == list(zip(LIGHT, DARK))
    parts = (CSS / "parts.css").read_text("utf-8")
    assert dict(re.findall(r'\[data-colour="(\d+)"\] \{ --colour: var\(--model-(\d)\)', parts)) == {
        str(place): str(place % len(LIGHT)) for place in range(PLACES)
    }


@given(st.lists(st.text(min_size=1), min_size=1, max_size=PLACES, unique=True))
def test_models_that_are_shown_together_have_places_of_their_own(models):
    colours = Colours()
    assert len({colours.of(model, lambda: models) for model in models}) == len(models)


@given(st.lists(st.text(min_size=1), min_size=1, max_size=8, unique=True))
def test_up_to_eight_models_differ_by_their_hues_alone(models):
    colours = Colours()
    assert not any(is_hollow(colours.of(model, lambda: models)) for model in models)


def test_a_model_keeps_its_place_whatever_comes_and_goes_and_over_a_restart(tmp_path):
    path = tmp_path / "colours.json"
    colours = Colours(path)
    first = colours.of("b", lambda: ["b"])
    fleet = [f"{letter}{number}" for letter in "abc" for number in range(7)]
    assert colours.of("a0", lambda: ["b", *fleet]) != first
    before = {model: colours.of(model) for model in ["b", *fleet]}
    again = Colours(path)
    assert {model: again.of(model) for model in before} == before
    assert before["b"] == first


def test_two_dashboards_that_see_the_same_models_agree():
    fleet = ["gpt-oss-20b", "gemma-3-12b", "qwen3-32b", "bge-m3", "mistral-small-24b", "llama-3.3-70b-instruct"]
    one, other = Colours(), Colours()
    assert [one.of(m, lambda: fleet) for m in fleet] == list(reversed([other.of(m, lambda: fleet[::-1]) for m in fleet[::-1]]))


def test_a_model_that_nobody_serves_takes_no_place_and_is_not_looked_for_each_time(clock):
    colours, asked = Colours(clock=clock), []

    def served() -> list[str]:
        asked.append(1)
        return ["x"]

    assert [colours.of("old", served) for _ in range(3)] == [preference("old")[0]] * 3
    assert len(asked) == 1
    clock.advance(2)
    colours.of("old", served)
    assert len(asked) == 2


@pytest.mark.parametrize("text", ["", "[1]", '{"a": "x"}', "\udcff", '{"a": {}}'])
def test_a_file_that_cannot_be_read_is_begun_anew(tmp_path, text):
    path = tmp_path / "colours.json"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    assert Colours(path).of("a", lambda: ["a"]) == preference("a")[0]
    assert json.loads(path.read_text()) == {"a": preference("a")[0]}


def test_a_file_that_cannot_be_written_costs_no_page(tmp_path):
    assert Colours(tmp_path / "missing" / "colours.json").of("a", lambda: ["a"]) == preference("a")[0]


def test_no_more_than_some_models_are_remembered(tmp_path):
    path = tmp_path / "colours.json"
    colours = Colours(path)
    for start in range(0, 3 * MOST_MODELS, MOST_MODELS):
        colours.of("x", lambda start=start: [f"m{start + number}" for number in range(MOST_MODELS)])
    assert len(json.loads(path.read_text())) == MOST_MODELS


def test_chips_rows_and_pages_show_the_same_place(client, beat):
    """Six models, of which three had one blue."""
    fleet = ["gpt-oss-20b", "gemma-3-12b", "qwen3-32b", "bge-m3", "mistral-small-24b", "llama-3.3-70b-instruct"]
    beat("n", engines=tuple(Engine(id=f"e{number}", model=model) for number, model in enumerate(fleet)))
    places = dict(re.findall(r'href="/models/([^"?]+)"[^>]*data-colour="(\d+)"', client.get("/").text))
    assert len(set(places.values())) == len(fleet)
    for path in ("/nodes/n", "/models"):
        assert dict(re.findall(r'href="/models/([^"?]+)"[^>]*data-colour="(\d+)"', client.get(path).text)) == places
    for model in fleet:
        shown = client.get(f"/fragments/model/{model}", headers=HTMX).text
        assert re.search(r'model-name" data-colour="(\d+)"', shown)[1] == places[model]
