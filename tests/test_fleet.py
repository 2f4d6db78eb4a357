"""Instances and nodes as one fleet."""

from __future__ import annotations

import pytest

from tests.answers import exposed
from webapp.fleet.instances import Instances
from webapp.fleet.joined import NO_AGENT, Recorder, WithInstances
from webapp.measurement import Gpu, Host
from webapp.overview.summary import summarise

SNAPSHOT = {
    "devices": {
        "cpu": {"utilization_pct": 25.0, "load1": 1.0, "cores": 8},
        "memory": {"used_mb": 4096, "total_mb": 16384, "free_mb": 12288},
    },
    "capacity_hint": {"memory_free_ratio": 0.75, "admission_state": "accepting"},
}


@pytest.fixture
def instances(clock, wall) -> Instances:
    return Instances(30.0, clock=clock, wall=wall)


@pytest.fixture
def fleet(registry, instances) -> WithInstances:
    return WithInstances(registry, instances, "control")


def names(fleet: WithInstances) -> list[str]:
    return [node.name for node in fleet.nodes()]


def engines(fleet: WithInstances, node: str) -> list[str | None]:
    return [engine.id for engine in fleet.node(node).numbers.engines]


def test_an_instance_on_the_port_of_an_engine_is_that_engine(fleet, instances, beat):
    beat("cpu-07", host=Host(address="10.0.0.7"))
    instances.register({"host": "10.0.0.7", "port": 8000, "meta": {"model": "other"}})
    instances.heartbeat({"instance_id": "hp_10.0.0.7:8000", "inflight": 9})
    assert names(fleet) == ["cpu-07"]
    (engine,) = fleet.node("cpu-07").numbers.engines
    assert (engine.id, engine.model, engine.requests.running, engine.cpu_cores) == ("llama-8b-0", "llama-3.1-8b", 5.0, 5.3)
    assert summarise(fleet.nodes()).engines == 1


def test_an_instance_on_another_port_is_one_more_engine(fleet, instances, beat):
    beat("cpu-07", host=Host(address="10.0.0.7"))
    instances.register({"host": "10.0.0.7", "port": 8001, "meta": {"model": "m"}})
    instances.heartbeat({"instance_id": "hp_10.0.0.7:8001", "inflight": 9})
    assert engines(fleet, "cpu-07") == ["llama-8b-0", "hp_10.0.0.7:8001"]
    text = exposed(fleet.nodes())
    assert 'llmgw_shard_requests_running{node="cpu-07",shard="hp_10.0.0.7:8001",model="m"} 9\n' in text
    assert 'llmgw_shard_cpu_cores{node="cpu-07",shard="llama-8b-0",model="llama-3.1-8b"} 5.3\n' in text


def test_two_names_on_one_port_are_one_engine(fleet, instances, clock):
    """A restarted engine under a new name; the old registration is silent."""
    instances.register({"instance_id": "old", "host": "10.0.0.9", "port": 8000})
    clock.advance(10)
    instances.register({"instance_id": "new", "host": "10.0.0.9", "port": 8000})
    assert engines(fleet, "10.0.0.9") == ["new"]


@pytest.mark.parametrize("host", ["cpu-07", "CPU-07", "cpu-07.example", "10.0.0.7", "::ffff:10.0.0.7"])
def test_a_host_is_the_node_of_that_name_or_address(fleet, instances, beat, host):
    beat("cpu-07", host=Host(address="10.0.0.7"))
    instances.register({"instance_id": "i", "host": host, "port": 8000})
    assert fleet.homes() == {"i": "cpu-07"}


def test_loopback_is_where_the_registration_comes_from(fleet, instances, beat):
    beat("here", source="127.0.0.1")
    beat("there", agent="b", source="10.0.0.7")
    instances.register({"instance_id": "a", "host": "127.0.0.1", "port": 1}, "127.0.0.1")
    instances.register({"instance_id": "b", "host": "localhost", "port": 1}, "10.0.0.7")
    instances.register({"instance_id": "c", "host": "0.0.0.0", "port": 1}, "10.0.0.9")
    assert fleet.homes() == {"a": "here", "b": "there", "c": "10.0.0.9"}


def test_this_machine_without_an_agent_has_its_own_name(fleet, instances):
    instances.register({"instance_id": "a", "host": "127.0.0.1", "port": 1}, "127.0.0.1")
    assert names(fleet) == ["control"]


def test_an_address_that_several_nodes_share_decides_nothing(fleet, instances, beat):
    beat("a", source="10.0.0.1")
    beat("b", agent="b", source="10.0.0.1")
    instances.register({"instance_id": "i", "host": "10.0.0.1", "port": 1})
    assert fleet.homes() == {"i": "10.0.0.1"}


def test_a_host_without_an_agent_is_a_node_of_its_snapshot(fleet, instances, clock):
    for port in (8000, 8001):
        instances.register({"host": "10.0.0.9", "port": port, "meta": {"model": "m"}})
        instances.report({"instance_id": f"hp_10.0.0.9:{port}", "snapshot": SNAPSHOT})
        clock.advance(1)
    (node,) = fleet.nodes()
    assert (node.name, node.state, node.measurement.agent.id) == ("10.0.0.9", "fresh", NO_AGENT)
    assert (node.numbers.load.cpu_percent, node.numbers.load.cpus) == (25.0, 8)
    summary = summarise(fleet.nodes())
    assert (summary.memory.value, summary.cores_used.value, summary.engines) == (16 * 2**30, 2.0, 2)
    assert 'llmgw_node_memory_bytes{node="10.0.0.9"} 17179869184\n' in exposed(fleet.nodes())


def test_engines_that_the_snapshot_names_count_once(fleet, instances):
    snapshot = {**SNAPSHOT, "runtime": {"engines": [{"id": "vllm-8000", "port": 8000, "model": "m", "cpu_cores": 1.5}]}}
    instances.register({"host": "10.0.0.9", "port": 8000})
    instances.report({"instance_id": "hp_10.0.0.9:8000", "snapshot": snapshot})
    (engine,) = fleet.node("10.0.0.9").numbers.engines
    assert (engine.id, engine.cpu_cores) == ("vllm-8000", 1.5)


def test_a_silent_instance_is_shown_as_silent_and_its_node_grows_old(fleet, instances, clock):
    instances.register({"host": "10.0.0.9", "port": 8000})
    instances.report({"instance_id": "hp_10.0.0.9:8000", "snapshot": SNAPSHOT})
    clock.advance(31)
    node = fleet.node("10.0.0.9")
    assert (node.state, node.numbers.engines[0].state) == ("stale", "silent")
    clock.advance(30)
    assert fleet.node("10.0.0.9").numbers is None
    clock.advance(840)
    assert fleet.node("10.0.0.9").state == "gone"


def test_what_the_agent_says_of_its_node_stands(fleet, instances, beat, clock):
    beat("cpu-07")
    instances.register({"host": "cpu-07", "port": 8000})
    instances.report({"instance_id": "hp_cpu-07:8000", "snapshot": SNAPSHOT})
    assert fleet.node("cpu-07").numbers.load.cpu_percent == 43.25
    clock.advance(61)
    instances.report({"instance_id": "hp_cpu-07:8000", "snapshot": SNAPSHOT})
    assert fleet.node("cpu-07").state == "stale"
    clock.advance(900)
    instances.report({"instance_id": "hp_cpu-07:8000", "snapshot": SNAPSHOT})
    node = fleet.node("cpu-07")
    assert (node.state, node.numbers.load.cpu_percent) == ("fresh", 25.0)


def test_without_instances_the_fleet_is_as_it_is(fleet, registry, beat):
    beat("cpu-07", gpus=(Gpu("GPU-a"),))
    assert fleet.nodes() == registry.nodes()
    assert fleet.node("cpu-07") == registry.node("cpu-07")


def test_samples_of_nodes_without_an_agent_are_kept_once_and_forgotten_with_them(fleet, instances, clock, wall):
    recorded, forgotten = [], []
    recorder = Recorder(fleet, lambda measurement, at: recorded.append((measurement.node, at)), forgotten.append, wall=wall)
    instances.register({"host": "10.0.0.9", "port": 8000})
    instances.report({"instance_id": "hp_10.0.0.9:8000", "snapshot": SNAPSHOT})
    recorder.step()
    assert recorded == [("10.0.0.9", pytest.approx(wall.now))]
    clock.advance(10)
    wall.advance(10)
    recorder.step()
    assert len(recorded) == 1
    instances.report({"instance_id": "hp_10.0.0.9:8000", "snapshot": SNAPSHOT})
    recorder.step()
    assert len(recorded) == 2
    instances.unregister({"instance_id": "hp_10.0.0.9:8000"})
    recorder.step()
    assert forgotten == []
    wall.advance(3601)
    recorder.step()
    assert forgotten == ["10.0.0.9"]


def test_samples_from_before_a_restart_are_kept_until_the_host_is_silent_for_an_hour(fleet, wall):
    forgotten: list[str] = []
    recorder = Recorder(fleet, lambda measurement, at: None, forgotten.append, {"10.0.0.9": wall.now - 3000}, wall)
    recorder.step()
    assert forgotten == []
    wall.advance(601)
    recorder.step()
    assert forgotten == ["10.0.0.9"]


def test_the_worst_that_instances_say_of_their_node_counts(fleet, instances):
    for port, state in ((1, "accepting"), (2, "rejecting"), (3, "unknown")):
        instances.register({"host": "h", "port": port})
        instances.report({"instance_id": f"hp_h:{port}", "snapshot": {"capacity_hint": {"admission_state": state}}})
    assert fleet.admissions() == {"h": "rejecting"}
