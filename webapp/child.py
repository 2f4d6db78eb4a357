"""A program that we start, keep running and stop with us."""

from __future__ import annotations

import logging
import subprocess
import threading
from collections.abc import Mapping, Sequence

from webapp.agent.parent_death import end_with_us

log = logging.getLogger(__name__)


class Child:
    """Runs a command until `stop`; one that ends by itself is started again after 1, 2, 4 ... 60 seconds."""

    def __init__(self, name: str, command: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        self._name = name
        self._command = list(command)
        self._environment = dict(environment) if environment is not None else None
        self._stopping = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._keep_running, name=f"child {name}", daemon=True)

    def start(self) -> None:
        """Raises OSError where the program cannot be started."""
        self._process = self._spawn()
        self._thread.start()

    def _spawn(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(self._command, env=self._environment, stdin=subprocess.DEVNULL, preexec_fn=end_with_us())

    def _keep_running(self) -> None:
        delay = 1.0
        while self._process is not None:
            code = self._process.wait()
            if self._stopping.is_set():
                return
            log.warning("%s ended with code %s; it is started again in %.0f s", self._name, code, delay)
            if self._stopping.wait(delay):
                return
            delay = min(60.0, 2 * delay)
            self._process = self._spawn()

    def stop(self, patience_s: float = 5.0) -> None:
        """End it: SIGTERM, then SIGKILL after `patience_s`."""
        self._stopping.set()
        process = self._process
        if process is None or process.poll() is not None:
            return
        process.terminate()
        try:
            process.wait(patience_s)
        except subprocess.TimeoutExpired:
            log.warning("%s did not stop within %.0f s and is killed", self._name, patience_s)
            process.kill()
            process.wait()
