"""A Prometheus of our own: started, configured and stopped by `enginehouse up --with-prometheus`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from webapp.addresses import free_port
from webapp.child import Child

#: Seconds between two scrapes of our /metrics.
SCRAPE_SECONDS = 10

#: How long samples are kept, and how much room they may take.
_RETENTION = ("--storage.tsdb.retention.time=15d", "--storage.tsdb.retention.size=2GB")


class CannotManage(Exception):
    """Prometheus can't be started here. The message is one line, for the operator."""


class ManagedPrometheus:
    """One Prometheus on a loopback port, with its data under the data directory."""

    def __init__(self, data_dir: Path) -> None:
        """Raises CannotManage where there is no program or no place for it."""
        program = shutil.which("prometheus")
        if program is None:
            raise CannotManage(
                "prometheus is not on PATH; install it (apt install prometheus), or leave --with-prometheus out "
                "and the charts come from the embedded history"
            )
        self._program = program
        self._directory = data_dir / "prometheus"
        try:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise CannotManage(f"{self._directory} can't be made: {error.strerror}") from error
        self._port = free_port()
        self._child: Child | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def start(self, target: str, token_file: Path | None = None) -> None:
        """Scrape the control plane at `target`, such as 127.0.0.1:8765, with the token in a file perhaps. Raises CannotManage."""
        config = self._directory / "prometheus.yml"
        command = [
            self._program,
            f"--config.file={config}",
            f"--storage.tsdb.path={self._directory / 'data'}",
            f"--web.listen-address=127.0.0.1:{self._port}",
            *_RETENTION,
            "--log.level=error",
        ]
        self._child = Child("prometheus", command)
        try:
            config.write_text(configuration(target, token_file), "utf-8")
            self._child.start()
        except OSError as error:
            raise CannotManage(f"prometheus can't be started: {error.strerror}") from error

    def stop(self) -> None:
        """SIGTERM, and SIGKILL if it has not ended in time; its data stay."""
        if self._child is not None:
            self._child.stop(10.0)


def configuration(target: str, token_file: Path | None = None) -> str:
    """A configuration that scrapes one control plane. JSON is YAML too.

    >>> "127.0.0.1:8765" in configuration("127.0.0.1:8765")
    True
    """
    place, _, path = target.partition("/")
    job: dict[str, Any] = {"job_name": "enginehouse", "metrics_path": f"/{path}/metrics" if path else "/metrics"}
    job |= {"static_configs": [{"targets": [place]}]}
    if token_file:
        job |= {"authorization": {"credentials_file": str(token_file)}}
    interval = {"scrape_interval": f"{SCRAPE_SECONDS}s", "scrape_timeout": "5s"}
    return json.dumps({"global": interval, "scrape_configs": [job]}, indent=2) + "\n"
