"""Pages with no agent: from node_exporter, GPU exporters, process-exporter, cAdvisor and the engines' own metrics."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.prometheus.conftest import backfill, exposed, import_into_victoria
from tests.prometheus.promlab import prometheus, victoria_metrics
from tests.prometheus.test_copies import Clock, at_once
from webapp.history import Range
from webapp.measurement import Measurement
from webapp.metrics import METRICS
from webapp.prometheus.copies import Copies
from webapp.prometheus.estate import EstateRefused, estate
from webapp.prometheus.fleet import PrometheusFleet
from webapp.prometheus.history import PrometheusHistory
from webapp.prometheus.queries import PrometheusServer
from webapp.prometheus.session import access
from webapp.prometheus.vocabulary import Scope, Window

pytestmark = pytest.mark.slow

FIXTURES = Path(__file__).parents[1] / "fixtures"
GIB = 2**30

DCGM = "\n".join(
    f'DCGM_FI_DEV_{name}{{gpu="{gpu}",UUID="GPU-{gpu}",modelName="NVIDIA A100",Hostname="gpu-1"}} {value}'
    for gpu in (0, 1)
    for name, value in (
        ("GPU_UTIL", 40 + gpu),
        ("FB_USED", 1024),
        ("FB_FREE", 39000),
        ("FB_RESERVED", 500 if gpu == 0 else 9223372036854775794),  # its way to say that it is not known
        ("GPU_TEMP", 61),
        ("POWER_USAGE", 250.5),
    )
)

#: Labels of the target -> its metrics page.
TARGETS = {
    'instance="gpu-1:9100",job="node"': "exporters/node_exporter-1.5.0.txt",
    'instance="gpu-1:9256",job="process"': "exporters/process-exporter-0.7.10.txt",
    'instance="gpu-1:8080",job="cadvisor"': "exporters/cadvisor.txt",
    'instance="gpu-1:18000",job="vllm"': "engine_metrics/vllm-0.32.0-busy.txt",
    'instance="gpu-1:18081",job="llamacpp",model="smollm2"': "engine_metrics/llama.cpp-11549-busy.txt",
    'instance="gpu-1:30000",job="sglang"': "engine_metrics/sglang-0.5.23-priority.txt",
    'instance="gpu-1:23333",job="lmdeploy"': "engine_metrics/lmdeploy-0.18.0.txt",
    'instance="gpu-1:3000",job="tgi"': "engine_metrics/tgi.txt",
    'instance="gpu-1:8002",job="triton"': "engine_metrics/triton.txt",
    'instance="gpu-2:9100",job="node"': "exporters/node_exporter-1.5.0.txt",
    'instance="gpu-2:9835",job="gpu"': "exporters/nvidia_gpu_exporter-h100.txt",
    'instance="gpu-3:9100",job="node"': "exporters/node_exporter-1.5.0.txt",
    'instance="gpu-3:9835",job="gpu"': "exporters/nvidia_gpu_exporter-h100-mig.txt",
}

RULES: dict[str, Any] = {
    "groups": {
        "python3": {"engine": "vllm-18000", "model": "tiny-a"},
        "testcontaineralias": {"engine": "boxed", "model": "boxed-8b"},
    }
}

END = time.time() // 60 * 60 - 120


@pytest.fixture(scope="module")
def samples() -> dict[str, list[str]]:
    times = [END - 600 + 15 * index + 3.2 for index in range(40)]
    found: dict[str, list[str]] = {}
    pages = [(target, (FIXTURES / path).read_text()) for target, path in TARGETS.items()]
    for target, page in [*pages, ('instance="gpu-1:9400",job="dcgm"', DCGM)]:
        for name, lines in exposed(f"{page}\nup 1", target, times).items():
            found.setdefault(name, []).extend(lines)
    return found


@pytest.fixture(scope="module")
def estate_prometheus(samples: dict[str, list[str]], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    directory = tmp_path_factory.mktemp("estate")
    backfill(samples, directory)
    with prometheus(directory) as url:
        yield url


@pytest.fixture(scope="module")
def estate_victoria(samples: dict[str, list[str]], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with victoria_metrics(tmp_path_factory.mktemp("estate-vm")) as url:
        import_into_victoria(samples, url)
        yield url


@pytest.fixture(params=["estate_prometheus", "estate_victoria"])
def server(request: pytest.FixtureRequest) -> PrometheusServer:
    return PrometheusServer(access(request.getfixturevalue(request.param)))


@pytest.fixture
def clock() -> Clock:
    clock = Clock()
    clock.now = END - 10
    return clock


@pytest.fixture
def fleet(server: PrometheusServer, clock: Clock) -> PrometheusFleet:
    words = estate(RULES)
    history = PrometheusHistory(server, words, clock=clock)
    return PrometheusFleet(server, words, history, Copies(server.name, clock=clock, spawn=at_once), clock=clock)


def numbers(fleet: PrometheusFleet, name: str) -> Measurement:
    node = fleet.node(name)
    assert node is not None
    assert node.state == "fresh"
    assert node.numbers is not None
    assert node.rejected == ()
    return node.numbers


def test_a_node_is_reported_by_node_exporter(fleet: PrometheusFleet) -> None:
    assert [node.name for node in fleet.nodes()] == ["gpu-1", "gpu-2", "gpu-3"]
    load = numbers(fleet, "gpu-2").load
    page = (FIXTURES / TARGETS['instance="gpu-2:9100",job="node"']).read_text()
    cpu = [line.split('mode="')[1].split('"} ') for line in page.splitlines() if line.startswith("node_cpu_seconds_total{")]
    idle = sum(float(value) for mode, value in cpu if mode in ("idle", "iowait"))
    every = sum(float(value) for mode, value in cpu)
    assert load.cpu_percent == pytest.approx(100 * (1 - idle / every), rel=0.01)
    assert load.cpus == 2
    assert load.memory_available_bytes == 22176862208
    assert load.memory_total_bytes == load.memory_available_bytes + (load.memory_used_bytes or 0)
    assert load.load1 == float(next(line for line in page.splitlines() if line.startswith("node_load1 ")).split()[1])


def test_disks_networks_and_pressure_are_reported(fleet: PrometheusFleet) -> None:
    found = numbers(fleet, "gpu-2")
    assert [(disk.mount, disk.total_bytes) for disk in found.disks] == [("/", 270553174016)]
    assert found.disks[0].available_bytes is not None
    assert {network.device for network in found.networks}.isdisjoint({"lo"})
    assert all(network.receive_bytes_per_second for network in found.networks if network.device == "eth0")
    assert found.pressure.cpu_some is not None


def test_gpus_are_reported_by_dcgm_without_its_blanks(fleet: PrometheusFleet) -> None:
    first, second = sorted(numbers(fleet, "gpu-1").gpus, key=lambda gpu: gpu.id or "")
    assert (first.id, first.name, first.utilization_percent, first.temperature_celsius, first.power_watts) == (
        "GPU-0",
        "NVIDIA A100",
        40.0,
        61.0,
        250.5,
    )
    assert (first.memory_used_bytes, first.memory_total_bytes) == (GIB, (1024 + 39000 + 500) * 2**20)
    assert (second.memory_used_bytes, second.memory_total_bytes) == (GIB, (1024 + 39000) * 2**20)


def test_gpus_are_reported_by_nvidia_gpu_exporter(fleet: PrometheusFleet) -> None:
    (gpu,) = numbers(fleet, "gpu-2").gpus
    assert (gpu.name, gpu.utilization_percent, gpu.power_watts) == ("NVIDIA H100 80GB HBM3", 100.0, 631.95)
    assert (gpu.memory_used_bytes, gpu.memory_total_bytes) == (20780679168, 85520809984)
    (split,) = numbers(fleet, "gpu-3").gpus
    assert split.utilization_percent is None
    assert split.memory_used_bytes == 11665408000


def test_engines_are_reported_by_their_own_metrics(fleet: PrometheusFleet) -> None:
    engines = {engine.id: engine for engine in numbers(fleet, "gpu-1").engines}
    vllm = engines["vllm-18000"]
    assert (vllm.model, vllm.kind, vllm.port, vllm.requests.waiting, vllm.requests.running) == ("tiny-a", "vllm", 18000, 20, 2)
    assert vllm.kv_cache_usage_ratio is not None
    assert vllm.generation_tokens_per_second
    llama = engines["llamacpp-18081"]
    assert (llama.model, llama.requests.waiting, llama.requests.running, llama.kv_cache_usage_ratio) == ("smollm2", 4, 1, None)
    assert engines["lmdeploy-23333"].requests.waiting is not None
    assert engines["tgi-3000"].requests.waiting is not None
    assert engines["tgi-3000"].model in (None, "")


def test_a_queue_with_priorities_is_counted_once(fleet: PrometheusFleet) -> None:
    """SGLang exports the total and its parts."""
    page = (FIXTURES / TARGETS['instance="gpu-1:30000",job="sglang"']).read_text()
    lines = [line for line in page.splitlines() if line.startswith("sglang:num_queue_reqs{")]
    total = max(float(line.rpartition(" ")[2]) for line in lines)
    assert len(lines) > 1
    engines = {engine.id: engine for engine in numbers(fleet, "gpu-1").engines}
    assert engines["sglang-30000"].requests.waiting == total


def test_processes_and_containers_are_engines_where_the_operator_says_so(fleet: PrometheusFleet) -> None:
    engines = {engine.id: engine for engine in numbers(fleet, "gpu-1").engines}
    assert engines["vllm-18000"].memory_bytes == 2203684864
    assert engines["vllm-18000"].cpu_cores
    assert engines["vllm-18000"].processes is not None
    assert engines["boxed"].model == "boxed-8b"
    assert engines["boxed"].memory_file_bytes == 16
    assert engines["boxed"].memory_bytes == (engines["boxed"].memory_anonymous_bytes or 0) + 16


def test_charts_of_a_node_and_of_a_model_are_drawn(server: PrometheusServer, clock: Clock) -> None:
    history = PrometheusHistory(server, estate(RULES), clock=clock)
    grid = Range(END // 15 * 15 - 300, END // 15 * 15 - 30, 15.0)
    charted = [metric for metric in METRICS if metric.name in ("llmgw_node_load", "llmgw_node_cpu_utilization_percent")]
    answer = history.series(charted, grid, node="gpu-2")
    assert {(series.label("node"), series.label("window")) for series in answer.series} == {
        ("gpu-2", ""),
        ("gpu-2", "1m"),
        ("gpu-2", "5m"),
        ("gpu-2", "15m"),
    }
    assert all(None not in series.values for series in answer.series)
    assert answer.unheard == ()
    queue = [metric for metric in METRICS if metric.name == "llmgw_shard_queue_depth"]
    for model, shard, waiting in (("tiny-a", "vllm-18000", 20), ("smollm2", "llamacpp-18081", 4)):
        (series,) = history.series(queue, grid, model=model).series
        assert dict(series.labels) == {"node": "gpu-1", "shard": shard, "model": model}
        assert set(series.values) == {waiting}
    assert history.series(METRICS, grid, node="gpu").series == ()
    assert history.series(METRICS, grid, node="gpu-.").series == ()


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: f"{metric.name} {metric.fixed}")
@pytest.mark.parametrize("scope", [Scope(), Scope(node='a"}\n\\.*'), Scope(model='m"}\n\\')], ids=["all", "node", "model"])
def test_every_word_is_promql(server: PrometheusServer, metric: Any, scope: Scope) -> None:
    """T112: and a name that is made to break it finds nothing."""
    for term in estate(RULES).terms(metric, scope, Window(60, 30)):
        found = server.query(term.promql, END).series
        assert scope == Scope() or found == ()


def test_the_operator_changes_a_row_and_the_rule_of_names(server: PrometheusServer, clock: Clock) -> None:
    words = estate(
        {
            "node_label": "job",
            "node_rule": "n{node}e",
            "rows": {
                "llmgw_node_load{window=1m}": "max by ($node) ($over(node_load15{$match}[$window]))",
                "llmgw_shard_queue_depth": {
                    "promql": "max by ($engine) ($over(llamacpp:requests_deferred{$match}[$window]))",
                    "kind": "own",
                },
            },
        }
    )
    history = PrometheusHistory(server, words, clock=clock)
    fleet = PrometheusFleet(server, words, history, Copies(server.name, clock=clock, spawn=at_once), clock=clock)
    node = fleet.node("od")
    assert node is not None
    assert node.measurement.load.load1 == node.measurement.load.load15
    assert node.measurement.load.load1 != node.measurement.load.load5


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"node": "x"}, "estate: node is none of groups, model_label, node_label, node_rule, presence, rows"),
        ({"node_rule": "({node}"}, "estate.node_rule=({node}: not a regular expression"),
        ({"node_rule": "host"}, "estate.node_rule=host: expected {node} once"),
        ({"node_rule": "{node}{node}"}, "expected {node} once"),
        ({"node_label": 7}, "estate.node_label: expected a text"),
        ({"rows": {"llmgw_node_lod": "x"}}, "estate.rows.llmgw_node_lod: no such row"),
        ({"rows": {"llmgw_node_load": "x"}}, "estate.rows.llmgw_node_load: no such row"),
        ({"rows": {"llmgw_node_cpus": "x{$matc}"}}, "estate.rows.llmgw_node_cpus: only $match, $node"),
        ({"rows": {"llmgw_node_cpus": 7}}, "estate.rows.llmgw_node_cpus: expected a table"),
        ({"rows": {"llmgw_node_cpus": []}}, "estate.rows.llmgw_node_cpus: expected PromQL"),
        ({"groups": {"a": "b"}}, "estate.groups.a: expected a table"),
    ],
)
def test_rules_that_can_not_be_used_are_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(EstateRefused) as caught:
        estate(given)
    assert said in str(caught.value)
