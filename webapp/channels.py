"""One connection of the web server: how long its client may take, and TLS in the server's own loop."""

from __future__ import annotations

import logging
import ssl
import threading
import time
from typing import Any

from waitress.channel import HTTPChannel
from waitress.task import ErrorTask

log = logging.getLogger(__name__)

#: Seconds for which a connection may lie idle between requests, and for which an answer may be read.
IDLE_SECONDS = 60.0
LONGEST_ANSWER_SECONDS = 120.0


class _ErrorTask(ErrorTask):  # type: ignore[misc]
    """What the server itself answers, before the application is asked."""

    def execute(self) -> None:
        self.response_headers += [
            ("X-Content-Type-Options", "nosniff"),
            ("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'"),
            ("Referrer-Policy", "same-origin"),
            ("Cache-Control", "no-store"),
        ]
        self.channel.server.closed[f"http_{self.request.error.code}"] += 1
        super().execute()


class Channel(HTTPChannel):  # type: ignore[misc]
    """One connection."""

    error_task_class = _ErrorTask
    #: What has come of a request that isn't whole yet.
    request: Any
    #: Monotonic times: since when it waits for a whole request, and since when an answer lies to be read.
    waits_since = 0.0
    answers_since = 0.0

    def __init__(self, *arguments: Any, **more: Any) -> None:
        self.waits_since = time.monotonic()
        super().__init__(*arguments, **more)

    def received(self, data: bytes) -> Any:
        if self.request is None:  # the first bytes of a request
            self.waits_since = time.monotonic()
        return super().received(data)

    def overdue(self, now: float, read_seconds: float) -> str:
        """Why it is to be closed, "" if it isn't. `now` is monotonic time."""
        if self.requests:
            self.answers_since = 0.0
            return ""
        if self.total_outbufs_len:
            self.answers_since = self.answers_since or now
            return "slow_reader" if now - self.answers_since > LONGEST_ANSWER_SECONDS else ""
        self.answers_since = 0.0
        if self.request is not None:
            return "slow_request" if now - self.waits_since > read_seconds else ""
        return "idle" if now - self.waits_since > IDLE_SECONDS else ""

    def handle_close(self) -> None:
        if self.request is not None:
            self.request.close()  # what came of a large body lies in a file
            self.request = None
        super().handle_close()

    def service(self) -> None:
        super().service()
        self.waits_since = time.monotonic()


class TlsChannel(Channel):
    """One connection that speaks TLS; the handshake is a part of its first reads."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        self._tls = threading.Lock()  # the loop reads while a thread writes
        self._handshake_writes = False
        super().__init__(*arguments, **more)

    def handle_read(self) -> None:
        self._handshake_writes = False
        try:
            with self._tls:
                data = self.socket.recv(self.adj.recv_bytes)
                while data and self.socket.pending():  # decrypted already: poll would not tell of it
                    data += self.socket.recv(self.socket.pending())
        except ssl.SSLWantReadError:
            return
        except ssl.SSLWantWriteError:
            self._handshake_writes = True
            return
        except OSError as error:
            log.debug("connection from %s closed: %s", self.addr[0], error)
            self.handle_close()
            return
        if data:
            self.last_activity = time.time()
            self.received(data)
        else:
            self.handle_close()

    def writable(self) -> Any:
        return self._handshake_writes or super().writable()

    def handle_write(self) -> None:
        if self._handshake_writes:
            self.handle_read()
        else:
            super().handle_write()

    def send(self, data: bytes, do_close: bool = True) -> int:
        try:
            with self._tls:
                return int(self.socket.send(data))
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return 0
        except OSError:
            if do_close:
                self.handle_close()
            return 0
