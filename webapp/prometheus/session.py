"""The way to a Prometheus-compatible server: address, credentials, and a requests session bounded in time and size.

Prometheus, VictoriaMetrics, Thanos, Mimir and managed services share the HTTP API and differ in what is
in front of it; so an answer is believed only when it is JSON of the API's form, and whatever else comes is named.
https://prometheus.io/docs/prometheus/latest/querying/api/#format-overview
"""

from __future__ import annotations

import base64
import http.cookiejar
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit

import requests
import urllib3

from webapp.addresses import is_loopback
from webapp.history import HistoryUnavailable
from webapp.prometheus.answers import envelope, mishap
from webapp.prometheus.bounded_http import BoundedAdapter

#: A longer answer is refused.
LARGEST_ANSWER_BYTES = 64 * 1024 * 1024

#: Answers that say "not now": worth one more try.
_BUSY = (429, 502, 503, 504)

#: Answers by which a server or a proxy refuses the method POST rather than the query.
_NO_POST = (403, 404, 405, 501)


@dataclass(frozen=True)
class Access:
    """Where a server is and how to get in. Secrets stay out of its repr; files are read anew for each query."""

    url: str
    #: Seconds for one query, another try included.
    timeout: float = 3.0
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    password_file: Path | None = None
    bearer_token_file: Path | None = None
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    ca_file: Path | None = None
    insecure: bool = False
    #: Added to the address of every query, such as nocache=1, dedup=true.
    parameters: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    @property
    def name(self) -> str:
        """What messages call the server."""
        return f"Prometheus at {self.url}"


def access(url: str, **more: Any) -> Access:
    """An Access from an address as operators write it.

    >>> access("http://p/prom/api/v1/").url, access("http://p:9090/graph").url, access("http://p/prom/").url
    ('http://p/prom', 'http://p:9090', 'http://p/prom')
    >>> access("https://u:p%40ss@p")
    Access(url='https://p', timeout=3.0, username='u', password_file=None, bearer_token_file=None, ca_file=None, insecure=False)
    """
    parts = urlsplit(url)
    path = re.sub(r"(/api/v1(/query|/query_range)?|/graph|/query)?/*$", "", parts.path.rstrip("/"))
    _, _, host = parts.netloc.rpartition("@")
    if parts.username:
        more.setdefault("username", unquote(parts.username))
        more.setdefault("password", unquote(parts.password or ""))
    return Access(url=urlunsplit((parts.scheme, host, path, "", "")), **more)


class PrometheusSession(requests.Session):
    """A session whose POST carries its parameters as a form, and whose answers are checked before they are believed.

    `send` returns only answers of the API's form with status 200, their JSON already read; it raises
    HistoryUnavailable for everything else, within the timeout that it is given.
    """

    def __init__(
        self, access: Access, clock: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        super().__init__()
        self._access = access
        self._clock = clock
        self._sleep = sleep
        self._post_works: bool | None = None
        self.headers["User-Agent"] = "enginehouse"
        self.headers["Accept"] = "application/json"
        self.headers.update(dict(access.headers))
        self.verify = False if access.insecure else str(access.ca_file) if access.ca_file else True
        self.auth = self._authorize  # having one also keeps ~/.netrc out
        self.trust_env = not is_loopback(urlsplit(access.url).hostname or "")
        # A login page in the way must not start to remember us.
        self.cookies.set_policy(http.cookiejar.DefaultCookiePolicy(allowed_domains=[]))

    def bound(self) -> None:
        """Send through connections that end in time, whatever was mounted before."""
        self.adapters.clear()
        for scheme in ("http://", "https://"):
            self.mount(scheme, BoundedAdapter())

    def _authorize(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        access = self._access
        if access.bearer_token_file is not None:
            request.headers["Authorization"] = f"Bearer {self._secret(access.bearer_token_file)}"
        elif access.username is not None:
            password = self._secret(access.password_file) if access.password_file else access.password or ""
            pair = base64.b64encode(f"{access.username}:{password}".encode()).decode()
            request.headers["Authorization"] = f"Basic {pair}"
        return request

    def _secret(self, path: Path) -> str:
        try:
            secret = path.read_text("utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise HistoryUnavailable(f"{self._access.name} can't be queried: {path} can't be read") from error
        if not secret or any(character in secret for character in "\r\n\0"):
            raise HistoryUnavailable(f"{self._access.name} can't be queried: {path} does not hold one line")
        return secret

    def prepare_request(self, request: requests.Request) -> requests.PreparedRequest:
        # A list of labels can be longer than a proxy lets an address be: the form has no such bound.
        if request.method == "POST":
            request.data, request.params = request.params, {}
        parameters = dict(request.params) if isinstance(request.params, dict) else {}
        request.params = {**parameters, **dict(self._access.parameters)}
        return super().prepare_request(request)

    def send(self, request: requests.PreparedRequest, **options: Any) -> requests.Response:
        deadline = self._clock() + self._access.timeout
        options.update(allow_redirects=False, stream=True)
        if request.method == "POST" and self._post_works is False:
            request = self._as_get(request)
        response, body = self._exchange(request, options, deadline)
        if request.method == "POST" and response.status_code in _NO_POST and self._post_works is None:
            again, text = self._exchange(self._as_get(request), options, deadline)
            if again.status_code == 200:
                self._post_works = False
                response, body = again, text
        elif response.status_code in _BUSY:
            pause = _pause(response)
            if self._clock() + pause < deadline - 0.5:
                self._sleep(pause)
                response, body = self._exchange(request, options, deadline)
        found = envelope(response, body, self._access.name)
        if self._post_works is None:
            self._post_works = True
        return _Answered(found)

    def get_redirect_target(self, _: requests.Response) -> None:
        """No redirect is followed, so none is made an address: what stands there may be none."""

    def _as_get(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        got = request.copy()
        form = request.body.decode() if isinstance(request.body, bytes) else request.body or ""
        got.method, got.body = "GET", None
        got.url = f"{request.url}{'&' if '?' in (request.url or '') else '?'}{form}"
        for name in ("Content-Length", "Content-Type"):
            got.headers.pop(name, None)
        return got

    def _exchange(
        self, request: requests.PreparedRequest, options: dict[str, Any], deadline: float
    ) -> tuple[requests.Response, bytes]:
        name = self._access.name
        left = deadline - self._clock()
        if left <= 0:
            raise HistoryUnavailable(f"{name} did not answer within {self._access.timeout:g} s")
        watch = None
        try:
            response = super().send(request, **{**options, "timeout": (left, left)})
            watch = getattr(response.raw, "watch", None)
            with response:
                return response, self._body(response, deadline)
        except HistoryUnavailable:
            raise
        except (requests.RequestException, urllib3.exceptions.HTTPError, OSError) as error:
            if isinstance(error, (requests.Timeout, urllib3.exceptions.TimeoutError, TimeoutError)) or self._clock() >= deadline:
                raise HistoryUnavailable(f"{name} did not answer within {self._access.timeout:g} s") from error
            raise HistoryUnavailable(f"{name} {mishap(error)}") from error
        finally:
            if watch is not None:
                watch.cancel()

    def _body(self, response: requests.Response, deadline: float) -> bytes:
        parts: list[bytes] = []
        size = 0
        while part := response.raw.read1(1 << 16, decode_content=True):
            size += len(part)
            if size > LARGEST_ANSWER_BYTES:
                raise HistoryUnavailable(f"{self._access.name} answered with more than {LARGEST_ANSWER_BYTES >> 20} MiB")
            if self._clock() >= deadline:
                raise HistoryUnavailable(f"{self._access.name} did not answer within {self._access.timeout:g} s")
            parts.append(part)
        length = response.headers.get("Content-Length", "")
        encoded = response.headers.get("Content-Encoding")
        # One of many digits would not be read as a number, and is more than came.
        if length.isdecimal() and not encoded and (len(length) > 18 or size < int(length)):
            raise HistoryUnavailable(f"{self._access.name} cut its answer short")
        return b"".join(parts)


class _Answered(requests.Response):
    """An answer whose JSON is already read and checked."""

    def __init__(self, envelope: dict[str, Any]) -> None:
        super().__init__()
        self.status_code = 200
        self._envelope = envelope

    def json(self, **options: Any) -> Any:
        return self._envelope


def _pause(response: requests.Response) -> float:
    wanted = response.headers.get("Retry-After", "")
    return float(wanted) if wanted.isdecimal() else 0.25
