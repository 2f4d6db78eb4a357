"""The resource agent beside a managed engine: one that is there already is used, else one is started; then reports.

What is used was not started here, and is never stopped here.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

from webapp.addresses import free_port, is_loopback, url
from webapp.agent.client import Client, Unanswered
from webapp.agent.connection import target
from webapp.agent.lines import one_line
from webapp.agent.process_group import ProcessGroup
from webapp.agent.registration import Registration
from webapp.agent.report import SNAPSHOT_PATH, UNKNOWN_INSTANCE, Failures, Reporter, report_forever
from webapp.snapshot import SCHEMA

log = logging.getLogger("enginehouse.monitor")

USUAL_LISTEN = ("127.0.0.1", 9201)

#: Seconds that a started agent has until it answers, and that an agent has to answer when it is looked for.
READY_SECONDS = 15.0
LOOK_TIMEOUT_S = 2.0

#: Seconds that a started agent has to stop before it is killed.
AGENT_STOP_S = 3.0

#: Pauses before an agent that ended is started again; the last one is kept.
_PAUSES_S = (1.0, 5.0, 30.0)


class Foreign(Exception):
    """Somebody else answers there. The message is one phrase."""


def is_ours(agent: Client, instance_id: str, *, with_snapshot: bool = False) -> bool:
    """Whether the resource agent of this very instance answers; False where nobody does.

    Any other 200 is not enough: its numbers would be reported under our name. `with_snapshot`: it must have
    measured already. Raises Foreign.
    """
    try:
        reply = agent.get(SNAPSHOT_PATH)
    except Unanswered as error:
        if isinstance(error.__cause__, ConnectionRefusedError):
            return False
        raise Foreign(str(error)) from error
    if reply.content.get("schema_version") != SCHEMA:
        raise Foreign(f"what answers at {agent.name} is no resource agent")
    other = reply.content.get("instance_id")
    if other != instance_id:
        raise Foreign(f"{agent.name} is the resource agent of {one_line(str(other))!r}")
    return reply.status == 200 or not with_snapshot


@dataclass(frozen=True)
class Place:
    """Where the agent is asked, and where it may be started: None where it may not."""

    base: str
    listen: tuple[str, int] | None
    #: Whether the operator chose the port; else a free one is as good.
    is_chosen: bool


def place(listen: tuple[str, int] | None, base: str | None) -> Place:
    """The agent's place as the settings have it.

    >>> place(None, None)
    Place(base='http://127.0.0.1:9201', listen=('127.0.0.1', 9201), is_chosen=False)
    >>> place(None, "http://10.0.0.7:9201").listen
    """
    if base is None:
        host, port = listen or USUAL_LISTEN
        return Place(url(host or "127.0.0.1", port).rstrip("/"), (host, port), listen is not None)
    if listen is None:
        to = target(base)
        if is_loopback(to.host) and to.scheme == "http":
            listen = to.host, to.port
    return Place(base, listen, True)


def own_command(*arguments: str) -> tuple[list[str], dict[str, str]]:
    """A command of this very program as a process of its own, and its environment.

    It is to be run in a directory that holds no package of our name.
    """
    root = Path(__file__).resolve().parents[2]
    if root.is_file():  # agent.pyz
        return [sys.executable, str(root), *arguments], dict(os.environ)
    path = os.pathsep.join(filter(None, (str(root), os.environ.get("PYTHONPATH", ""))))
    return [sys.executable, "-m", "webapp.agent", *arguments], {**os.environ, "PYTHONPATH": path}


class Monitor:
    """Finds or starts the agent once the engine is registered, and reports from then on.

    A thread waits and reports; processes are started by `step`, in the main thread, since they end with the
    thread that started them.
    """

    def __init__(
        self,
        registration: Registration,
        control_plane: Client,
        where: Place,
        *,
        report_interval_s: float,
        sample_interval_ms: float,
        timeout_s: float,
        start: Callable[[Sequence[str]], ProcessGroup] | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`start` starts the resource agent with these arguments."""
        self._registration = registration
        self._control_plane = control_plane
        self._place = where
        self._report_interval_s = report_interval_s
        self._sample_interval_ms = sample_interval_ms
        self._timeout_s = timeout_s
        self._start = start or _start
        self._monotonic = monotonic
        self._stopped = threading.Event()
        self._is_wanted = threading.Event()
        #: The agent, if it was started here.
        self.group: ProcessGroup | None = None
        self._starts = 0
        self._next_start = 0.0
        self._thread = threading.Thread(target=self._run, name="monitor", daemon=True)

    @property
    def agent_url(self) -> str:
        return self._place.base

    def start(self) -> None:
        self._thread.start()

    def step(self) -> None:
        """Starts the agent if that is wanted; again, after a pause, if it ended. To be called from the main thread."""
        if not self._is_wanted.is_set() or self._stopped.is_set():
            return
        if self.group is not None:
            code = self.group.poll()
            if code is None:
                return
            self.group.stop(AGENT_STOP_S)
            self.group = None
            pause_s = _PAUSES_S[min(self._starts, len(_PAUSES_S)) - 1]
            log.warning("the resource agent ended with code %d; it is started again in %g s", code, pause_s)
            self._next_start = self._monotonic() + pause_s
        if self._monotonic() < self._next_start or self._place.listen is None:
            return
        self._starts += 1
        host, port = self._place.listen
        listen = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        try:
            self.group = self._start(
                [
                    "resource-agent",
                    f"--listen={listen}",
                    f"--instance-id={self._registration.instance_id}",
                    f"--sample-interval-ms={self._sample_interval_ms:g}",
                ]
            )
        except OSError as error:
            log.warning("the resource agent could not be started: %s", error.strerror)
            self._next_start = self._monotonic() + _PAUSES_S[-1]

    def stop_reporting(self) -> None:
        self._stopped.set()

    def stop(self) -> None:
        """End the agent that was started here, and only that one. To be called from the main thread."""
        self._stopped.set()
        if self.group is not None:
            self.group.stop(AGENT_STOP_S)
            self.group = None

    def _run(self) -> None:
        while not self._registration.registered.wait(0.5):
            if self._stopped.is_set():
                return
        try:
            self._find()
        except Foreign as error:
            log.warning(
                "no resources are reported: %s; give --resource-agent-listen another port, or --resource-agent-url", error
            )
            return
        agent = Client(self._place.base, self._timeout_s)
        report_forever(
            Reporter(agent, self._control_plane, self._registration.instance_id),
            Failures(self._registration.instance_id),
            self._report_interval_s,
            self._stopped.wait,
            refused=self._refused,
        )

    def _find(self) -> None:
        """Returns when the agent answers, or when it had its time to. Raises Foreign."""
        if self._is_there():
            log.info("the resource agent at %s is used", self._place.base)
        elif self._place.listen is None:
            log.warning("nobody answers at %s yet, where no resource agent can be started from here", self._place.base)
            return
        else:
            self._is_wanted.set()
        until = self._monotonic() + READY_SECONDS
        while not self._stopped.is_set():
            if is_ours(self._client(), self._registration.instance_id, with_snapshot=True):
                return
            if self._monotonic() >= until:
                log.warning("the resource agent at %s has not measured anything for %g s", self._place.base, READY_SECONDS)
                return
            self._stopped.wait(0.1)

    def _is_there(self) -> bool:
        """Whether the agent of this instance answers. Moves to a free port where another one does. Raises Foreign."""
        try:
            return is_ours(self._client(), self._registration.instance_id)
        except Foreign as error:
            if self._place.is_chosen or self._place.listen is None:
                raise
            host = self._place.listen[0]
            port = free_port(host)
            log.info("%s; another one is started on port %d", error, port)
            self._place = Place(url(host, port).rstrip("/"), (host, port), False)
            return False

    def _client(self) -> Client:
        return Client(self._place.base, LOOK_TIMEOUT_S)

    def _refused(self, error: str) -> None:
        if error == UNKNOWN_INSTANCE and not self._stopped.is_set():
            self._registration.forgotten()


def _start(arguments: Sequence[str]) -> ProcessGroup:
    command, environment = own_command(*arguments)
    return ProcessGroup(command, environment, directory="/")
