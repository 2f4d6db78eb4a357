"""A small HTTP server for answers that are ready: GET and HEAD, one thread, no answer waits for another client.

Each connection gets one answer and is closed. Requests are bounded in size and time, connections in number.
https://www.rfc-editor.org/rfc/rfc9110
"""

from __future__ import annotations

import json
import logging
import selectors
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

log = logging.getLogger("enginehouse.http")

#: Longest head of a request, in bytes.
LARGEST_HEAD = 16 * 1024

#: Seconds that a client has for its request and for taking the answer.
PATIENCE_SECONDS = 5.0

#: More connections than this wait in the kernel's queue.
MOST_CONNECTIONS = 128

#: Bytes of a body that nobody reads, after the answer; more, and the connection is cut.
_MOST_LEFT_OVER = 1024 * 1024

_REASONS = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    408: "Request Timeout",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    503: "Service Unavailable",
}


class Answer(NamedTuple):
    """A status and a JSON body."""

    status: int
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()


def answer(status: int, headers: tuple[tuple[str, str], ...] = (), **content: object) -> Answer:
    """
    >>> answer(404, ok=False, error="not_found").body
    b'{"ok": false, "error": "not_found"}'
    """
    return Answer(status, json.dumps(content, allow_nan=False).encode(), headers)


#: Path -> what gives its answer. Must not wait for anything.
Routes = Mapping[str, Callable[[], Answer]]


def respond(head: bytes, routes: Routes) -> bytes:
    """The whole answer to a request's head: status line, headers, and the body unless it is HEAD.

    >>> respond(b"HEAD /healthz?x=1 HTTP/1.1\\r\\n\\r\\n", {"/healthz": lambda: answer(200, ok=True)}).splitlines()[0]
    b'HTTP/1.1 200 OK'
    """
    method, found = _found(head, routes)
    lines = [
        f"HTTP/1.1 {found.status} {_REASONS[found.status]}",
        "Content-Type: application/json",
        f"Content-Length: {len(found.body)}",
        "Cache-Control: no-store",
        "X-Content-Type-Options: nosniff",
        *(f"{name}: {value}" for name, value in found.headers),
        "Connection: close",
    ]
    return "\r\n".join(lines).encode("ascii") + b"\r\n\r\n" + (b"" if method == "HEAD" else found.body)


def _found(head: bytes, routes: Routes) -> tuple[str, Answer]:
    words = head.split(b"\n", 1)[0].strip(b"\r").decode("latin-1").split(" ")
    if len(words) != 3 or not words[0].isalpha() or not words[2].startswith("HTTP/1."):
        return "", answer(400, ok=False, error="bad_request")
    method, target, _ = words
    try:
        path = unquote(urlsplit(target).path if not target.startswith("/") else target.partition("?")[0].partition("#")[0])
    except ValueError:
        return method, answer(400, ok=False, error="bad_request")
    route = routes.get(path)
    if route is None:
        return method, answer(404, ok=False, error="not_found")
    if method not in ("GET", "HEAD"):
        return method, answer(405, (("Allow", "GET, HEAD"),), ok=False, error="method_not_allowed")
    try:
        return method, route()
    except Exception:  # a fault of ours must not end the server
        log.exception("%s", path)
        return method, answer(500, ok=False, error="internal_error")


@dataclass
class _Connection:
    """One client: its request as far as it came, then what it has not yet taken of the answer."""

    socket: socket.socket
    until: float
    head: bytearray = field(default_factory=bytearray)
    left: memoryview | None = None
    #: The answer is out; what still comes is thrown away, since closing at once would reset the connection.
    is_lingering: bool = False
    left_over: int = 0


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens there; port 0 takes a free one. Raises OSError."""
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(MOST_CONNECTIONS)
        listener.setblocking(False)
    except OSError:
        listener.close()
        raise
    return listener


class HttpServer:
    """Answers on `listener` until the stop socket becomes readable."""

    def __init__(self, listener: socket.socket, routes: Routes, clock: Callable[[], float] = time.monotonic) -> None:
        self._listener = listener
        self._routes = routes
        self._clock = clock
        self._selector = selectors.DefaultSelector()
        self._connections: dict[socket.socket, _Connection] = {}
        self._is_accepting = False

    def run(self, stop: socket.socket) -> None:
        """Serve until something can be read from `stop`."""
        self._selector.register(stop, selectors.EVENT_READ)
        try:
            while True:
                self._accept_if_room()
                for key, _ in self._selector.select(self._next_timeout()):
                    if key.fileobj is stop:
                        return
                    if key.fileobj is self._listener:
                        self._accept()
                    else:
                        self._serve(key.data)
                self._drop_slow()
        finally:
            for connection in list(self._connections.values()):
                self._close(connection)
            self._listener.close()
            self._selector.close()

    def _next_timeout(self) -> float | None:
        if not self._connections:
            return None
        return max(0.0, min(connection.until for connection in self._connections.values()) - self._clock())

    def _accept_if_room(self) -> None:
        has_room = len(self._connections) < MOST_CONNECTIONS
        if has_room and not self._is_accepting:
            self._selector.register(self._listener, selectors.EVENT_READ)
        elif not has_room and self._is_accepting:
            self._selector.unregister(self._listener)
        self._is_accepting = has_room

    def _accept(self) -> None:
        try:
            client, _ = self._listener.accept()
        except OSError:  # it is gone already, or there are no descriptors left
            return
        client.setblocking(False)
        connection = _Connection(client, self._clock() + PATIENCE_SECONDS)
        self._connections[client] = connection
        self._selector.register(client, selectors.EVENT_READ, connection)

    def _serve(self, connection: _Connection) -> None:
        try:
            if connection.left is not None:
                self._send(connection)
            else:
                self._receive(connection)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self._close(connection)

    def _receive(self, connection: _Connection) -> None:
        data = connection.socket.recv(65536)
        if not data:
            self._close(connection)
            return
        if connection.is_lingering:
            connection.left_over += len(data)
            if connection.left_over > _MOST_LEFT_OVER:
                self._close(connection)
            return
        connection.head += data
        end = _end_of_head(connection.head)
        if end:
            self._begin(connection, respond(bytes(connection.head[:end]), self._routes))
        elif len(connection.head) > LARGEST_HEAD:
            self._begin(connection, respond_error(431, "head_too_large"))

    def _begin(self, connection: _Connection, whole: bytes) -> None:
        connection.left = memoryview(whole)
        self._selector.modify(connection.socket, selectors.EVENT_WRITE, connection)
        self._send(connection)

    def _send(self, connection: _Connection) -> None:
        assert connection.left is not None
        connection.left = connection.left[connection.socket.send(connection.left) :]
        if not connection.left:
            connection.left, connection.is_lingering = None, True
            connection.socket.shutdown(socket.SHUT_WR)
            self._selector.modify(connection.socket, selectors.EVENT_READ, connection)

    def _drop_slow(self) -> None:
        now = self._clock()
        for connection in [one for one in self._connections.values() if one.until <= now]:
            if not connection.is_lingering and connection.left is None:
                try:
                    connection.socket.send(respond_error(408, "request_timeout"))
                except OSError:
                    pass  # it does not read either
            self._close(connection)

    def _close(self, connection: _Connection) -> None:
        del self._connections[connection.socket]
        self._selector.unregister(connection.socket)
        connection.socket.close()


def respond_error(status: int, error: str) -> bytes:
    """An answer to what is not a request."""
    return respond(b"GET / HTTP/1.1\r\n\r\n", {"/": lambda: answer(status, ok=False, error=error)})


def _end_of_head(head: bytes | bytearray) -> int:
    """Where the head ends, or 0: after an empty line, whose line ends may lack their carriage return.

    >>> _end_of_head(b"GET / HTTP/1.1\\r\\nHost: a\\r\\n\\r\\nbody"), _end_of_head(b"GET / HTTP/1.1\\r\\n")
    (27, 0)
    """
    found = [place + len(mark) for mark in (b"\r\n\r\n", b"\n\n") if (place := head.find(mark)) >= 0]
    return min(found, default=0)
