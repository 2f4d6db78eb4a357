"""`enginehouse run -- COMMAND`: an engine, its registration and its machine's resource reports, ended together.

The engine is the leader of a process group of its own. At the end exactly what was started here is stopped:
the engine's group, and the resource agent's if there was none to use. The engine's exit code is passed on.
"""

from __future__ import annotations

import logging
import select
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from types import SimpleNamespace

from webapp import __version__
from webapp.agent import arguments, stopping
from webapp.agent.client import Client, checked
from webapp.agent.monitor import Monitor, place
from webapp.agent.process_group import ProcessGroup
from webapp.agent.registration import Registration
from webapp.settings import SettingError

log = logging.getLogger("enginehouse.run")

#: Seconds between two looks at the processes; SIGCHLD reports their ends at once.
_LOOK_SECONDS = 0.25

_CANNOT_RUN, _NOT_FOUND = 126, 127


def main(given: Sequence[str], environment: Mapping[str, str]) -> int:
    """The command. Exit code: the engine's; 126, 127: it can't be started. Raises SettingError."""
    given = list(given)
    flags, command = (given[: given.index("--")], given[given.index("--") + 1 :]) if "--" in given else (given, [])
    settings = arguments.read("run", flags, environment)
    if not command:
        raise SettingError("expected the engine's command after --, such as: enginehouse run --port 8000 -- vllm serve ...")
    if settings.port is None:
        raise SettingError("--port: expected the port on which the engine will listen")
    return run(settings, command)


def description(settings: SimpleNamespace) -> dict[str, object]:
    """The body with which the engine is registered; what is not known is absent, so that it is kept as it was."""
    meta = {"model": settings.model, "started_by": f"enginehouse/{__version__}", "hostname": socket.gethostname()}
    return {
        "instance_id": settings.instance_id or f"hp_{settings.host}:{settings.port}",
        "host": settings.host,
        "port": settings.port,
        "meta": {name: value for name, value in meta.items() if value},
    }


def run(settings: SimpleNamespace, command: Sequence[str]) -> int:
    """Runs the engine until it ends or a signal comes. Raises SettingError before anything starts."""
    control_plane = Client(checked(settings.proxy_cp_url, "--proxy-cp-url"), settings.timeout_s, settings.token_file)
    if settings.resource_agent_url:
        checked(settings.resource_agent_url, "--resource-agent-url")
    where = place(settings.resource_agent_listen, settings.resource_agent_url)
    registration = Registration(control_plane, description(settings))
    monitor = Monitor(
        registration,
        control_plane,
        where,
        report_interval_s=settings.resource_report_interval_ms / 1000,
        sample_interval_ms=settings.sample_interval_ms,
        timeout_s=settings.timeout_s,
    )
    with stopping.signals(*stopping.STOPPING, signal.SIGCHLD) as came:
        try:
            engine = ProcessGroup(command)
        except OSError as error:
            sys.stderr.write(f"enginehouse run: {command[0]}: {error.strerror}\n")
            return _NOT_FOUND if isinstance(error, FileNotFoundError) else _CANNOT_RUN
        try:
            registration.start()
            if settings.resource_monitor:
                monitor.start()
            while engine.poll() is None and not _stop_came(came, _LOOK_SECONDS):
                monitor.step()
        finally:
            monitor.stop_reporting()
            registration.stop()
            code = engine.stop(settings.stop_timeout_s, wait=lambda seconds: _stop_came(came, seconds))
            monitor.stop()
            registration.wait(settings.timeout_s + 0.5)
    log.info("the engine ended with code %d", code)
    return code


def _stop_came(came: socket.socket, seconds: float) -> bool:
    """Waits for a signal; whether one came that asks for the end."""
    if not select.select([came], [], [], seconds)[0]:
        return False
    return any(number in stopping.STOPPING for number in came.recv(4096))
