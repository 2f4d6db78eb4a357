"""A Prometheus that scrapes, once a second: node_exporter, a control plane, and alerts."""

from __future__ import annotations

import contextlib
import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.prometheus.promlab import Exposition, http_server, prometheus, running, wait_for
from tests.prometheus.test_copies import at_once
from webapp.addresses import free_port
from webapp.history import Range
from webapp.metrics import METRICS
from webapp.prometheus.alerts import PrometheusAlerts
from webapp.prometheus.copies import Copies
from webapp.prometheus.estate import estate
from webapp.prometheus.fleet import PrometheusFleet
from webapp.prometheus.history import PrometheusHistory
from webapp.prometheus.queries import PrometheusServer
from webapp.prometheus.session import access
from webapp.prometheus.vocabulary import Heartbeats

pytestmark = pytest.mark.live

RULES = """
groups:
  - name: test
    rules:
      - {alert: NodeSilent, expr: 'llmgw_node_up == 0', labels: {severity: critical}}
      - {alert: EngineQueue, expr: 'llmgw_shard_queue_depth > 5'}
      - {alert: ExporterThere, expr: 'up{job="node"} == 1'}
      - {alert: NotYet, expr: 'vector(1)', for: 1h}
"""


class Lab(NamedTuple):
    server: PrometheusServer
    plane: Exposition
    #: A control plane whose target has a label `node`, as relabelling of pods adds it.
    relabelled: Exposition


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    directory = tmp_path_factory.mktemp("live")
    plane, relabelled = Exposition(), Exposition()
    exporter = f"127.0.0.1:{free_port()}"
    program = shutil.which("prometheus-node-exporter") or "prometheus-node-exporter"
    with contextlib.ExitStack() as stack:
        stack.enter_context(
            running([program, f"--web.listen-address={exporter}"], f"http://{exporter}/metrics", directory / "exporter.log")
        )
        target, pod = (stack.enter_context(http_server(one)).removeprefix("http://") for one in (plane, relabelled))
        (directory / "rules.yml").write_text(RULES)
        jobs = [
            {"job_name": "node", "static_configs": [{"targets": [exporter], "labels": {"instance": "this-node:9100"}}]},
            {"job_name": "enginehouse", "static_configs": [{"targets": [target]}]},
            {"job_name": "pods", "static_configs": [{"targets": [pod], "labels": {"node": "k8s-3"}}]},
        ]
        config = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": ["rules.yml"],
            "scrape_configs": jobs,
        }
        url = stack.enter_context(prometheus(directory, json.dumps(config)))
        yield Lab(PrometheusServer(access(url)), plane, relabelled)


def show(lab: Lab, text: str, seen: str) -> None:
    """Let the control plane say `text`, and wait until the query `seen` has a result."""
    lab.plane.text = text
    wait_for(lambda: bool(lab.server.query(seen).series))


def test_a_server_that_names_all_nodes_after_its_target_does_not_make_them_one(lab: Lab) -> None:
    """Prometheus calls our label `exported_node` then, unless the job has honor_labels."""
    exported = "".join(
        f'llmgw_node_heartbeat_age_seconds{{node="{name}"}} 2\nllmgw_node_cpu_utilization_percent{{node="{name}"}} {busy}\n'
        for name, busy in (("cpu-01", 10), ("cpu-02", 90))
    )
    lab.relabelled.text = exported
    show(lab, exported, "count(llmgw_node_cpu_utilization_percent) == 4")
    words = Heartbeats()
    history = PrometheusHistory(lab.server, words)
    nodes = PrometheusFleet(lab.server, words, history, Copies(lab.server.name)).nodes()
    assert {(node.name, node.measurement.load.cpu_percent) for node in nodes} == {("cpu-01", 10.0), ("cpu-02", 90.0)}
    end = int(time.time())
    assert history.series(METRICS, Range(end - 60, end, 5), node="k8s-3").series == ()
    lab.relabelled.text = ""


def test_a_real_node_is_reported_by_node_exporter_alone(lab: Lab) -> None:
    words = estate({})
    history = PrometheusHistory(lab.server, words)
    wait_for(lambda: bool(lab.server.query("count_over_time(node_load1[1m]) > 3").series))
    (node,) = PrometheusFleet(lab.server, words, history, Copies(lab.server.name)).nodes()
    assert (node.name, node.state) == ("this-node", "fresh")
    assert node.numbers is not None
    load = node.numbers.load
    assert load.memory_total_bytes == int(Path("/proc/meminfo").read_text().split()[1]) * 1024
    assert load.cpu_percent is not None
    assert 0 <= load.cpu_percent <= 100
    online = Path("/proc/stat").read_text().count("\ncpu")
    assert load.cpus == online
    end = int(time.time())
    answer = history.series([METRICS[0]], Range(end - 2, end, 1.0), node="this-node")
    assert answer.series[0].values[-1] is not None


def test_a_node_that_falls_silent_ends_though_its_numbers_are_repeated(lab: Lab) -> None:
    """A control plane repeats a measurement for a minute; the line ends after half of it."""
    series = 'llmgw_node_cpus{node="n"} 64\nllmgw_node_heartbeat_age_seconds{node="n"} '
    show(lab, series + "1\n", "llmgw_node_heartbeat_age_seconds == 1")
    history = PrometheusHistory(lab.server)
    cpus = [metric for metric in METRICS if metric.name == "llmgw_node_cpus"]
    now = int(time.time()) + 1
    assert history.series(cpus, Range(now, now, 1.0), node="n").series[0].values == [64.0]
    show(lab, series + "40\n", "llmgw_node_heartbeat_age_seconds == 40")
    now = int(time.time()) + 1
    assert history.series(cpus, Range(now, now, 1.0), node="n").series == ()


def test_alerts_that_fire_are_reported_by_node_and_engine(lab: Lab) -> None:
    show(
        lab,
        'llmgw_node_up{node="n"} 0\nllmgw_shard_queue_depth{node="m",shard="vllm-0",model="llama"} 9\n',
        'count(ALERTS{alertstate="firing"}) >= 3',
    )
    alerts = PrometheusAlerts(lab.server, Heartbeats(), Copies(lab.server.name, spawn=at_once))
    assert [(alert.name, alert.node, alert.engine, alert.model, alert.severity) for alert in alerts.firing()] == [
        ("EngineQueue", "m", "vllm-0", "llama", ""),
        ("ExporterThere", "", "", "", ""),
        ("NodeSilent", "n", "", "", "critical"),
    ]
    by_instance = PrometheusAlerts(lab.server, estate({}), Copies(lab.server.name, spawn=at_once))
    assert [alert.name for alert in by_instance.firing() if alert.node == "this-node"] == ["ExporterThere"]


def test_without_a_server_there_are_no_alerts_and_the_reason_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    server = PrometheusServer(access("http://127.0.0.1:1"))
    alerts = PrometheusAlerts(server, Heartbeats(), Copies(server.name, spawn=at_once))
    assert alerts.firing() == ()
    assert "Prometheus at http://127.0.0.1:1 can't be reached: connection refused" in caplog.text
