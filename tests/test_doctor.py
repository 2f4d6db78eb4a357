"""The doctor names the first thing that is wrong, and what helps."""

from __future__ import annotations

import contextlib
import itertools
import socket
import socketserver
import threading
import time
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from types import SimpleNamespace

import pytest

from webapp import __version__, doctor


@pytest.fixture
def proc(tmp_path) -> Path:
    root = tmp_path / "proc"
    (root / "1").mkdir(parents=True)
    (root / "1" / "cmdline").write_bytes(b"/sbin/init\0")
    (root / "77").mkdir()
    (root / "77" / "cmdline").write_bytes(b"python3\0-m\0webapp.agent\0--server\0x\0")
    for name in ("stat", "meminfo", "loadavg"):
        (root / name).write_text("x")
    return root


@pytest.fixture
def serve():
    """A server whose answers a test states: `serve({"/healthz": (200, "application/json", b"{}")})`; "date" is its clock."""
    servers = []

    def start(answers: dict, offset_s: float = 0.0) -> str:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                code, kind, body = answers.get(self.path.partition("?")[0], (404, "text/html", b"<h1>Not here</h1>"))
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                self.send_response_only(code)
                for name, value in (("Content-Type", kind), ("Content-Length", str(len(body))), ("Location", "/login")):
                    self.send_header(name, value)
                self.send_header("Date", formatdate(time.time() + offset_s, usegmt=True))
                self.end_headers()
                self.wfile.write(body)

            do_POST = do_GET

            def log_message(self, *arguments: object) -> None: ...

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_port}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture
def examine(proc, tmp_path):
    """The report and its exit code."""

    def run(**more: object) -> tuple[int, str]:
        (tmp_path / "data").mkdir(exist_ok=True)
        settings = {"proc": proc, "data_dir": tmp_path / "data", "server": (), "token_file": None, "ca_file": None, **more}
        said: list[str] = []
        return doctor.report(SimpleNamespace(**settings), said.append), "".join(said)

    return run


HEALTH = b'{"ok": true, "version": "%s", "problems": []}' % __version__.encode()
GOOD = {"/healthz": (200, "application/json", HEALTH), "/v1/nodes/heartbeat": (400, "application/json", b"{}")}


def first_wrong(report: str) -> str:
    return report.partition("First, this is wrong: ")[2].partition("\n")[0]


def test_nothing_is_wrong(examine, serve):
    code, report = examine(server=(serve(GOOD),))
    assert code == 0
    assert "an agent runs here, process 77" in report
    assert "takes heartbeats from here" in report
    assert "this machine's clock and that of" in report
    assert "wrong  " not in report


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ({"/healthz": (302, "text/html", b"")}, "answers 302 with text/html: this is not a control plane"),
        ({"/healthz": (200, "text/html", b"<form>sign in</form>")}, "answers 200 with text/html: this is not a control plane"),
        ({"/healthz": (200, "application/json", b"[" * 5000)}, "this is not a control plane"),
        (GOOD | {"/v1/nodes/heartbeat": (401, "application/json", b"{}")}, "asks agents for a token"),
        (GOOD | {"/v1/nodes/heartbeat": (301, "text/html", b"")}, "answers a heartbeat with 301"),
        (
            GOOD | {"/healthz": (200, "application/json", HEALTH.replace(b"[]", b'["The disk \\u001b[31mis full."]'))},
            r"says: The disk \x1b[31mis full.",
        ),
    ],
)
def test_what_is_wrong_with_the_control_plane_is_named(examine, serve, answers, said):
    code, report = examine(server=(serve(answers),))
    assert code == 1
    assert said in first_wrong(report)


def test_clocks_that_are_apart_are_reported_and_are_no_fault(examine, serve):
    code, report = examine(server=(serve(GOOD, offset_s=3600),))
    assert code == 0
    assert "3600 s apart" in report or "3599 s apart" in report


def test_a_version_that_differs_is_reported(examine, serve):
    answers = GOOD | {"/healthz": (200, "application/json", b'{"version": "99.0"}')}
    assert "is 99.0" in examine(server=(serve(answers),))[1]


def test_nobody_listens_nobody_is_called_so_and_nobody_answers(examine, monkeypatch):
    monkeypatch.setattr("webapp.enquiry.TIMEOUT_S", 0.3)
    with socket.socket() as free, socket.socket() as deaf:
        free.bind(("127.0.0.1", 0))
        deaf.bind(("127.0.0.1", 0))
        deaf.listen()
        for place, said in (
            (f"127.0.0.1:{free.getsockname()[1]}", "nothing is listening there"),
            ("no-such-host.invalid", "its name cannot be resolved"),
            (f"127.0.0.1:{deaf.getsockname()[1]}", "it did not answer within"),
        ):
            code, report = examine(server=(f"http://{place}",))
            assert code == 1
            assert first_wrong(report).startswith(place)
            assert said in report


@pytest.mark.parametrize(
    ("pieces", "said"),
    [
        ([b"SSH-2.0-OpenSSH_9.2\r\n"], "it does not speak HTTP on this port"),
        ([], "it closed the connection without an answer"),
        ([b"HTTP/1.1 302 Found\r\nLocation: http://[::1\r\nContent-Length: 0\r\n\r\n"], "answers 302"),
        (itertools.repeat(b"H"), "it did not answer in full within"),
    ],
)
def test_what_only_looks_like_a_control_plane_is_named_in_time(examine, monkeypatch, pieces, said):
    """The last one sends a byte now and then, for ever."""
    monkeypatch.setattr("webapp.enquiry.WHOLE_S", 0.5)
    ended = threading.Event()

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(65536)
            with contextlib.suppress(OSError):
                for piece in pieces:
                    self.request.sendall(piece)
                    if ended.wait(0.05):
                        return

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        code, report = examine(server=(f"http://127.0.0.1:{server.server_address[1]}",))
        ended.set()
        server.shutdown()
    assert code == 1
    assert said in report


def test_a_password_in_an_address_is_not_shown(examine, serve):
    for address in ("http://127.0.0.1:1", serve(GOOD)):
        _, report = examine(server=(address.replace("//", "//me:secret@"),))
        assert "secret" not in report


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("stat", None, "stat cannot be read"),
        ("meminfo", "", "meminfo is empty"),
    ],
)
def test_what_hides_the_node_is_named_first(examine, proc, name, content, said):
    (proc / name).unlink()
    if content is not None:
        (proc / name).write_text(content)
    code, report = examine()
    assert code == 1
    assert said in first_wrong(report)


@pytest.mark.parametrize("content", [b"", b"two tokens", b"\xff\xff"])
def test_a_file_that_holds_no_token_is_named(examine, tmp_path, content):
    (tmp_path / "token").write_bytes(content)
    assert str(tmp_path / "token") in first_wrong(examine(token_file=tmp_path / "token")[1])


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ((200, "application/json", b'{"status": "success", "data": {"result": [{}]}}'), "has our series"),
        ((200, "application/json", b'{"status": "success", "data": {"result": []}}'), "has no series llmgw_node_up"),
        ((200, "text/html", b"<html>"), "this is not Prometheus"),
    ],
)
def test_prometheus_is_asked_where_it_is_configured(examine, serve, answer, said):
    assert said in examine(server=(serve(GOOD),), prometheus=serve({"/api/v1/query": answer}))[1]


def test_a_damaged_history_is_reported(examine, tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "history.sqlite.corrupt-20261130T000000Z").touch()
    assert "was damaged and set aside" in examine()[1]
