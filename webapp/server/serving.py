"""The web server: one loop that reads requests and writes answers, and threads for the requests that take time.

A request reaches the application only when it is whole, so that a slow client costs a socket; and no socket for ever:
whoever takes too long to send or to read is closed, and where all connections are taken, the one that has waited
longest makes room. Requests that are answered at once, as heartbeats are, never leave the loop: handing one to a thread
and back takes longer than to answer it. TLS is by the operator's certificate, read again when its file changes.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from email.utils import formatdate
from types import FrameType
from typing import Any

import uvloop

from webapp.server.channels import Channel, Limits
from webapp.server.http_messages import BASE_ENVIRON, Answer, Environ, call
from webapp.server.tls import CannotListen, Tls

log = logging.getLogger(__name__)

__all__ = ["CannotListen", "Limits", "Server", "Tls"]

#: Seconds for the requests that are being answered when the server is told to stop.
DRAIN_SECONDS = 5.0

#: Bytes of all answers that wait to be read; beyond, whoever has read longest is closed.
LARGEST_WAITING_BYTES = 256 * 1024 * 1024

#: Connections taken at once before others get their turn.
_AT_ONCE = 64


class Server:
    """Listens from the moment it is made. Raises CannotListen."""

    def __init__(
        self,
        application: Callable[..., Iterable[bytes]],
        host: str,
        port: int,
        limits: Limits = Limits(),  # noqa: B008
        *,
        tls: Tls | None = None,
        closed: Counter[str] | None = None,
        at_once: Callable[[Environ], bool] = lambda environ: False,
    ) -> None:
        """`closed` counts the connections that were closed on a client, by reason. `at_once`: which requests the
        application answers without waiting for anything.
        """
        self.limits = limits
        self.closed: Counter[str] = Counter() if closed is None else closed
        self._application = application
        self._at_once = at_once
        self._tls = tls
        self._listeners = _listeners(host, port)
        bound = self._listeners[0].getsockname()[1]
        shown = f"[{host}]" if ":" in host else host
        self.url = f"{'https' if tls else 'http'}://{shown}:{bound}"
        self.environ = BASE_ENVIRON | {
            "SERVER_NAME": host,
            "SERVER_PORT": str(bound),
            "wsgi.url_scheme": "https" if tls else "http",
        }
        self._connections: dict[Channel, None] = {}
        self._arriving: dict[asyncio.Task[Any], float] = {}
        self._loop = uvloop.new_event_loop()
        self._threads = ThreadPoolExecutor(limits.threads, thread_name_prefix="request")
        self._stopping = asyncio.Event()
        self._stops = 0
        self._date = b"", 0

    @property
    def connections(self) -> int:
        return len(self._connections) + len(self._arriving)

    # For connections

    def now(self) -> float:
        return self._loop.time()

    def soon(self, do: Callable[[], Any]) -> None:
        self._loop.call_soon(do)

    def joined(self, connection: Channel) -> None:
        self._connections[connection] = None

    def left(self, connection: Channel) -> None:
        self._connections.pop(connection, None)

    def ask(self, environ: Environ, then: Callable[[Answer], None]) -> None:
        """Let the application answer; `then` gets the answer in the loop."""
        if self._at_once(environ):
            then(self._answer(environ))
            return

        def work() -> None:
            answer = self._answer(environ)
            with contextlib.suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(then, answer)

        self._threads.submit(work)

    def _answer(self, environ: Environ) -> Answer:
        try:
            return call(self._application, environ)
        except Exception:
            log.exception("%s %s failed", environ["REQUEST_METHOD"], environ["PATH_INFO"])
            return Answer("500 Internal Server Error", [("Content-Type", "text/plain")], b"Internal Server Error\n")

    def date(self) -> bytes:
        """The header Date; written anew each second."""
        second = int(self.now())
        if self._date[1] != second:
            self._date = f"Date: {formatdate(usegmt=True)}\r\n".encode(), second
        return self._date[0]

    # Start and end

    def stop(self, number: int = 0, frame: FrameType | None = None) -> None:
        """Let `run` return. Whoever asks twice doesn't wait for anything."""
        self._stops += 1
        with contextlib.suppress(RuntimeError):  # it has ended already
            self._loop.call_soon_threadsafe(self._stopping.set)

    def run(self) -> None:
        """Serves until SIGINT, SIGTERM or `stop`, then answers what was asked by then."""
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                self._loop.add_signal_handler(number, self.stop)
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            for listener in self._listeners:
                listener.close()
            self._threads.shutdown(wait=False, cancel_futures=True)
            self._loop.close()

    async def _serve(self) -> None:
        for listener in self._listeners:
            self._loop.add_reader(listener, self._accept, listener)
        while not self._stopping.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), 1.0 if self.limits.read_seconds >= 2 else 0.1)
            self._close_overdue()
        for listener in self._listeners:
            self._loop.remove_reader(listener)
            listener.close()
        await self._drain()
        for task in self._arriving:
            task.cancel()
        for connection in list(self._connections):
            connection.abort()
        await asyncio.sleep(0)

    async def _drain(self) -> None:
        until = self.now() + DRAIN_SECONDS
        while any(connection.is_busy for connection in self._connections):
            if self._stops > 1:
                return
            if self.now() > until:
                log.warning("stopped with requests unanswered after %.0f s", DRAIN_SECONDS)
                return
            await asyncio.sleep(0.02)

    # Connections come and go

    def _accept(self, listener: socket.socket) -> None:
        for _ in range(_AT_ONCE):
            if self.connections >= self.limits.connections:
                self._make_room()
            try:
                accepted, _ = listener.accept()
            except (BlockingIOError, ConnectionAbortedError, InterruptedError):
                return
            except OSError as error:  # no file descriptor is left
                log.error("a connection could not be taken: %s", error.strerror)
                self._make_room()
                return
            accepted.setblocking(False)
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            task = self._loop.create_task(self._take(accepted))
            self._arriving[task] = self.now()
            task.add_done_callback(self._taken)

    async def _take(self, accepted: socket.socket) -> None:
        secure = {"ssl": self._tls.current(), "ssl_handshake_timeout": self.limits.read_seconds} if self._tls else {}
        await self._loop.connect_accepted_socket(lambda: Channel(self), accepted, **secure)  # type: ignore[arg-type]

    def _taken(self, task: asyncio.Task[Any]) -> None:
        self._arriving.pop(task, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.debug("a connection came to nothing: %s", error)

    def _make_room(self) -> None:
        waiting = sorted((one for one in self._connections if not one.is_busy), key=lambda one: one.waits_since)
        for connection in waiting[: max(1, self.limits.connections // 10)]:
            self._close(connection, "crowded")
        if not waiting and self._arriving:
            next(iter(self._arriving)).cancel()

    def bound_unread(self) -> None:
        """Close the slowest readers while too much waits to be read."""
        reading = sorted((one for one in self._connections if one.writing_since), key=lambda one: -one.writing_since)
        unread = sum(one.unread_bytes for one in reading)
        while len(reading) > 1 and unread > LARGEST_WAITING_BYTES:
            slowest = reading.pop()
            unread -= slowest.unread_bytes
            self._close(slowest, "slow_reader")

    def _close_overdue(self) -> None:
        now = self.now()
        for connection in list(self._connections):
            if why := connection.overdue(now):
                self._close(connection, why)

    def _close(self, connection: Channel, why: str) -> None:
        self.closed[why] += 1
        self._connections.pop(connection, None)  # its end is told a moment later
        connection.abort()


def _listeners(host: str, port: int) -> list[socket.socket]:
    """Raises CannotListen."""
    found: list[socket.socket] = []
    try:
        for family, kind, protocol, _, place in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE):
            listener = socket.socket(family, kind, protocol)
            found.append(listener)
            listener.setblocking(False)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            if len(found) > 1 and not port:  # the same free port on every address of a name
                place = (place[0], found[0].getsockname()[1], *place[2:])
            listener.bind(place)
            listener.listen(2048)
    except (OSError, OverflowError, UnicodeError) as error:
        for listener in found:
            listener.close()
        raise CannotListen(f"cannot listen on {host}:{port}: {getattr(error, 'strerror', None) or error}") from error
    return found
