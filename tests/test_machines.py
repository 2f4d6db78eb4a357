"""What programs talk to: heartbeats in, /metrics and /healthz out."""

from __future__ import annotations

import gzip
import zlib

import pytest

from tests.answers import strict
from webapp import heartbeat


def post(client, body: bytes, **headers: str):
    return client.post("/v1/nodes/heartbeat", data=body, headers={"Content-Type": "application/json", **headers})


def test_a_heartbeat_is_answered_with_the_interval_that_is_wanted(client, registry, measurement):
    answer = post(client, heartbeat.write(measurement))
    assert (answer.status_code, answer.json) == (200, {"ok": True, "outcome": "accepted", "interval_s": 10.0, "rejected": []})
    assert registry.node("cpu-07").source == "127.0.0.1"


def test_fields_that_were_left_out_are_reported_and_counted(client):
    answer = post(client, b'{"node":"n1","load":{"cpu_percent":true},"disks":[{"total_bytes":1}]}')
    assert [rejection["field"] for rejection in answer.json["rejected"]] == ["load.cpu_percent", "disks[0]"]
    metrics = client.get("/metrics").text
    assert 'enginehouse_rejected_fields_total{field="load.cpu_percent"} 1' in metrics
    assert 'enginehouse_rejected_fields_total{field="disks"} 1' in metrics
    assert "True" not in metrics


@pytest.mark.parametrize(
    ("body", "code", "error", "field"),
    [
        (b"", 400, "bad_heartbeat", ""),
        (b"hello", 400, "bad_heartbeat", ""),
        (b"[1]", 400, "bad_heartbeat", ""),
        (b'{"load":{}}', 400, "bad_heartbeat", "node"),
        (b'{"node":""}', 400, "bad_heartbeat", "node"),
        (b'{"node":5}', 400, "bad_heartbeat", "node"),
        (b"[" * 50_000, 400, "bad_heartbeat", ""),
        (b'{"node":"n1","load":{"cpus":' + b"9" * 5000 + b"}}", 400, "bad_heartbeat", ""),
        (b"\xff\xfe", 400, "bad_heartbeat", ""),
        (b"x" * (1024 * 1024 + 1), 413, "too_large", ""),
    ],
)
def test_a_bad_heartbeat_is_refused_with_a_reason(client, registry, body, code, error, field):
    answer = post(client, body)
    assert answer.status_code == code
    assert answer.json["error"] == error
    assert answer.json.get("field", "") == field
    assert answer.json["message"]
    assert registry.nodes() == []


def test_a_gzip_heartbeat_is_read(client, registry, measurement):
    assert post(client, gzip.compress(heartbeat.write(measurement)), **{"Content-Encoding": "gzip"}).status_code == 200
    assert registry.node("cpu-07").measurement.load.cpu_percent == 43.25


def test_a_gzip_bomb_a_torso_and_nonsense_are_refused(client):
    """T149"""
    bomb = gzip.compress(b" " * 50_000_000)
    assert len(bomb) < 100_000
    assert post(client, bomb, **{"Content-Encoding": "gzip"}).status_code == 413
    whole = gzip.compress(b'{"node":"n1"}' * 100)
    for body in (whole[:-12], b"no gzip", zlib.compress(b'{"node":"n1"}')):
        assert post(client, body, **{"Content-Encoding": "gzip"}).status_code == 400
    assert post(client, b"{}", **{"Content-Encoding": "br"}).status_code == 400


def test_two_agents_under_one_name_get_a_conflict(client, measurement):
    post(client, heartbeat.write(measurement))
    answer = post(client, heartbeat.write(measurement).replace(b"agent-a", b"agent-b"))
    assert (answer.status_code, answer.json["error"], answer.json["field"]) == (409, "name_conflict", "node")


@pytest.mark.parametrize(
    ("accept", "wanted"),
    [
        ("", "text/plain; version=0.0.4"),
        ("application/openmetrics-text;version=1.0.0,text/plain;q=0.5", "application/openmetrics-text; version=1.0.0"),
    ],
)
def test_metrics_come_in_the_format_that_was_asked_for(client, accept, wanted):
    answer = client.get("/metrics", headers={"Accept": accept})
    assert answer.headers["Content-Type"].startswith(wanted)


def test_health_tells_the_version(client):
    answer = client.get("/healthz")
    assert answer.json["ok"] is True
    assert answer.json["version"]


@pytest.mark.parametrize("path", ["/v1/nodes/heartbeat", "/v1/nothing", "/api/nothing", "/metrics/x", "/healthz/x"])
def test_programs_get_their_errors_as_json(client, path):
    answer = client.get(path)
    assert answer.status_code in (404, 405)
    body = strict(answer.text)
    assert body["ok"] is False
    assert body["message"]


def test_one_rule_says_how_alive_a_node_is_everywhere(client, beat, clock):
    """T79"""
    beat("n1")
    for silence, up, word in ((60.0, "1", "late"), (60.2, "0", "stale")):
        clock.now = 1_000_000.0 + silence
        assert f'llmgw_node_up{{node="n1"}} {up}' in client.get("/metrics").text
        assert f'data-state="{word}"' in client.get("/nodes/n1").text
        assert f'<tr id="node-n1" data-state="{word}">' in client.get("/").text
