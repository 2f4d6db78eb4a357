"""A Prometheus of our own, and what the settings build around one."""

from __future__ import annotations

import argparse
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import requests

from tests.prometheus.promlab import Exposition, Reply, http_server, wait_for
from webapp.config import settings_of
from webapp.control_plane import ControlPlane
from webapp.prometheus.connection import connect
from webapp.prometheus.estate import Estate
from webapp.prometheus.managed import CannotManage, ManagedPrometheus
from webapp.prometheus.queries import PrometheusServer
from webapp.prometheus.session import access
from webapp.prometheus.vocabulary import Heartbeats
from webapp.settings import SettingError, resolve


def settings(command: str = "serve", **given: Any) -> SimpleNamespace:
    return resolve(settings_of(command), argparse.Namespace(**given), {})


def test_housekeeping_goes_on_after_a_round_that_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webapp.control_plane.TICK_SECONDS", 0.01)
    monkeypatch.setattr("webapp.control_plane.HOUSEKEEPING_SECONDS", 0.01)
    rounds: list[int] = []
    plane = ControlPlane(settings(data_dir=str(tmp_path)))

    def fails() -> list[str]:
        rounds.append(len(rounds))
        raise KeyError("n1")

    monkeypatch.setattr(plane.registry, "expire", fails)
    with plane:
        wait_for(lambda: len(rounds) >= 3)


@pytest.mark.live
def test_it_scrapes_us_and_stops_with_us(tmp_path: Path) -> None:
    plane = Exposition()
    plane.text = 'llmgw_node_cpus{node="n"} 64\n'
    managed = ManagedPrometheus(tmp_path)
    with http_server(plane) as target:
        managed.start(target.removeprefix("http://"))
        try:
            server = PrometheusServer(access(managed.url))
            wait_for(lambda: requests.get(f"{managed.url}/-/ready", timeout=1).ok)
            wait_for(lambda: [series.samples[0][1] for series in server.query("llmgw_node_cpus").series] == [64.0])
        finally:
            managed.stop()
    with pytest.raises(requests.ConnectionError):
        requests.get(managed.url, timeout=1)
    assert (tmp_path / "prometheus" / "data").is_dir()


def test_without_the_program_it_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CannotManage, match=r"^prometheus is not on PATH; install it"):
        ManagedPrometheus(tmp_path)


def test_without_a_place_for_its_data_it_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(CannotManage, match="file/prometheus can't be made"):
        ManagedPrometheus(tmp_path / "file")


def test_it_listens_to_this_machine_alone(tmp_path: Path) -> None:
    assert ManagedPrometheus(tmp_path).url.startswith("http://127.0.0.1:")


def test_a_page_comes_though_the_server_is_away(tmp_path: Path) -> None:
    plane = ControlPlane(settings(data_dir=str(tmp_path), prometheus="http://127.0.0.1:1", fleet="prometheus"))
    with plane:
        client = plane.app.test_client()
        answer = client.get("/")
        assert answer.status_code == 200
        assert "Prometheus at http://127.0.0.1:1 can&#39;t be reached: connection refused." in answer.text
        assert client.get("/metrics").status_code == 200


def test_the_fleet_is_asked_for_while_nobody_looks(tmp_path: Path) -> None:
    """Whoever opened a page after an hour saw an hour of silence, until the answer came."""
    asked = threading.Event()

    def answer(request: object, body: bytes) -> Reply:
        asked.set()
        return 200, {"Content-Type": "application/json"}, b'{"status":"success","data":{"resultType":"vector","result":[]}}'

    with http_server(answer) as url, ControlPlane(settings(data_dir=str(tmp_path), prometheus=url, fleet="prometheus")):
        assert asked.wait(30)


def test_the_words_and_the_secrets_are_those_of_the_settings(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("s3cret\n")
    given = settings(
        prometheus="http://ops@p:9090/prom/",
        prometheus_token_file=str(tmp_path / "token"),
        prometheus_selector='cluster="eu"',
        vocabulary="node_exporter",
    )
    made = connect(given, given.prometheus)
    assert made.server.access.url == "http://p:9090/prom"
    assert made.queries._vocabulary == Estate(extra='cluster="eu"')
    assert made.fleet._vocabulary == made.queries._vocabulary
    assert connect(settings(), "http://p").queries._vocabulary == Heartbeats("")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"fleet": "prometheus"}, "fleet=prometheus: expected --prometheus too, which says where it is"),
        (
            {"prometheus": "http://p", "prometheus_token_file": "/nonexistent/t"},
            "prometheus_token_file=/nonexistent/t: expected a file",
        ),
        ({"prometheus": "http://p", "prometheus_ca_file": "/"}, "prometheus_ca_file=/: expected a file that can be read"),
    ],
)
def test_settings_that_can_not_work_are_refused_at_the_start(tmp_path: Path, given: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingError) as caught:
        ControlPlane(settings(data_dir=str(tmp_path), **given))
    assert str(caught.value).startswith(said)


def test_one_prometheus_is_enough(tmp_path: Path) -> None:
    given = settings("up", data_dir=str(tmp_path), prometheus="http://p", with_prometheus=True)
    with pytest.raises(SettingError, match="expected one of them"):
        ControlPlane(given, prometheus=ManagedPrometheus(tmp_path))


def test_rules_of_the_estate_come_from_the_file(tmp_path: Path) -> None:
    (tmp_path / "enginehouse.toml").write_text(
        'prometheus = "http://p"\nvocabulary = "node_exporter"\n[estate]\nnode_label = "nodename"\nnode_rule = "{node}"\n'
        '[estate.rows]\nllmgw_node_cpus = "count by ($node) (x{$match})"\n'
        '[estate.groups.python3]\nengine = "vllm-0"\nmodel = "llama"\n'
    )
    given = settings(config=str(tmp_path / "enginehouse.toml"))
    words = connect(given, given.prometheus).queries._vocabulary
    assert isinstance(words, Estate)
    assert (words.node_label, words.node_rule, dict(words.groups)) == ("nodename", "{node}", {"python3": ("vllm-0", "llama")})
    (tmp_path / "enginehouse.toml").write_text('prometheus = "http://p"\nvocabulary = "node_exporter"\n[estate]\nnode = "x"\n')
    given = settings(config=str(tmp_path / "enginehouse.toml"))
    with pytest.raises(SettingError, match="estate: node is none of"):
        connect(given, given.prometheus)


def test_the_file_in_the_documentation_is_taken(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "prometheus.md").read_text("utf-8")
    (tmp_path / "enginehouse.toml").write_text(page.split("```toml\n")[1].split("```")[0])
    given = settings(config=str(tmp_path / "enginehouse.toml"))
    words = connect(given, given.prometheus).queries._vocabulary
    assert isinstance(words, Estate)
    assert dict(words.groups) == {"VLLM::EngineCor": ("vllm-8000", "llama-3.1-8b")}
    assert [word.labels for word in words.words if word.metric == ("llmgw_node_disk_bytes", ())] == [(("mount", "path"),)]
