"""The resource agent: what it measures, what it answers, and how it speaks HTTP."""

from __future__ import annotations

import json
import socket
import threading
import types

import pytest

from tests.agent.test_network import Machine as NetworkMachine
from webapp.agent.__main__ import main
from webapp.agent.http_server import MOST_CONNECTIONS, HttpServer, answer, listen, respond
from webapp.agent.machine.gpu import GpuReading
from webapp.agent.resource_agent import Snapshots, sample_forever
from webapp.agent.resource_snapshot import GpuWindows
from webapp.agent.resources import Resources
from webapp.agent.sampler import Sampler, Sensors
from webapp.measurement import Gpu

NO_GPUS = types.SimpleNamespace(measure=GpuReading)


@pytest.fixture
def network(tmp_path):
    return NetworkMachine(tmp_path / "net")


@pytest.fixture
def resources(machine, network):
    everything = Sampler("n", machine.proc, machine.sys, clock=machine.clock, sensors=Sensors(), ticks=100, page_size=4096)
    return Resources(
        machine.proc, machine.sys, everything=everything, networks=network.networks, gpus=NO_GPUS, clock=machine.clock, ticks=100
    )


def snapshot(snapshots: Snapshots, resources: Resources) -> dict:
    snapshots.take(resources.measure())
    found = snapshots.answer()
    assert found.status == 200
    return json.loads(found.body, parse_constant=pytest.fail)


@pytest.fixture
def snapshots(machine):
    return Snapshots("hp_127.0.0.1:9001", GpuWindows(5000, 20), 1.0, machine.clock)


def test_before_the_first_sample_it_is_not_ready(snapshots):
    """T152"""
    found = snapshots.answer()
    assert found.status == 503
    assert json.loads(found.body).items() >= {"ok": False, "error": "not_ready", "instance_id": "hp_127.0.0.1:9001"}.items()


def test_unknown_cpu_is_null_and_guest_time_counts_once(machine, resources, snapshots):
    """T13: 400 busy of 1000, of which 300 are a guest's."""
    assert snapshot(snapshots, resources)["devices"]["cpu"]["utilization_pct"] is None
    machine.write("stat", "cpu  400 0 0 600 0 0 0 0 300 0\ncpu0 0 0 0 0 0 0 0 0 0 0\n")
    machine.clock.advance(1)
    cpu = snapshot(snapshots, resources)["devices"]["cpu"]
    assert (cpu["utilization_pct"], cpu["cores"], cpu["load1"]) == (40.0, 1, 0.5)


def test_memory_is_mebibytes_and_free_is_what_is_available(machine, resources, snapshots):
    found = snapshot(snapshots, resources)
    assert found["devices"]["memory"] == {"used_mb": 4096.0, "total_mb": 16384.0, "free_mb": 12288.0}
    assert found["capacity_hint"] == {"memory_free_ratio": 0.75, "admission_state": "unknown"}


def test_memory_without_memavailable_is_never_full(machine, resources, snapshots):
    machine.write("meminfo", "MemTotal: 16777216 kB\n")
    found = snapshot(snapshots, resources)
    assert found["devices"]["memory"] == {"used_mb": None, "total_mb": 16384.0, "free_mb": None}
    assert found["capacity_hint"] == {"memory_free_ratio": None, "admission_state": "unknown"}


@pytest.mark.parametrize(
    ("available", "busy", "state"),
    [(0.04, 10, "rejecting"), (0.04, 100, "rejecting"), (0.5, 96, "degraded"), (0.5, 95, "accepting")],
)
def test_the_admission_state_follows_memory_then_cpu(machine, resources, snapshots, available, busy, state):
    resources.measure()
    machine.cpu(busy, 100 - busy)
    machine.write("meminfo", f"MemTotal: 1000000 kB\nMemAvailable: {round(available * 1000000)} kB\n")
    machine.clock.advance(1)
    assert snapshot(snapshots, resources)["capacity_hint"]["admission_state"] == state


def test_the_busiest_physical_device_comes_first_with_its_speed(machine, network, resources, snapshots):
    """T53"""
    network.about("eth0", physical=True, speed="-1\n", ifindex="2")
    network.about("eth1", physical=True, speed="25000\n", ifindex="3")
    network.counters(lo=(0, 0), docker0=(0, 0), ifb0=(0, 0), eth0=(0, 0), eth1=(0, 0))
    first = snapshot(snapshots, resources)["devices"]["network"]
    assert [(one["iface"], one["rx_mbps"]) for one in first] == [("eth0", None), ("eth1", None)]
    network.counters(lo=(10**9, 0), docker0=(10**9, 0), ifb0=(10**9, 0), eth0=(125_000, 0), eth1=(1_250_000, 250_000))
    machine.clock.advance(1)
    assert snapshot(snapshots, resources)["devices"]["network"] == [
        {"iface": "eth1", "rx_mbps": 10.0, "tx_mbps": 2.0, "speed_mbps": 25000.0},
        {"iface": "eth0", "rx_mbps": 1.0, "tx_mbps": 0.0, "speed_mbps": None},
    ]
    network.about("eth1", ifindex="9")  # another device under the same name
    network.counters(eth0=(125_000, 0), eth1=(9_000_000, 9_000_000))
    machine.clock.advance(1)
    found = {one["iface"]: one["rx_mbps"] for one in snapshot(snapshots, resources)["devices"]["network"]}
    assert found == {"eth0": 0.0, "eth1": None}


def test_no_gpu_is_an_empty_list_and_a_failed_look_an_error(machine, network, resources, snapshots):
    """T62"""
    assert snapshot(snapshots, resources)["devices"]["gpu"] == []
    resources._gpus = types.SimpleNamespace(measure=lambda: GpuReading(error="no driver"))
    devices = snapshot(snapshots, resources)["devices"]
    assert (devices.get("gpu"), devices["gpu_error"]) == (None, "no driver")
    resources._gpus = types.SimpleNamespace(measure=lambda: GpuReading((Gpu("GPU-a", 0, "L4", 37.0),)))
    (gpu,) = snapshot(snapshots, resources)["devices"]["gpu"]
    assert (gpu["utilization_pct"], gpu["memory_total_mb"], gpu["utilization_source"]) == (37.0, None, "nvml")


def test_the_answer_tells_its_age_and_is_not_given_when_it_is_too_old(machine, resources, snapshots):
    assert snapshot(snapshots, resources)["age_ms"] == 0
    machine.clock.advance(2.5)
    found = json.loads(snapshots.answer().body)
    assert (found["age_ms"], found["timestamp_ms"]) == (2500, 1_796_000_000_000)
    machine.clock.advance(0, asleep=58)
    assert snapshots.answer().status == 503
    assert json.loads(snapshots.answer().body)["error"] == "stale_sample"


def test_engines_are_looked_at_now_and_then_only(machine, resources, monkeypatch):
    looks = []
    measure = resources._everything.measure
    monkeypatch.setattr(resources._everything, "measure", lambda: looks.append(1) or measure())
    for _ in range(21):
        resources.measure()
        machine.clock.advance(1)
    assert len(looks) == 3


def test_sampling_keeps_its_own_beat_and_outlives_a_bad_reading(machine, resources, snapshots):
    pauses = []

    class Stop:
        def is_set(self) -> bool:
            return len(pauses) >= 4

        def wait(self, seconds: float) -> None:
            pauses.append(round(seconds, 3))
            machine.clock.advance(seconds)

    measured = []

    def measure():
        measured.append(machine.clock.monotonic())
        if len(measured) == 3:
            raise RuntimeError("a bad reading")
        machine.clock.advance(0.3)
        return Resources.measure(resources)

    slow = types.SimpleNamespace(measure=measure)
    sample_forever(slow, snapshots, 1.0, Stop(), machine.clock)
    assert pauses == [0.25, 0.7, 1.0, 0.7]
    assert snapshots.answer().status == 200


ROUTES = {"/healthz": lambda: answer(200, ok=True), "/broken": lambda: 1 / 0}


def lines(request: bytes) -> tuple[bytes, bytes]:
    whole = respond(request + b" HTTP/1.1\r\nHost: a\r\n\r\n", ROUTES)
    head, _, body = whole.partition(b"\r\n\r\n")
    return head.split(b"\r\n")[0], body


@pytest.mark.parametrize(
    ("request_line", "status", "body"),
    [
        (b"GET /healthz", b"200 OK", b'{"ok": true}'),
        (b"GET /healthz?x=1", b"200 OK", b'{"ok": true}'),
        (b"GET http://a:1/healthz?x", b"200 OK", b'{"ok": true}'),
        (b"GET /%68ealthz", b"200 OK", b'{"ok": true}'),
        (b"HEAD /healthz", b"200 OK", b""),
        (b"HEAD /nope", b"404 Not Found", b""),
        (b"GET /healthz/", b"404 Not Found", b'{"ok": false, "error": "not_found"}'),
        (b"GET *", b"404 Not Found", b'{"ok": false, "error": "not_found"}'),
        (b"POST /healthz", b"405 Method Not Allowed", b'{"ok": false, "error": "method_not_allowed"}'),
        (b"DELETE /healthz", b"405 Method Not Allowed", b'{"ok": false, "error": "method_not_allowed"}'),
        (b"GET /broken", b"500 Internal Server Error", b'{"ok": false, "error": "internal_error"}'),
        (b"GET", b"400 Bad Request", b'{"ok": false, "error": "bad_request"}'),
        (b"\x00\xff /", b"400 Bad Request", b'{"ok": false, "error": "bad_request"}'),
        (b"GET http://[/healthz", b"400 Bad Request", b'{"ok": false, "error": "bad_request"}'),
    ],
)
def test_requests_are_answered_as_http_has_it(request_line, status, body):
    """T152"""
    assert lines(request_line) == (b"HTTP/1.1 " + status, body)


def test_a_405_says_what_is_allowed_and_every_answer_says_what_it_is():
    head = respond(b"PUT /healthz HTTP/1.1\r\n\r\n", ROUTES)
    assert b"\r\nAllow: GET, HEAD\r\n" in head
    assert b"\r\nContent-Type: application/json\r\n" in head
    assert b"\r\nContent-Length: 12\r\n" in respond(b"HEAD /healthz HTTP/1.1\r\n\r\n", ROUTES)


@pytest.fixture
def server():
    listener = listen("127.0.0.1", 0)
    address = listener.getsockname()
    ours, theirs = socket.socketpair()
    thread = threading.Thread(target=HttpServer(listener, ROUTES).run, args=(theirs,))
    thread.start()
    yield address
    ours.send(b"x")
    thread.join(10)
    assert not thread.is_alive()
    ours.close()
    theirs.close()


def ask(address, request: bytes) -> bytes:
    with socket.create_connection(address, 10) as client:
        client.sendall(request)
        return b"".join(iter(lambda: client.recv(65536), b""))


def test_a_client_that_says_nothing_delays_nobody(server):
    idle = [socket.create_connection(server, 10) for _ in range(20)]
    idle[0].sendall(b"GET /healthz HT")
    assert ask(server, b"GET /healthz HTTP/1.1\r\n\r\n").endswith(b'{"ok": true}')
    for client in idle:
        client.close()


def test_a_body_that_nobody_reads_does_not_cut_the_answer(server):
    request = b"POST /healthz HTTP/1.1\r\nContent-Length: 300000\r\n\r\n" + b"x" * 300_000
    assert b"405 Method Not Allowed" in ask(server, request)


def test_a_head_without_end_is_refused(server):
    assert b"431 " in ask(server, b"GET /healthz HTTP/1.1\r\n" + b"a: b\r\n" * 4000)


@pytest.mark.slow
def test_more_clients_than_there_is_room_for_wait_their_turn(server):
    clients = [socket.create_connection(server, 10) for _ in range(MOST_CONNECTIONS + 20)]
    for client in clients:
        client.sendall(b"GET /healthz HTTP/1.1\r\n\r\n")
    for client in clients:
        assert client.recv(65536).startswith(b"HTTP/1.1 200")
        client.close()


def test_ipv6_is_listened_on():
    """T76"""
    with listen("::1", 0) as listener:
        assert listener.getsockname()[0] == "::1"


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--listen", "0.0.0.0:0"], "--allow-anonymous"),
        (["--listen", "127.0.0.1"], "expected HOST:PORT"),
        (["--sample-interval-ms", "10"], "expected milliseconds, at least 50"),
        (["--gpu-util-max-samples", "0"], "expected a whole number, at least 1"),
        (["--nope"], "unrecognized arguments"),
    ],
)
def test_what_cannot_start_says_why_in_one_line(capsys, flags, said):
    assert main(["resource-agent", *flags], {}) == 2
    error = capsys.readouterr().err
    assert said in error
    assert len(error.strip().splitlines()) == 1


def test_a_port_in_use_is_one_line(capsys):
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        assert main(["resource-agent", "--listen", f"127.0.0.1:{port}"], {}) == 2
    assert capsys.readouterr().err == (
        f"enginehouse resource-agent: --listen=127.0.0.1:{port}: cannot listen there: Address already in use\n"
    )
