"""Engines asked over HTTP, as they answer and as they fail."""

from __future__ import annotations

import gzip
import json
import socket
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from webapp import heartbeat
from webapp.agent.engines.metric_names import ENGINE_METRIC_NAMES, Endpoint
from webapp.agent.engines.metrics import EngineMetrics, EngineReading
from webapp.agent.engines.scrape import ScrapeFailed, scrape
from webapp.agent.engines.token_rates import rate
from webapp.measurement import Engine, Measurement, Requests

FIXTURES = Path(__file__).parent.parent / "fixtures" / "engine_metrics"

#: Far more than any of these takes; only a test that fails waits so long.
PATIENCE = 20.0


@dataclass
class FakeEngine:
    """An HTTP server that says what it is told to say, and remembers what it was asked."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    #: The answer waits for this.
    let_go: threading.Event = field(default_factory=threading.Event)
    endless: bool = False
    #: Sends a status line that never ends, a byte at a time.
    dripping: bool = False
    asked: list[str] = field(default_factory=list)
    was_asked: threading.Event = field(default_factory=threading.Event)
    port: int = 0

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        self.asked.append(handler.path)
        self.was_asked.set()
        self.let_go.wait(PATIENCE)
        try:
            if self.dripping:
                while True:
                    handler.wfile.write(b"H")
                    threading.Event().wait(0.01)
            handler.send_response(self.status)
            for name, value in self.headers.items():
                handler.send_header(name, value)
            handler.end_headers()
            handler.wfile.write(self.body)
            while self.endless:
                handler.wfile.write(b"x" * 65536)
        except OSError:
            pass  # the asker has had enough


@pytest.fixture
def start():
    """Starts fake engines; call it with FakeEngine's fields."""
    servers = []
    engines = []

    def start(*, waits: bool = False, **fields: object) -> FakeEngine:
        engine = FakeEngine(**fields)

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                engine.answer(self)

            def log_message(self, *arguments: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        engine.port = server.server_address[1]
        if not waits:
            engine.let_go.set()
        servers.append(server)
        engines.append(engine)
        return engine

    yield start
    for engine in engines:
        engine.let_go.set()
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture
def metrics():
    metrics = EngineMetrics(timeout_s=PATIENCE)
    yield metrics
    assert metrics.wait(PATIENCE)


def engine_at(port: int | None, kind: str = "vllm", id: str = "e", **fields: object) -> Engine:
    return Engine(id=id, kind=kind, port=port, **fields)


def asked_once(metrics: EngineMetrics, *engines: Engine) -> EngineReading:
    metrics.refresh(engines)
    assert metrics.wait(PATIENCE)
    reading = metrics.latest(engines[0].id or "")
    assert reading is not None
    return reading


def test_a_busy_engine_says_what_runs_and_what_waits(start, metrics):
    fake = start(body=(FIXTURES / "vllm-0.32.0-busy.txt").read_bytes())
    reading = asked_once(metrics, engine_at(fake.port))
    assert reading == EngineReading(Requests(waiting=20, running=2), kv_cache_usage_ratio=0.002931118710307823)
    assert fake.asked == ["/metrics"]


def test_a_number_that_was_cut_off_is_not_shown(start, metrics):
    """The engine was killed as it wrote 1234; without Content-Length nothing else shows it."""
    fake = start(body=b"vllm:num_requests_running 5\nvllm:num_requests_waiting 12")
    reading = asked_once(metrics, engine_at(fake.port))
    assert reading == EngineReading(metrics_error="metrics: the page ended early")


def scrape_at(*times: float):
    """Scrapes whose answers come at these times."""
    moments = iter(times)

    def timed(names, endpoint, port, timeout_s):
        page, _ = scrape(names, endpoint, port, timeout_s)
        return page, next(moments)

    return timed


def test_tokens_a_second_need_two_readings(start):
    metrics = EngineMetrics(PATIENCE, scrape=scrape_at(100.0, 110.0))
    fake = start(body=b"llamacpp:tokens_predicted_total 100\nllamacpp:prompt_tokens_total 50\n")
    first = asked_once(metrics, engine_at(fake.port, "llama.cpp"))
    assert first.generation_tokens_per_second is None
    fake.body = b"llamacpp:tokens_predicted_total 350\nllamacpp:prompt_tokens_total 50\n"
    second = asked_once(metrics, engine_at(fake.port, "llama.cpp"))
    assert second.generation_tokens_per_second == 25.0
    assert second.prompt_tokens_per_second == 0.0


def test_a_counter_that_fell_is_unknown_once(start):
    metrics = EngineMetrics(PATIENCE, scrape=scrape_at(100.0, 110.0, 120.0))
    rates = []
    fake = start()
    for count in (1000, 20, 70):
        fake.body = f"llamacpp:tokens_predicted_total {count}\n".encode()
        rates.append(asked_once(metrics, engine_at(fake.port, "llama.cpp")).generation_tokens_per_second)
    assert rates == [None, None, 5.0]


def test_tokens_that_are_counted_when_their_request_ends_are_spread_over_a_minute(start):
    """Two requests of 600 tokens, one after the other: no silence between their ends, and no burst at them."""
    metrics = EngineMetrics(PATIENCE, scrape=scrape_at(*(10.0 * beat for beat in range(9))))
    fake = start()
    rates = []
    for count in (0, 0, 0, 600, 600, 600, 1200, 1200, 1200):
        fake.body = f"llamacpp:tokens_predicted_total {count}\n".encode()
        rates.append(asked_once(metrics, engine_at(fake.port, "llama.cpp")).generation_tokens_per_second)
    assert rates == [None, 0.0, 0.0, 20.0, 15.0, 12.0, 20.0, 20.0, 20.0]


@pytest.mark.parametrize(("running", "expected"), [(2, None), (0, 0.0)])
def test_no_request_has_ended_is_not_no_tokens(start, running, expected):
    metrics = EngineMetrics(PATIENCE, scrape=scrape_at(0.0, 10.0))
    fake = start(body=f"llamacpp:tokens_predicted_total 5\nllamacpp:requests_processing {running}\n".encode())
    asked_once(metrics, engine_at(fake.port, "llama.cpp"))
    assert asked_once(metrics, engine_at(fake.port, "llama.cpp")).generation_tokens_per_second == expected


def test_tokens_that_are_counted_as_they_come_are_those_since_the_reading_before(start):
    metrics = EngineMetrics(PATIENCE, scrape=scrape_at(0.0, 10.0, 20.0))
    fake = start()
    rates = []
    for count in (0, 600, 700):
        fake.body = f"vllm:generation_tokens_total {count}\n".encode()
        rates.append(asked_once(metrics, engine_at(fake.port)).generation_tokens_per_second)
    assert rates == [None, 60.0, 10.0]


def test_a_restarted_engine_has_no_earlier_reading(start):
    metrics = EngineMetrics(PATIENCE, scrape=scrape_at(100.0, 110.0))
    fake = start(body=b"llamacpp:tokens_predicted_total 100\n")
    asked_once(metrics, engine_at(fake.port, "llama.cpp", pid=10))
    fake.body = b"llamacpp:tokens_predicted_total 900\n"
    assert asked_once(metrics, engine_at(fake.port, "llama.cpp", pid=11)).generation_tokens_per_second is None


def test_a_rate_over_more_than_a_minute_is_not_the_rate_of_now():
    assert rate({(): 0.0}, {(): 60.0}, 60.0) == 1.0
    assert rate({(): 0.0}, {(): 610.0}, 61.0) is None
    assert rate({(): 0.0}, {(): 10.0}, 0.0) is None


def test_a_count_that_ended_or_was_unknown_gives_no_rate():
    assert rate({(("a", "1"),): 5.0, (("a", "2"),): 5.0}, {(("a", "1"),): 9.0}, 10.0) is None
    assert rate({(): None}, {(): 9.0}, 10.0) is None
    assert rate({(): 5.0}, {(): None}, 10.0) is None


@pytest.mark.parametrize(
    ("kind", "status", "reason"),
    [
        ("llama.cpp", 501, "metrics: 501, start with --metrics"),
        ("llama.cpp", 503, "metrics: 503, the model is loading"),
        ("llama.cpp", 400, "metrics: 400, a router; its models answer on ports of their own"),
        ("sglang", 404, "metrics: 404, start with --enable-metrics"),
        ("vllm", 503, "metrics: 503, the engine is loading or overloaded"),
        ("vllm", 401, "metrics: 401, the engine wants a key"),
        ("vllm", 500, "metrics: the engine answered 500"),
    ],
)
def test_a_refusal_says_what_it_means(start, metrics, kind, status, reason):
    """T100"""
    fake = start(status=status, body=b'{"error": {}}')
    assert asked_once(metrics, engine_at(fake.port, kind)) == EngineReading(metrics_error=reason)
    assert fake.asked == ["/metrics"]


def test_no_model_is_ever_named_in_what_is_asked():
    """T100: a router loads the model that a request names."""
    asked = {endpoint.path for names in ENGINE_METRIC_NAMES.values() for endpoint in names.endpoints}
    assert asked == {"/metrics", "/prometheus/metrics"}


def test_a_redirect_is_not_followed(start, metrics):
    elsewhere = start(body=b"vllm:num_requests_waiting 1\n")
    fake = start(status=302, headers={"Location": f"http://127.0.0.1:{elsewhere.port}/metrics"})
    error = asked_once(metrics, engine_at(fake.port)).metrics_error
    assert error == f"metrics: 302, sent on to 'http://127.0.0.1:{elsewhere.port}/metrics', not followed"
    assert elsewhere.asked == []


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"\n<!DOCTYPE html><html>", "the engine answered with HTML"),
        (b'[{"iter": 1}]', "the engine answered with JSON"),
        (b"", "the page is empty"),
        (b"# HELP a b\nnode_load1 4\n", "none of this kind of engine are on the page; start without --disable-log-stats"),
    ],
)
def test_a_page_that_is_no_metrics_is_named(start, metrics, body, reason):
    fake = start(body=body)
    assert asked_once(metrics, engine_at(fake.port)).metrics_error == "metrics: " + reason


def test_a_page_that_comes_packed_says_so_and_blames_no_switch(start, metrics):
    fake = start(body=gzip.compress(b"vllm:num_requests_waiting 3\n"), headers={"Content-Encoding": "gzip"})
    assert "packed, as 'gzip'" in (asked_once(metrics, engine_at(fake.port)).metrics_error or "")


def test_a_page_without_end_is_given_up(start, metrics):
    fake = start(endless=True)
    assert asked_once(metrics, engine_at(fake.port)).metrics_error == "metrics: the page is longer than 4 MiB"


def test_a_page_that_ends_early_is_not_half_believed(start, metrics):
    fake = start(headers={"Content-Length": "999"}, body=b'vllm:num_requests_waiting{engine="0"} 3\n')
    reading = asked_once(metrics, engine_at(fake.port))
    assert reading.requests == Requests()
    assert reading.metrics_error == "metrics: the page ended early"


def test_a_chunked_page_is_read(start, metrics):
    fake = start(headers={"Transfer-Encoding": "chunked"}, body=b"1e\r\nvllm:num_requests_waiting 123\n\r\n0\r\n\r\n")
    assert asked_once(metrics, engine_at(fake.port)).requests.waiting == 123


def test_a_port_where_nobody_listens_says_so(metrics):
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        port = reserved.getsockname()[1]
        assert asked_once(metrics, engine_at(port)).metrics_error == f"metrics: port {port} refused the connection"


@pytest.mark.parametrize("fields", [{"waits": True}, {"endless": True, "dripping": True}])
def test_an_engine_that_hangs_or_drips_is_given_up(start, fields):
    metrics = EngineMetrics(timeout_s=0.2)
    fake = start(**fields)
    reading = asked_once(metrics, engine_at(fake.port))
    assert reading.metrics_error == f"metrics: port {fake.port} did not answer within 0.2 s"


def test_a_llama_server_whose_http_threads_are_all_busy_is_named_as_the_reason(start):
    metrics = EngineMetrics(timeout_s=0.2)
    error = asked_once(metrics, engine_at(start(waits=True).port, "llama.cpp")).metrics_error
    assert error.endswith("did not answer within 0.2 s; its requests may hold all of its HTTP threads, see --threads-http")


def test_a_server_that_does_not_speak_http_is_named(metrics):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

        def greet() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(b"220 mail ready\r\n")

        greeter = threading.Thread(target=greet)
        greeter.start()
        assert asked_once(metrics, engine_at(port)).metrics_error == (f"metrics: port {port} does not speak HTTP (BadStatusLine)")
        greeter.join()


def test_an_engine_that_hangs_is_asked_once_and_delays_no_other(start, metrics):
    hanging = start(waits=True, body=b"vllm:num_requests_waiting 1\n")
    healthy = start(body=b"vllm:num_requests_waiting 2\n")
    both = [engine_at(hanging.port, id="hanging"), engine_at(healthy.port, id="healthy")]
    metrics.refresh(both)
    assert hanging.was_asked.wait(PATIENCE)
    for _ in range(5):
        metrics.refresh(both)
    assert metrics.latest("hanging") is None
    hanging.let_go.set()
    assert metrics.wait(PATIENCE)
    assert hanging.asked == ["/metrics"]
    assert metrics.latest("healthy").requests.waiting == 2


def test_a_reading_is_unknown_when_two_rounds_brought_no_other(start):
    now = [0.0]
    metrics = EngineMetrics(PATIENCE, clock=lambda: now[0])
    fake = start(body=b"vllm:num_requests_waiting 1\n")
    engine = engine_at(fake.port)
    asked_once(metrics, engine)
    fake.let_go.clear()
    for now[0] in (10.0, 20.0):
        metrics.refresh([engine])
    assert metrics.latest("e") is not None
    now[0] = 20.1
    assert metrics.latest("e") is None
    fake.let_go.set()
    assert metrics.wait(PATIENCE)
    assert metrics.latest("e") is not None


@pytest.mark.parametrize(("rounds_s", "fresh_for_s"), [(0.05, 5.0), (20.0, 40.0), (4000.0, 60.0)])
def test_a_reading_is_shown_for_five_seconds_to_a_minute(start, rounds_s, fresh_for_s):
    now = [0.0]
    metrics = EngineMetrics(PATIENCE, clock=lambda: now[0])
    engine = engine_at(start(body=b"vllm:num_requests_waiting 1\n").port)
    asked_once(metrics, engine)
    now[0] = rounds_s
    asked_once(metrics, engine)
    now[0] += fresh_for_s
    assert metrics.latest("e") is not None
    now[0] += 0.1
    assert metrics.latest("e") is None


def test_an_engine_that_is_gone_is_forgotten(start, metrics):
    fake = start(body=b"vllm:num_requests_waiting 1\n")
    asked_once(metrics, engine_at(fake.port))
    metrics.refresh([])
    assert metrics.latest("e") is None


class Asked:
    """A scrape that only remembers where it was sent, and finds nothing there."""

    def __init__(self, elsewhere: bool = True) -> None:
        self.at: list[tuple[int, str]] = []
        self.elsewhere = elsewhere

    def __call__(self, names: object, endpoint: Endpoint, port: int, timeout_s: float):
        self.at.append((port, endpoint.path))
        raise ScrapeFailed(f"nothing at {port}", elsewhere=self.elsewhere)


def where_asked(*engines: Engine, elsewhere: bool = True) -> list[tuple[int, str]]:
    asked = Asked(elsewhere)
    asked_once(EngineMetrics(scrape=asked), *engines)
    return sorted(asked.at)


@pytest.mark.parametrize(
    ("kind", "places"),
    [
        ("vllm", [(8000, "/metrics")]),
        ("trtllm", [(8000, "/prometheus/metrics")]),
        ("triton", [(8002, "/metrics")]),
        ("tgi", [(8000, "/metrics"), (9000, "/metrics")]),
        ("ollama", []),
        ("unheard of", []),
        (None, []),
    ],
)
def test_each_kind_is_asked_where_it_answers(kind, places):
    assert where_asked(engine_at(8000, kind)) == places


def test_the_second_place_is_asked_only_where_the_first_has_nothing():
    assert where_asked(engine_at(3000, "tgi"), elsewhere=False) == [(3000, "/metrics")]


def test_a_port_that_two_engines_name_is_asked_for_neither():
    """Engines in containers with networks of their own: only one of them answers on this host."""
    metrics = EngineMetrics(scrape=Asked())
    engines = [engine_at(8000, id="a"), engine_at(8000, id="b"), engine_at(8001, id="c")]
    assert asked_once(metrics, *engines).metrics_error == "metrics: more than one engine names port 8000"
    assert where_asked(*engines) == [(8001, "/metrics")]


def test_a_fixed_port_is_not_asked_when_it_may_be_of_another_engine():
    assert where_asked(engine_at(8000, "triton", id="a"), engine_at(8010, "triton", id="b")) == []
    assert where_asked(engine_at(8000, "triton", id="a"), engine_at(8002, "vllm", id="b")) == [(8002, "/metrics")]


def test_an_orphan_is_not_asked_and_leaves_its_port_to_its_successor():
    orphan = engine_at(8000, id="old", state="orphaned")
    assert asked_once(EngineMetrics(scrape=Asked()), orphan).metrics_error == "metrics: the engine is orphaned"
    assert where_asked(orphan, engine_at(8000, id="new", state="running")) == [(8000, "/metrics")]


@pytest.mark.parametrize(
    ("engine", "reason"),
    [
        (engine_at(11434, "ollama"), "metrics: ollama has no metrics of its own"),
        (engine_at(8080, "llama.cpp-router"), "metrics: a router; its models are asked on ports of their own"),
        (engine_at(None, "vllm"), "metrics: the engine's port is not known"),
        (engine_at(80, "x"), "metrics: not known for the kind 'x'"),
        (engine_at(80, None), "metrics: the kind of engine is not known"),
    ],
)
def test_an_engine_that_is_not_asked_says_why(engine, reason):
    assert asked_once(EngineMetrics(scrape=Asked()), engine).metrics_error == reason


def test_unusable_lines_are_counted_and_quoted_without_their_control_characters(start, metrics):
    fake = start(body=b"vllm:num_requests_waiting \x1b[31m\xff\nvllm:num_requests_running 2\n")
    reading = asked_once(metrics, engine_at(fake.port))
    assert reading.requests == Requests(waiting=None, running=2)
    assert reading.unusable_lines == 1
    assert reading.metrics_error == "metrics: 1 line could not be used: vllm:num_requests_waiting \ufffd[31m\ufffd"


@pytest.mark.parametrize("value", ["1e999", "1.7e308", "-0.0", "NaN", "9" * 5000])
def test_whatever_an_engine_says_a_heartbeat_can_carry(start, metrics, value):
    series = "".join(f'vllm:{name}{{engine="{rank}"}} {value}\n' for name in ("num_requests_waiting",) for rank in (0, 1))
    reading = asked_once(metrics, engine_at(start(body=series.encode()).port))
    engine = Engine(id="e", requests=reading.requests, metrics_error=reading.metrics_error)
    sent = heartbeat.read(heartbeat.write(Measurement("n", engines=(engine,))))
    assert sent.rejected == ()
    json.loads(heartbeat.write(sent.measurement), parse_constant=pytest.fail)
