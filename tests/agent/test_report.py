"""Reporter, registration and monitor against servers that behave as foreign ones do."""

from __future__ import annotations

import json
import logging
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from webapp.addresses import free_port
from webapp.agent.__main__ import main
from webapp.agent.client import Client, Unanswered
from webapp.agent.monitor import Foreign, Monitor, Place, is_ours, place
from webapp.agent.registration import Registration
from webapp.agent.report import Failures, NotTaken, Reporter, report_forever
from webapp.agent.run import description

SNAPSHOT = {"schema_version": "resource_snapshot_v1", "instance_id": "hp_h:1", "timestamp_ms": 1_796_000_000_000, "devices": {}}


class Server:
    """Answers each path with what a test put there: a status and a body, or a function of the message."""

    def __init__(self) -> None:
        self.answers: dict[str, object] = {}
        self.messages: list[tuple[str, dict]] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                message = json.loads(self.rfile.read(length) or b"{}")
                server.messages.append((self.path, message))
                answer = server.answers.get(self.path, (404, {"error": "not_found"}))
                status, content = answer(message) if callable(answer) else answer
                body = content if isinstance(content, bytes) else json.dumps(content).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_POST = do_GET

            def log_message(self, *args: object) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._http.server_port}"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.05,))
        self._thread.start()

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def of(self, path: str) -> list[dict]:
        return [message for place, message in self.messages if place == path]


class ControlPlane(Server):
    """A foreign control plane of the protocol, which may forget everybody."""

    def __init__(self) -> None:
        super().__init__()
        self.known: set[str] = set()
        self.answers = {
            "/v1/instance/register": self._register,
            "/v1/instance/heartbeat": lambda message: (200, {"ok": message["instance_id"] in self.known}),
            "/v1/instance/resource_snapshot": self._report,
            "/v1/instance/unregister": lambda message: (200, {"ok": True}),
        }

    def _register(self, message: dict) -> tuple[int, dict]:
        name = message.get("instance_id") or f"hp_{message['host']}:{message['port']}"
        self.known.add(name)
        return 200, {"instance_id": name, "heartbeat_interval_s": 10, "ttl_s": 30}

    def _report(self, message: dict) -> tuple[int, dict]:
        known = message["instance_id"] in self.known
        return 200, {"ok": True} if known else {"ok": False, "error": "unknown_instance"}


@pytest.fixture
def agent():
    server = Server()
    server.answers["/v1/resource/snapshot"] = (200, SNAPSHOT)
    yield server
    server.close()


@pytest.fixture
def plane():
    server = ControlPlane()
    yield server
    server.close()


@pytest.fixture
def reporter(agent, plane, machine):
    return Reporter(Client(agent.url, 5), Client(plane.url, 5), "hp_h:1", machine.clock)


def test_a_report_holds_the_snapshot_as_it_is_and_the_reporters_own_times(reporter, plane):
    plane.known.add("hp_h:1")
    reporter.report_once()
    assert plane.of("/v1/instance/resource_snapshot") == [
        {
            "instance_id": "hp_h:1",
            "snapshot": SNAPSHOT,
            "metadata": {
                "reported_instance_id": "hp_h:1",
                "report_monotonic_ms": 1_000_000,
                "report_wall_time_ms": 1_796_000_000_000,
                "agent_snapshot_timestamp_ms": 1_796_000_000_000,
            },
        }
    ]


def test_a_200_that_says_no_is_no_success(reporter):
    with pytest.raises(NotTaken) as refused:
        reporter.report_once()
    assert refused.value.error == "unknown_instance"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ((503, {"ok": False, "error": "not_ready"}), "503 not_ready"),
        ((200, b"<html>"), "not JSON"),
        ((200, b""), "not JSON"),
        ((200, {"ok": True}), "is no resource_snapshot_v1"),
    ],
)
def test_what_is_no_snapshot_is_not_passed_on(reporter, agent, plane, answer, said):
    agent.answers["/v1/resource/snapshot"] = answer
    with pytest.raises(Unanswered, match=said):
        reporter.report_once()
    assert plane.messages == []


@pytest.mark.parametrize("answer", [(500, b"oops"), (200, b"<html>login</html>"), (302, b""), (422, {"detail": []})])
def test_a_control_plane_that_does_not_speak_the_protocol_is_a_failure(reporter, plane, answer):
    """T74"""
    plane.answers["/v1/instance/resource_snapshot"] = answer
    with pytest.raises(Unanswered):
        reporter.report_once()


def test_a_server_that_drips_is_given_up(agent):
    import socket as sockets

    with sockets.create_server(("127.0.0.1", 0)) as listener:
        stop = threading.Event()

        def drip() -> None:
            connection, _ = listener.accept()
            with connection:
                while not stop.wait(0.02):
                    try:
                        connection.sendall(b"H")
                    except OSError:
                        return

        thread = threading.Thread(target=drip)
        thread.start()
        with pytest.raises(Unanswered):
            Client(f"http://127.0.0.1:{listener.getsockname()[1]}", 0.2).get("/")
        stop.set()
        thread.join()


def test_failures_are_said_at_the_start_now_and_then_and_at_the_end(caplog):
    caplog.set_level(logging.INFO)
    failures = Failures("i", every=3)
    for _ in range(7):
        failures.failed("why")
    failures.succeeded()
    failures.succeeded()
    assert [record.getMessage() for record in caplog.records] == [
        "report of 'i' failed (1 in a row): why",
        "report of 'i' failed (3 in a row): why",
        "report of 'i' failed (6 in a row): why",
        "report of 'i' taken again after 7 failures",
    ]


def test_a_report_that_takes_too_long_leaves_out_the_next(machine):
    waits = []

    class Slow:
        def report_once(self) -> None:
            machine.clock.advance(2.5 if not waits else 0.1)

    def wait(seconds: float) -> bool:
        waits.append(round(seconds, 3))
        machine.clock.advance(seconds)
        return len(waits) == 3

    report_forever(Slow(), Failures("i"), 1.0, wait, monotonic=machine.clock.monotonic)
    assert waits == [0.5, 0.9, 0.9]


def test_once_tells_by_its_exit_code_whether_it_was_taken(agent, plane, capsys):
    flags = ["report", "--agent-url", agent.url, "--proxy-cp-url", plane.url, "--once"]
    assert main([*flags, "--instance-id", "hp_h:1"], {}) == 1
    plane.known.add("hp_h:1")
    assert main(flags, {"INSTANCE_ID": "hp_h:1"}) == 0
    assert main(flags, {}) == 2
    assert "--instance-id" in capsys.readouterr().err


def registration(plane: Server) -> Registration:
    return Registration(Client(plane.url, 5), {"instance_id": "hp_h:1", "host": "h", "port": 1})


def test_a_control_plane_that_forgot_is_registered_with_again(plane):
    one = registration(plane)
    assert one.step() == 10
    assert one.step() == 10
    plane.known.clear()
    assert one.step() == 0
    assert one.step() == 10
    assert len(plane.of("/v1/instance/register")) == 2


def test_the_name_that_the_control_plane_gives_is_used(plane):
    plane.answers["/v1/instance/register"] = (200, {"instance_id": "other", "heartbeat_interval_s": 0.001, "ttl_s": 1})
    one = registration(plane)
    assert one.step() == 0.5
    assert one.instance_id == "other"
    one.step()
    assert plane.of("/v1/instance/heartbeat") == [{"instance_id": "other"}]


@pytest.mark.parametrize(
    "answer", [(500, b""), (200, b"<html>"), (200, {"ok": False, "error": "full"}), (200, {"instance_id": 5})]
)
def test_a_registration_that_is_not_taken_is_tried_again_and_again(plane, answer, caplog):
    plane.answers["/v1/instance/register"] = answer
    one = registration(plane)
    assert [one.step() for _ in range(6)] == [1.0, 2.0, 5.0, 10.0, 10.0, 10.0]
    assert not one.registered.is_set()
    assert len(caplog.records) == 1


def test_stopping_unregisters(plane):
    one = registration(plane)
    one.start()
    assert one.registered.wait(10)
    one.stop()
    one.wait(10)
    assert plane.of("/v1/instance/unregister") == [{"instance_id": "hp_h:1"}]


def test_a_report_that_finds_the_instance_forgotten_makes_it_register_again(agent, plane):
    one = registration(plane)
    one.start()
    assert one.registered.wait(10)
    plane.known.clear()
    monitor = Monitor(
        one,
        Client(plane.url, 5),
        Place(agent.url, None, True),
        report_interval_s=0.02,
        sample_interval_ms=1000,
        timeout_s=5,
    )
    taken = threading.Event()
    report = plane.answers["/v1/instance/resource_snapshot"]

    def watched(message: dict) -> tuple[int, dict]:
        answer = report(message)
        if answer[1]["ok"]:
            taken.set()
        return answer

    plane.answers["/v1/instance/resource_snapshot"] = watched
    monitor.start()
    assert taken.wait(10)
    monitor.stop()
    one.stop()
    one.wait(10)
    assert len(plane.of("/v1/instance/register")) == 2


def test_only_the_agent_of_this_instance_is_ours(agent):
    client = Client(agent.url, 5)
    assert is_ours(client, "hp_h:1")
    agent.answers["/v1/resource/snapshot"] = (503, {**SNAPSHOT, "error": "not_ready"})
    assert is_ours(client, "hp_h:1")
    assert not is_ours(client, "hp_h:1", with_snapshot=True)
    for other in ((200, {**SNAPSHOT, "instance_id": "hp_h:2"}), (200, {"ok": True}), (200, b"hello"), (404, {})):
        agent.answers["/v1/resource/snapshot"] = other
        with pytest.raises(Foreign):
            is_ours(client, "hp_h:1")
    assert not is_ours(Client(f"http://127.0.0.1:{free_port('127.0.0.1')}", 5), "hp_h:1")


class Group:
    """A started agent that is only pretended."""

    def __init__(self) -> None:
        self.code: int | None = None
        self.stopped = 0

    def poll(self) -> int | None:
        return self.code

    def stop(self, patience_s: float) -> int:
        self.stopped += 1
        return 0


def monitor_of(plane: Server, where: Place, clock) -> tuple[Monitor, list[list[str]], list[Group]]:
    started: list[list[str]] = []
    groups: list[Group] = []

    def start(arguments):
        started.append(list(arguments))
        groups.append(Group())
        return groups[-1]

    one = registration(plane)
    one.step()
    monitor = Monitor(
        one,
        Client(plane.url, 5),
        where,
        report_interval_s=1,
        sample_interval_ms=500,
        timeout_s=5,
        start=start,
        monotonic=clock.monotonic,
    )
    return monitor, started, groups


def test_an_agent_that_is_there_is_used_and_never_stopped(agent, plane, machine):
    monitor, started, _ = monitor_of(plane, Place(agent.url, ("127.0.0.1", 1), True), machine.clock)
    monitor._find()
    monitor.step()
    monitor.stop()
    assert started == []


def test_where_nobody_answers_an_agent_is_started_with_the_instances_name(plane, machine):
    port = free_port("127.0.0.1")
    monitor, started, groups = monitor_of(plane, place(("127.0.0.1", port), None), machine.clock)
    monitor._is_wanted.set()
    monitor.step()
    monitor.step()
    assert started == [["resource-agent", f"--listen=127.0.0.1:{port}", "--instance-id=hp_h:1", "--sample-interval-ms=500"]]
    monitor.stop()
    assert groups[0].stopped == 1


def test_the_agent_of_another_instance_is_left_alone_and_a_free_port_is_taken(agent, plane, machine, monkeypatch):
    agent.answers["/v1/resource/snapshot"] = (200, {**SNAPSHOT, "instance_id": "hp_h:2"})
    port = int(agent.url.rpartition(":")[2])
    monitor, started, _ = monitor_of(plane, Place(agent.url, ("127.0.0.1", port), False), machine.clock)
    monkeypatch.setattr(monitor._stopped, "wait", lambda seconds: machine.clock.advance(1) or False)
    monitor._find()
    monitor.step()
    assert monitor.agent_url != agent.url
    assert f"--listen=127.0.0.1:{monitor.agent_url.rpartition(':')[2]}" in started[0]


def test_a_chosen_port_with_another_instances_agent_is_an_error(agent, plane, machine):
    agent.answers["/v1/resource/snapshot"] = (200, {**SNAPSHOT, "instance_id": "hp_h:2"})
    monitor, _, _ = monitor_of(plane, Place(agent.url, ("127.0.0.1", 1), True), machine.clock)
    with pytest.raises(Foreign, match="is the resource agent of 'hp_h:2'"):
        monitor._find()


def test_an_agent_that_ends_is_started_again_after_a_pause(plane, machine):
    monitor, started, groups = monitor_of(plane, Place("http://127.0.0.1:1", ("127.0.0.1", 1), True), machine.clock)
    monitor._is_wanted.set()
    monitor.step()
    groups[0].code = 1
    monitor.step()
    assert len(started) == 1
    machine.clock.advance(1)
    monitor.step()
    assert len(started) == 2
    groups[1].code = 1
    machine.clock.advance(1)
    monitor.step()
    machine.clock.advance(4)
    monitor.step()
    assert len(started) == 2
    machine.clock.advance(1)
    monitor.step()
    assert len(started) == 3


def test_the_agents_place_follows_the_settings():
    assert place(("::1", 9300), None) == Place("http://[::1]:9300", ("::1", 9300), True)
    assert place(None, "http://127.0.0.1:9300") == Place("http://127.0.0.1:9300", ("127.0.0.1", 9300), True)
    assert place(("127.0.0.1", 9400), "http://127.0.0.1:9300").listen == ("127.0.0.1", 9400)
    assert place(None, "https://127.0.0.1:9300").listen is None


def test_a_registration_leaves_out_what_is_not_known():
    import types

    settings = types.SimpleNamespace(instance_id=None, host="::1", port=8000, model=None)
    body = description(settings)
    assert (body["instance_id"], "model" in body["meta"], "tags" in body) == ("hp_::1:8000", False, False)
