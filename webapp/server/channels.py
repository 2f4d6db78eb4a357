"""One connection of the web server: requests are read whole, answered in turn, and no client may take long over either."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from webapp.server.http_messages import Answer, Environ, Refused, RequestReader, refusal, written

#: Seconds for which a connection may lie idle between requests, and for which an answer may be read.
IDLE_SECONDS = 60.0
LONGEST_ANSWER_SECONDS = 120.0

#: Seconds for which what a refused client still sends is thrown away, so that it gets to read why.
LINGER_SECONDS = 2.0

#: As much of an answer is given to the socket at once.
_PIECE_BYTES = 256 * 1024

_NOTHING = memoryview(b"")


@dataclass(frozen=True)
class Limits:
    """What clients may take of the server."""

    threads: int = 8
    connections: int = 1000
    #: Bytes of a body; where a route takes less, it says so itself.
    body_bytes: int = 2 * 1024 * 1024
    #: Seconds from a request's first byte to its last.
    read_seconds: float = 20.0


class Server(Protocol):
    """What a connection needs of the server that it belongs to."""

    limits: Limits
    environ: Environ
    #: Connections that were closed on a client, by reason.
    closed: Counter[str]

    def now(self) -> float:
        """The loop's clock, in seconds."""
        ...

    def soon(self, do: Callable[[], Any]) -> None:
        """Do that in the loop's next turn."""
        ...

    def date(self) -> bytes: ...
    def joined(self, connection: Channel) -> None: ...
    def left(self, connection: Channel) -> None: ...
    def ask(self, environ: Environ, then: Callable[[Answer], None]) -> None: ...
    def bound_unread(self) -> None: ...


class Channel(asyncio.Protocol):
    """Lives in the server's loop; times are those of its clock, 0.0 where nothing of the kind goes on."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._transport: asyncio.Transport = None  # type: ignore[assignment]
        #: Since when it waits for a request's first byte, for its last, and for its answer to be read.
        self._idle_since = server.now()
        self._reading_since = self.writing_since = 0.0
        self._lingers_until = 0.0
        self._answering = False
        self._head_only = False
        self._keeps = True
        self._rest = _NOTHING
        self._may_write = True

    # What asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]  # a stream's, by the kind of server
        self._transport.set_write_buffer_limits(high=_PIECE_BYTES)
        address, port, *_ = transport.get_extra_info("peername") or ("", 0)
        environ = self._server.environ | {"REMOTE_ADDR": address, "REMOTE_PORT": str(port)}
        self._reader = RequestReader(environ, self._server.limits.body_bytes, self._go_on)
        self._server.joined(self)

    def connection_lost(self, exception: Exception | None) -> None:
        self._rest = _NOTHING
        self._reader.end()
        self._server.left(self)

    def data_received(self, data: bytes) -> None:
        if self._lingers_until:
            return
        self._reading_since = self._reading_since or self._server.now()
        try:
            self._reader.feed(data)
        except Refused as refused:
            self._refuse(refused)
            return
        if self._reader.ready:
            self._reading_since = 0.0
            self._next()
            if self._answering:
                self._transport.pause_reading()

    def eof_received(self) -> bool:
        return self.is_busy and self._transport.can_write_eof()  # a client that has said all may still listen

    def pause_writing(self) -> None:
        self._may_write = False

    def resume_writing(self) -> None:
        self._may_write = True
        self._push()

    # Answers

    def _go_on(self) -> None:
        self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def _next(self) -> None:
        """Begin with the next request, if there is one and none is being answered."""
        while self._reader.ready and not self._answering and self._keeps:
            environ, self._keeps = self._reader.ready.popleft()
            self._answering = True
            self._head_only = environ["REQUEST_METHOD"] == "HEAD"
            self._server.ask(environ, self._answer)

    def _answer(self, answer: Answer) -> None:
        if self._transport.is_closing():
            self._answering = False
            return
        head, body = written(answer, self._server.date(), self._keeps, self._head_only)
        self.writing_since = self._server.now()
        if len(body) <= _PIECE_BYTES:
            self._transport.write(head + body)
        else:
            self._transport.write(head)
            self._rest = memoryview(body)
        self._push()
        if self._rest:
            self._server.bound_unread()

    def _push(self) -> None:
        """Write as much as the client reads; the answer is given once the rest of it fits the buffer."""
        while self._rest and self._may_write:
            piece, self._rest = self._rest[:_PIECE_BYTES], self._rest[_PIECE_BYTES:]
            self._transport.write(piece)
        if self._rest or not self._may_write or not self._answering:
            return
        self._answering = False
        self.writing_since = 0.0
        self._idle_since = self._server.now()
        if not self._keeps:
            self._transport.close()
        elif self._reader.ready:
            self._server.soon(self._next)
        else:
            self._transport.resume_reading()

    def _refuse(self, refused: Refused) -> None:
        self._server.closed[f"http_{refused.status.value}"] += 1
        self._reader.ready.clear()
        self._keeps = False
        if self._answering:  # a request before the bad one; its answer ends the connection
            return
        self._transport.write(refusal(refused.status))
        if self._transport.can_write_eof():
            self._transport.write_eof()
            self._lingers_until = self._server.now() + LINGER_SECONDS
        else:
            self._transport.close()

    # Ends

    @property
    def is_busy(self) -> bool:
        """Whether a request of its client is being answered, or waits for that."""
        return self._answering or bool(self._reader.ready)

    @property
    def waits_since(self) -> float:
        return self._reading_since or self._idle_since

    @property
    def unread_bytes(self) -> int:
        """What its client has not read of its answer."""
        return len(self._rest) + self._transport.get_write_buffer_size()

    def overdue(self, now: float) -> str:
        """Why it is to be closed, "" if it isn't."""
        if self._lingers_until:
            return "lingered" if now > self._lingers_until else ""
        if self.writing_since:
            return "slow_reader" if now - self.writing_since > LONGEST_ANSWER_SECONDS else ""
        if self.is_busy:
            return ""
        if self._reading_since:
            return "slow_request" if now - self._reading_since > self._server.limits.read_seconds else ""
        return "idle" if now - self._idle_since > IDLE_SECONDS else ""

    def abort(self) -> None:
        self._transport.abort()
