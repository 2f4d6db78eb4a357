"""Instances and nodes as one fleet: an instance is an engine on the node of its host.

Which node that is: the one whose name, address or sender's address is the host of the instance. A host that is
only its own name for itself (127.0.0.1) stands for the address that the instance registers from, and loopback
there for this machine. An instance on the port of an engine that the node's agent found *is* that engine, so that
nothing counts twice. Hosts without an agent are nodes made of their instances' snapshots.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from webapp.addresses import is_address, is_loopback, is_own, plain
from webapp.fleet import machine
from webapp.fleet.instance import Instance
from webapp.fleet.instances import FORGET_AFTER_SECONDS, Instances
from webapp.fleet.nodes import Fleet, Node
from webapp.measurement import Engine, Measurement, Requests
from webapp.snapshot import ACCEPTING, DEGRADED, REJECTING, UNKNOWN

#: The identity of nodes that no agent reports.
NO_AGENT = "made of instances"

#: An engine whose instance is not heard any more, and that no agent sees.
SILENT = "silent"

_WORST = (UNKNOWN, ACCEPTING, DEGRADED, REJECTING)


class WithInstances:
    """A `Fleet` and the instances, merged at each call."""

    def __init__(self, fleet: Fleet, instances: Instances, own_name: str) -> None:
        """`own_name`: of this machine, where it has no agent."""
        self._fleet = fleet
        self._instances = instances
        self._own_name = own_name

    def nodes(self) -> list[Node]:
        nodes = self._fleet.nodes()
        if self._instances.is_empty():
            return nodes
        by_name = {node.name: node for node in nodes}
        for name, residents in self._residents(nodes).items():
            by_name[name] = _merged(by_name.get(name), name, residents)
        return [by_name[name] for name in sorted(by_name)]

    def node(self, name: str) -> Node | None:
        if self._instances.is_empty():
            return self._fleet.node(name)
        nodes = self._fleet.nodes()
        residents = self._residents(nodes).get(name)
        found = next((node for node in nodes if node.name == name), None)
        return _merged(found, name, residents) if residents else found

    def admissions(self) -> dict[str, str]:
        """The worst that the instances on a node say of it, by the node's name."""
        residents = {} if self._instances.is_empty() else self._residents(self._fleet.nodes())
        found = {}
        for name, ones in residents.items():
            states = [one.resources.admission_state for one in ones if one.is_alive and one.resources]
            if states:
                found[name] = max(states, key=lambda state: _WORST.index(state) if state in _WORST else -1)
        return found

    def residents(self, name: str) -> list[Instance]:
        """The instances on a node."""
        return [] if self._instances.is_empty() else self._residents(self._fleet.nodes()).get(name, [])

    def homes(self) -> dict[str, str]:
        """The node of each instance, by the instance's name."""
        residents = {} if self._instances.is_empty() else self._residents(self._fleet.nodes())
        return {one.instance_id: name for name, ones in residents.items() for one in ones}

    def _residents(self, nodes: Sequence[Node]) -> dict[str, list[Instance]]:
        homes = _Homes(nodes, self._own_name)
        found: dict[str, list[Instance]] = defaultdict(list)
        for instance in self._instances.all():
            found[homes.of(instance)].append(instance)
        return dict(found)


class Recorder:
    """Keeps samples of the nodes without an agent, as heartbeats do of the others."""

    def __init__(
        self,
        fleet: WithInstances,
        record: Callable[[Measurement, float], None],
        forget: Callable[[str], None],
        known: Mapping[str, float] | None = None,
        wall: Callable[[], float] = time.time,
    ) -> None:
        """`known`: such nodes whose samples are kept already, and the Unix time of the last one."""
        self._fleet = fleet
        self._record = record
        self._forget = forget
        self._wall = wall
        self._last = dict(known or {})

    def step(self) -> None:
        """Record what is new since the step before; forget nodes that nothing was heard of for an hour."""
        nodes = self._fleet.nodes()
        for node in nodes:
            if node.measurement.agent.id != NO_AGENT:
                self._last.pop(node.name, None)  # its agent's from now on
                continue
            at = node.measured_at
            # Clocks that are read one after the other differ by less than this.
            if node.numbers is not None and at > self._last.get(node.name, 0.0) + 0.5:
                self._record(node.numbers, at)
                self._last[node.name] = at
        present = {node.name for node in nodes}
        for name, at in list(self._last.items()):
            if name not in present and self._wall() - at > FORGET_AFTER_SECONDS:
                self._forget(name)
                del self._last[name]


class _Homes:
    """Which node an instance is on."""

    def __init__(self, nodes: Sequence[Node], own_name: str) -> None:
        self._own_name = own_name
        self._by_name = {plain(node.name): node.name for node in nodes}
        self._short = _unique((plain(node.name).partition(".")[0], node.name) for node in nodes)
        self._by_address = _unique((plain(node.measurement.host.address or ""), node.name) for node in nodes)
        self._by_source = _unique((_source(node.source), node.name) for node in nodes)

    def of(self, instance: Instance) -> str:
        """The node's name; a new one where no node is known there."""
        host = instance.description.host
        if is_own(host):
            if not instance.source or is_loopback(instance.source):
                return self._by_source.get("loopback") or self._by_name.get(plain(self._own_name)) or self._own_name
            host = instance.source
        wanted = plain(host)
        known = self._by_name.get(wanted) or self._by_address.get(wanted) or self._by_source.get(wanted)
        if known is None and not is_address(host):
            known = self._short.get(wanted.partition(".")[0])
        return known or wanted


def _source(source: str) -> str:
    return "loopback" if source and is_loopback(source) else plain(source)


def _unique(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """What a key says if it says one thing only.

    >>> _unique([("a", "1"), ("b", "1"), ("b", "2"), ("", "3")])
    {'a': '1'}
    """
    found: dict[str, set[str]] = defaultdict(set)
    for key, value in pairs:
        if key:
            found[key].add(value)
    return {key: values.pop() for key, values in found.items() if len(values) == 1}


def _merged(node: Node | None, name: str, residents: Sequence[Instance]) -> Node:
    """The node with its instances as engines. Who has an agent that is not gone is as the agent says."""
    if node is None or (node.state == "gone" and any(one.is_alive for one in residents)):
        return _made(name, residents, node)
    if node.numbers is None:
        return node
    engines = tuple(_with_residents(node.measurement.engines, residents))
    if engines == node.measurement.engines:
        return node
    return node._replace(measurement=replace(node.measurement, engines=engines))


def _made(name: str, residents: Sequence[Instance], before: Node | None) -> Node:
    """A node of what its instances say: the machine by the snapshot that was collected last."""
    nearest = min(residents, key=lambda one: one.silent_s)
    telling = min((one for one in residents if one.resources), key=lambda one: one.collected_s or 0.0, default=None)
    if telling is not None and telling.resources is not None:
        measurement = machine.measurement(telling.resources, name)
        measured_s = telling.collected_s or 0.0
    else:
        measurement, measured_s = Measurement(name), nearest.silent_s
    return Node(
        name=name,
        measurement=replace(
            measurement,
            agent=replace(measurement.agent, id=NO_AGENT),
            host=replace(measurement.host, address=plain(nearest.description.host), labels=_labels(before)),
            engines=tuple(_with_residents(measurement.engines, residents)),
        ),
        state=nearest.state,
        heard_s=nearest.silent_s,
        measured_s=measured_s,
        heard_at=nearest.last_seen_at,
        first_heard_at=before.first_heard_at if before else min(one.registered_at for one in residents),
        interval_s=nearest.interval_s,
        source=nearest.source,
    )


def _labels(before: Node | None) -> dict[str, str]:
    return dict(before.measurement.host.labels) if before else {}


def _with_residents(engines: Sequence[Engine], residents: Sequence[Instance]) -> Iterator[Engine]:
    """The engines, each once: those of the agent as they are, filled in by their instances, then the others."""
    by_port: dict[int, Instance] = {}
    for one in sorted(residents, key=lambda one: -one.silent_s):
        by_port[one.description.port] = one  # the one that was heard last
    taken = set()
    for engine in engines:
        instance = by_port.get(engine.port or 0)
        if instance is None or engine.port in taken:
            yield engine
        else:
            taken.add(engine.port)
            yield _filled(engine, instance)
    ids = {engine.id for engine in engines}
    for port, instance in sorted(by_port.items()):
        if port not in taken and instance.instance_id not in ids:
            yield _filled(Engine(id=instance.instance_id, port=port), instance)


def _filled(engine: Engine, instance: Instance) -> Engine:
    """What the agent doesn't know of an engine, its instance may have reported."""
    running = engine.requests.running
    inflight = instance.current_load.inflight
    return replace(
        engine,
        model=engine.model or instance.description.model,
        kind=engine.kind or instance.description.kind,
        state=engine.state or ("running" if instance.is_alive else SILENT),
        requests=Requests(engine.requests.waiting, inflight if running is None and inflight is not None else running),
    )
