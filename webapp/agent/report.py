"""`enginehouse report`: fetches a resource agent's snapshot and passes it on, once each interval.

Collection, report and receive time stay apart: the snapshot holds the agent's, the metadata ours, and the
control plane notes its own.
"""

from __future__ import annotations

import logging
import select
import threading
import time
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any, Callable

from webapp.agent import arguments, stopping
from webapp.agent.client import Client, Unanswered, checked, described
from webapp.agent.clock import Clock, next_due
from webapp.agent.lines import one_line
from webapp.settings import SettingError
from webapp.snapshot import SCHEMA

log = logging.getLogger("enginehouse.report")

SNAPSHOT_PATH = "/v1/resource/snapshot"
REPORT_PATH = "/v1/instance/resource_snapshot"

UNKNOWN_INSTANCE = "unknown_instance"


class NotTaken(Exception):
    """The control plane said no. `error` is its word for it."""

    def __init__(self, reason: str, error: str) -> None:
        super().__init__(reason)
        self.error = error


class Reporter:
    """Passes the snapshots of one agent on to one control plane, under one instance's name."""

    def __init__(self, agent: Client, control_plane: Client, instance_id: str, clock: Clock | None = None) -> None:
        self._agent = agent
        self._control_plane = control_plane
        self._instance_id = instance_id
        self._clock = clock or Clock()

    def report_once(self) -> None:
        """Raises Unanswered, NotTaken."""
        reply = self._agent.get(SNAPSHOT_PATH)
        snapshot = reply.content
        if reply.status != 200 or not snapshot:
            raise Unanswered(f"the resource agent at {self._agent.name} answered {described(reply)}")
        if snapshot.get("schema_version") != SCHEMA:
            raise Unanswered(f"what {self._agent.name} answers is no {SCHEMA}; is it a resource agent?")
        answer = self._control_plane.post_ok(REPORT_PATH, self._message(snapshot))
        if answer.get("ok") is not True:
            error = one_line(str(answer.get("error", "no reason given")))
            raise NotTaken(f"{self._control_plane.name} did not take it: {error}", error)

    def _message(self, snapshot: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "instance_id": self._instance_id,
            "snapshot": dict(snapshot),
            "metadata": {
                "reported_instance_id": self._instance_id,
                "report_monotonic_ms": round(self._clock.monotonic() * 1000),
                "report_wall_time_ms": round(self._clock.wall() * 1000),
                "agent_snapshot_timestamp_ms": snapshot.get("timestamp_ms"),
            },
        }


class Failures:
    """Says when it begins, each `every`th time, and when it is over."""

    def __init__(self, instance_id: str, every: int = 30, *, says_success: bool = False) -> None:
        self._instance_id = instance_id
        self._every = max(1, every)
        self._says_success = says_success
        self._count = 0
        self._any_success = False

    def failed(self, reason: str) -> None:
        self._count += 1
        if self._count == 1 or self._count % self._every == 0:
            log.warning("report of %r failed (%d in a row): %s", self._instance_id, self._count, reason)

    def succeeded(self) -> None:
        if self._count:
            log.info("report of %r taken again after %d failures", self._instance_id, self._count)
        elif self._says_success or not self._any_success:
            log.info("report of %r taken", self._instance_id)
        self._count = 0
        self._any_success = True


def report_forever(
    reporter: Reporter,
    failures: Failures,
    interval_s: float,
    wait: Callable[[float], bool],
    *,
    refused: Callable[[str], None] = lambda error: None,
    monotonic: Callable[[], float] = time.monotonic,
) -> None:
    """Reports each `interval_s` until `wait`, which gets the seconds to wait, returns True; what is late is left out.

    `refused` gets the control plane's word when it says no.
    """
    due = monotonic()
    while True:
        try:
            reporter.report_once()
            failures.succeeded()
        except NotTaken as error:
            failures.failed(str(error))
            refused(error.error)
        except Unanswered as error:
            failures.failed(str(error))
        now = monotonic()
        due = next_due(due, now, interval_s)
        if wait(max(0.0, due - now)):
            return


def main(given: Sequence[str], environment: Mapping[str, str]) -> int:
    """The reporter as a command. Exit code 1: the report of --once was not taken. Raises SettingError."""
    return run(arguments.read("report", given, environment))


def run(settings: SimpleNamespace) -> int:
    """Reports until SIGTERM or SIGINT; with `settings.once`, one time. Raises SettingError before anything is sent."""
    if not settings.instance_id:
        raise SettingError("--instance-id: expected the name under which the engine is registered, such as hp_127.0.0.1:9001")
    agent = Client(checked(settings.agent_url, "--agent-url"), settings.timeout_s)
    control_plane = Client(checked(settings.proxy_cp_url, "--proxy-cp-url"), settings.timeout_s, settings.token_file)
    reporter = Reporter(agent, control_plane, settings.instance_id)
    failures = Failures(settings.instance_id, settings.failure_log_every, says_success=not settings.quiet_success)
    if settings.once:
        try:
            reporter.report_once()
        except (Unanswered, NotTaken) as error:
            failures.failed(_with_hint(error, settings.instance_id))
            return 1
        failures.succeeded()
        return 0
    with stopping.signals() as came:
        stopped = threading.Event()

        def report() -> None:
            report_forever(reporter, failures, settings.interval_ms / 1000, stopped.wait)

        # A thread, so that a signal ends the command at once, whoever is being waited for.
        threading.Thread(target=report, name="report", daemon=True).start()
        select.select([came], [], [])
        stopped.set()
    return 0


def _with_hint(error: Exception, instance_id: str) -> str:
    if isinstance(error, NotTaken) and error.error == UNKNOWN_INSTANCE:
        return f"{error}: {one_line(instance_id)!r} has to be registered first, by the engine or by `enginehouse run`"
    return str(error)
