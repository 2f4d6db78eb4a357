"""What requests to control planes and resource agents share: the address in parts, an end in time, the token."""

from __future__ import annotations

import http.client
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from webapp.agent.patience import started


class TokenUnusable(Exception):
    """A file holds no token that a header can carry. The message is one line, for the operator; it shows nothing of the file."""


class Target(NamedTuple):
    """A control plane's address in parts."""

    scheme: str
    #: Without brackets; a zone follows "%".
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


@contextmanager
def ended_after(connection: http.client.HTTPConnection, seconds: float) -> Iterator[None]:
    """Closes the connection in the end; if that has not come within `seconds`, whoever reads from it gets an OSError.

    A server that sends a byte now and then would keep the socket's own timeout from ever striking.
    """
    watch = threading.Timer(seconds, _cut, (connection,))
    watch.daemon = True
    started(watch)  # where there is no room for it, the socket's own timeout must do
    try:
        yield
    finally:
        watch.cancel()
        connection.close()


def _cut(connection: http.client.HTTPConnection) -> None:
    try:
        if connection.sock:
            connection.sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # it ended by itself


def token(file: Path) -> str:
    """The token in a file. Raises TokenUnusable."""
    try:
        text = file.read_bytes()[:4096].decode("ascii").strip()
    except OSError as error:
        raise TokenUnusable(f"{file}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise TokenUnusable(f"{file}: expected a token of ASCII characters") from error
    if not text or not text.isprintable():
        raise TokenUnusable(f"{file}: expected one line with a token")
    return text
