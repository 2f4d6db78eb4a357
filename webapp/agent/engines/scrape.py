"""Fetches one engine's metrics page: from this host only, bounded in time and size, without following redirects."""

from __future__ import annotations

import errno
import http.client
import socket
import time
from typing import Any

from webapp.agent.engines.exposition import Page
from webapp.agent.engines.metric_names import Endpoint, EngineNames
from webapp.fields import printable, shown

HOST = "127.0.0.1"

#: A page longer than this is given up.
LARGEST_PAGE_BYTES = 4 * 1024 * 1024

_CHUNK_BYTES = 64 * 1024

#: A line longer than this is no sample that we want.
_LONGEST_LINE_BYTES = 64 * 1024

_HEADERS = {"Accept": "text/plain;version=0.0.4", "User-Agent": "enginehouse", "Connection": "close"}


class ScrapeFailed(Exception):
    """No page. The message is one phrase, fit to follow "metrics: "."""

    def __init__(self, reason: str, elsewhere: bool = False) -> None:
        super().__init__(printable(reason)[:200])
        #: Nothing like metrics is there; another endpoint may have them.
        self.elsewhere = elsewhere


def scrape(names: EngineNames, endpoint: Endpoint, port: int, timeout_s: float) -> tuple[Page, float]:
    """The page, and the monotonic time at which the engine answered. Raises ScrapeFailed."""
    deadline = time.monotonic() + timeout_s
    connection = http.client.HTTPConnection(HOST, port)
    try:
        connection.sock = _connected(port, deadline)
        connection.request("GET", endpoint.path, headers=_HEADERS)
        with connection.getresponse() as response:
            answered = time.monotonic()
            _check_status(response, names)
            _check_coding(response)
            page = Page(names)
            _read(response, page)
    except socket.timeout as error:  # a name of TimeoutError since 3.10
        hint = f"; {names.late}" if names.late else ""
        raise ScrapeFailed(f"port {port} did not answer within {timeout_s:g} s{hint}") from error
    except http.client.IncompleteRead as error:
        raise ScrapeFailed("the page ended early") from error
    except http.client.HTTPException as error:
        raise ScrapeFailed(f"port {port} does not speak HTTP ({type(error).__name__})") from error
    except OSError as error:
        refused = error.errno == errno.ECONNREFUSED
        reason = "refused the connection" if refused else f"broke off: {error.strerror or error}"
        raise ScrapeFailed(f"port {port} {reason}", elsewhere=refused) from error
    finally:
        connection.close()
    return page, answered


class _Bounded(socket.socket):
    """A socket whose reads share one deadline, so that a dripping server can't hold its reader."""

    deadline = 0.0

    def recv_into(self, *arguments: Any, **named: Any) -> int:
        remaining = self.deadline - time.monotonic()
        if remaining <= 0:
            raise socket.timeout("timed out")
        self.settimeout(remaining)
        return super().recv_into(*arguments, **named)


def _connected(port: int, deadline: float) -> socket.socket:
    bounded = _Bounded(socket.AF_INET, socket.SOCK_STREAM)
    try:
        bounded.deadline = deadline
        bounded.settimeout(max(0.001, deadline - time.monotonic()))
        bounded.connect((HOST, port))
    except BaseException:
        bounded.close()
        raise
    return bounded


#: What a status means unless the kind of engine says otherwise.
_SAYS = {401: "the engine wants a key", 403: "the engine wants a key", 503: "the engine is loading or overloaded"}


def _check_status(response: http.client.HTTPResponse, names: EngineNames) -> None:
    status = response.status
    if status == 200:
        return
    missing = status in (404, 405, 501)
    meaning = dict(names.says).get(status) or _SAYS.get(status, "")
    if 300 <= status < 400:
        meaning = f"sent on to {shown(response.getheader('Location'))}, not followed"
    elif missing:
        meaning = names.switch or "there are none"
    raise ScrapeFailed(f"{status}, {meaning}" if meaning else f"the engine answered {status}", elsewhere=missing)


def _read(response: http.client.HTTPResponse, page: Page) -> None:
    """Feeds the page as it arrives. Raises ScrapeFailed."""
    size = 0
    rest = b""
    while True:
        chunk = response.read(_CHUNK_BYTES)
        if not chunk:
            break
        if size == 0:
            _check_beginning(chunk)
        size += len(chunk)
        if size > LARGEST_PAGE_BYTES:
            raise ScrapeFailed(f"the page is longer than {LARGEST_PAGE_BYTES // 1024**2} MiB")
        lines = (rest + chunk).split(b"\n")
        rest = lines.pop()[:_LONGEST_LINE_BYTES]
        page.feed(lines)
    is_measured = response.length is not None or response.chunked
    if response.length or (rest.strip() and not is_measured):  # each line ends with a line feed, the last one too
        raise ScrapeFailed("the page ended early")
    if size == 0:
        raise ScrapeFailed("the page is empty")
    page.feed([rest])
    if page.is_empty:
        hint = f"; {page.names.switch}" if page.names.switch else ""
        raise ScrapeFailed(f"none of this kind of engine are on the page{hint}", elsewhere=True)


def _check_coding(response: http.client.HTTPResponse) -> None:
    coding = response.getheader("Content-Encoding", "identity")
    if coding.strip().lower() not in ("", "identity"):
        raise ScrapeFailed(f"the page came packed, as {shown(coding)}, which it was not asked to be")


def _check_beginning(chunk: bytes) -> None:
    first = chunk.lstrip()[:1]
    if first == b"<":
        raise ScrapeFailed("the engine answered with HTML", elsewhere=True)
    if first in (b"{", b"["):
        raise ScrapeFailed("the engine answered with JSON", elsewhere=True)
