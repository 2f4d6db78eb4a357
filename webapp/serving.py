"""The web server: waitress, with bounds on how long a client may take, room for new clients, and TLS.

A request reaches a thread only when it is whole, so that a slow client costs a socket; and no socket for ever: whoever
takes too long to send or to read is closed, and where all connections are taken, the one that has waited longest
makes room. TLS is spoken in the same loop, by the operator's certificate, which is read again when its file changes.
"""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import FrameType
from typing import Any

from waitress import wasyncore
from waitress.adjustments import Adjustments
from waitress.server import TcpWSGIServer
from waitress.task import ThreadedTaskDispatcher

from webapp.channels import IDLE_SECONDS, Channel, TlsChannel
from webapp.tls import CannotListen, Tls

log = logging.getLogger(__name__)

__all__ = ["CannotListen", "Limits", "Server", "Tls"]

#: Seconds for the requests that are being answered when the server is told to stop.
DRAIN_SECONDS = 5.0

LARGEST_HEADER_BYTES = 32 * 1024

#: Bytes of all answers that wait to be read; beyond, the slowest reader is closed.
LARGEST_WAITING_BYTES = 256 * 1024 * 1024


@dataclass(frozen=True)
class Limits:
    """What clients may take of the server."""

    threads: int = 8
    connections: int = 1000
    #: Bytes of a body; where a route takes less, it says so itself.
    body_bytes: int = 2 * 1024 * 1024
    #: Seconds from a request's first byte to its last.
    read_seconds: float = 20.0


class _Listener(TcpWSGIServer):  # type: ignore[misc]
    """One listening socket."""

    def __init__(self, *arguments: Any, limits: Limits, tls: Tls | None, closed: Counter[str], **more: Any) -> None:
        self.limits = limits
        self.tls = tls
        self.closed = closed
        self._next_look = 0.0
        self.channel_class = TlsChannel if tls else Channel
        super().__init__(*arguments, **more)

    def accept(self) -> Any:
        found = super().accept()
        if found is None or self.tls is None:
            return found
        connection, address = found
        connection.setblocking(False)
        try:
            return self.tls.current().wrap_socket(connection, server_side=True, do_handshake_on_connect=False), address
        except OSError:
            connection.close()
            raise

    def maintenance(self, now: float) -> None:
        """Nothing is closed while the loop collects what to wait for: a new connection could get the closed one's number."""

    def tidy(self) -> None:
        """Between two turns of the loop: close who takes too long, and make room."""
        if len(self._map) >= self.adj.connection_limit:
            self._make_room()
        if time.monotonic() >= self._next_look:
            self._next_look = time.monotonic() + 1.0
            self._close_the_slow()

    def _make_room(self) -> None:
        waiting = [channel for channel in self.active_channels.values() if not (channel.requests or channel.total_outbufs_len)]
        waiting.sort(key=lambda channel: channel.waits_since)
        for channel in waiting[: max(1, self.adj.connection_limit // 10)]:
            self.closed["crowded"] += 1
            channel.handle_close()

    def _close_the_slow(self) -> None:
        moment = time.monotonic()
        for channel in list(self.active_channels.values()):
            if why := channel.overdue(moment, self.limits.read_seconds):
                self.closed[why] += 1
                channel.handle_close()
        reading = [channel for channel in self.active_channels.values() if channel.total_outbufs_len and not channel.requests]
        reading.sort(key=lambda channel: channel.answers_since, reverse=True)
        while reading and sum(channel.total_outbufs_len for channel in reading) > LARGEST_WAITING_BYTES:
            self.closed["slow_reader"] += 1
            reading.pop().handle_close()


class Server:
    """Listens from the moment it is made. Raises CannotListen."""

    def __init__(
        self,
        application: Callable[..., Iterable[bytes]],
        host: str,
        port: int,
        limits: Limits,
        *,
        tls: Tls | None = None,
        closed: Counter[str] | None = None,
    ) -> None:
        """`closed` counts the connections that were closed on a client, by reason."""
        self._map: dict[int, Any] = {}
        self._stopping = False
        self._dispatcher = ThreadedTaskDispatcher()
        self._dispatcher.set_thread_count(limits.threads)
        try:
            adjustments = Adjustments(
                host=host,
                port=port,
                ident=None,
                url_scheme="https" if tls else "http",
                connection_limit=limits.connections,
                channel_timeout=int(IDLE_SECONDS),
                cleanup_interval=1,
                max_request_body_size=limits.body_bytes,
                max_request_header_size=LARGEST_HEADER_BYTES,
                outbuf_overflow=LARGEST_WAITING_BYTES,  # answers wait in memory, not in files
                recv_bytes=16 * 1024,  # a whole record of TLS
                clear_untrusted_proxy_headers=False,  # views.forwarding does that
            )
            self._listeners = [
                _Listener(
                    application,
                    self._map,
                    dispatcher=self._dispatcher,
                    adj=adjustments,
                    sockinfo=place,
                    limits=limits,
                    tls=tls,
                    closed=Counter() if closed is None else closed,
                )
                for place in adjustments.listen
            ]
        except (OSError, ValueError) as error:
            self._dispatcher.shutdown(timeout=1)
            self._close_all()
            reason = getattr(error, "strerror", None) or str(error)
            raise CannotListen(f"cannot listen on {host}:{port}: {reason}") from error
        shown = f"[{host}]" if ":" in host else host
        self.url = f"{'https' if tls else 'http'}://{shown}:{self._listeners[0].effective_port}"

    @property
    def connections(self) -> int:
        return sum(len(listener.active_channels) for listener in self._listeners)

    def stop(self, number: int = 0, frame: FrameType | None = None) -> None:
        """Let `run` return; fit for a signal's handler. Whoever asks twice doesn't wait for anything."""
        if self._stopping:
            raise KeyboardInterrupt
        self._stopping = True
        self._listeners[0].pull_trigger()

    def run(self) -> None:
        """Serves until SIGINT, SIGTERM or `stop`, then answers what was asked by then."""
        if threading.current_thread() is threading.main_thread():
            for signal_number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(signal_number, self.stop)
        try:
            while not self._stopping:
                self._turn(1.0)
            self._drain()
        except KeyboardInterrupt:
            pass
        finally:
            self._dispatcher.shutdown(timeout=1)
            self._close_all()

    def _close_all(self) -> None:
        for channel in list(self._map.values()):
            channel.handle_close() if isinstance(channel, Channel) else channel.close()

    def _turn(self, seconds: float) -> None:
        for listener in self._listeners:
            listener.tidy()
        wasyncore.loop(timeout=seconds, use_poll=True, map=self._map, count=1)

    def _drain(self) -> None:
        for listener in self._listeners:
            listener.accepting = False
            listener.del_channel()
            listener.socket.close()
        until = time.monotonic() + DRAIN_SECONDS
        while time.monotonic() < until:
            busy = [channel for one in self._listeners for channel in one.active_channels.values()]
            if not any(channel.requests or channel.total_outbufs_len for channel in busy):
                return
            self._turn(0.1)
        log.warning("stopped with requests unanswered after %.0f s", DRAIN_SECONDS)
