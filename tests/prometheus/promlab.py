"""Real servers for the tests: Prometheus, VictoriaMetrics and small HTTP servers, all on loopback ports of their own."""

from __future__ import annotations

import contextlib
import http.server
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import requests

from webapp.addresses import free_port


@contextlib.contextmanager
def running(command: list[str], url: str, log: Path) -> Iterator[str]:
    """A program, from the moment at which `url` answers; stopped at the end."""
    with log.open("wb") as out, subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT) as process:
        try:
            wait_for(lambda: requests.get(url, timeout=1).ok, lambda: process.poll() is None, log)
            yield url
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()


def wait_for(ready: Callable[[], bool], alive: Callable[[], bool] = lambda: True, log: Path | None = None) -> None:
    """Return once `ready()`; fail after 30 s, or once the program is gone."""
    until = time.monotonic() + 30
    while time.monotonic() < until and alive():
        with contextlib.suppress(requests.RequestException):
            if ready():
                return
        time.sleep(0.05)
    raise AssertionError(f"not ready: {log.read_text()[-2000:] if log else ready}")


@contextlib.contextmanager
def prometheus(directory: Path, config: str = "global: {scrape_interval: 1s}") -> Iterator[str]:
    """A Prometheus over `directory`/data; its base URL."""
    (directory / "prometheus.yml").write_text(config)
    url = f"http://127.0.0.1:{free_port()}"
    command = [
        shutil.which("prometheus") or "prometheus",
        f"--config.file={directory}/prometheus.yml",
        f"--storage.tsdb.path={directory}/data",
        f"--web.listen-address={url.removeprefix('http://')}",
        "--query.lookback-delta=5m",
    ]
    with running(command, f"{url}/-/ready", directory / "prometheus.log"):
        yield url


@contextlib.contextmanager
def victoria_metrics(directory: Path, config: str | None = None) -> Iterator[str]:
    """A VictoriaMetrics over `directory`/vm; its base URL."""
    url = f"http://127.0.0.1:{free_port()}"
    command = [
        shutil.which("victoria-metrics") or "victoria-metrics",
        f"-storageDataPath={directory}/vm",
        f"-httpListenAddr={url.removeprefix('http://')}",
        "-loggerLevel=WARN",
        "-retentionPeriod=12",
    ]
    if config is not None:
        (directory / "vm.yml").write_text(config)
        command.append(f"-promscrape.config={directory}/vm.yml")
    with running(command, f"{url}/health", directory / "vm.log"):
        yield url


#: Status, headers, body.
Reply = tuple[int, Mapping[str, str], bytes]


@contextlib.contextmanager
def http_server(answer: Callable[[http.server.BaseHTTPRequestHandler, bytes], Reply | None]) -> Iterator[str]:
    """A small HTTP server; `answer` gets each request with its body, and returns None if it wrote its answer itself."""

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _handle(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            reply = answer(self, body)
            if reply is None:
                self.close_connection = True
                return
            status, headers, text = reply
            self.send_response(status)
            for name, value in {"Content-Length": str(len(text)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_POST = _handle

        def log_message(self, *arguments: object) -> None:
            pass

    class Server(http.server.ThreadingHTTPServer):
        daemon_threads = True
        block_on_close = False

        def handle_error(self, *arguments: object) -> None:
            pass  # a client that went away

    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)


class Exposition:
    """A /metrics that says what the test wants."""

    def __init__(self) -> None:
        self.text = ""

    def __call__(self, request: http.server.BaseHTTPRequestHandler, body: bytes) -> Reply:
        return 200, {"Content-Type": "text/plain; version=0.0.4"}, self.text.encode()
