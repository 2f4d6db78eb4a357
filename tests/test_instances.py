"""The registry of engines that registered themselves."""

from __future__ import annotations

import pytest

from webapp.fleet.descriptions import LARGEST_META, BadRequest
from webapp.fleet.instances import CapabilitiesWanted, Instances, InstancesFull, UnknownInstance
from webapp.fleet.resource import normalised

ENGINE = {"host": "10.0.0.7", "port": 8000}
CAPABILITIES = {"model": {"identifier": "m"}, "kv_cache": {"dtype": "fp16"}}


@pytest.fixture
def instances(clock, wall) -> Instances:
    return Instances(30.0, clock=clock, wall=wall)


@pytest.fixture
def pass_time(clock, wall):
    def advance(seconds: float) -> None:
        clock.advance(seconds)
        wall.advance(seconds)

    return advance


def report(instances: Instances, timestamp_ms: object, *, cpu: float = 40.0, name: str = "a", **more: object):
    snapshot = {"timestamp_ms": timestamp_ms, "devices": {"cpu": {"utilization_pct": cpu}}, **more}
    return instances.report({"instance_id": name, "snapshot": snapshot})


def test_seconds_in_the_place_of_milliseconds_are_not_fresh(instances, wall):
    """T65"""
    instances.register({**ENGINE, "instance_id": "a"})
    for timestamp, is_shown in ((wall.now * 1000, True), (wall.now, False), (round(wall.now), False)):
        report(instances, timestamp)
        assert bool(instances.get("a").resources) is is_shown


def test_an_instance_lives_up_to_its_ttl_and_not_a_tenth_longer(instances, clock):
    """T79"""
    instances.register({**ENGINE, "instance_id": "a"})
    seen = []
    for step in (29.9, 0.1, 0.1, 0.9):
        clock.advance(step)
        one = instances.get("a")
        assert one.is_alive == (one.state in ("fresh", "late"))
        assert [each.instance_id for each in instances.all(include_dead=False)] == (["a"] if one.is_alive else [])
        seen.append((round(one.silent_s, 1), one.is_alive))
    assert seen == [(29.9, True), (30.0, True), (30.1, False), (31.0, False)]


def test_only_a_registration_makes_an_instance(instances):
    """T80"""
    instances.register({**ENGINE, "instance_id": "a"})
    assert instances.unregister({"instance_id": "a"})
    with pytest.raises(UnknownInstance):
        instances.heartbeat({"instance_id": "a"})
    with pytest.raises(UnknownInstance):
        report(instances, 1)
    assert instances.all() == []
    assert not instances.unregister({"instance_id": "a"})


def test_a_heartbeat_that_waits_while_its_instance_unregisters_revives_nothing(instances, monkeypatch):
    """T80"""
    instances.register({**ENGINE, "instance_id": "a"})
    read = instances_module().descriptions.beat

    def slow(body):
        found = read(body)
        instances.unregister({"instance_id": "a"})
        return found

    monkeypatch.setattr(instances_module().descriptions, "beat", slow)
    with pytest.raises(UnknownInstance):
        instances.heartbeat({"instance_id": "a"})
    assert instances.get("a") is None


def instances_module():
    from webapp.fleet import instances as module

    return module


def test_old_numbers_keep_an_instance_alive_and_are_left_out(instances, wall, pass_time):
    """T82"""
    instances.register({**ENGINE, "instance_id": "a"})
    for _ in range(20):
        pass_time(5)
        report(instances, (wall.now - 7200) * 1000, cpu=97.0)
    one = instances.get("a")
    assert one.is_alive
    assert one.resources is None
    shown = normalised(one)
    assert shown["cpu_util"] is None
    assert shown["admission_state"] is None
    assert shown["raw_resource"] == {}
    assert shown["resource_ts_ms"] == round((wall.now - 7200) * 1000)
    assert shown["resource_age_s"] == pytest.approx(7200, abs=1)


def test_numbers_are_left_out_a_minute_after_they_were_collected(instances, wall, pass_time):
    instances.register({**ENGINE, "instance_id": "a"})
    report(instances, wall.now * 1000)
    pass_time(60)
    assert instances.get("a").resources is not None
    pass_time(0.1)
    assert instances.get("a").resources is None


@pytest.mark.parametrize("taken", [1_796_000_000_000, "2026-11-30T00:53:20Z"])
def test_the_same_snapshot_sent_again_and_again_grows_old(instances, wall, pass_time, taken):
    """T70"""
    instances.register({**ENGINE, "instance_id": "a"})
    body = {
        "instance_id": "a",
        "snapshot": {"timestamp_ms": taken, "devices": {"cpu": {"utilization_pct": 5}}},
        "metadata": {"report_wall_time_ms": wall.now * 1000},
    }
    for _ in range(15):
        instances.report(body)
        pass_time(5)
    one = instances.get("a")
    assert one.is_alive
    assert one.resources is None


def test_a_clock_that_is_wrong_on_the_node_loses_nothing(instances, wall):
    """T64: both of its times are by the same wrong clock."""
    instances.register({**ENGINE, "instance_id": "a"})
    for offset in (-90_000, 300_000):
        taken = wall.now * 1000 + offset
        snapshot = {"timestamp_ms": taken, "devices": {"cpu": {"utilization_pct": 5}}}
        instances.report({"instance_id": "a", "snapshot": snapshot, "metadata": {"report_wall_time_ms": taken + 800}})
        assert instances.get("a").collected_s == pytest.approx(0.8)


def test_a_frozen_agent_is_recognised_by_its_reporter(instances, wall):
    instances.register({**ENGINE, "instance_id": "a"})
    snapshot = {"timestamp_ms": wall.now * 1000 - 90_000, "age_ms": 10, "devices": {"cpu": {"utilization_pct": 5}}}
    instances.report({"instance_id": "a", "snapshot": snapshot, "metadata": {"report_wall_time_ms": wall.now * 1000}})
    assert instances.get("a").resources is None


def test_an_empty_list_clears_and_what_is_left_out_stays(instances):
    """T83"""
    instances.register({**ENGINE, "instance_id": "a", "tags": ["x"], "endpoints": ["chat"], "meta": {"k": 1}, "weight": 2})
    instances.register({**ENGINE, "instance_id": "a"})
    instances.register({**ENGINE, "instance_id": "a", "tags": None})
    said = instances.get("a").description
    assert (said.tags, said.endpoints, said.meta, said.weight) == (("x",), ("chat",), {"k": 1}, 2.0)
    instances.register({**ENGINE, "instance_id": "a", "tags": [], "meta": {}})
    said = instances.get("a").description
    assert (said.tags, said.endpoints, said.meta) == ((), ("chat",), {})
    instances.register({**ENGINE, "instance_id": "a"})
    assert instances.get("a").description.tags == ()


def test_a_registration_elsewhere_drops_the_other_machines_numbers(instances, wall):
    instances.register({**ENGINE, "instance_id": "a"})
    report(instances, wall.now * 1000)
    instances.register({**ENGINE, "instance_id": "a", "port": 8001})
    assert instances.get("a").resources is not None
    instances.register({**ENGINE, "instance_id": "a", "host": "10.0.0.8"})
    assert instances.get("a").resources is None


def test_what_a_heartbeat_does_not_report_stays_and_zero_is_reported(instances, pass_time):
    instances.register({**ENGINE, "instance_id": "a"})
    assert instances.get("a").current_load.inflight is None
    instances.heartbeat({"instance_id": "a", "inflight": 3, "qps_1m": 1.5, "gpu_util": None})
    instances.heartbeat({"instance_id": "a", "inflight": 0})
    load = instances.get("a").current_load
    assert (load.inflight, load.qps_1m, load.gpu_util) == (0, 1.5, None)
    pass_time(61)
    assert instances.get("a").current_load.qps_1m is None


@pytest.mark.parametrize(
    "bad", [{"inflight": True}, {"inflight": -1}, {"qps_1m": "5"}, {"gpu_util": float("nan")}, {"inflight": 1.5}]
)
def test_a_bad_number_costs_only_itself(instances, bad):
    """T143, T146"""
    instances.register({**ENGINE, "instance_id": "a"})
    rejected = instances.heartbeat({"instance_id": "a", **bad})
    assert [rejection.path for rejection in rejected] == list(bad)
    assert instances.get("a").is_alive


def test_a_fingerprint_that_differs_asks_for_capabilities_and_is_no_sign_of_life(instances, clock):
    instances.register({**ENGINE, "instance_id": "a", "capabilities": CAPABILITIES, "capability_fingerprint": "sha256:one"})
    instances.heartbeat({"instance_id": "a", "capability_fingerprint": "sha256:one"})
    clock.advance(20)
    with pytest.raises(CapabilitiesWanted) as refused:
        instances.heartbeat({"instance_id": "a", "capability_fingerprint": "sha256:two", "inflight": 9})
    assert (refused.value.error, refused.value.expected, refused.value.reported) == (
        "capability_fingerprint_mismatch",
        "sha256:one",
        "sha256:two",
    )
    one = instances.get("a")
    assert (one.silent_s, one.current_load.inflight) == (20, None)


def test_a_client_is_content_after_it_sent_its_capabilities_once(instances):
    """Its fingerprint is made as it likes: what it sends after a refusal is what the refused one stands for."""
    instances.register({**ENGINE, "instance_id": "a"})
    with pytest.raises(CapabilitiesWanted) as refused:
        instances.heartbeat({"instance_id": "a", "capability_fingerprint": "theirs"})
    assert (refused.value.error, refused.value.expected) == ("capability_fingerprint_unknown", None)
    instances.heartbeat({"instance_id": "a", "capabilities": CAPABILITIES})
    instances.heartbeat({"instance_id": "a", "capability_fingerprint": "theirs"})
    assert instances.get("a").description.capabilities == CAPABILITIES


def test_capabilities_are_those_of_the_program_that_registers_now(instances):
    _, fingerprint, _ = instances.register({**ENGINE, "instance_id": "a", "capabilities": CAPABILITIES})
    assert fingerprint.startswith("sha256:")
    assert instances.register({**ENGINE, "instance_id": "a"})[1] is None
    assert instances.get("a").description.capabilities is None


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "host"),
        ({"host": "h"}, "port"),
        ({"host": "", "port": 1}, "host"),
        ({"host": "..", "port": 1}, "host"),
        ({"host": "\u200b", "port": 1}, "host"),
        ({"host": "h", "port": 0}, "port"),
        ({"host": "h", "port": True}, "port"),
        ({"host": "h", "port": 70000}, "port"),
        ({"host": "h", "port": 1, "instance_id": 5}, "instance_id"),
        ({"host": "h", "port": 1, "instance_id": "\u200b"}, "instance_id"),
        ({"host": "h", "port": 1, "instance_id": "x" * 254}, "instance_id"),
    ],
)
def test_what_names_the_instance_must_be_right(instances, body, field):
    with pytest.raises(BadRequest) as refused:
        instances.register(body)
    assert refused.value.field == field


@pytest.mark.parametrize(("host", "name"), [("2001:db8::3222", "hp_2001:db8::3222:9001"), ("[::1]", "hp_[::1]:9001")])
def test_the_default_name_is_made_of_host_and_port_as_given(instances, host, name):
    """T76"""
    assert instances.register({"host": host, "port": 9001})[0] == name


def test_what_is_too_large_or_no_json_is_left_out_and_reported(instances):
    """T95, T143"""
    body = {
        **ENGINE,
        "instance_id": "a\ud800",
        "meta": {"k": "x" * LARGEST_META},
        "tags": ["ok", 5, "y" * 300],
        "endpoints": "chat",
    }
    name, _, rejected = instances.register(body)
    assert name == "a�"
    assert [rejection.path for rejection in rejected] == ["endpoints", "tags[1]", "tags[2]", "meta"]
    instances.register({**ENGINE, "instance_id": "b", "meta": {"nan": float("nan"), "s": "\ud800"}})
    assert instances.get("b").description.meta == {"nan": None, "s": "�"}


def test_a_silent_instance_makes_room_and_a_living_one_does_not(clock, wall):
    """T86"""
    instances = Instances(30.0, clock=clock, wall=wall, most=2)
    for port in (1, 2):
        instances.register({"host": "h", "port": port})
        clock.advance(1)
    with pytest.raises(InstancesFull):
        instances.register({"host": "h", "port": 3})
    clock.advance(30)
    instances.register({"host": "h", "port": 3})
    assert [one.instance_id for one in instances.all()] == ["hp_h:2", "hp_h:3"]


def test_who_is_silent_for_an_hour_is_forgotten(instances, clock):
    instances.register({**ENGINE, "instance_id": "a"})
    clock.advance(3600)
    instances.expire()
    assert instances.get("a")
    clock.advance(1)
    instances.expire()
    assert instances.is_empty()


def test_the_interval_is_a_third_of_the_ttl_and_at_most_ten_seconds():
    assert [Instances(ttl).interval_s for ttl in (30.0, 6.0, 300.0)] == [10.0, 2.0, 10.0]


def test_what_instances_tell_takes_bounded_room_together(clock, wall):
    """Ten thousand snapshots of 256 KiB, and capabilities of 64 KiB, took several GB."""
    instances = Instances(clock=clock, wall=wall, most_bytes=200_000)
    large = {"text": "x" * 50_000}
    for name in "abc":
        instances.register({**ENGINE, "instance_id": name, "capabilities": large})
    instances.heartbeat({"instance_id": "a", "capabilities": large})  # takes the place of what was there
    with pytest.raises(InstancesFull):
        report(instances, 1, name="a", text="x" * 60_000)
    with pytest.raises(InstancesFull):
        instances.register({**ENGINE, "instance_id": "d", "capabilities": {"text": "x" * 60_000}})
    report(instances, 1, name="a", text="x" * 10_000)
    assert instances.messages["full"] == 2
    assert instances.unregister({"instance_id": "c"})
    report(instances, 2, name="a", text="x" * 60_000)
    report(instances, 3, name="a", text="x" * 60_000)
