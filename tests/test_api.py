"""The JSON API and CSV: the same truth as on the pages."""

from __future__ import annotations

import csv
import io
import json
import re

import pytest

from webapp.api import ROUTES
from webapp.app import create_app
from webapp.history import Answer, HistoryUnavailable, Series, Span
from webapp.measurement import Engine, Requests
from webapp.metrics import families


def strict(answer) -> dict:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    assert answer.mimetype == "application/json"
    return json.loads(answer.text, parse_constant=refuse)


def rows(answer) -> list[dict[str, str]]:
    assert answer.mimetype == "text/csv"
    assert answer.headers["Content-Disposition"].startswith("attachment;")
    return list(csv.DictReader(io.StringIO(answer.get_data(as_text=True).removeprefix("\ufeff"))))


def test_every_route_of_the_table_is_answered_and_no_other(app):
    reported = {(route.path, f"api.{route.name}") for route in ROUTES}
    assert {(rule.rule, rule.endpoint) for rule in app.url_map.iter_rules() if rule.rule.startswith("/api/")} == reported


def test_nodes_are_reported_with_units_and_totals_that_name_what_they_leave_out(client, beat, clock):
    beat("old", agent="old", load={"cpu_percent": 97.0})
    clock.advance(73)
    beat("new", agent="new", load={"cpu_percent": 10.0})
    reported = strict(client.get("/api/v1/nodes"))
    new, old = reported["nodes"]
    assert (new["node"], new["state"], new["cpu_percent"], new["cpu_cores_used"]) == ("new", "fresh", 10.0, 6.4)
    assert old == {"node": "old", "state": "stale", "heard_seconds_ago": 73.0, "measured_seconds_ago": 73.0}
    assert reported["totals"]["cpu_cores_used"] == {"value": 6.4, "counted": 1, "of": 2, "left_out": {"stale": 1}}
    assert reported["totals"]["nodes_by_state"] == {"fresh": 1, "late": 0, "stale": 1, "gone": 0}


def test_unknown_is_absent_and_zero_is_zero(client, beat):
    beat("n1", load={"cpu_percent": None, "load1": 0.0, "memory_used_bytes": None}, engines=(), disks=())
    reported = strict(client.get("/api/v1/nodes"))
    (node,) = reported["nodes"]
    assert node["load1"] == 0.0
    assert node["engines"] == 0
    assert not {"cpu_percent", "cpu_cores_used", "memory_used_bytes", "requests_waiting", "fullest_disk"} & set(node)
    assert reported["totals"]["requests_waiting"] == {"counted": 0, "of": 0}
    assert "value" not in reported["totals"]["cpu_cores_used"]


def test_the_list_selects_and_orders_like_the_page(client, beat):
    for number, percent in enumerate((30.0, 90.0, 60.0)):
        beat(f"n{number}", agent=str(number), load={"cpu_percent": percent})
    names = lambda query: [node["node"] for node in strict(client.get("/api/v1/nodes" + query))["nodes"]]  # noqa: E731
    assert names("?sort=cpu") == ["n1", "n2", "n0"]
    assert names("?q=n2") == ["n2"]
    assert names("?state=gone") == []


def test_a_list_is_slim_and_comes_in_pages(client, beat):
    """T140"""
    for number in range(250):
        beat(f"n{number:03d}", agent=str(number), engines=tuple(Engine(id=f"e{index}", model="m") for index in range(20)))
    path, seen = "/api/v1/nodes?q=n&at=", []
    while path:
        answer = client.get(path)
        reported = strict(answer)
        assert len(answer.data) < 60_000
        assert (reported["count"], reported["limit"]) == (250, 100)
        assert len(reported["nodes"]) <= 100
        seen += [node["node"] for node in reported["nodes"]]
        path = reported.get("next")
    assert seen == [f"n{number:03d}" for number in range(250)]
    assert strict(client.get("/api/v1/engines?limit=1000"))["count"] == 5000


@pytest.mark.parametrize(
    "query", ["limit=0", "limit=1001", "limit=x", "offset=-1", "limit=1e3", "offset=" + "9" * 5000, "format=xml"]
)
def test_a_parameter_that_cannot_be_used_is_named(client, query):
    answer = client.get("/api/v1/nodes?" + query)
    reported = strict(answer)
    assert answer.status_code == 400
    assert (reported["ok"], reported["error"], reported["field"]) == (False, "bad_parameter", query.partition("=")[0])
    assert "expected" in reported["message"]
    assert len(reported["message"]) < 200


def test_one_node_has_all_that_it_reported_but_who_its_agent_is(client, beat):
    beat("a/b", agent="secret-identity")
    reported = strict(client.get("/api/v1/nodes/a/b"))
    assert reported["engines"][0]["requests_waiting"] == 3.0
    assert reported["load"]["load15"] == 2.5
    assert reported["disks"][0]["mount"] == "/"
    assert "secret-identity" not in json.dumps(reported)


def test_a_silent_nodes_numbers_are_absent_there_too(client, beat, clock):
    beat("n1")
    clock.advance(100)
    reported = strict(client.get("/api/v1/nodes/n1"))
    assert reported["state"] == "stale"
    assert not {"load", "disks", "cpu_percent"} & set(reported)
    assert set(reported["engines"][0]) == {"node", "engine", "model", "kind", "port", "node_state", "measured_seconds_ago"}


def test_an_unknown_node_is_an_error_in_json(client):
    answer = client.get("/api/v1/nodes/nobody")
    assert answer.status_code == 404
    assert strict(answer)["error"] == "not_found"


def test_models_are_reported_with_their_totals(client, beat):
    beat("a", engines=(Engine(id="e0", model="x", cpu_cores=1.0), Engine(id="e1", model="x", requests=Requests(2.0, None))))
    reported = strict(client.get("/api/v1/models"))
    (model,) = reported["models"]
    assert (model["model"], model["nodes"], model["engines"], model["cpu_cores_used"]) == ("x", 1, 2, 1)
    assert model["totals"]["cpu_cores_used"] == {"value": 1, "counted": 1, "of": 2, "left_out": {"not reported": 1}}
    assert "requests_running" not in model
    assert reported["totals"]["requests_waiting"]["value"] == 2


def test_a_table_is_csv_with_units_in_its_head_and_empty_cells_for_unknown(client, beat):
    beat("n1", load={"cpu_percent": None})
    beat("n2", agent="b", load={"cpu_percent": 0.0})
    first, second = rows(client.get("/api/v1/nodes?format=csv&sort=name"))
    assert first["cpu_percent (% of all cores)"] == ""
    assert second["cpu_percent (% of all cores)"] == "0.0"
    assert second["memory_total_bytes (bytes)"] == str(256 * 2**30)


@pytest.mark.parametrize("name", ["=1+1", "+1", "-2+3", "@SUM(1)", "\t=1", "\r=1", " =1", '=HYPERLINK("http://x")', 'a,"b\nc'])
def test_a_name_is_never_a_formula(client, beat, name):
    beat("n1", engines=(Engine(id=name, model=name, cpu_cores=1.0),))
    for path in ("/api/v1/engines?format=csv", "/api/v1/models?format=csv"):
        cell = rows(client.get(path))[0]["model"]
        assert cell.lstrip("'") == name
        assert not cell.lstrip(" \n").startswith(("=", "+", "-", "@", "\t", "\r"))


def test_a_file_has_a_name_that_is_one(client, beat):
    beat('x"; filename=evil.exe\r\n../')
    answer = client.get("/reports/" + 'x"; filename=evil.exe\r\n../'.replace("\r", "%0D").replace("\n", "%0A"))
    assert answer.status_code == 200
    assert re.fullmatch(r'attachment; filename="[A-Za-z0-9_-]+\.html"', answer.headers["Content-Disposition"])


class Hour:
    """A history that knows one hour of one node; the node "silent" is missing at its end."""

    def series(self, metrics, range, *, node="", model=""):
        if node == "away":
            raise HistoryUnavailable("Prometheus at http://p:9090 did not answer within 3 s")
        values = [None, float("inf"), 43.20000076293945] + [1.0] * (len(range.times) - 3)
        if node == "silent":
            values[-1] = None
        found = [Series(metric, (("node", node), ("window", "1m")), values) for metric in metrics if "cpu_util" in metric.name]
        return Answer(
            range, tuple(found), range.end, ("partial",), (Span(range.start, range.start + 60, "no control plane ran"),)
        )


@pytest.fixture
def charted_client(registry, wall):
    return create_app(registry, Hour(), wall=wall).test_client()


def test_a_charts_lines_are_reported_with_null_where_nothing_was_measured(charted_client):
    reported = strict(charted_client.get("/api/v1/series?node=n1&chart=cpu&range=15m"))
    (line,) = reported["lines"]
    assert line["values"][:4] == [None, None, 43.2, 1.0]
    assert len(line["values"]) == len(reported["times"]) == 91
    assert (reported["unit"], reported["step_seconds"], reported["warnings"]) == ("% of all cores", 10.0, ["partial"])
    assert reported["unheard"][0]["reason"] == "no control plane ran"


def test_a_metric_is_reported_as_its_series(charted_client):
    reported = strict(charted_client.get("/api/v1/series?node=n1&metric=llmgw_node_cpu_utilization_percent"))
    assert reported["series"][0]["labels"] == {"node": "n1", "window": "1m"}
    assert reported["series"][0]["unit"] == families()["llmgw_node_cpu_utilization_percent"][0].unit
    table = rows(charted_client.get("/api/v1/series?node=n1&metric=llmgw_node_cpu_utilization_percent&format=csv"))
    assert table[2]["node=n1 window=1m (percent)"] == "43.2"
    assert table[0]["node=n1 window=1m (percent)"] == ""


def test_a_charts_numbers_are_csv_too(charted_client):
    table = rows(charted_client.get("/api/v1/series?node=n1&chart=cpu&format=csv"))
    assert table[2]["CPU (% of all cores)"] == "43.2"
    assert table[2]["time (UTC)"].endswith("Z")


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("chart=cpu", "node"),
        ("chart=cpu&node=a&model=b", "chart"),
        ("chart=queue&node=a&model=b", "node"),
        ("node=a&chart=nonsense", "chart"),
        ("node=a", "chart"),
        ("node=a&metric=up%7B%7D", "metric"),
        ("model=m&chart=cpu", "chart"),
        ("node=a&chart=cpu&range=2y", "range"),
    ],
)
def test_a_question_that_makes_no_sense_is_refused(charted_client, query, field):
    answer = charted_client.get("/api/v1/series?" + query)
    assert answer.status_code == 400
    assert strict(answer)["field"] == field


def test_a_history_that_is_away_is_reported_as_that(charted_client):
    answer = charted_client.get("/api/v1/series?node=away&chart=cpu")
    assert answer.status_code == 503
    assert strict(answer)["error"] == "history_unavailable"
    shown = charted_client.get("/fragments/numbers?node=away&chart=cpu", headers={"HX-Request": "true"})
    assert "did not answer within 3 s" in shown.text


def test_the_numbers_of_a_chart_are_a_table(charted_client):
    html = charted_client.get("/fragments/numbers?node=n1&chart=cpu", headers={"HX-Request": "true"}).text
    assert "The latest 20 of 241 times" in html
    assert '<th scope="row" title="known at 240 of 241 times">CPU</th>' in html
    assert "format=csv" in html


def test_a_number_of_a_chart_that_nobody_measured_is_a_dash(charted_client):
    html = charted_client.get("/fragments/numbers?node=silent&chart=cpu", headers={"HX-Request": "true"}).text
    dash = '<td class="figure"><span class="unknown" title="nothing was measured then">–</span></td>'
    assert html.count(dash) == 2  # the last one over the range, and the latest time
    assert '<th scope="row" title="known at 239 of 241 times">CPU</th>' in html
