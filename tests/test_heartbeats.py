"""Heartbeats are taken before Flask is asked, and answered exactly as Flask answers them."""

from __future__ import annotations

import gzip
import threading

import pytest

from tests.sockets import connect, get
from webapp import heartbeat
from webapp.server.serving import Limits, Server
from webapp.views.heartbeats import PATH, is_heartbeat

#: A browser's header for what its reader typed: Flask's guard lets it pass, the shortcut leaves it to Flask.
BY_FLASK = {"Sec-Fetch-Site": "none"}


def test_no_heartbeat_reaches_flask(app, client, measurement, registry, monkeypatch):
    monkeypatch.setattr(app, "full_dispatch_request", lambda ctx: pytest.fail("Flask was asked"))
    answer = client.post(PATH, data=heartbeat.write(measurement))
    assert answer.json == {"ok": True, "outcome": "accepted", "interval_s": 10.0, "rejected": []}
    assert client.post(PATH, data=heartbeat.write(measurement)).json["outcome"] == "replayed"
    assert registry.node("cpu-07").source == "127.0.0.1"


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (b'{"node":"a"}', {}),
        (b'{"node":"a","load":{"cpus":"many"},"gpus":5}', {}),
        (b"", {}),
        (b"[1]", {}),
        (b'{"node":""}', {}),
        (b"x" * (1024 * 1024 + 1), {}),
        (gzip.compress(b'{"node":"a"}', mtime=0), {"Content-Encoding": "gzip"}),
        (gzip.compress(b'{"node":"a"}', mtime=0)[:-9], {"Content-Encoding": "gzip"}),
        (gzip.compress(b"x" * 2_000_000, mtime=0), {"Content-Encoding": "gzip"}),
        (b'{"node":"a"}', {"Content-Encoding": "br"}),
    ],
)
def test_flask_and_the_shortcut_say_the_same(client, body, headers):
    quick = client.post(PATH, data=body, headers=headers)
    slow = client.post(PATH, data=body, headers=headers | BY_FLASK)
    assert quick.status_code == slow.status_code
    assert quick.json == slow.json
    alike = {"Content-Length", "Vary"}
    assert {name for name, _ in quick.headers} | alike == {name for name, _ in slow.headers} | alike
    assert all(quick.headers[name] == value for name, value in slow.headers if name not in alike)


@pytest.mark.parametrize(("method", "path"), [("GET", PATH), ("PUT", PATH), ("POST", PATH + "/"), ("POST", "/v1/nodes")])
def test_all_else_is_flasks(client, method, path):
    assert client.open(path, method=method).status_code in (404, 405)


def test_its_time_is_counted_as_that_of_any_request(client, measurement):
    client.post(PATH, data=heartbeat.write(measurement))
    metrics = client.get("/metrics").text
    assert 'enginehouse_request_duration_seconds_count{route="machines.beat"} 1' in metrics


def test_a_large_heartbeat_goes_to_a_thread():
    request = {"REQUEST_METHOD": "POST", "PATH_INFO": PATH}
    assert is_heartbeat(request | {"CONTENT_LENGTH": "65536"})
    assert is_heartbeat(request | {"PATH_INFO": "/sub/path" + PATH})
    assert not is_heartbeat(request | {"CONTENT_LENGTH": "65537"})
    assert not is_heartbeat(request | {"CONTENT_LENGTH": "99", "HTTP_CONTENT_ENCODING": "gzip"})
    assert not is_heartbeat(request | {"REQUEST_METHOD": "GET"})
    assert not is_heartbeat(request | {"PATH_INFO": "/"})


def test_what_is_answered_at_once_waits_for_no_thread():
    release = threading.Event()

    def application(environ, start_response):
        if environ["PATH_INFO"] == "/slow":
            release.wait(20)
        start_response("200 OK", [])
        return [environ["PATH_INFO"].encode()]

    server = Server(application, "127.0.0.1", 0, Limits(threads=1), at_once=lambda environ: environ["PATH_INFO"] == "/quick")
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        with connect(server) as slow:
            slow.sendall(b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
            for _ in range(20):
                assert get(server, "/quick") == (200, b"/quick")
            release.set()
            assert slow.recv(1000).endswith(b"/slow")
    finally:
        release.set()
        server.stop()
        thread.join(10)


def test_requests_that_come_at_once_are_answered_in_turn():
    def application(environ, start_response):
        start_response("200 OK", [("Content-Length", "2")])
        return [environ["PATH_INFO"][1:].encode()]

    server = Server(application, "127.0.0.1", 0, at_once=lambda environ: environ["PATH_INFO"] < "/05")
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        with connect(server) as client:
            client.sendall(b"".join(b"GET /%02d HTTP/1.1\r\nHost: a\r\n\r\n" % number for number in range(10)))
            client.sendall(b"GET /99 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            answers = client.makefile("rb").read().split(b"HTTP/1.1 200 OK")[1:]
    finally:
        server.stop()
        thread.join(10)
    assert [answer[-2:] for answer in answers] == [b"%02d" % number for number in (*range(10), 99)]
