"""Programs that benchmarks start and watch: control planes, peers, and the load on them."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import re
import socket
import struct
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from webapp import heartbeat
from webapp.measurement import Measurement

ROOT = Path(__file__).parent.parent
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass
class Running:
    """A process, and the port that it listens on."""

    process: subprocess.Popen[str]
    port: int

    def cpu_seconds(self) -> float:
        """Of the process with all its threads."""
        words = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(words[11]) + int(words[12])) / _TICKS

    def rss_bytes(self) -> int:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return 1024 * int(re.search(r"VmRSS:\s+(\d+)", status)[1])  # type: ignore[index]

    def peak_rss_bytes(self) -> int:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return 1024 * int(re.search(r"VmHWM:\s+(\d+)", status)[1])  # type: ignore[index]

    def get(self, path: str) -> bytes:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=60) as answer:
            return bytes(answer.read())


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@contextlib.contextmanager
def running(command: Sequence[str], port: int, patience_s: float = 30) -> Iterator[Running]:
    """Runs the program until the block ends; waits until it listens."""
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, text=True)
    try:
        until = time.monotonic() + patience_s
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                if process.poll() is not None or time.monotonic() > until:
                    raise RuntimeError(f"{command[0]} does not listen") from None
                time.sleep(0.005)
        yield Running(process, port)
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def control_plane(data: Path, *flags: str) -> contextlib.AbstractContextManager[Running]:
    port = free_port()
    command = [sys.executable, "-m", "webapp.cli", "serve", "--listen", f"127.0.0.1:{port}", "--data-dir", str(data)]
    return running([*command, "--log-level", "error", *flags], port)


def requests(path: Path, texts: Sequence[bytes]) -> Path:
    """Writes whole requests as load.c reads them."""
    path.write_bytes(b"".join(struct.pack("=I", len(text)) + text for text in texts))
    return path


def beat_request(measurement: Measurement, keep: bool = False) -> bytes:
    """The request by which an agent reports that."""
    body = re.sub(rb'"sequence":\d+', b'"sequence":100000000', heartbeat.write(measurement))
    connection = b"" if keep else b"Connection: close\r\n"
    return (
        b"POST /v1/nodes/heartbeat HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        b"User-Agent: enginehouse-agent/0.1.0\r\n%sContent-Length: %d\r\n\r\n%s" % (connection, len(body), body)
    )


def view_request(path: str) -> bytes:
    """The request by which a page refreshes a block."""
    return b"GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\nHX-Request: true\r\nAccept-Encoding: gzip\r\n\r\n" % path.encode()


@cache
def _load_program() -> str:
    program = f"{tempfile.gettempdir()}/enginehouse-load-{os.getpid()}"
    atexit.register(Path(program).unlink, missing_ok=True)
    subprocess.run(["cc", "-O2", "-D_GNU_SOURCE", "-o", program, ROOT / "benchmarks" / "load.c"], check=True)
    return program


@contextlib.contextmanager
def load(
    port: int, seconds: float, file: Path, *, rate: float = 0, connections: int = 16, fresh: bool = True
) -> Iterator[dict[str, Any]]:
    """Loads the port until the block ends or the seconds have passed; what it found stands in the dict then."""
    how = "fresh" if fresh else "kept"
    command = [_load_program(), str(port), str(seconds), str(rate), str(connections), how, str(file)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    found: dict[str, Any] = {}
    try:
        yield found
        found.update(json.loads(process.communicate(timeout=seconds + 60)[0]))
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def loaded(port: int, seconds: float, file: Path, **how: Any) -> dict[str, Any]:
    with load(port, seconds, file, **how) as found:
        pass
    return found
