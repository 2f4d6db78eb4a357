"""HTTP messages between the web server and a WSGI application: requests read out of bytes, answers written as bytes."""

from __future__ import annotations

import io
import sys
from collections import deque
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, NamedTuple
from urllib.parse import unquote_to_bytes

import httptools

Environ = dict[str, Any]

LARGEST_HEAD_BYTES = 32 * 1024

BASE_ENVIRON: Environ = {
    "SCRIPT_NAME": "",
    "wsgi.version": (1, 0),
    "wsgi.errors": sys.stderr,
    "wsgi.multithread": True,
    "wsgi.multiprocess": False,
    "wsgi.run_once": False,
    "wsgi.input_terminated": True,
}


class Refused(Exception):
    """No request for the application; the status says why."""

    def __init__(self, status: HTTPStatus) -> None:
        super().__init__(status.phrase)
        self.status = status


class RequestReader:
    """Reads the requests of one connection; those that are whole stand in `ready`, with whether more may follow."""

    def __init__(self, environ: Environ, largest_body: int, go_on: Callable[[], None]) -> None:
        """`environ`: what all its requests have in common. `go_on` tells a client that waits for it to send its body."""
        self.ready: deque[tuple[Environ, bool]] = deque()
        self._common = environ
        self._largest_body = largest_body
        self._go_on = go_on
        self._parser = httptools.HttpRequestParser(self)
        self._in_head = False
        self._steps = self._unfinished_bytes = 0

    def feed(self, data: bytes) -> None:
        """Take in bytes as they come. Raises Refused; nothing can be read after that."""
        steps = self._steps
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            return  # the request is whole, and is answered as any other
        except httptools.HttpParserCallbackError as error:
            cause = error.__context__
            raise cause if isinstance(cause, Refused) else Refused(HTTPStatus.BAD_REQUEST) from None
        except httptools.HttpParserError:
            raise Refused(HTTPStatus.BAD_REQUEST) from None
        if steps == self._steps:  # perhaps one header, trailer or chunk's extension without an end
            self._unfinished_bytes += len(data)
            if self._unfinished_bytes > LARGEST_HEAD_BYTES:
                raise Refused(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)

    def end(self) -> None:
        """Nothing more will be read. Reader, parser and connection know each other: left so, they are garbage to search for."""
        self.ready.clear()
        del self._parser, self._go_on

    # What the parser calls

    def _got_on(self) -> None:
        self._steps += 1
        self._unfinished_bytes = 0

    def on_message_begin(self) -> None:
        self._got_on()
        self._environ = dict(self._common)
        self._url = b""
        self._body: list[bytes] = []
        self._head_bytes = self._body_bytes = 0
        self._in_head = True

    def on_url(self, url: bytes) -> None:
        self._url += url
        self._count_head(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count_head(len(name) + len(value) + 4)
        key = _key(name) if self._in_head else ""  # what follows the body says nothing: no proxy looks into it
        if not key:
            return
        text = value.decode("latin-1")
        before = self._environ.get(key)
        if before is not None:
            text = f"{before}{'; ' if key == 'HTTP_COOKIE' else ','}{text}"
        self._environ[key] = text

    def _count_head(self, size: int) -> None:
        self._head_bytes += size
        if self._head_bytes > LARGEST_HEAD_BYTES:
            raise Refused(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)

    def on_headers_complete(self) -> None:
        self._got_on()
        self._in_head = False
        coding = self._environ.pop("HTTP_TRANSFER_ENCODING", None)
        if coding is not None and coding.strip().lower() != "chunked":
            raise Refused(HTTPStatus.NOT_IMPLEMENTED)
        length = self._environ.get("CONTENT_LENGTH", "0")
        if not length.isdecimal():
            raise Refused(HTTPStatus.BAD_REQUEST)
        if len(length) > 18 or int(length) > self._largest_body:
            raise Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        if self._environ.get("HTTP_EXPECT", "").lower() == "100-continue":
            self._go_on()

    def on_body(self, body: bytes) -> None:
        self._got_on()
        self._body_bytes += len(body)
        if self._body_bytes > self._largest_body:
            raise Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        self._body.append(body)

    def on_message_complete(self) -> None:
        self._got_on()
        environ = self._environ
        path, _, query = (self._url if self._url.startswith(b"/") else _target(self._url)).partition(b"?")
        if b"%" in path:
            path = unquote_to_bytes(path)
        environ["REQUEST_METHOD"] = self._parser.get_method().decode("ascii")
        # One slash at the start: what begins with two would be read as a host where the path is made an address again.
        environ["PATH_INFO"] = "/" + path.decode("latin-1").lstrip("/")
        environ["QUERY_STRING"] = query.decode("latin-1")
        environ["SERVER_PROTOCOL"] = f"HTTP/{self._parser.get_http_version()}"
        if self._body:
            environ["CONTENT_LENGTH"] = str(self._body_bytes)
        environ["wsgi.input"] = io.BytesIO(b"".join(self._body))
        self.ready.append((environ, self._parser.should_keep_alive()))


_KEYS: dict[bytes, str] = {}


def _key(name: bytes) -> str:
    """A header's place in the environment; "" for names that could be taken for another's."""
    key = _KEYS.get(name)
    if key is None:
        key = "" if b"_" in name else "HTTP_" + name.decode("latin-1").upper().replace("-", "_")
        if key in ("HTTP_CONTENT_TYPE", "HTTP_CONTENT_LENGTH"):
            key = key.removeprefix("HTTP_")
        if len(_KEYS) < 500:
            _KEYS[name] = key
    return key


def _target(url: bytes) -> bytes:
    """Path and query of a target in absolute form; "*" has none."""
    parts = httptools.parse_url(url) if url != b"*" else None
    path = (parts.path if parts else None) or b"/"
    return path + (b"?" + parts.query if parts and parts.query else b"")


class Answer(NamedTuple):
    """What the application said."""

    #: "200 OK"
    status: str
    headers: list[tuple[str, str]]
    body: bytes


def call(application: Callable[..., Any], environ: Environ) -> Answer:
    """Asks a WSGI application (PEP 3333). Raises whatever it raises."""
    said: list[Any] = []
    pieces: list[bytes] = []

    def start_response(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Callable[[bytes], None]:
        said[:] = [status, headers]
        return pieces.append

    found = application(environ, start_response)
    try:
        pieces.extend(found)
    finally:
        close = getattr(found, "close", None)
        if close is not None:
            close()
    return Answer(said[0], said[1], pieces[0] if len(pieces) == 1 else b"".join(pieces))


def written(answer: Answer, date: bytes, keeps: bool, head_only: bool) -> tuple[bytes, bytes]:
    """Head and body of an answer; `date` is its line in the head, `keeps` whether the connection stays open."""
    names = {name.lower() for name, _ in answer.headers}
    lines = [f"HTTP/1.1 {answer.status}\r\n", *[f"{name}: {value}\r\n" for name, value in answer.headers]]
    has_body = not answer.status.startswith(("1", "204", "304"))
    if has_body and "content-length" not in names:
        lines.append(f"Content-Length: {len(answer.body)}\r\n")
    end = (b"" if "date" in names else date) + (b"\r\n" if keeps else b"Connection: close\r\n\r\n")
    head = "".join(lines).encode("latin-1") + end
    return head, answer.body if has_body and not head_only else b""


def refusal(status: HTTPStatus) -> bytes:
    """An answer of the server itself, before the application is asked; the connection ends with it."""
    text = f"{status.phrase}\n".encode()
    return (
        b"HTTP/1.1 %d %s\r\nContent-Type: text/plain; charset=utf-8\r\nX-Content-Type-Options: nosniff\r\n"
        b"Content-Security-Policy: default-src 'none'; frame-ancestors 'none'\r\nReferrer-Policy: same-origin\r\n"
        b"Cache-Control: no-store\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s"
        % (status.value, status.phrase.encode(), len(text), text)
    )
