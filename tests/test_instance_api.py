"""The instance protocol as its clients speak it: bodies as they send them, answers field for field."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.instance_messages import METADATA, SNAPSHOT
from webapp.app import create_app
from webapp.fleet.instances import Instances
from webapp.overview.placement import RecentIdle


@pytest.fixture
def instances(clock, wall) -> Instances:
    return Instances(30.0, clock=clock, wall=wall)


@pytest.fixture
def client(registry, instances, wall):
    class NoHistory:
        def series(self, *args, **kwargs):
            raise AssertionError("not asked for here")

    return create_app(registry, NoHistory(), instances=instances, wall=wall).test_client()


def post(client, verb: str, **body):
    answer = client.post(f"/v1/instance/{verb}", json=body)
    assert answer.mimetype == "application/json"
    return answer.status_code, json.loads(answer.text, parse_constant=pytest.fail)


def test_a_registration_without_a_name_is_named_after_its_address(client):
    body = {
        "host": "127.0.0.1",
        "port": 9001,
        "endpoints": ["chat/completions"],
        "tags": [],
        "weight": 1.0,
        "meta": {"version": "v1"},
    }
    assert post(client, "register", **body) == (
        200,
        {"instance_id": "hp_127.0.0.1:9001", "heartbeat_interval_s": 10, "ttl_s": 30, "capability_fingerprint": None},
    )


def test_heartbeat_report_and_unregistration_are_answered_as_clients_expect(client):
    post(client, "register", host="127.0.0.1", port=9001, unknown_field={"of": "a later version"})
    name = "hp_127.0.0.1:9001"
    assert post(client, "heartbeat", instance_id=name) == (200, {"ok": True})
    nulls = {"inflight": None, "qps_1m": None, "gpu_util": None, "capabilities": None, "capability_fingerprint": None}
    assert post(client, "heartbeat", instance_id=name, **nulls) == (200, {"ok": True})
    assert post(client, "heartbeat", instance_id=name, inflight=4, qps_1m=1.5, gpu_util=37.5) == (200, {"ok": True})
    assert post(client, "resource_snapshot", instance_id=name, snapshot=SNAPSHOT, metadata=METADATA) == (200, {"ok": True})
    assert post(client, "resource_snapshot", instance_id=name, snapshot=SNAPSHOT) == (200, {"ok": True})
    assert post(client, "unregister", instance_id=name) == (200, {"ok": True})
    assert post(client, "unregister", instance_id=name) == (200, {"ok": False})


def test_who_is_not_known_gets_200_and_no(client):
    unknown = (200, {"ok": False, "error": "unknown_instance"})
    assert post(client, "heartbeat", instance_id="nobody") == unknown
    assert post(client, "resource_snapshot", instance_id="nobody", snapshot=SNAPSHOT, metadata=METADATA) == unknown


def test_the_list_has_every_field(client, wall):
    post(
        client,
        "register",
        host="127.0.0.1",
        port=9001,
        endpoints=["chat/completions"],
        tags=["a"],
        weight=2,
        meta={"version": "v1"},
    )
    post(client, "heartbeat", instance_id="hp_127.0.0.1:9001", inflight=4)
    post(client, "resource_snapshot", instance_id="hp_127.0.0.1:9001", snapshot=SNAPSHOT, metadata=METADATA)
    (found,) = client.get("/v1/instance/list").json
    resource = found.pop("resource")
    assert found == {
        "instance_id": "hp_127.0.0.1:9001",
        "host": "127.0.0.1",
        "port": 9001,
        "endpoints": ["chat/completions"],
        "tags": ["a"],
        "weight": 2.0,
        "meta": {"version": "v1"},
        "capabilities": None,
        "capability_fingerprint": None,
        "registered_at": 1_796_000_000,
        "last_seen_at": 1_796_000_000,
        "load": {"inflight": 4, "qps_1m": None, "gpu_util": None},
        "is_alive": True,
        "state": "fresh",
    }
    assert resource.pop("resource_age_s") == 0.25
    assert resource.pop("raw_resource") == SNAPSHOT
    assert resource == {
        "cpu_util": 43.25,
        "memory_used_mb": 7000,
        "memory_total_mb": 16000,
        "memory_free_mb": 9000,
        "memory_free_ratio": 0.5625,
        "gpu_util_avg": 30.0,
        "gpu_util_current": 50.0,
        "gpu_util_max": 50.0,
        "gpu_sample_count": 3,
        "gpu_sample_age_ms": 100,
        "gpu_sample_source": "nvidia-smi",
        "gpu_sample_quality": "ok",
        "gpu_sample_window_ms": 5000,
        "gpu_mem_used_mb": 1024,
        "gpu_mem_total_mb": 24576,
        "network_rx_mbps": 12.5,
        "network_tx_mbps": 0.0,
        "admission_state": "accepting",
        "resource_ts_ms": 1_796_000_000_000,
        "resource_reported_at": 1_796_000_000,
        "resource_report_monotonic_ms": 123456,
        "resource_report_wall_time_ms": 1_796_000_000_250,
        "reported_instance_id": "hp_127.0.0.1:9001",
    }
    (debug,) = client.get("/debug/instance_resources").json["instances"]
    assert set(debug) == {"instance_id", "host", "port", "last_seen_at", "resource"}
    assert debug["resource"] == {**resource, "resource_age_s": 0.25}


def test_the_dead_are_listed_only_when_they_are_asked_for(client, clock):
    """T79: the list, /metrics and the pages at one instant."""
    post(client, "register", host="h", port=1)
    for passed, alive in ((30.0, True), (0.1, False)):
        clock.advance(passed)
        assert [one["is_alive"] for one in client.get("/v1/instance/list").json] == [True] * alive
        assert [one["is_alive"] for one in client.get("/v1/instance/list?include_dead=true").json] == [alive]
        assert [one["is_alive"] for one in client.get("/debug/instance_loads").json["instances"]] == [alive]
        assert f'llmgw_instance_up{{instance_id="hp_h:1",node="h"}} {int(alive)}\n' in client.get("/metrics").text
        assert f'llmgw_node_up{{node="h"}} {int(alive)}\n' in client.get("/metrics").text
        assert f'data-state="{"late" if alive else "stale"}"' in client.get("/instances").text
        assert client.get("/debug/status").json["alive_instances"] == int(alive)


def test_a_fingerprint_that_is_not_known_is_answered_so_that_the_client_sends_its_capabilities(client):
    post(
        client,
        "register",
        instance_id="i",
        host="h",
        port=1,
        capabilities={"model": {"identifier": "m"}},
        capability_fingerprint="one",
    )
    assert post(client, "heartbeat", instance_id="i", capability_fingerprint="one") == (200, {"ok": True})
    assert post(client, "heartbeat", instance_id="i", capability_fingerprint="two") == (
        200,
        {
            "ok": False,
            "error": "capability_fingerprint_mismatch",
            "requires_capabilities": True,
            "expected_fingerprint": "one",
            "reported_fingerprint": "two",
        },
    )
    assert post(client, "heartbeat", instance_id="i", capabilities={"model": {"identifier": "n"}}) == (200, {"ok": True})
    assert post(client, "heartbeat", instance_id="i", capability_fingerprint="two") == (200, {"ok": True})


def test_what_cannot_be_understood_names_its_field(client):
    status, answer = post(client, "register", port=1)
    assert (status, answer["ok"], answer["field"]) == (422, False, "host")
    assert answer["detail"] == [{"loc": ["body", "host"], "msg": answer["detail"][0]["msg"], "type": "value_error"}]
    assert post(client, "heartbeat")[1]["field"] == "instance_id"
    assert post(client, "resource_snapshot", instance_id="i")[1]["field"] == "snapshot"
    assert post(client, "resource_snapshot", instance_id="i", snapshot=[])[0] == 422


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"\xff", b"null", b'{"a":' * 50000, b'{"port": ' + b"1" * 5000 + b"}"])
def test_a_body_that_is_no_json_object_is_a_json_error(client, body):
    for verb in ("register", "heartbeat", "resource_snapshot", "unregister"):
        answer = client.post(f"/v1/instance/{verb}", data=body)
        assert (answer.status_code, answer.json["ok"]) == (400, False)


def test_a_body_that_is_too_large_is_refused(client):
    assert client.post("/v1/instance/register", data=b" " * (1024 * 1024 + 1)).status_code == 413
    post(client, "register", instance_id="i", host="h", port=1)
    assert post(client, "resource_snapshot", instance_id="i", snapshot={"x": "y" * 300_000})[0] == 422


def test_answers_are_strict_json_whatever_was_sent(client):
    """T143"""
    post(client, "register", instance_id="i", host="h", port=1)
    body = b'{"instance_id": "i", "snapshot": {"x": NaN, "y": [1e999, "\\ud800"], '
    body += b'"devices": {"cpu": {"utilization_pct": -Infinity}}}}'
    answer = client.post("/v1/instance/resource_snapshot", data=body).json
    assert answer["rejected"][0]["field"] == "devices.cpu.utilization_pct"
    listed = json.loads(client.get("/v1/instance/list").text, parse_constant=pytest.fail)
    assert listed[0]["resource"]["raw_resource"]["x"] is None
    assert client.get("/instances/i").status_code == 200


def test_a_state_changes_by_post_only(client):
    for verb in ("register", "heartbeat", "resource_snapshot", "unregister"):
        answer = client.get(f"/v1/instance/{verb}")
        assert (answer.status_code, answer.mimetype) == (405, "application/json")


def test_health_tells_the_ttl(client):
    assert client.get("/healthz").json.items() >= {"ok": True, "ttl_s": 30}.items()


def test_the_pool_sums_what_was_measured_and_says_what_was_not(client):
    empty = client.get("/debug/pool_resource").json["pool_resource"]
    assert empty["pool_admission_state"] == "rejecting"
    assert empty["utilization"]["memory_used_mb"] is None
    for port in (9001, 9002, 9003):
        post(client, "register", host="127.0.0.1", port=port)
    for port in (9001, 9002):
        post(client, "resource_snapshot", instance_id=f"hp_127.0.0.1:{port}", snapshot=SNAPSHOT, metadata=METADATA)
    post(client, "heartbeat", instance_id="hp_127.0.0.1:9001", inflight=0)
    answer = client.get("/debug/pool_resource").json
    pool = answer["pool_resource"]
    assert answer["ok"] is True
    assert pool["instances"] == {
        "total": 3,
        "alive": 3,
        "stale": 0,
        "with_resource": 2,
        "missing_resource": 1,
        "accepting": 2,
        "degraded": 0,
        "rejecting": 0,
    }
    assert pool["load"]["inflight_total"] == 0
    assert pool["load"]["qps_1m_total"] is None
    assert pool["utilization"]["cpu_avg"] == 43.25
    assert pool["utilization"]["memory_total_mb"] == 32000
    assert pool["utilization"]["memory_used_ratio"] == 0.4375
    assert pool["pool_admission_state"] == "degraded"
    assert pool["resource_freshness_s"] == {"min": 0.25, "avg": 0.25, "max": 0.25}
    assert pool["metric_quality"] == {"resource": "partial", "load": "partial", "queue": "missing"}
    sources = client.get("/debug/pool_resource_sources").json
    assert set(sources) == {"ok", "metric_source", "metric_quality", "null_semantics"}
    assert sources["metric_source"]["qps_1m_total"] == "unavailable"


def test_placement_ranks_nodes_and_says_why_not(client, beat):
    beat("big")
    beat("busy", agent="b", load={"cpu_percent": 97.0})
    beat("small", agent="c", load={"memory_available_bytes": 2 * 2**30, "memory_used_bytes": 254 * 2**30})
    answer = client.get("/v1/placement?memory_gib=40&cores=8&model=llama-3.1-8b").json
    assert (answer["ok"], answer["fitting"]) == (True, 1)
    assert answer["wanted"] == {"memory_gib": 40.0, "cores": 8.0, "model": "llama-3.1-8b"}
    assert [(one["node"], one["fits"]) for one in answer["nodes"]] == [("big", True), ("busy", False), ("small", False)]
    assert answer["nodes"][0].items() >= {"memory_available_gib": 138.0, "idle_cores": 36.32, "serves_model": True}.items()
    assert answer["nodes"][1]["reasons"] == ["1.9 cores idle, 8 wanted"]
    assert answer["nodes"][2]["reasons"] == ["turns new work away", "2.0 GiB of memory available, 40 GiB wanted"]
    assert client.get("/v1/placement?gpu_memory_gib=24").json["nodes"][0]["reasons"] == ["no GPU"]
    page = client.get("/placement?memory_gib=40&cores=8").text
    assert "1 of 3 nodes has room" in page
    assert "1.9 cores idle, 8 wanted" in page


@pytest.mark.parametrize("value", ["forty", "-1", "nan", "inf", "1e400", "0x10", "'><script>"])
def test_a_question_that_cannot_be_understood_is_an_error_with_its_field(client, value):
    answer = client.get("/v1/placement", query_string={"memory_gib": value})
    assert (answer.status_code, answer.json["field"]) == (400, "memory_gib")
    page = client.get("/placement", query_string={"memory_gib": value})
    assert page.status_code == 400
    assert "<script>" not in page.text.replace('<script src="', "")


def test_idle_cores_are_the_mean_of_the_last_minutes(clock, measurement, registry, beat):
    recent = RecentIdle(clock)
    beat("cpu-07")
    node = registry.node("cpu-07")
    assert recent.cores(node) == pytest.approx(36.32)
    for cpu in (0.0, 100.0):
        recent.add(replace(measurement, load=replace(measurement.load, cpu_percent=cpu)))
        clock.advance(60)
    assert recent.cores(node) == pytest.approx(32.0)
    clock.advance(600)
    assert recent.cores(node) == pytest.approx(36.32)
    recent.keep_only([])
    assert recent.cores(node) == pytest.approx(36.32)
