"""The fleet as it was at a past moment."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from tests.answers import Page
from tests.conftest import GIB, HTMX
from webapp.app import create_app
from webapp.fields import printable
from webapp.formats import iso_time
from webapp.history import HistoryUnavailable
from webapp.history.embedded import EmbeddedHistory
from webapp.history.past import FurtherBack, StoredPast, TooLongAgo, moment_of, written
from webapp.measurement import Agent, Engine, Gpu, Host
from webapp.storage.store import Store


@pytest.fixture
def past(store, wall) -> StoredPast:
    return StoredPast(store, clock=wall)


@pytest.fixture
def client(registry, store, past, wall):
    return create_app(registry, EmbeddedHistory(store, clock=wall), past=past, wall=wall).test_client()


@pytest.fixture
def hour(store, measurement, wall) -> float:
    """An hour of samples of cpu-07, whose CPU shows the minutes that passed; the Unix time of its start."""
    start = wall() - 3600
    store.fill(
        (
            replace(measurement, host=Host(labels={"rack": "b2"}), load=replace(measurement.load, cpu_percent=second / 60)),
            start + second,
        )
        for second in range(0, 3600, 10)
    )
    return start


def test_a_past_node_has_the_numbers_of_its_newest_sample_before_the_moment(past, hour, measurement):
    node = past.at(hour + 1805).node("cpu-07")
    assert node.measurement.load.cpu_percent == 30.0
    assert (node.state, node.heard_s, node.measured_s, node.heard_at) == ("fresh", 5.0, 5.0, hour + 1800)
    assert node.numbers is not None
    assert node.measurement.load.memory_total_bytes == 256 * GIB
    assert node.measurement.host.labels == {"rack": "b2"}
    engine, before = node.measurement.engines[0], measurement.engines[0]
    assert (engine.id, engine.model, engine.cpu_cores, engine.started_s_ago) == (before.id, before.model, 5.3, 8123.0)
    assert (engine.kind, engine.port, engine.requests) == ("vllm", 8000, before.requests)


def test_what_the_history_does_not_keep_is_unknown(past, hour):
    engine = past.at(hour + 600).node("cpu-07").measurement.engines[0]
    assert engine.memory_shared_bytes is None
    assert engine.members == ()
    assert past.at(hour + 600).node("cpu-07").measurement.load.memory_free_bytes is None


def test_numbers_more_than_a_minute_older_than_the_moment_are_left_out(store, past, measurement, wall):
    store.fill([(measurement, wall() - 1000)])
    for later, state, has_numbers in ((60, "late", True), (61, "stale", False), (901, "gone", False)):
        node = past.at(wall() - 1000 + later).node("cpu-07")
        assert (node.state, node.numbers is not None, node.heard_s) == (state, has_numbers, later)


def test_a_node_is_not_there_before_it_was_heard_first(store, past, measurement, wall):
    store.fill([(measurement, wall() - 1000), (replace(measurement, node="late"), wall() - 100)])
    assert [node.name for node in past.at(wall() - 500).nodes()] == ["cpu-07"]
    assert [node.name for node in past.at(wall() - 90).nodes()] == ["cpu-07", "late"]
    assert past.at(wall() - 500).node("late") is None


def test_an_engine_that_came_later_has_nothing_of_the_engine_of_now(store, past, measurement, wall):
    early, late = Engine(id="e0", model="a", cpu_cores=1.0), Engine(id="e1", model="b", kind="vllm", cpu_cores=2.0)
    store.fill([(replace(measurement, engines=(early,)), wall() - 1000), (replace(measurement, engines=(late,)), wall() - 100)])
    engines = past.at(wall() - 1000).node("cpu-07").measurement.engines
    assert [(engine.id, engine.model, engine.kind, engine.cpu_cores) for engine in engines] == [("e0", "a", None, 1.0)]


@pytest.mark.parametrize("name", ["<b>", "a/b", "x\ny", '"}', "=1", "ü\u2028"])
def test_names_come_back_as_they_were(store, past, measurement, wall, name):
    store.fill(
        [
            (
                replace(
                    measurement,
                    node=name,
                    engines=(Engine(id=name, model=name, cpu_cores=0.0),),
                    gpus=(Gpu(id=name, name=name, utilization_percent=0.0),),
                ),
                wall() - 100,
            )
        ]
    )
    node = past.at(wall() - 90).node(printable(name))
    assert node.measurement.engines[0].model == name
    assert node.measurement.gpus[0].utilization_percent == 0.0


def test_a_moment_before_the_history_is_answered_with_how_far_it_reaches(past, hour):
    with pytest.raises(TooLongAgo, match=r"reaches back to 2026-11-2\d .* UTC; .* was before that"):
        past.at(hour - 1)


def test_a_moment_when_nobody_listened_says_so(registry, measurement, clock, wall):
    store = Store(None, clock=wall, boottime=clock, commit_every=None)
    store.record(replace(measurement, agent=Agent(id="a", interval_s=10.0)), wall())
    store.commit()
    wall.advance(600)
    clock.advance(600)
    store.record(measurement, wall())
    store.commit()
    for _ in range(10):
        wall.advance(6)
        clock.advance(6)
        store.commit()
    fleet = StoredPast(store, clock=wall).at(wall() - 360)
    assert fleet.notices() == [
        "Nobody was listening then (the control plane was stopped): the nodes are shown as they were last heard."
    ]
    assert StoredPast(store, clock=wall).at(wall() - 60).notices() == []
    assert fleet.node("cpu-07").state == "stale"
    store.close()


def test_the_pages_show_the_fleet_of_the_moment_and_say_so(client, hour, beat):
    beat("cpu-07", load={"cpu_percent": 99.0})
    beat("new", agent="b")
    at = written(hour + 1800)
    for path in ("/", "/nodes/cpu-07", "/models", "/models/llama-3.1-8b"):
        page = client.get(f"{path}?at={at}").text
        text = " ".join(Page(page).text.split())
        assert "As it was on 2026-11-" in text
        assert "99 %" not in text
        assert 'href="/nodes/new"' not in page
        if "models" not in path:
            assert "30 %" in text
    assert "As it was on" not in client.get("/").text


def test_a_past_page_never_polls_and_its_blocks_know_the_moment(client, hour):
    at = written(hour + 1800)
    for path in ("/", "/nodes/cpu-07", "/models", "/models/llama-3.1-8b"):
        page = Page(client.get(f"{path}?at={at}").text)
        blocks = [tag for name, tag in page.tags if "data-block" in tag]
        assert blocks
        assert not [block for block in blocks if "every" in block["hx-trigger"]]
        for block in blocks:
            included = path in ("/", "/models")  # the form of filters brings the moment
            assert included or "at=2026-11-" in block["hx-get"]
        if path in ("/", "/models"):
            assert {"type": "hidden", "name": "at", "value": at} in page.all("input")


def test_links_of_a_past_page_keep_the_moment(client, hour):
    at = written(hour + 1800)
    for path in ("/", "/?sort=cpu", "/nodes/cpu-07", "/models", "/models/llama-3.1-8b?range=15m"):
        page = Page(client.get(f"{path}{'&' if '?' in path else '?'}at={at}").text)
        lost = [
            a["href"]
            for a in page.all("a")
            if a["href"].startswith(("/?", "/nodes", "/models", "/api", "/fragments")) and "at=" not in a["href"]
        ]
        back = [a["href"] for a in page.all("a") if a.get("class") == "back"]
        assert back == [path]
        assert [link for link in lost if link not in back] == []


def test_filters_work_on_a_past_fleet(client, store, measurement, wall):
    store.fill([(replace(measurement, node=f"n{number}"), wall() - 700) for number in range(3)])
    rows = lambda query: re.findall(r'<tr id="node-(\w+)"', client.get(f"/fragments/cluster{query}", headers=HTMX).text)  # noqa: E731
    at = written(wall() - 690)
    assert rows(f"?at={at}") == ["n0", "n1", "n2"]
    assert rows(f"?at={at}&q=n1&state=fresh") == ["n1"]


def test_the_charts_of_a_past_page_end_at_the_moment(client, hour):
    at = hour + 1800
    answer = client.get(f"/fragments/charts/cpu-07?at={written(at)}", headers=HTMX)
    figures = re.findall(r'"range": \["([^"]+)", "([^"]+)"\], "tickformat"', answer.text)
    assert figures
    assert all(end == iso_time(at // 15 * 15) for _, end in figures)


@pytest.mark.parametrize(
    ("at", "code", "said"),
    [
        ("yesterday", 400, "at=yesterday can&#39;t be read: expected a time such as 2026-"),
        ("<b>x", 400, "at=&lt;b&gt;x can&#39;t be read"),
        ("9" * 400, 400, "can&#39;t be read"),
        ("0001-01-01T00:00+23:59", 400, "can&#39;t be read"),
        ("2099-01-01T00:00Z", 400, "2099-01-01 00:00:00 UTC lies in the future; it is 2026-"),
        ("2020-01-01T00:00Z", 404, "The history reaches back to"),
    ],
)
@pytest.mark.parametrize("path", ["/", "/nodes/cpu-07", "/models", "/models/m"])
def test_a_moment_that_cannot_be_shown_is_refused_in_a_sentence(client, hour, path, at, code, said):
    answer = client.get(path, query_string={"at": at})
    assert answer.status_code == code
    assert said in answer.text
    assert "Back to now" in answer.text


def test_a_plus_in_a_typed_address_is_meant_as_one(client, hour):
    assert moment_of("2026-11-29T21:00 01:00", 1.8e9) == moment_of("2026-11-29T20:00Z", 1.8e9)


def test_a_history_without_fleets_says_that_it_cannot_show_the_past(registry, history, wall):
    answer = create_app(registry, history, wall=wall).test_client().get("/?at=2026-01-01")
    assert answer.status_code == 404
    assert "can&#39;t show the fleet at a past moment" in answer.text


def test_any_history_that_tells_fleets_can_be_plugged_in(registry, history, beat, wall):
    beat("then")

    class Elsewhere:
        def at(self, moment):
            if moment < wall() - 1e6:
                raise HistoryUnavailable("Prometheus did not answer within 3 s")
            return Fleet()

    class Fleet:
        def nodes(self):
            return registry.nodes()

        def node(self, name):
            return registry.node(name)

        def notices(self):
            return ["partial <answer>"]

    client = create_app(registry, history, past=Elsewhere(), wall=wall).test_client()
    answer = client.get(f"/?at={written(wall() - 3600)}")
    assert "partial &lt;answer&gt;" in answer.text
    assert 'id="node-then"' in answer.text
    late = client.get(f"/nodes/then?at={written(wall() - 2e6)}")
    assert (late.status_code, "did not answer within 3 s" in late.text) == (503, True)


def test_a_node_that_was_forgotten_is_not_in_the_past_either(store, past, measurement, wall):
    store.record(measurement, wall() - 200)
    store.commit()
    store.forget("cpu-07")
    store.commit()
    with pytest.raises(TooLongAgo):
        past.at(wall() - 100).nodes()
    wall.advance(100)
    assert past.at(wall() - 50).nodes() == []


def test_the_way_to_other_moments_keeps_the_question(client, hour):
    page = Page(client.get(f"/?sort=cpu&q=a%26b&at={written(hour + 1800)}").text)
    links = [a["href"] for a in page.all("a")]
    assert f"/?sort=cpu&q=a%26b&at={written(hour + 1500).replace(':', '%3A')}" in links
    assert "/?sort=cpu&q=a%26b" in links


def test_what_lies_before_the_store_is_asked_of_whoever_reaches_further_back(past, hour):
    class Elsewhere:
        def at(self, moment):
            return moment

    both = FurtherBack(past, Elsewhere())
    assert both.at(hour - 100) == hour - 100
    assert both.at(hour + 100).node("cpu-07") is not None


def test_an_embedded_past_page_keeps_both(client, hour):
    at = written(hour + 1800)
    page = Page(client.get(f"/?embed=1&at={at}").text)
    links = [a["href"] for a in page.all("a") if a["href"].startswith(("/?", "/nodes"))]
    assert links
    assert all(link.count("?") == 1 and "embed=1" in link for link in links)
    assert [link for link in links if "at=" not in link] == [a["href"] for a in page.all("a") if a.get("class") == "back"]
    hidden = {field["name"]: field["value"] for field in page.all("input") if field.get("type") == "hidden"}
    assert (hidden["at"], hidden["embed"]) == (at, "1")
