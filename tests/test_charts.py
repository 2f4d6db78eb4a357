"""Charts as plotly figures, and as tables."""

import json
from dataclasses import replace
from itertools import pairwise

import plotly.graph_objects as go
import pytest
from hypothesis import given
from hypothesis import strategies as some

from webapp.charts.figure import figure
from webapp.charts.lines import MOST_LINES, lines, marks
from webapp.charts.numbers import table
from webapp.charts.palette import LIGHT, colour_index
from webapp.history import Answer, Range, Series, Span
from webapp.lens import Chart
from webapp.metrics import CHARTS, METRICS, families

START = 1_800_000_000.0
BY_KEY = {chart.key: chart for chart in CHARTS}
GIB = 2**30


def answer(*rows, step=15.0, **more):
    """Rows of family, labels and values; all have the same number of values."""
    count = len(rows[0][2])
    series = []
    for family, labels, values in rows:
        metric = next(
            row for row in families()[family] if row.fixed == tuple((k, v) for k, v in labels.items() if k in dict(row.fixed))
        )
        series.append(Series(metric, (("node", "cpu-07"), *labels.items()), values))
    return Answer(Range(START, START + step * (count - 1), step), tuple(series), as_of=START, **more)


def cpu(*values, **more):
    return answer(("llmgw_node_cpu_utilization_percent", {}, values), **more)


def cores(**models):
    return [("llmgw_shard_cpu_cores", {"shard": name, "model": name}, values) for name, values in models.items()]


def checked(chart, answer, **more):
    """The figure, as strict JSON carries it; plotly.py refuses misspelt properties."""
    drawn = json.loads(json.dumps(figure(chart, answer, **more), allow_nan=False))
    go.Figure(drawn)
    return drawn


def named(figure, name):
    return next(trace for trace in figure["data"] if trace.get("name") == name)


@pytest.mark.parametrize("chart", CHARTS, ids=lambda chart: chart.key)
def test_every_chart_is_a_figure_that_plotly_takes(chart):
    labels = {"shard": "e", "model": "m", "mount": "/", "device": "eth0", "gpu": "GPU-0123456789", "name": "L4"}
    series = tuple(
        Series(metric, (("node", "n"), *metric.fixed, *((label, labels[label]) for label, _ in metric.labels)), (1.0, None, 3.0))
        for metric in METRICS
        if metric.name in chart.families
    )
    figure = checked(chart, Answer(Range(START, START + 30, 15), series, START))
    assert len(figure["data"]) >= 1
    assert figure["layout"]["yaxis"]["range"][0] == 0


def test_a_silence_is_a_gap_and_a_lone_point_a_marker():
    """T113: absent points are joined by a line, and a point alone is not seen."""
    figure = checked(BY_KEY["cpu"], cpu(10.0, 20.0, None, 30.0, None, None, 40.0, 50.0))
    line, lone = figure["data"]
    assert line["y"] == [10, 20, None, 30, None, None, 40, 50]
    assert "connectgaps" not in line
    assert (lone["mode"], lone["x"], lone["y"]) == ("markers", ["2027-01-15T08:00:45Z"], [30])


def test_the_time_axis_is_the_range_that_was_asked_for_whatever_came():
    axis = checked(BY_KEY["cpu"], cpu(None, 10.0, None))["layout"]["xaxis"]
    assert axis["range"] == ["2027-01-15T08:00:00Z", "2027-01-15T08:00:30Z"]


def test_a_stack_is_summed_and_its_hover_tells_each_part():
    figure = checked(BY_KEY["engine_cpu"], answer(*cores(a=(1.0, 2.0), b=(3.0, None))))
    assert named(figure, "a")["y"] == [1, 2]
    assert named(figure, "b")["y"] == [4, None]
    assert named(figure, "b")["customdata"] == [3, None]


def test_the_fills_of_a_stack_end_where_the_silence_begins():
    figure = checked(BY_KEY["engine_cpu"], answer(*cores(a=(1.0, 2.0, None, 4.0), b=(3.0, None, None, 1.0))))
    fills = [(trace["x0"], trace["fill"], trace["y"]) for trace in figure["data"] if "fill" in trace]
    assert fills == [
        ("2027-01-15T08:00:00Z", "tozeroy", [1, 2]),
        ("2027-01-15T08:00:00Z", "tonexty", [4, 2]),
        ("2027-01-15T08:00:45Z", "tozeroy", [4]),
        ("2027-01-15T08:00:45Z", "tonexty", [5]),
    ]


def test_a_stack_with_many_silences_is_drawn_without_fills():
    figure = checked(BY_KEY["engine_cpu"], answer(*cores(a=(1.0, None) * 20)))
    assert not [trace for trace in figure["data"] if "fill" in trace]


def test_engines_of_one_model_are_one_line_and_their_sum_is_of_those_that_are_known():
    rows = [("llmgw_shard_cpu_cores", {"shard": shard, "model": "m"}, values) for shard, values in
            (("a", (1.0, 2.0, None)), ("b", (10.0, None, None)))]  # fmt: skip
    (line,) = lines(BY_KEY["engine_cpu"], answer(*rows))
    assert (line.name, line.values) == ("m", [11, 2, None])


def test_shares_are_not_summed():
    rows = [("llmgw_shard_kv_cache_usage_ratio", {"shard": shard, "model": "m"}, (0.8,)) for shard in "ab"]
    assert lines(BY_KEY["kv_cache"], answer(*rows))[0].values == [0.8]


def test_the_rest_of_the_node_is_what_no_engine_used():
    rows = [
        ("llmgw_node_cpu_utilization_percent", {}, (50.0, 50.0, None, 1.0)),
        ("llmgw_node_cpus", {}, (8.0, 8.0, 8.0, 8.0)),
        *cores(m=(3.0, None, 1.0, 2.0)),
    ]
    rest = lines(BY_KEY["engine_cpu"], answer(*rows))[-1]
    assert (rest.name, rest.role, rest.values) == ("rest of node", "rest", [1, 4, None, 0])


def test_more_than_eight_lines_are_folded():
    found = lines(BY_KEY["engine_cpu"], answer(*cores(**{f"m{n:02}": (float(n),) for n in range(1, 13)})))
    assert [line.name for line in found] == [*(f"m{n:02}" for n in range(5, 13)), "4 others"]
    assert found[-1].values == [1 + 2 + 3 + 4]
    assert len(found) == MOST_LINES + 1


def test_a_limit_is_a_dashed_line_within_the_axis():
    rows = [("llmgw_node_memory_used_bytes", {}, (8 * GIB, None)), ("llmgw_node_memory_bytes", {}, (64 * GIB, 64 * GIB))]
    figure = checked(BY_KEY["memory"], answer(*rows))
    assert named(figure, "total")["line"]["dash"] == "dash"
    assert named(figure, "total")["y"] == [64, 64]
    assert figure["layout"]["meta"] == {"unit": "GiB"}
    assert figure["layout"]["yaxis"]["range"][1] > 64
    assert figure["layout"]["yaxis"]["tickvals"] == [0, 16, 32, 48, 64]


def test_cpu_ends_at_a_hundred_percent():
    assert checked(BY_KEY["cpu"], cpu(3.0))["layout"]["yaxis"]["range"] == [0, 100]


def test_a_chart_of_zeros_has_an_axis():
    assert checked(BY_KEY["queue"], answer(("llmgw_shard_queue_depth", {"shard": "e", "model": "m"}, (0.0, 0.0))))


def test_an_answer_without_series_is_an_empty_figure():
    empty = Answer(Range(START, START + 60, 15), (), START)
    assert checked(BY_KEY["engine_cpu"], empty)["data"] == []
    assert table(BY_KEY["engine_cpu"], empty)[0] == ["time (UTC)"]


def test_time_without_a_listener_is_a_grey_band_that_says_why():
    span = Span(START - 100, START + 45, "no control plane ran <b>")
    short = Span(START + 50, START + 60, "restart")
    band, _ = checked(BY_KEY["cpu"], cpu(*[1.0] * 9, unheard=(span, short)))["layout"]["shapes"]
    assert (band["x0"], band["x1"]) == ("2027-01-15T08:00:00Z", "2027-01-15T08:00:45Z")
    assert band["label"]["text"] == "no control plane ran &lt;b&gt;"


def started(*values, shard="e"):
    return ("llmgw_shard_start_time_seconds", {"shard": shard, "model": "m"}, values)


def test_starts_and_stops_of_engines_are_marked():
    up = ("llmgw_node_cpu_utilization_percent", {}, (1.0,) * 6)
    found = marks(BY_KEY["engine_cpu"], answer(up, started(None, START + 7, START + 8, None, START + 61, START + 61)))
    assert found == [(START + 7, "e started"), (START + 45, "e stopped"), (START + 61, "e started")]


def test_an_engine_on_a_silent_node_did_not_stop():
    up = ("llmgw_node_cpu_utilization_percent", {}, (1.0, None, 1.0))
    assert marks(BY_KEY["engine_cpu"], answer(up, started(START - 99, None, START - 99))) == []


@pytest.mark.parametrize("age", [30, 200, 9000])
@pytest.mark.parametrize("silence", [8, 40])
def test_our_own_clock_that_is_set_starts_no_engine_anew(age, silence):
    """Forward: times are left out, and what is told as an age starts later by as much."""
    left_out = (None,) * silence
    values = (START - age,) * 4 + left_out + (START - age + 15 * silence,) * 4
    up = ("llmgw_node_cpu_utilization_percent", {}, (1.0,) * 4 + left_out + (1.0,) * 4)
    assert marks(BY_KEY["engine_cpu"], answer(up, started(*values))) == []


def test_an_engine_that_was_started_anew_in_a_silence_is_marked():
    for start in (100, 400, 620):
        values = (START - 30,) * 4 + (None,) * 40 + (START + start,) * 4
        up = ("llmgw_node_cpu_utilization_percent", {}, tuple(value and 1.0 for value in values))
        assert marks(BY_KEY["engine_cpu"], answer(up, started(*values))) == [(START + start, "e started")]


def test_marks_are_lines_with_text():
    figure = checked(BY_KEY["queue"], answer(*cores(m=(1.0,) * 4), started(*[START + 20] * 4, shard="<i>e</i>")))
    (line,) = figure["layout"]["shapes"]
    assert line["x0"] == line["x1"] == "2027-01-15T08:00:20Z"
    assert figure["data"][-1]["text"] == ["&lt;i&gt;e&lt;/i&gt; started"]


def test_a_model_has_its_own_colour_on_every_chart():
    for key in ("engine_cpu", "engine_memory"):
        family = BY_KEY[key].metrics[0]
        figure = checked(BY_KEY[key], answer(*((family, {"shard": name, "model": name}, (1.0,)) for name in ("x", "qwen3"))))
        assert named(figure, "qwen3")["line"]["color"] == LIGHT[colour_index("qwen3")]


def test_models_that_share_a_colour_differ_by_their_dashes():
    twins = [name for name in (f"m{n}" for n in range(40)) if colour_index(name) == 3][:2]
    assert_distinguishable(checked(BY_KEY["engine_cpu"], answer(*cores(**dict.fromkeys(twins, (1.0,))))), *twins)


def test_a_model_with_the_second_mark_has_a_dotted_line():
    figure = checked(
        BY_KEY["engine_cpu"], answer(*cores(first=(1.0,), ninth=(1.0,))), colour_of={"first": 0, "ninth": 8}.__getitem__
    )
    assert_distinguishable(figure, "first", "ninth")
    assert named(figure, "ninth")["line"]["dash"] == "dot"


def assert_distinguishable(figure, *twins):
    first, second = (named(figure, name)["line"] for name in twins)
    assert first["color"] == second["color"]
    assert first.get("dash") != second.get("dash")
    assert [shape["line"].get("dash") for shape in figure["layout"]["shapes"]] == [first.get("dash"), second.get("dash")]


MARKUP = "<a href='javascript:alert(1)'>x</a> %{y} & </script>"


def test_hostile_names_are_shown_as_text():
    """T134, T118: a name of a model runs in each operator's browser."""
    figure = checked(BY_KEY["engine_cpu"], answer(*cores(**{MARKUP: (1.0,)}), started(START + 1, shard=MARKUP)))
    text = json.dumps(figure)
    assert "<a" not in text
    assert "</script>" not in text
    assert "%{y} &" not in text
    assert named(figure, "&lt;a href='javascript:alert(1)'&gt;x&lt;/a&gt; &#37;{y} &amp; &lt;/script&gt;")


def test_zoom_survives_a_refresh():
    before, after = checked(BY_KEY["cpu"], cpu(1.0, 2.0)), checked(BY_KEY["cpu"], cpu(1.0, 2.0, 3.0))
    assert before["layout"]["uirevision"] == after["layout"]["uirevision"]


def test_labels_at_the_lines_ends_do_not_cover_each_other():
    rows = [("llmgw_node_load", {"window": window}, (value,)) for window, value in (("1m", 3.0), ("5m", 3.1), ("15m", 3.05))]
    labels = checked(BY_KEY["load"], answer(*rows))["layout"]["annotations"]
    places = sorted(label["y"] for label in labels)
    assert [label["text"] for label in labels] == ["1m", "15m", "5m"]
    assert all(later - earlier > 0.2 for earlier, later in pairwise(places))


def test_the_lines_of_load_are_in_the_order_of_their_windows():
    rows = [("llmgw_node_load", {"window": window}, (1.0,)) for window in ("15m", "1m", "5m")]
    assert [line.name for line in lines(BY_KEY["load"], answer(*rows))] == ["1m", "5m", "15m"]


def test_series_of_other_fixed_labels_are_left_out():
    rows = [
        ("llmgw_node_pressure_ratio", {"resource": "io", "kind": kind}, (value,))
        for kind, value in (("some", 0.2), ("full", 0.1))
    ]
    (line,) = lines(BY_KEY["pressure"], answer(*rows))
    assert (line.name, line.values) == ("io", (0.2,))


def test_a_gpu_is_called_by_its_kind_and_the_start_of_its_id():
    row = ("llmgw_node_gpu_utilization_percent", {"gpu": "GPU-8c4e1f2a-77", "name": "NVIDIA L4"}, (5.0,))
    assert lines(BY_KEY["gpu"], answer(row))[0].name == "NVIDIA L4 8c4e1f2a"


def test_the_numbers_of_a_chart_are_a_table():
    rows = [("llmgw_node_memory_used_bytes", {}, (8.0 * GIB, None)), ("llmgw_node_memory_bytes", {}, (64.0 * GIB, 64.0 * GIB))]
    assert table(BY_KEY["memory"], answer(*rows)) == (
        ["time (UTC)", "Memory used (bytes)", "total (bytes)"],
        [["2027-01-15T08:00:00Z", 8.0 * GIB, 64.0 * GIB], ["2027-01-15T08:00:15Z", None, 64.0 * GIB]],
    )


def test_every_chart_draws_families_that_exist():
    for chart in CHARTS:
        assert set(chart.families) <= families().keys(), chart.key
        assert {label for metric in METRICS if metric.name in chart.metrics for label in _labels(metric)} >= ({chart.by} - {""})
    assert len({chart.key for chart in CHARTS}) == len(CHARTS)


def _labels(metric):
    return [label for label, _ in (*metric.labels, *metric.fixed)]


values = some.lists(some.none() | some.floats(0, 1e15), min_size=6, max_size=6)


@given(some.dictionaries(some.text(max_size=8), values, max_size=12), some.sampled_from(["engine_cpu", "engine_memory", "queue"]))
def test_whatever_was_measured_is_a_strict_figure(models, key):
    chart: Chart = BY_KEY[key]
    rows = [(chart.metrics[0], {"shard": name, "model": name}, numbers) for name, numbers in models.items()]
    if not rows:
        return
    figure = checked(replace(chart), answer(*rows))
    top = figure["layout"]["yaxis"]["range"][1]
    for trace in figure["data"]:
        assert all(value is None or 0 <= value <= top for value in trace["y"])
