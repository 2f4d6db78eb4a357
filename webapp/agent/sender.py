"""Sends one heartbeat to one control plane, in bounded time, and understands the answer."""

from __future__ import annotations

import http.client
import socket
import threading
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urljoin, urlsplit

from webapp import __version__
from webapp.agent.answers import NotDelivered, understood, without_secrets
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


class Target(NamedTuple):
    """A control plane's address in parts."""

    scheme: str
    #: Without brackets; a zone stands after "%".
    host: str
    port: int
    path: str
    #: For the Host header: brackets around IPv6, no zone (RFC 6874), no default port.
    authority: str


def target(url: str) -> Target:
    """Raises ValueError.

    >>> target("http://[2001:db8::3222]:9001/")
    Target(scheme='http', host='2001:db8::3222', port=9001, path='/', authority='[2001:db8::3222]:9001')
    >>> target("http://[fe80::1%25eth0]:9001/x")[1:]
    ('fe80::1%eth0', 9001, '/x', '[fe80::1]:9001')
    >>> target("https://house.example/sub")[1:]
    ('house.example', 443, '/sub', 'house.example')
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"expected http://host or https://host, got {url[:200]!r}")
    host = unquote(parts.hostname)
    usual = 443 if parts.scheme == "https" else 80
    port = parts.port or usual
    shown = host.partition("%")[0]
    authority = (f"[{shown}]" if ":" in shown else shown) + ("" if port == usual else f":{port}")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Target(parts.scheme, host, port, path, authority)


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
        # A server that sends a byte now and then would keep the socket's own timeout from ever striking.
        watch = threading.Timer(self._whole_s, _cut, (connection,))
        watch.daemon = True
        watch.start()
        try:
            connection.connect()
            content = body(str(connection.sock.getsockname()[0]))
            connection.request("POST", to.path, *self._message(to, content))
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read(_LONGEST_ANSWER)
        finally:
            watch.cancel()
            connection.close()

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
        token = self._token()
        if token and self._same_house(to):
            headers["Authorization"] = "Bearer " + token
        return content, headers

    def _token(self) -> str | None:
        """Read each time, so that a new token needs no restart."""
        if self._token_file is None:
            return None
        try:
            text = self._token_file.read_bytes()[:4096].decode("ascii").strip()
        except OSError as error:
            raise NotDelivered(f"{self._token_file}: cannot be read: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise NotDelivered(f"{self._token_file}: expected a token of ASCII characters") from error
        if not text or not text.isprintable():
            raise NotDelivered(f"{self._token_file}: expected one line with a token")
        return text

    def _same_house(self, to: Target) -> bool:
        """The token is for the configured host, never for one that a redirect names; nor does it leave TLS."""
        given = target(self.server)
        return to.host == given.host and (given.scheme == "http" or to.scheme == "https")


def _cut(connection: http.client.HTTPConnection) -> None:
    try:
        if connection.sock:
            connection.sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # it ended by itself


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
    aim = urljoin(url, place)
    try:
        target(aim)
    except ValueError as error:
        raise NotDelivered(f"308 to {one_line(place)!r}, which is not an address") from error
    return aim
