"""The fleet now: states, replays, conflicts, limits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from webapp import heartbeat, schema
from webapp.fleet.listening import Listening
from webapp.fleet.nodes import state
from webapp.fleet.notes import Note, Notes
from webapp.fleet.refusals import FleetFull, HeartbeatConflict, HeartbeatForgotten
from webapp.fleet.registry import Registry
from webapp.heartbeat import Reading
from webapp.measurement import Host


def test_a_node_silent_for_a_minute_is_stale_and_its_numbers_are_left_out(registry, clock, beat):
    beat("gpu-1")
    clock.advance(60.0)
    assert (registry.node("gpu-1").state, registry.node("gpu-1").numbers is None) == ("late", False)
    clock.advance(0.1)
    assert (registry.node("gpu-1").state, registry.node("gpu-1").numbers) == ("stale", None)


def test_a_node_silent_for_a_quarter_of_an_hour_is_gone_and_stays(registry, clock, beat):
    beat("gpu-1")
    clock.advance(901)
    assert registry.node("gpu-1").state == "gone"
    assert [node.name for node in registry.nodes()] == ["gpu-1"]


@pytest.mark.parametrize(
    ("silence", "expected"), [(0, "fresh"), (22.0, "fresh"), (22.1, "late"), (60.0, "late"), (60.1, "stale")]
)
def test_each_bound_belongs_to_the_better_state(silence, expected):
    """T79"""
    assert state(silence, 10.0) == expected


def test_old_numbers_in_a_new_message_are_left_out_while_the_node_is_alive(registry, beat):
    """T82: what was measured over a minute ago is not shown as true, however fresh the message"""
    beat("n1", load={"age_s": 61.0})
    assert registry.node("n1").state == "fresh"
    assert registry.node("n1").numbers is None


@pytest.mark.parametrize("offset", [300.0, -90.0, 3600.0, -3600.0])
def test_a_wrong_clock_on_the_node_changes_nothing_but_the_shown_offset(registry, clock, wall, beat, offset):
    """T64"""
    for _ in range(3):
        beat("n1", agent_fields={"sent_at": wall() + offset})
        node = registry.node("n1")
        assert (node.state, node.measured_s) == ("fresh", 0.0)
        assert node.clock_offset_s == pytest.approx(offset)
        clock.advance(10)
        wall.advance(10)
    clock.advance(51)
    assert registry.node("n1").state == "stale"


def test_our_own_wall_clock_may_be_stepped(registry, clock, wall, beat):
    """T71"""
    beat("n1")
    wall.advance(-3600)
    clock.advance(5)
    assert registry.node("n1").heard_s == 5
    beat("n1")
    assert registry.node("n1").state == "fresh"


def test_a_replayed_heartbeat_refreshes_nothing(registry, clock, beat):
    """T70"""
    beat("n1", sequence=7)
    for _ in range(120):
        clock.advance(5)
        assert beat("n1", sequence=7, load={"cpu_percent": 99.0}) == "replayed"
    assert registry.node("n1").state == "stale"
    assert registry.node("n1").measurement.load.cpu_percent == 43.25
    assert registry.heartbeats["replayed"] == 120


def test_a_late_message_of_an_earlier_run_changes_nothing(registry, clock, beat):
    beat("n1", boot="one", sequence=50)
    beat("n1", boot="two", sequence=1)
    clock.advance(61)
    assert beat("n1", boot="one", sequence=51) == "replayed"
    assert registry.node("n1").state == "stale"


def test_messages_that_a_proxy_held_back_are_as_old_as_they_are(registry, clock, beat):
    """T70: store and forward; the sequence numbers are new, the news is not"""
    for second in range(0, 100, 10):
        beat("n1", host=Host(uptime_s=5000.0 + second))
        clock.advance(10)
    clock.advance(600)
    for second in range(100, 200, 10):
        beat("n1", host=Host(uptime_s=5000.0 + second))
    node = registry.node("n1")
    assert node.state == "stale"
    assert node.numbers is None
    assert node.heard_s == pytest.approx(510, abs=1)


def test_two_agents_under_one_name_are_a_shown_conflict_not_alternating_numbers(registry, clock, beat):
    """T77"""
    for _ in range(4):
        beat("gpu01", agent="a", source="192.0.2.1", load={"cpu_percent": 5.0})
        with pytest.raises(HeartbeatConflict, match=r"reported by agent a from 192\.0\.2\.1"):
            beat("gpu01", agent="b", source="192.0.2.2", load={"cpu_percent": 95.0})
        node = registry.node("gpu01")
        assert node.measurement.load.cpu_percent == 5.0
        assert (node.conflict.agent_id, node.conflict.source) == ("b", "192.0.2.2")
        clock.advance(5)
    clock.advance(30)
    beat("gpu01", agent="a")
    clock.advance(30)
    assert registry.node("gpu01").conflict is None


def test_two_copies_of_one_disk_are_a_shown_conflict_too(registry, clock, beat):
    """T77: the same name and the same identity; the machine that was heard last keeps the name"""
    beat("gpu01", boot="a", sequence=50, source="192.0.2.1", load={"cpu_percent": 5.0})
    beat("gpu01", boot="b", sequence=1, source="192.0.2.2", load={"cpu_percent": 95.0})
    assert beat("gpu01", boot="a", sequence=51, source="192.0.2.1") == "replayed"
    for number in (2, 3):
        clock.advance(10)
        beat("gpu01", boot="b", sequence=number, source="192.0.2.2", load={"cpu_percent": 95.0})
        with pytest.raises(HeartbeatConflict, match="the same identity"):
            beat("gpu01", boot="a", sequence=50 + number, source="192.0.2.1")
        node = registry.node("gpu01")
        assert node.measurement.load.cpu_percent == 95.0
        assert node.conflict.source == "192.0.2.1"


def test_messages_of_an_ended_run_that_come_late_in_a_heap_are_no_conflict(registry, clock, beat):
    beat("n1", boot="one", sequence=50)
    beat("n1", boot="two", sequence=1)
    for number in range(51, 80):
        assert beat("n1", boot="one", sequence=number) == "replayed"
        clock.advance(0.05)
    assert registry.node("n1").conflict is None


def test_a_reinstalled_agent_takes_its_name_over_once_the_old_one_is_silent(registry, clock, beat):
    beat("n1", agent="old")
    with pytest.raises(HeartbeatConflict):
        beat("n1", agent="new")
    clock.advance(61)
    assert beat("n1", agent="new") == "accepted"


def test_a_heartbeat_that_was_under_way_does_not_revive_a_forgotten_node(registry, clock, measurement, beat):
    """T80"""
    beat("cpu-07")
    arrived = registry.now()
    clock.advance(0.5)
    assert registry.forget("cpu-07")
    with pytest.raises(HeartbeatForgotten):
        registry.accept(Reading(replace(measurement, agent=replace(measurement.agent, sequence=99)), ()), arrived=arrived)
    assert registry.nodes() == []
    clock.advance(10)
    assert beat("cpu-07") == "accepted"


def test_the_fleet_has_a_most_and_room_is_made_only_by_gone_nodes(clock, measurement):
    """T86"""
    registry = Registry(clock=clock, most_nodes=3)

    def send(name: str) -> None:
        registry.accept(Reading(replace(measurement, node=name), ()))

    for name in ("a", "b", "c"):
        send(name)
    with pytest.raises(FleetFull, match="3 nodes are known and none is gone"):
        send("d")
    clock.advance(901)
    send("d")
    assert [node.name for node in registry.nodes()] == ["b", "c", "d"]


def test_a_node_is_forgotten_past_the_retention_setting(clock, measurement):
    registry = Registry(clock=clock, forget_after_seconds=3600)
    registry.accept(Reading(measurement, ()))
    clock.advance(3601)
    assert registry.expire() == ["cpu-07"]
    assert registry.nodes() == []


def test_a_restored_node_is_as_silent_as_it_was(registry, clock, measurement):
    registry.restore(measurement, silent_s=45.0, heard_at=1.0, first_heard_at=0.5)
    assert registry.node("cpu-07").state == "late"
    clock.advance(16)
    assert registry.node("cpu-07").state == "stale"


def test_a_replay_of_a_message_from_before_the_restart_is_still_one(registry, measurement, beat):
    registry.restore(
        replace(measurement, agent=replace(measurement.agent, sequence=40)), silent_s=100.0, heard_at=1.0, first_heard_at=0.5
    )
    assert beat("cpu-07", sequence=40) == "replayed"
    assert beat("cpu-07", sequence=41) == "accepted"


# Time in which nobody listened


@pytest.fixture
def listening(clock) -> Listening:
    return Listening(clock)


@pytest.fixture
def listener(clock, wall, listening) -> Registry:
    return Registry(clock=clock, wall=wall, listening=listening)


def send(registry: Registry, measurement, name: str, sequence: int, **host: float) -> None:
    agent = replace(measurement.agent, sequence=sequence, id=name)
    registry.accept(Reading(replace(measurement, node=name, agent=agent, host=Host(**host)), ()))


def run(clock, listening, seconds: int) -> None:
    for _ in range(seconds):
        clock.advance(1)
        listening.tick()


def test_a_control_plane_that_was_stopped_calls_no_node_silent_but_shows_no_old_number(clock, listening, listener, measurement):
    """SIGSTOP for two minutes: no mass flap; rule 4 holds all the same"""
    send(listener, measurement, "n1", 1)
    run(clock, listening, 5)
    clock.advance(120)
    node = listener.node("n1")  # whoever asks first sees the gap
    assert (node.state, node.numbers, node.heard_s) == ("fresh", None, 125)
    assert "did not listen for 120 s until 0 s ago" in listening.notice
    run(clock, listening, 10)
    send(listener, measurement, "n1", 2)
    assert listener.node("n1").numbers is not None
    run(clock, listening, 51)
    assert listening.notice is None
    run(clock, listening, 10)
    assert listener.node("n1").state == "stale"


def test_a_node_that_died_while_nobody_listened_is_stale_a_minute_later(clock, listening, listener, measurement):
    send(listener, measurement, "n1", 1)
    run(clock, listening, 10)
    clock.advance(3600)
    run(clock, listening, 51)
    assert listener.node("n1").state == "late"
    run(clock, listening, 1)
    assert listener.node("n1").state == "stale"


def test_a_node_that_was_stale_before_the_stop_stays_stale(clock, listening, listener, measurement):
    send(listener, measurement, "n1", 1)
    run(clock, listening, 61)
    clock.advance(30)
    assert listener.node("n1").state == "stale"


def test_a_message_that_waited_through_the_stop_does_not_make_its_node_stale(clock, listening, listener, measurement):
    """The kernel kept it; its age follows from the node's uptime."""
    for second in range(30):
        send(listener, measurement, "n1", 1 + second, uptime_s=5000.0 + second)
        run(clock, listening, 1)
    clock.advance(100)
    send(listener, measurement, "n1", 40, uptime_s=5035.0)
    node = listener.node("n1")
    assert node.heard_s == pytest.approx(95, abs=1)
    assert node.state == "fresh"
    assert node.numbers is None


def test_another_agent_takes_no_name_over_because_nobody_listened(clock, listening, listener, measurement, beat):
    send(listener, measurement, "n1", 1)
    clock.advance(300)
    with pytest.raises(HeartbeatConflict):
        listener.accept(Reading(replace(measurement, node="n1", agent=replace(measurement.agent, id="other")), ()))


def test_time_without_a_control_plane_counts_against_no_node(clock, listening, listener, measurement):
    listening.began_after(600.0)
    listener.restore(measurement, silent_s=610.0, unheard_s=600.0, heard_at=1.0, first_heard_at=0.5)
    node = listener.node("cpu-07")
    assert (node.state, node.numbers, node.heard_s) == ("fresh", None, 610)
    assert "10 min" in listening.notice
    run(clock, listening, 51)
    assert listener.node("cpu-07").state == "stale"


def test_a_short_pause_is_no_stop(clock, listening, listener, measurement):
    send(listener, measurement, "n1", 1)
    for _ in range(20):
        clock.advance(4)
        listening.tick()
    assert listener.node("n1").state == "stale"


def test_what_all_heartbeats_take_together_is_bounded(clock):
    """A kilobyte of gzip may be a megabyte, of which 6 MB are kept: a thousand new names took all memory there is."""

    def large(name: str, size: int = 100_000) -> heartbeat.Reading:
        engine = '{"id":"e%d","model":"a model with a long name"}'
        engines = ",".join(engine % number for number in range(250))
        return schema.read((f'{{"node":"{name}","engines":[{engines}],"x":"' + "y" * size + '"}').encode())

    registry = Registry(clock=clock, most_bytes=350_000)
    for name in "abc":
        registry.accept(large(name))
    with pytest.raises(FleetFull, match="no room for one of"):
        registry.accept(large("d"))
    with pytest.raises(FleetFull):
        registry.accept(large("a", 200_000))
    assert registry.heartbeats["full"] == 2
    registry.accept(large("a"))  # those who are there go on
    assert registry.forget("a")
    clock.advance(1)
    registry.accept(large("d"))
    registry.accept(heartbeat.read(b'{"node":"b"}'))
    registry.accept(large("e", 90_000))
    registry.restore(large("f").measurement, silent_s=1.0, heard_at=0.0, first_heard_at=0.0, size=120_000)
    registry.accept(large("b", 1_000))  # of the usual size: who was heard before goes on, whatever others send


@pytest.mark.slow
def test_a_hundred_thousand_names_leave_nothing_behind(clock, wall):
    """T86"""
    dropped: list[str] = []
    registry = Registry(clock=clock, wall=wall, drop=dropped.append, most_nodes=1000)
    refused = 0
    for number in range(100_000):
        if number % 1000 == 0:
            clock.advance(300)
        try:
            registry.accept(heartbeat.read(b'{"node":"n%d"}' % number))
        except FleetFull:
            refused += 1
    assert registry.count == 1000
    assert refused + len(dropped) + registry.count == 100_000
    assert registry.heartbeats["full"] == refused > 0
    assert sum(len(vars(registry)[name]) for name in ("_records", "_forgotten")) == 1000


def test_a_node_that_is_forgotten_or_expires_takes_its_note_along(registry, clock, beat, tmp_path):
    notes = Notes(tmp_path / "notes.json")
    registry = Registry(clock=clock, notes=notes, forget_after_seconds=3600)
    for name in ("a", "b"):
        registry.accept(heartbeat.read(b'{"node":"%s"}' % name.encode()))
        assert registry.annotate(name, "new\u2028DIMM", "ann")
    assert not registry.annotate("c", "x")
    assert Notes(tmp_path / "notes.json").get("a").text == "new\u2028DIMM"
    registry.forget("a")
    clock.advance(3601)
    registry.expire()
    assert Notes(tmp_path / "notes.json").get("a") is None
    assert Notes(tmp_path / "notes.json").get("b") is None


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"\xff", b'{"a": 5}', b'{"a": ["x", "y"]}', b"[" * 100_000])
def test_a_file_of_notes_that_is_none_is_set_aside(tmp_path, content):
    path = tmp_path / "notes.json"
    path.write_bytes(content)
    notes = Notes(path)
    assert notes.get("a") is None
    assert (tmp_path / "notes.corrupt").read_bytes() == content
    notes.set("a", Note("x", "", 1.0))
    assert Notes(path).get("a") == Note("x", "", 1.0)


def test_a_name_is_handed_only_to_an_agent_that_asks_for_it(registry, beat):
    beat("n1", agent="a")
    assert not registry.hand_over("n1")
    assert not registry.hand_over("nobody")
    with pytest.raises(HeartbeatConflict):
        beat("n1", agent=None)
    assert not registry.hand_over("n1")
