"""What each model takes of the fleet."""

from __future__ import annotations

import re

import pytest

from tests.answers import Page
from webapp.measurement import Engine, Requests
from webapp.overview.model_selection import ModelSelection
from webapp.overview.models import everything, kv_gauge, memory_gauge, model, models


def engine(id: str, name: str | None = "m", **more) -> Engine:
    return Engine(id=id, model=name, **more)


def test_a_models_engines_on_all_nodes_are_one_model(registry, beat):
    beat("a", agent="a", engines=(engine("e0", cpu_cores=1.5), engine("e1", cpu_cores=2.0), engine("e2", "other", cpu_cores=9.0)))
    beat("b", agent="b", engines=(engine("e0", cpu_cores=4.0),))
    found = model(registry.nodes(), "m")
    assert [(one.node.name, one.engine.id) for one in found.placed] == [("a", "e0"), ("a", "e1"), ("b", "e0")]
    assert (found.cores.value, found.cores.note) == (7.5, "all engines")
    assert [one.name for one in models(registry.nodes())] == ["m", "other"]


def test_a_total_names_the_engines_that_it_leaves_out(registry, beat, clock):
    beat("old", agent="old", engines=(engine("e0", cpu_cores=50.0), engine("e1", cpu_cores=50.0)))
    clock.advance(73)
    beat("new", agent="new", engines=(engine("e0", cpu_cores=1.0, requests=Requests(3.0, 1.0)), engine("e1", cpu_cores=None)))
    found = model(registry.nodes(), "m")
    assert found.cores.value == 1.0
    assert found.cores.note == "1 of 4 engines; 2 on stale nodes, 1 not reported"
    assert found.engines.note == "2 of 4 engines; 2 on stale nodes"
    assert found.waiting.value == 3.0
    assert [one.numbers is None for one in found.placed] == [False, False, True, True]


def test_what_no_engine_tells_is_unknown_and_not_zero(registry, beat):
    beat("a", engines=(engine("e0"), engine("e1", cpu_cores=0.0)))
    found = model(registry.nodes(), "m")
    assert found.waiting.value is None
    assert found.cores.value == 0.0
    assert found.kv_cache is None
    assert kv_gauge(found.kv_cache) is None
    assert memory_gauge(found) is None


def test_the_fullest_cache_stands_for_the_model(registry, beat):
    beat("a", agent="a", engines=(engine("e0", kv_cache_usage_ratio=0.2), engine("e1", kv_cache_usage_ratio=0.9)))
    assert model(registry.nodes(), "m").kv_cache.engine.id == "e1"


def test_engines_without_a_model_count_in_the_total_only(registry, beat):
    beat("a", engines=(engine("e0", None, cpu_cores=1.0), engine("e1", cpu_cores=2.0)))
    assert [one.name for one in models(registry.nodes())] == ["m"]
    assert everything(registry.nodes()).cores.value == 3.0


def test_models_are_ordered_by_what_the_address_names_and_unknown_comes_last(registry, beat):
    beat(
        "a",
        engines=(engine("e0", "b", cpu_cores=1.0), engine("e1", "A", cpu_cores=3.0), engine("e2", "c")),
    )
    found = models(registry.nodes())
    names = lambda query: [one.name for one in ModelSelection.of(query).apply(found)]  # noqa: E731
    assert names([]) == ["A", "b", "c"]
    assert names([("sort", "cores")]) == ["A", "b", "c"]
    assert names([("sort", "cores"), ("order", "asc")]) == ["b", "A", "c"]
    assert names([("q", "B")]) == ["b"]
    assert names([("sort", "nonsense"), ("order", "5")]) == ["A", "b", "c"]


def test_an_order_comes_back_from_its_own_arguments():
    order = ModelSelection("x y", "cores", False)
    assert order.arguments == {"q": "x y", "sort": "cores", "order": "asc"}
    assert ModelSelection.of(order.arguments.items()) == order
    assert ModelSelection().arguments == {}
    assert ModelSelection().sorted_by("name").descending
    assert ModelSelection().sorted_by("tokens").descending


def test_the_models_page_shows_each_with_its_numbers_and_their_sum(client, beat):
    beat("a", agent="a", engines=(engine("e0", "llama", cpu_cores=5.3, memory_bytes=20 * 2**30, requests=Requests(3.0, 5.0)),))
    beat("b", agent="b", engines=(engine("e0", "qwen", cpu_cores=1.0), engine("e1", "llama", cpu_cores=1.0)))
    text = " ".join(Page(client.get("/models").text).text.split())
    assert "6.3 of 128" in text
    assert "20 / 512 GiB" in text
    assert "All engines" in text
    assert "7.3 cores of 3 engines" in text
    assert "0 B" not in text


def test_a_stale_nodes_engine_keeps_its_row_without_numbers(client, beat, clock):
    beat("old", agent="old", engines=(engine("e0", cpu_cores=37.5),))
    clock.advance(73)
    beat("new", agent="new", engines=(engine("e0", cpu_cores=2.0),))
    html = client.get("/models/m").text
    assert re.findall(r'<tr id="placed-(\w+)-e0" data-state="(\w+)"', html) == [("new", "fresh"), ("old", "stale")]
    assert "37.5" not in html
    assert "not heard for 73 s; numbers left out" in html
    assert "1 of 2 engines; 1 on stale nodes" in html


def test_a_model_that_nobody_serves_still_has_a_page_for_its_past(client, beat):
    beat("a")
    answer = client.get("/models/gone-model")
    assert answer.status_code == 200
    assert "No engine serves it now" in answer.text


@pytest.mark.parametrize(
    ("engines", "said"),
    [((), "but no engine"), ((Engine(id="x"),), "1 engine whose model is unknown")],
)
def test_no_model_is_not_an_empty_fleet(client, beat, engines, said):
    assert "No node has reported yet" in client.get("/models").text
    beat("a", engines=engines)
    assert said in client.get("/models").text
    assert "No model matches" not in client.get("/models?q=z").text


def test_a_chip_leads_to_its_model_and_no_model_leads_nowhere(client, beat):
    beat("a", engines=(engine("e0", "x/y"), engine("e1", None)))
    for path in ("/", "/nodes/a"):
        page = Page(client.get(path).text)
        assert "/models/x/y" in [a["href"] for a in page.all("a")]
    assert "1 engine without a model" in Page(client.get("/").text).text


def test_charts_of_a_model_are_summed_or_a_line_a_node():
    from webapp.charts.figure import figure
    from webapp.charts.palette import colour, colour_index
    from webapp.history import Answer, Range, Series
    from webapp.metrics import families
    from webapp.views.model_blocks import charts_of

    metric = families()["llmgw_shard_cpu_cores"][0]
    labels = [(("node", node), ("shard", "s"), ("model", "m")) for node in ("a", "b")]
    answer = Answer(Range(0, 30, 15), tuple(Series(metric, each, [1.0, 2.0, None]) for each in labels), 30)
    summed = next(figure(chart, answer) for chart in charts_of("") if chart.key == "engine_cpu")
    assert [trace["y"] for trace in summed["data"]] == [[2, 4, None]]
    assert summed["data"][0]["line"]["color"] == colour(colour_index("m"))
    split = next(figure(chart, answer) for chart in charts_of("node") if chart.key == "engine_cpu")
    drawn = [trace for trace in split["data"] if "name" in trace]
    assert [trace["name"] for trace in drawn] == ["a", "b"]
    assert drawn[0]["line"]["color"] != drawn[1]["line"]["color"]


def test_a_models_charts_come_from_one_question(registry, beat, wall):
    from webapp.app import create_app
    from webapp.history import Answer

    asked = []

    class Counting:
        def series(self, metrics, range, *, node="", model=""):
            asked.append((node, model, len(metrics)))
            return Answer(range, (), as_of=range.end)

    beat("a", engines=(engine("e0", "x", cpu_cores=1.0, requests=Requests(1.0, None)),))
    answer = (
        create_app(registry, Counting(), wall=wall).test_client().get("/fragments/model-charts/x", headers={"HX-Request": "true"})
    )
    assert [question[:2] for question in asked] == [("", "x")]
    assert re.findall(r'id="chart-(\w+)"', answer.text) == ["engine_cpu", "engine_memory", "queue"]


def test_embedded_pages_of_models_keep_their_ways_on_every_link(client, beat):
    beat("a", engines=(engine("e0", "x", cpu_cores=1.0),))
    for path in ("/models?embed=1&theme=dark&refresh=30&sort=cores", "/models/x?embed=1&theme=dark&refresh=30&by=node"):
        page = Page(client.get(path).text)
        links = [a["href"] for a in page.all("a") if a["href"].startswith("/") and not a["href"].startswith("/api/")]
        assert links
        assert all("embed=1" in link and "theme=dark" in link and link.count("?") == 1 for link in links)
        assert all("every 30s" in block["hx-trigger"] for block in page.all("section") if "hx-get" in block)
    hidden = {
        field["name"]: field["value"]
        for field in Page(client.get("/models?embed=1&refresh=30").text).all("input")
        if field.get("type") == "hidden"
    }
    assert hidden["embed"] == "1"
    assert hidden["refresh"] == "30"
