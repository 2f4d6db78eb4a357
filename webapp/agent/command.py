"""From flags, environment and file to a running agent."""

from __future__ import annotations

import signal
import socket
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from webapp.agent.clock import Clock
from webapp.agent.engines.declared import declared
from webapp.agent.engines.metrics import EngineMetrics
from webapp.agent.engines.stat_files import allow_more_files
from webapp.agent.identity import agent_id
from webapp.agent.loop import Heartbeats, Reporter, report_forever, report_once
from webapp.agent.machine.cgroup import limits
from webapp.agent.machine.disks import Disks
from webapp.agent.machine.gpu import Gpus
from webapp.agent.machine.network import Networks
from webapp.agent.machine.pressure import Pressures
from webapp.agent.sampler import Sampler, Sensors
from webapp.agent.sender import Sender
from webapp.heartbeat import LONGEST_NAME
from webapp.settings import SettingError, shown


def main(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """The agent as a command. Exit code 1: a heartbeat of --once was not taken. Raises SettingError."""
    from webapp.agent.arguments import read  # here, since who calls `run` has read them already

    settings = read("agent", arguments, environment)
    if not settings.server:
        raise SettingError("--server: expected the address of a control plane, such as http://127.0.0.1:8765")
    if settings.install:
        from webapp.agent.install import install  # once in a node's life

        flags = [flag for flag in arguments if flag not in ("--install", "--once")]
        sys.stdout.write(install(flags, running=Path(sys.argv[0])) + "\n")
        return 0
    allow_more_files()
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        # From a thread: the main thread may hold the event's lock when the signal strikes.
        signal.signal(number, lambda *_: threading.Thread(target=stop.set).start())
    return run(settings, settings.server, stop)


def run(settings: Any, servers: Sequence[str], stop: threading.Event) -> int:
    """Measures and reports to `servers` until `stop` is set; with `settings.once`, one time.

    `settings` has the attributes of the command "agent" or "up". Raises SettingError before anything starts.
    """
    clock = Clock()
    node = _node(settings)
    if not settings.proc.is_dir():
        raise SettingError(f"--proc={settings.proc}: expected a directory such as /proc, and there is none")
    interval_s = settings.interval
    sampler = Sampler(
        node,
        settings.proc,
        settings.sys,
        declared=declared(settings.engine),
        discover=settings.discover,
        labels=_labels(settings.labels),
        sensors=all_sensors(settings.proc, settings.sys),
        clock=clock,
    )
    heartbeats = Heartbeats(agent_id(settings.data_dir), clock)
    token_file, ca_file = getattr(settings, "token_file", None), getattr(settings, "ca_file", None)
    reporters = [Reporter(Sender(server, token_file, ca_file=ca_file), heartbeats, clock) for server in servers]
    if getattr(settings, "once", False):
        return 0 if report_once(sampler, reporters, heartbeats, stop.wait) else 1
    report_forever(node, sampler, reporters, heartbeats, stop, interval_s, clock)
    return 0


def all_sensors(proc: Path, sys: Path) -> Sensors:
    """Everything that can be measured beside CPU, memory and processes."""
    return Sensors(Networks(proc, sys), Pressures(proc), limits, Gpus(sys), EngineMetrics(), Disks(proc))


def _node(settings: Any) -> str:
    name = settings.node or socket.gethostname()
    if not name.strip() or len(name) > LONGEST_NAME:
        raise SettingError(f"--node={shown(name)}: expected a name of 1 to {LONGEST_NAME} characters")
    return str(name)


def _labels(table: Mapping[str, Any]) -> dict[str, str]:
    """Labels as texts: a rack may be a number in TOML."""
    for name, value in table.items():
        if isinstance(value, bool) or not isinstance(value, (str, int, float)) or len(str(value)) > 253 or len(name) > 253:
            raise SettingError(f"labels: {shown(name)}={shown(value)}: expected a text of at most 253 characters")
    if len(table) > 64:
        raise SettingError(f"labels: expected at most 64, got {len(table)}")
    return {name: str(value) for name, value in table.items()}
