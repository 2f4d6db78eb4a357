"""One heartbeat against servers that answer, refuse, redirect, dawdle or are no control plane."""

from __future__ import annotations

import http.server
import json
import socket
import threading
import zlib
from collections.abc import Callable

import pytest

from webapp.agent.answers import NotDelivered, without_secrets
from webapp.agent.connection import target
from webapp.agent.sender import Sender

OK = (200, {"Content-Type": "application/json"}, b'{"ok": true, "interval_s": 12.5}')


class Server(http.server.ThreadingHTTPServer):
    """Answers as `answer(path)` says; remembers what it was asked."""

    daemon_threads = True

    def __init__(self, answer: Callable[[str], tuple[int, dict[str, str], bytes]]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answer = answer
        self.asked: list[tuple[str, str, dict[str, str], bytes]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(http.server.BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.asked.append((self.command, self.path, dict(self.headers), body))
        status, headers, content = self.server.answer(self.path)
        self.send_response(status)
        for name, value in {"Content-Length": str(len(content)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def serve():
    """serve(answer) -> a running Server."""
    servers = []

    def start(answer) -> Server:
        server = Server(answer if callable(answer) else lambda path: answer)
        servers.append(server)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        return server

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def body(address: str) -> bytes:
    return json.dumps({"node": "cpu-07", "from": address}).encode()


def refusal(server: Server, **more) -> str:
    with pytest.raises(NotDelivered) as caught:
        Sender(server.url, **more).send(body)
    return str(caught.value)


def test_a_heartbeat_arrives_and_the_wanted_interval_comes_back(serve):
    server = serve(OK)
    assert Sender(server.url + "/sub/").send(body) == 12.5
    ((method, path, headers, content),) = server.asked
    assert (method, path) == ("POST", "/sub/v1/nodes/heartbeat")
    assert (headers["Content-Type"], json.loads(content)["from"]) == ("application/json", "127.0.0.1")
    assert "Authorization" not in headers


def test_a_large_heartbeat_is_compressed(serve):
    server = serve(OK)
    Sender(server.url).send(lambda address: b"x" * 100_000)
    ((_, _, headers, content),) = server.asked
    assert headers["Content-Encoding"] == "gzip"
    assert zlib.decompress(content, 31) == b"x" * 100_000


@pytest.mark.parametrize("interval", [b"true", b'"10"', b"-1", b"0", b"null", b"1e999", b"NaN"])
def test_an_interval_that_is_none_is_not_taken(serve, interval):
    assert Sender(serve((200, {}, b'{"ok": true, "interval_s": %b}' % interval)).url).send(body) is None


@pytest.mark.parametrize("status", [301, 302, 303, 307])
def test_a_redirect_that_would_become_a_get_is_a_configuration_error(serve, status):
    """T74"""
    elsewhere = serve(OK)
    said = refusal(serve((status, {"Location": elsewhere.url + "/login?next=secret"}, b"")))
    assert said.startswith(f"{status} redirects to {elsewhere.url}/login;")
    assert elsewhere.asked == []


def test_308_posts_the_body_again_and_is_remembered(serve):
    """T74"""
    new = serve(OK)
    old = serve((308, {"Location": new.url + "/v1/nodes/heartbeat"}, b""))
    sender = Sender(old.url)
    assert sender.send(body) == 12.5
    assert json.loads(new.asked[0][3])["node"] == "cpu-07"
    sender.send(body)
    assert (len(old.asked), len(new.asked)) == (1, 2)


def test_308_may_be_relative_and_does_not_go_round_for_ever(serve):
    """T74"""
    moved = serve(lambda path: OK if path == "/new" else (308, {"Location": "/new"}, b""))
    assert Sender(moved.url).send(body) == 12.5
    assert "more than 3 redirects" in refusal(serve((308, {"Location": "/again"}, b"")))
    assert refusal(serve((308, {}, b""))) == "308 without a Location"
    for nowhere in ("ftp://x/", "http://[::1", "http://a:b@[zz]/"):
        assert "which is not an address" in refusal(serve((308, {"Location": nowhere}, b"")))
        assert refusal(serve((302, {"Location": nowhere}, b""))).startswith("302 redirects to ")


@pytest.mark.parametrize(
    ("kind", "content"),
    [("text/html", b"<h1>Log in</h1>"), ("application/json", b"[]"), ("application/json", b'{"ok": 1}'), ("x", b"[" * 100_000)],
)
def test_200_that_is_not_ours_is_a_failure(serve, kind, content):
    """T74"""
    assert (
        refusal(serve((200, {"Content-Type": kind}, content)))
        == f"200 with {kind} instead of a heartbeat's answer: is it a control plane?"
    )


@pytest.mark.parametrize(
    ("status", "content", "said"),
    [
        (401, b"{}", "401 the token is missing or wrong"),
        (403, b"", "403 not allowed"),
        (409, b'{"error": "cpu-07 is agent 1234"}', "409 another node has this name: cpu-07 is agent 1234"),
        (413, b'{"error": {"message": "at most 1 MiB"}}', "413 the heartbeat is too large: at most 1 MiB"),
        (400, b'{"error": "bad\\nline \\u001b[31m"}', "400 the heartbeat was not understood: bad line  [31m"),
        (500, b"<h1>oops", "500"),
        (200, b'{"ok": false, "error": "gone"}', "200 with no type instead of a heartbeat's answer: is it a control plane?"),
    ],
)
def test_a_refusal_says_why_on_one_line(serve, status, content, said):
    assert refusal(serve((status, {}, content))) == said


def test_nobody_there():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        with pytest.raises(NotDelivered, match="Connection refused"):
            Sender(f"http://127.0.0.1:{free.getsockname()[1]}").send(body)


def test_a_silent_server_is_given_up():
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(NotDelivered, match="did not answer in time"):
        Sender(f"http://127.0.0.1:{silent.getsockname()[1]}", step_s=0.1).send(body)


def test_a_server_that_dribbles_is_cut_off(serve):
    """One byte now and then would keep the socket's own timeout from ever striking."""
    ended = threading.Event()

    def dribble(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            connection.sendall(b"HTTP/1.1 200 OK\r\nX: ")
            try:
                while not ended.wait(0.02):
                    connection.sendall(b"x")
            except OSError:
                pass  # cut off

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=dribble, args=(listener,), daemon=True)
        thread.start()
        with pytest.raises(NotDelivered):
            Sender(f"http://127.0.0.1:{listener.getsockname()[1]}", step_s=5, whole_s=0.3).send(body)
        ended.set()
        thread.join()


@pytest.mark.parametrize(
    "said", [b"", b"garbage\r\n\r\n", b"HTTP/1.1 999999 x\r\n\r\n", b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 200]
)
def test_a_server_that_speaks_no_http_is_a_failure(said):
    def speak(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(said)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=speak, args=(listener,), daemon=True)
        thread.start()
        with pytest.raises(NotDelivered):
            Sender(f"http://127.0.0.1:{listener.getsockname()[1]}", step_s=2).send(body)
        thread.join()


def test_the_token_is_read_from_its_file_each_time(serve, tmp_path):
    """T107: a line end is no part of it"""
    server, file = serve(OK), tmp_path / "token"
    sender = Sender(server.url, token_file=file)
    file.write_text("abc123\n")
    sender.send(body)
    file.write_text("next\r\n")
    sender.send(body)
    assert [headers["Authorization"] for _, _, headers, _ in server.asked] == ["Bearer abc123", "Bearer next"]


@pytest.mark.parametrize("content", [b"", b"\n", b"a\nb", b"a\x00b", b"\xff"])
def test_a_token_that_no_header_can_carry_is_not_sent_and_not_shown(serve, tmp_path, content):
    (tmp_path / "token").write_bytes(content)
    server = serve(OK)
    assert refusal(server, token_file=tmp_path / "token").startswith(f"{tmp_path}/token: expected ")
    assert server.asked == []
    assert "cannot be read" in refusal(server, token_file=tmp_path / "absent")


def test_the_token_does_not_follow_to_another_host(serve, tmp_path):
    (tmp_path / "token").write_text("secret")
    new = serve(OK)
    old = serve((308, {"Location": f"http://localhost:{new.server_port}/x"}, b""))
    Sender(old.url, token_file=tmp_path / "token").send(body)
    assert "Authorization" in old.asked[0][2]
    assert "Authorization" not in new.asked[0][2]


@pytest.mark.parametrize(
    ("url", "host", "port", "authority"),
    [
        ("http://[2001:db8::3222]:9001", "2001:db8::3222", 9001, "[2001:db8::3222]:9001"),
        ("http://[::1]:9001", "::1", 9001, "[::1]:9001"),
        ("http://[fe80::1%25eth0]:9001", "fe80::1%eth0", 9001, "[fe80::1]:9001"),
        ("http://[2001:db8::3222]", "2001:db8::3222", 80, "[2001:db8::3222]"),
        ("https://house", "house", 443, "house"),
    ],
)
def test_ipv6_addresses_keep_their_last_group_and_their_brackets(url, host, port, authority):
    """T76"""
    assert target(url)[1:3] == (host, port)
    assert target(url).authority == authority


def test_ipv6_is_spoken(serve):
    """T76"""
    try:
        listener = socket.create_server(("::1", 0), family=socket.AF_INET6)
    except OSError:
        listener = None
    if listener is None:
        return  # this machine has no IPv6
    heard: list[bytes] = []

    def answer() -> None:
        connection, _ = listener.accept()
        with connection:
            heard.append(connection.recv(65536))
            connection.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n{"ok": true}')

    thread = threading.Thread(target=answer, daemon=True)
    thread.start()
    with listener:
        port = listener.getsockname()[1]
        assert Sender(f"http://[::1]:{port}").send(body) is None
        thread.join()
    assert b"\r\nHost: [::1]:%d\r\n" % port in heard[0]


def test_addresses_are_shown_without_secrets():
    assert without_secrets("http://user:pass@[::1]:9/x?token=1#y") == "http://[::1]:9/x"
    assert without_secrets("http://a\x1bb/") == "http://a b/"
