"""Sends one heartbeat to one control plane, in bounded time, and understands the answer."""

from __future__ import annotations

import http.client
import socket
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from webapp import __version__
from webapp.agent.answers import NotDelivered, aimed, understood, without_secrets
from webapp.agent.connection import Target, TokenUnusable, ended_after, target, token
from webapp.agent.lines import one_line

#: Where heartbeats go, below a control plane's address.
HEARTBEAT_PATH = "/v1/nodes/heartbeat"

#: Seconds for one step (connecting, one read), and for the whole exchange.
STEP_S = 5.0
WHOLE_S = 15.0

#: Bodies of at least this many bytes are compressed.
_COMPRESS_FROM = 8 * 1024

_LONGEST_ANSWER = 64 * 1024
_MOST_REDIRECTS = 3


class Sender:
    """Sends to one control plane. A permanent redirect (308) is followed and remembered for this run."""

    def __init__(
        self,
        server: str,
        token_file: Path | None = None,
        step_s: float = STEP_S,
        whole_s: float = WHOLE_S,
        ca_file: Path | None = None,
    ) -> None:
        self.server = server
        self._url = server.rstrip("/") + HEARTBEAT_PATH
        self._token_file = token_file
        self._step_s = step_s
        self._whole_s = whole_s
        self._ca_file = ca_file
        self._tls: Any = None

    def send(self, body: Callable[[str], bytes]) -> float | None:
        """Posts what `body` returns when it is called with the local address of the connection, just before sending.

        Returns the seconds between heartbeats that the control plane asks for, None if it does not say.
        Raises NotDelivered.
        """
        url = self._url
        for _ in range(_MOST_REDIRECTS + 1):
            try:
                status, headers, answer = self._exchange(url, body)
            except (OSError, http.client.HTTPException, ValueError) as error:
                raise NotDelivered(_said(error)) from error
            if status != 308:
                interval_s = understood(url, status, headers, answer)
                self._url = url
                return interval_s
            url = _redirected(url, headers)
        raise NotDelivered(f"more than {_MOST_REDIRECTS} redirects, the last one to {without_secrets(url)}")

    def _exchange(self, url: str, body: Callable[[str], bytes]) -> tuple[int, http.client.HTTPMessage, bytes]:
        to = target(url)
        connection = self._connection(to)
        with ended_after(connection, self._whole_s):
            connection.connect()
            content = body(str(connection.sock.getsockname()[0]))
            connection.request("POST", to.path, *self._message(to, content))
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read(_LONGEST_ANSWER)

    def _connection(self, to: Target) -> http.client.HTTPConnection:
        if to.scheme == "http":
            return http.client.HTTPConnection(to.host, to.port, timeout=self._step_s)
        if self._tls is None:
            import ssl

            try:
                self._tls = ssl.create_default_context(cafile=None if self._ca_file is None else str(self._ca_file))
            except OSError as error:  # ssl.SSLError is one
                raise NotDelivered(f"{self._ca_file}: not a file of certificates: {error.strerror or error}") from error
        return http.client.HTTPSConnection(to.host, to.port, timeout=self._step_s, context=self._tls)

    def _message(self, to: Target, content: bytes) -> tuple[bytes, dict[str, str]]:
        headers = {
            "Host": to.authority,
            "Content-Type": "application/json",
            "User-Agent": f"enginehouse-agent/{__version__}",
            "Connection": "close",
        }
        if len(content) >= _COMPRESS_FROM:
            packer = zlib.compressobj(6, zlib.DEFLATED, 31)  # 31: with the header of gzip
            content = packer.compress(content) + packer.flush()
            headers["Content-Encoding"] = "gzip"
        text = self._token()
        if text and self._same_house(to):
            headers["Authorization"] = "Bearer " + text
        return content, headers

    def _token(self) -> str | None:
        """Read each time, so that a new token needs no restart."""
        if self._token_file is None:
            return None
        try:
            return token(self._token_file)
        except TokenUnusable as error:
            raise NotDelivered(str(error)) from error

    def _same_house(self, to: Target) -> bool:
        """The token is for the configured host, never for one that a redirect names; nor does it leave TLS."""
        given = target(self.server)
        return to.host == given.host and (given.scheme == "http" or to.scheme == "https")


def _said(error: Exception) -> str:
    """What went wrong, on one line."""
    if isinstance(error, (socket.timeout, TimeoutError)):
        return "it did not answer in time"
    if isinstance(error, http.client.RemoteDisconnected):
        return "it closed the connection without an answer"
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return one_line(text)


def _redirected(url: str, headers: http.client.HTTPMessage) -> str:
    place = headers.get("Location", "")
    if not place:
        raise NotDelivered("308 without a Location")
    aim = aimed(url, place)
    try:
        target(aim)
    except ValueError as error:
        raise NotDelivered(f"308 to {one_line(place)!r}, which is not an address") from error
    return aim
