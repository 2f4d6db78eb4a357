"""What can come between a dashboard and Prometheus: each mishap is named, in time, without a secret."""

from __future__ import annotations

import base64
import gzip
import json
import socket
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.prometheus.promlab import Reply, http_server
from webapp.addresses import free_port
from webapp.history import HistoryUnavailable, Range
from webapp.prometheus.answers import QueryRefused
from webapp.prometheus.queries import PrometheusServer
from webapp.prometheus.session import Access, PrometheusSession, access

JSON = {"Content-Type": "application/json"}
HTML = {"Content-Type": "text/html; charset=utf-8"}
EMPTY = b'{"status":"success","data":{"resultType":"vector","result":[]}}'


class Recorder:
    """Answers with what it is given, in turn, the last again and again; keeps the requests."""

    def __init__(self, *replies: Reply | Callable[[BaseHTTPRequestHandler], None]) -> None:
        self.replies = list(replies)
        self.requests: list[tuple[str, str, dict[str, str], dict[str, list[str]]]] = []

    def __call__(self, request: BaseHTTPRequestHandler, body: bytes) -> Reply | None:
        self.requests.append((request.command, request.path, dict(request.headers), parse_qs(body.decode())))
        reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        if callable(reply):
            reply(request)
            return None
        return reply


@pytest.fixture
def ask() -> Iterator[Callable[..., Any]]:
    """Ask a server that answers with the given replies; returns the recorder and what came."""

    def ask(*replies: Any, query: str = "up", **settings: Any) -> tuple[Recorder, Any]:
        recorder = Recorder(*replies)
        with http_server(recorder) as url:
            server = PrometheusServer(access(url + settings.pop("path", ""), **{"timeout": 2.0, **settings}))
            try:
                return recorder, server.query(query)
            except HistoryUnavailable as error:
                message = str(error)
                assert message.startswith(f"Prometheus at {url}")
                assert "\n" not in message
                assert len(message) < 500
                return recorder, error

    return ask  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        ((200, HTML, b"<html><form>Sign in</form>"), "answered with a web page; is there a login page in front of it?"),
        ((200, {"Content-Type": "text/plain"}, EMPTY), "answered with something other than Prometheus' JSON (text/plain)"),
        ((200, JSON, b"<html>"), "answered with something other than Prometheus' JSON (application/json)"),
        ((200, JSON, b'{"status":"succ'), "answered with something other than"),
        ((200, JSON, b"[1]"), "answered with something other than"),
        ((200, JSON, b'{"status":"success"}'), "answered with something other than"),
        ((200, JSON, b'{"status":"success","data":{"result":{}}}'), "answered with something other than"),
        ((200, JSON, b"[" * 100_000), "answered with something other than"),
        (
            (302, {"Location": "https://sso.example/login?next=x"}, b""),
            "redirects to https://sso.example/login?next=x; is that",
        ),
        ((302, {"Location": "http://\xff[::"}, b""), "redirects to http://"),
        ((401, {"Content-Type": "text/plain"}, b"no org id"), "rejects the credentials (HTTP 401)"),
        ((403, HTML, b"<html>"), "denies access (HTTP 403)"),
        ((404, {"Content-Type": "text/plain"}, b"404 page not found\n"), "has no Prometheus API at this address (HTTP 404)"),
        ((429, {"Content-Type": "text/plain"}, b"slow down"), "limits the rate of queries (HTTP 429)"),
        ((502, HTML, b"<html>Bad Gateway</html>"), "is not reachable through the proxy in front of it (HTTP 502)"),
        ((500, {}, b""), "answered HTTP 500 (no content type)"),
        ((503, JSON, b'{"status":"error","errorType":"timeout","error":"query timed out"}'), "could not answer: query timed out"),
        ((200, JSON, b'{"status":"success","data":{"result":[{"metric":{}, "value":[1,"x"]}]}}'), "form that is not the API's"),
        ((200, JSON, b'{"status":"success","data":{"result":[{"value":[1,"1"]}]}}'), "form that is not the API's"),
        ((200, JSON, b'{"status":"success","data":{"result":[7]}}'), "form that is not the API's"),
        (
            (200, JSON, b'{"status":"success","data":{"result":[{"metric":{},"value":[%s,"1"]}]}}' % (b"9" * 400)),
            "form that is not",
        ),
    ],
)
def test_an_answer_that_is_not_prometheus_is_named(ask: Any, reply: Reply, said: str) -> None:
    """T110 and T104: what proxies, login pages and overloaded servers say is not data."""
    _, error = ask(reply)
    assert said in str(error)
    assert not isinstance(error, QueryRefused)


@pytest.mark.parametrize("status", [400, 422])
def test_a_refused_query_is_shown_and_not_asked_again(ask: Any, status: int) -> None:
    """T110: the fault is in the query."""
    refusal = {"status": "error", "errorType": "execution", "error": "many-to-many\nmatching\x00 " + "x" * 1000}
    recorder, error = ask((status, JSON, json.dumps(refusal).encode()))
    assert isinstance(error, QueryRefused)
    assert "refused the query: many-to-many matching� xx" in str(error)
    assert len(recorder.requests) == 1


@pytest.mark.parametrize("status", [429, 503, 502, 504])
@pytest.mark.slow
def test_a_busy_server_is_asked_once_more(ask: Any, status: int) -> None:
    """T110: once, after a pause, and no storm."""
    recorder, result = ask((status, JSON, b"{}"), (200, JSON, EMPTY))
    assert result.series == ()
    assert len(recorder.requests) == 2
    recorder, error = ask((status, HTML, b""))
    assert isinstance(error, HistoryUnavailable)
    assert len(recorder.requests) == 2


def test_a_server_that_wants_a_long_pause_is_not_waited_for(ask: Any) -> None:
    recorder, _ = ask((429, {"Retry-After": "30"}, b""))
    assert len(recorder.requests) == 1


def test_nobody_there_is_said() -> None:
    port = free_port()
    with pytest.raises(HistoryUnavailable, match=f"^Prometheus at http://127.0.0.1:{port} can't be reached: connection refused$"):
        PrometheusServer(access(f"http://127.0.0.1:{port}")).query("up")


def test_an_unknown_name_is_said() -> None:
    with pytest.raises(HistoryUnavailable, match=r"can't be reached: its name cannot be resolved$"):
        PrometheusServer(access("http://prometheus.invalid:9090")).query("up")


def _stall(request: BaseHTTPRequestHandler) -> None:
    request.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{")
    request.wfile.flush()
    request.rfile.read(1)  # until the client goes


def _dribble_head(request: BaseHTTPRequestHandler) -> None:
    try:
        for _ in range(200):
            request.wfile.write(b"H")
            request.wfile.flush()
            time.sleep(0.05)
    except OSError:
        pass


def _dribble_body(request: BaseHTTPRequestHandler) -> None:
    try:
        request.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n")
        for _ in range(200):
            request.wfile.write(b" ")
            request.wfile.flush()
            time.sleep(0.05)
    except OSError:
        pass


def _say_nothing(request: BaseHTTPRequestHandler) -> None:
    request.rfile.read(1)


@pytest.mark.parametrize("behaviour", [_stall, _dribble_head, _dribble_body, _say_nothing])
@pytest.mark.slow
def test_a_slow_server_is_given_up_in_time(ask: Any, behaviour: Callable[[BaseHTTPRequestHandler], None]) -> None:
    """Also one that sends a byte now and then, which a timeout of the socket alone would wait for for ever."""
    _, error = ask(behaviour, timeout=0.4)
    assert str(error).endswith("did not answer within 0.4 s")


@pytest.mark.parametrize("length", [b"1000", b"9" * 5000])
def test_half_an_answer_is_no_answer(ask: Any, length: bytes) -> None:
    def break_off(request: BaseHTTPRequestHandler) -> None:
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: " + length
        request.wfile.write(head + b"\r\n\r\n" + EMPTY)
        request.wfile.flush()
        request.connection.shutdown(socket.SHUT_RDWR)

    _, error = ask(break_off)
    assert str(error).endswith("cut its answer short")


def test_a_closed_connection_is_named(ask: Any) -> None:
    _, error = ask(lambda request: request.connection.shutdown(socket.SHUT_RDWR))
    assert str(error).endswith("closed the connection without an answer")


def test_an_endless_answer_is_cut_off(ask: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webapp.prometheus.session.LARGEST_ANSWER_BYTES", 1 << 20)
    _, error = ask((200, {**JSON, "Content-Encoding": "gzip"}, gzip.compress(b" " * (32 << 20))))
    assert str(error).endswith("answered with more than 1 MiB")
    _, error = ask((200, JSON, b" " * (2 << 20)))
    assert str(error).endswith("answered with more than 1 MiB")
    _, error = ask((200, {**JSON, "Content-Encoding": "gzip"}, b"not gzip at all"))
    assert str(error).endswith("can't be unpacked")


def test_a_query_is_a_form_so_that_it_may_be_long(ask: Any) -> None:
    query = 'up{x="' + "é&" * 20_000 + '"}'
    recorder, _ = ask((200, JSON, EMPTY), query=query)
    method, path, headers, form = recorder.requests[0]
    assert (method, path, form["query"]) == ("POST", "/api/v1/query", [query])
    assert headers["Content-Type"] == "application/x-www-form-urlencoded"
    assert form["timeout"] == ["2s"]


@pytest.mark.parametrize("status", [403, 404, 405, 501])
def test_where_post_is_refused_get_is_used(status: int) -> None:
    def answer(request: BaseHTTPRequestHandler, body: bytes) -> Reply:
        seen.append((request.command, parse_qs(urlsplit(request.path).query)))
        return (200, JSON, EMPTY) if request.command == "GET" else (status, {"Content-Type": "text/plain"}, b"Method Not Allowed")

    seen: list[tuple[str, dict[str, list[str]]]] = []
    with http_server(answer) as url:
        server = PrometheusServer(access(url, parameters=(("dedup", "true"),)))
        for _ in range(2):
            assert server.query('up{a="é b&c"}', at=12.5).series == ()
    assert [method for method, _ in seen] == ["POST", "GET", "GET"]
    assert seen[-1][1] == {"query": ['up{a="é b&c"}'], "time": ["12.500"], "timeout": ["3s"], "dedup": ["true"]}


@pytest.mark.parametrize(
    ("given", "base"),
    [
        ("http://p:9090", "http://p:9090"),
        ("http://p:9090/", "http://p:9090"),
        ("http://p/prom", "http://p/prom"),
        ("http://p/prom//", "http://p/prom"),
        ("http://p/prom/api/v1", "http://p/prom"),
        ("http://p/prom/api/v1/query_range", "http://p/prom"),
        ("http://p/select/0/prometheus/", "http://p/select/0/prometheus"),
        ("https://[::1]:9090/graph", "https://[::1]:9090"),
    ],
)
def test_an_address_is_taken_as_operators_write_it(given: str, base: str) -> None:
    """T106."""
    assert access(given).url == base


def test_a_sub_path_reaches_the_server(ask: Any) -> None:
    """T106."""
    recorder, _ = ask((200, JSON, EMPTY), path="/prom/")
    assert recorder.requests[0][1] == "/prom/api/v1/query"


def _authorization(recorder: Recorder) -> str:
    return recorder.requests[0][2]["Authorization"]


def test_credentials_are_sent_as_they_are_meant(ask: Any, tmp_path: Path) -> None:
    """T107: a newline at the end of a file, a colon and other letters in a password."""
    (tmp_path / "token").write_text("abc123\n")
    (tmp_path / "password").write_text("pa:ss wörd\r\n")
    recorder, _ = ask((200, JSON, EMPTY), bearer_token_file=tmp_path / "token")
    assert _authorization(recorder) == "Bearer abc123"
    recorder, _ = ask((200, JSON, EMPTY), username="ops", password_file=tmp_path / "password")
    assert base64.b64decode(_authorization(recorder).removeprefix("Basic ")).decode() == "ops:pa:ss wörd"
    recorder, _ = ask((200, JSON, EMPTY), headers=(("X-Scope-OrgID", "tenant-1"),))
    assert recorder.requests[0][2]["X-Scope-OrgID"] == "tenant-1"


def test_a_token_that_changes_is_read_anew(tmp_path: Path) -> None:
    recorder = Recorder((200, JSON, EMPTY))
    with http_server(recorder) as url:
        server = PrometheusServer(access(url, bearer_token_file=tmp_path / "token"))
        for token in ("one", "two"):
            (tmp_path / "token").write_text(token)
            server.query("up")
    assert [headers["Authorization"] for _, _, headers, _ in recorder.requests] == ["Bearer one", "Bearer two"]


@pytest.mark.parametrize("content", [None, "", "  \n", "two\nlines"])
def test_an_unusable_token_file_is_named_and_nothing_is_sent(ask: Any, tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "token").write_text(content)
    recorder, error = ask((200, JSON, EMPTY), bearer_token_file=tmp_path / "token")
    assert f"can't be queried: {tmp_path}/token" in str(error)
    assert "lines" not in str(error)
    assert recorder.requests == []


def test_secrets_stay_out_of_messages_and_reprs(ask: Any) -> None:
    """T107."""
    secrets: dict[str, Any] = {"headers": (("X-Key", "s3cret"),), "parameters": (("key", "s3cret"),)}
    for reply in ((401, {}, b""), (302, {"Location": "/login"}, b""), (500, HTML, b"s3cret")):
        _, error = ask(reply, **secrets)
        assert "s3cret" not in repr(error)
    given = access("https://ops:s3cret@p:9090/x", **secrets)
    assert given.url == given.name.removeprefix("Prometheus at ") == "https://p:9090/x"
    assert "s3cret" not in repr(given)
    assert (given.username, given.password) == ("ops", "s3cret")


def test_a_login_page_cannot_make_us_remember_it(ask: Any) -> None:
    session = PrometheusSession(Access("http://p"))
    recorder, _ = ask((302, {"Location": "/login", "Set-Cookie": "a=b; Path=/"}, b""))
    assert "Cookie" not in recorder.requests[-1][2]
    assert not session.cookies


def test_warnings_and_partial_answers_are_passed_on(ask: Any) -> None:
    """T104."""
    partial = {"status": "success", "warnings": ["store X\nunavailable", 7], "infos": ["x"], "isPartial": True, "new": {}}
    partial["data"] = {"resultType": "vector", "result": []}
    _, result = ask((200, JSON, json.dumps(partial).encode()))
    assert result.warnings == ("store X unavailable", "7", "parts of the server's storage did not answer")


FIXTURES = Path(__file__).parents[1] / "fixtures" / "promapi"


def _recorded() -> list[Path]:
    return sorted(path for path in FIXTURES.iterdir() if path.name.startswith(("prom242", "vm179")))


@pytest.mark.parametrize("path", _recorded(), ids=lambda path: path.stem)
def test_every_recorded_answer_is_read_or_named(ask: Any, path: Path) -> None:
    codes = dict(line.split(maxsplit=1) for line in (FIXTURES / "status-codes.txt").read_text().splitlines())
    status, kind, *_ = (codes.get(path.stem, "200 application/json") + " application/json").split()
    kind = "text/plain; charset=utf-8" if path.suffix == ".txt" else kind
    body = path.read_bytes()
    _, result = ask((int(status), {"Content-Type": kind.rstrip(";")}, body))
    envelope = json.loads(body) if path.suffix == ".json" else {}
    if envelope.get("status") == "error":
        assert envelope["error"][:200] in str(result)
        assert isinstance(result, QueryRefused) == (status in ("400", "422"))
    elif "result" not in envelope.get("data", {}):
        assert isinstance(result, HistoryUnavailable)
    elif envelope["data"]["resultType"] == "scalar":
        assert [(time, value) for time, value in result.series[0].samples] == [(1796013829.077, 1.0)]
    else:
        given = envelope["data"]["result"]
        assert [series.labels for series in result.series] == [item["metric"] for item in given]
        for series, item in zip(result.series, given, strict=True):
            samples = item.get("values") or [item["value"]]
            assert [time for time, _ in series.samples] == [time for time, _ in samples]
            for (_, value), (_, text) in zip(series.samples, samples, strict=True):
                assert value is None if text in ("NaN", "+Inf", "-Inf") else value == float(text)


def test_a_native_histogram_is_no_line_and_no_error(ask: Any) -> None:
    item = {"metric": {"a": "b"}, "histograms": [[1, {"count": "1"}]]}
    _, result = ask((200, JSON, json.dumps({"status": "success", "data": {"resultType": "matrix", "result": [item]}}).encode()))
    assert result.series[0].samples == []


def test_a_range_is_asked_in_whole_seconds() -> None:
    recorder = Recorder((200, JSON, EMPTY))
    with http_server(recorder) as url:
        PrometheusServer(access(url)).query_range("up", Range(1796013660, 1796017260, 15.0))
    form = recorder.requests[0][3]
    assert (form["start"], form["end"], form["step"]) == (["1796013660"], ["1796017260"], ["15"])
