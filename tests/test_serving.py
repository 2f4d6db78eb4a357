"""The web server itself, over real sockets: slow clients, crowds, TLS, and its end."""

from __future__ import annotations

import gc
import http.client
import os
import socket
import ssl
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tests.programs import eventually
from tests.sockets import certificate, connect, get, port
from webapp.server.channels import Channel
from webapp.server.http_messages import RequestReader
from webapp.server.serving import CannotListen, Limits, Server, Tls

BIG = b"x" * 3_000_000


def application(environ, start_response):
    """Echoes the body's length; /big answers with megabytes."""
    body = environ["wsgi.input"].read()
    answer = BIG if environ["PATH_INFO"] == "/big" else f"{environ['wsgi.url_scheme']} {len(body)}".encode()
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(answer)))])
    return [answer]


@contextmanager
def serving(limits: Limits = Limits(), tls: Tls | None = None) -> Iterator[tuple[Server, Counter[str]]]:  # noqa: B008
    closed: Counter[str] = Counter()
    server = Server(application, "127.0.0.1", 0, limits, tls=tls, closed=closed)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        yield server, closed
    finally:
        server.stop()
        thread.join(15)
        assert not thread.is_alive()


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET / HTTP/1.1\r\nHost: a\r\nX-",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nhalf",
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
    ],
    ids=["nothing", "half a head", "half a body", "half a chunked body"],
)
def test_a_client_that_does_not_finish_is_closed_whatever_it_trickles(sent, monkeypatch):
    monkeypatch.setattr("webapp.server.channels.IDLE_SECONDS", 0.5)
    with serving(Limits(read_seconds=0.5)) as (server, closed), connect(server) as client:
        client.sendall(sent)

        def is_closed() -> bool:
            try:
                client.sendall(b"1" if sent else b"")  # a byte now and then buys no time
                client.settimeout(0.05)
                return client.recv(100) == b""
            except TimeoutError:
                return False
            except OSError:
                return True

        eventually(is_closed, "the server to close the connection", patience_s=10)
        assert closed["slow_request" if sent else "idle"] == 1


def test_two_hundred_clients_that_hang_keep_nobody_out():
    """Twice as many as there are connections: those that wait longest make room."""
    with serving(Limits(threads=2, connections=100, read_seconds=60)) as (server, closed):
        hanging = [connect(server) for _ in range(200)]
        for client in hanging:
            try:
                client.sendall(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n")
            except OSError:
                pass  # it has made room already
        for _ in range(20):
            assert get(server, body=b"hello") == (200, b"http 5")
        assert closed["crowded"] >= 100
        assert server.connections <= 100
        for client in hanging:
            client.close()


def test_who_does_not_read_the_answer_is_closed_and_holds_no_thread(monkeypatch):
    monkeypatch.setattr("webapp.server.channels.LONGEST_ANSWER_SECONDS", 0.5)
    with serving(Limits(threads=1)) as (server, closed), connect(server) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.sendall(b"GET /big HTTP/1.1\r\nHost: a\r\n\r\n" * 3)
        assert get(server) == (200, b"http 0")
        eventually(lambda: closed["slow_reader"] == 1, "the slow reader to be closed", patience_s=10)


def test_answers_that_nobody_reads_take_bounded_memory(monkeypatch):
    monkeypatch.setattr("webapp.server.serving.LARGEST_WAITING_BYTES", 100_000)
    with serving() as (server, closed):
        deaf = [connect(server) for _ in range(10)]
        for client in deaf:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.sendall(b"GET /big HTTP/1.1\r\nHost: a\r\n\r\n" * 3)
        eventually(lambda: closed["slow_reader"] >= 9, "most of them to be closed", patience_s=10)
        assert get(server) == (200, b"http 0")
        for client in deaf:
            client.close()


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10000000000\r\n\r\n", 413),
        (b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + b"8000\r\n" + b"x" * 0x8000 + b"\r\n", 413),
        (b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, gzip\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 501),
        (b"GET / HTTP/1.1\r\nHost: a\r\n" + b"X: y\r\n" * 20_000, 431),
        (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n", 400),
        (b"GET /\x00 HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
    ],
)
def test_what_is_no_request_is_refused_with_the_headers_of_every_answer(sent, code):
    """T148"""
    with serving(Limits(body_bytes=10_000)) as (server, _), connect(server) as client:
        try:
            client.sendall(sent)
        except OSError:
            pass  # it has read enough
        head = client.recv(65536)
        assert head.startswith(f"HTTP/1.{head[7:8].decode()} {code} ".encode())
        assert b"X-Content-Type-Options: nosniff\r\n" in head
        assert b"Content-Security-Policy: default-src 'none'" in head


def test_a_chunked_body_is_read():
    """T148"""
    with serving() as (server, _), connect(server) as client:
        client.sendall(
            b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
        )
        assert client.makefile("rb").read().endswith(b"http 5")


@pytest.mark.parametrize("endless", [b"0\r\nX: ", b"0\r\n", b"5;"], ids=["trailer", "trailer's name", "chunk's extension"])
def test_what_surrounds_a_chunked_body_is_bounded(endless):
    with serving() as (server, closed), connect(server) as client:
        client.sendall(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + endless)
        for _ in range(40):
            try:
                client.sendall(b"a" * 64 * 1024)
            except OSError:
                break  # it has read enough
        eventually(lambda: closed["http_431"] == 1, "the client to be refused", patience_s=10)


def test_many_small_chunks_are_no_endless_head():
    with serving() as (server, _), connect(server) as client:
        client.sendall(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n")
        for _ in range(40):
            client.sendall(b"1\r\na\r\n" * 1000)
        client.sendall(b"0\r\n\r\n")
        assert client.makefile("rb").read().endswith(b"http 40000")


def test_a_header_behind_the_body_says_nothing():
    """A proxy takes out of the head what its clients may not say, such as who they are; it does not look behind the body."""
    reader = RequestReader({}, 1000, lambda: None)
    reader.feed(
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n"
        b"X-Forwarded-User: admin\r\nHost: b\r\nContent-Encoding: gzip\r\n\r\n"
    )
    ((environ, _),) = reader.ready
    assert environ["HTTP_HOST"] == "a"
    assert environ["CONTENT_LENGTH"] == "5"
    assert not {"HTTP_X_FORWARDED_USER", "HTTP_CONTENT_ENCODING"} & environ.keys()


def test_told_to_stop_it_answers_what_was_asked_and_takes_nothing_new():
    asked, may_answer = threading.Event(), threading.Event()

    def slow(environ, start_response):
        asked.set()
        may_answer.wait(10)
        return application(environ, start_response)

    server = Server(slow, "127.0.0.1", 0, Limits(), closed=Counter())
    thread = threading.Thread(target=server.run)
    thread.start()
    answers: list[tuple[int, bytes]] = []
    asking = threading.Thread(target=lambda: answers.append(get(server, "/")))
    asking.start()
    with connect(server):  # one that asks nothing holds nothing up
        eventually(lambda: server.connections == 2, "both connections")
        assert asked.wait(10)
        server.stop()
        may_answer.set()
        thread.join(10)
    asking.join(10)
    assert answers == [(200, b"http 0")]
    with pytest.raises(ConnectionRefusedError):
        connect(server)


# TLS


@pytest.fixture
def tls(tmp_path) -> Tls:
    return certificate(tmp_path)


@pytest.fixture
def trusting(tls) -> Callable[[], ssl.SSLContext]:
    return lambda: ssl.create_default_context(cafile=tls.certificate)


def test_tls_is_spoken_and_the_application_knows(tls, trusting):
    with serving(tls=tls) as (server, _):
        assert server.url.startswith("https://")
        assert get(server, context=trusting()) == (200, b"https 0")
        assert get(server, context=trusting(), body=b"y" * 1_000_000) == (200, b"https 1000000")
        assert get(server, "/big", context=trusting()) == (200, BIG)


def test_many_speak_tls_at_once_over_connections_that_they_keep(tls, trusting):
    with serving(Limits(threads=4), tls=tls) as (server, _):
        counted: Counter[tuple[int, int]] = Counter()

        def ask() -> None:
            client = http.client.HTTPSConnection("127.0.0.1", port(server), timeout=20, context=trusting())
            for number in range(30):
                client.request("POST", "/big" if number % 10 == 0 else "/", body=b"z" * 1000 * number)
                answer = client.getresponse()
                counted[answer.status, len(answer.read())] += 1
            client.close()

        threads = [threading.Thread(target=ask) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert sum(counted.values()) == 240
        assert {status for status, _ in counted} == {200}
        assert counted[200, len(BIG)] == 24


def test_who_speaks_no_tls_or_stops_in_its_handshake_holds_nobody_up(tls, trusting):
    with serving(Limits(threads=1, read_seconds=1.0), tls=tls) as (server, _):
        stuck = [connect(server) for _ in range(20)]
        for client in stuck:
            client.sendall(b"\x16\x03\x01")
        with connect(server) as plain:
            plain.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            try:
                assert not plain.recv(100).startswith(b"HTTP")
            except ConnectionResetError:
                pass
        with pytest.raises(ssl.SSLError):
            get(server, context=ssl.create_default_context())
        assert get(server, context=trusting()) == (200, b"https 0")
        for client in stuck:
            client.close()


def test_a_renewed_certificate_is_taken_and_a_broken_one_is_not(tls, tmp_path, monkeypatch):
    monkeypatch.setattr("webapp.server.tls.LOOK_SECONDS", -1.0)
    with serving(tls=tls) as (server, _):

        def shown() -> bytes:
            return ssl.get_server_certificate(("127.0.0.1", port(server)), timeout=10).encode()

        first = shown()
        assert first == tls.certificate.read_bytes()
        certificate(tmp_path, "renewed")
        os.utime(tls.certificate, ns=(1, 1))
        second = shown()
        assert second == tls.certificate.read_bytes() != first
        tls.certificate.write_bytes(b"no certificate")
        assert shown() == second


@pytest.mark.parametrize("content", [None, b"", b"no certificate"])
def test_a_certificate_that_cannot_be_used_is_one_line(tmp_path, content):
    path = tmp_path / "cert.pem"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(CannotListen, match=r"cert\.pem"):
        Tls(path)


def test_an_address_in_use_is_one_line():
    with serving() as (server, _), pytest.raises(CannotListen, match="Address already in use"):
        Server(application, "127.0.0.1", port(server), Limits(threads=1))


def test_connections_that_ended_leave_no_garbage():
    """A thousand a second come and go; to search for what is left of them would stop all threads."""

    def channels() -> int:
        return sum(isinstance(one, Channel) for one in gc.get_objects())

    gc.collect()
    before = channels()
    gc.disable()
    try:
        with serving() as (server, _):
            for _ in range(20):
                status, _body = get(server)
                assert status == 200
            with connect(server) as client:
                client.sendall(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nhalf")
            eventually(lambda: server.connections == 0, "the server to see that all have left")
            eventually(lambda: channels() == before, "the connections to be gone")
    finally:
        gc.enable()
