"""The commands. `enginehouse --help` lists them; `config` says which settings each takes."""

from __future__ import annotations

import argparse
import ipaddress
import logging
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace

from webapp import __version__
from webapp.agent.__main__ import COMMANDS as NODE_COMMANDS
from webapp.agent.__main__ import main as node_main
from webapp.child import Child
from webapp.config import COMMANDS, settings_of
from webapp.control_plane import ControlPlane
from webapp.managed_prometheus import CannotManage, ManagedPrometheus
from webapp.serving import CannotListen, Limits, Server
from webapp.settings import SettingError, add_flags, resolve
from webapp.store import StoreUnusable
from webapp.views.heartbeats import is_heartbeat

log = logging.getLogger("enginehouse")


class CannotStart(Exception):
    """One line that says why."""


def main(argv: Sequence[str] | None = None, environment: Mapping[str, str] = os.environ) -> int:
    """Run a command; its exit code: 2 for a setting or a machine that can't be used."""
    argv = list(sys.argv[1:] if argv is None else argv)
    if argv and argv[0] in NODE_COMMANDS:
        return node_main(argv, environment)
    parser = argparse.ArgumentParser(
        prog="enginehouse", description="How busy each node of an LLM fleet is, and which engine makes it so."
    )
    parser.add_argument("--version", action="version", version=f"enginehouse {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, help in COMMANDS.items():
        add_flags(commands.add_parser(name, help=help, description=help[0].upper() + help[1:] + "."), settings_of(name))
    flags = parser.parse_args(argv)
    try:
        settings = resolve(settings_of(flags.command), flags, environment)
        logging.basicConfig(level=settings.log_level.upper(), format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
        return _COMMANDS[flags.command](settings, flags)
    except (SettingError, StoreUnusable, CannotStart, CannotListen, CannotManage) as error:
        print(f"enginehouse {flags.command}: {error}", file=sys.stderr)
        return 2


def _serve(settings: SimpleNamespace, flags: argparse.Namespace) -> int:
    with ControlPlane(settings) as plane:
        return _answer(plane, settings, lambda url: print(f"Enginehouse is at {url}", flush=True))


def _up(settings: SimpleNamespace, flags: argparse.Namespace) -> int:
    prometheus = ManagedPrometheus(settings.data_dir) if settings.with_prometheus else None
    with ControlPlane(settings, prometheus=prometheus) as plane:
        children: list[Child | ManagedPrometheus] = []

        def ready(url: str) -> None:
            # A child of its own, that reports over HTTP exactly as a remote agent does.
            command = [sys.executable, "-m", "webapp.agent", "--server", url, *_agent_flags(flags)]
            agent = Child("the agent", command)
            agent.start()
            children.append(agent)
            if prometheus is not None:
                prometheus.start(url.removeprefix("http://"))
                children.append(prometheus)
            print(f"Enginehouse is at {url}\nThis machine's first numbers appear within seconds. Ctrl-C stops it.", flush=True)

        try:
            return _answer(plane, settings, ready)
        finally:
            for child in children:
                child.stop()


def _demo(settings: SimpleNamespace, flags: argparse.Namespace) -> int:
    from webapp.demo import Demo

    settings.data_dir = None  # made-up numbers are never kept
    with ControlPlane(settings, demo=True) as plane:
        fleet = Demo(settings.nodes)
        plane.fill(fleet.past())
        fleet.restore_silent(plane.registry)

        def ready(url: str) -> None:
            fleet.start(url)
            print(f"A made-up fleet of {settings.nodes} nodes is at {url}\nCtrl-C stops it.", flush=True)

        try:
            return _answer(plane, settings, ready)
        finally:
            fleet.stop()


_COMMANDS: dict[str, Callable[[SimpleNamespace, argparse.Namespace], int]] = {"up": _up, "serve": _serve, "demo": _demo}


def _agent_flags(flags: argparse.Namespace) -> list[str]:
    """The flags that `up` got and the agent takes too; the environment reaches it by itself."""
    given = []
    for setting in settings_of("agent"):
        value = getattr(flags, setting.name, None)
        if value is None or setting.file_only:
            continue
        if isinstance(value, bool):
            given.append(setting.flag if value else "--no-" + setting.flag[2:])
        else:
            given += [setting.flag, str(value)]
    return given


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _answer(plane: ControlPlane, settings: SimpleNamespace, ready: Callable[[str], None]) -> int:
    """Answer requests until SIGINT or SIGTERM; `ready` is told the address once it is bound."""
    host, port = settings.listen[0] or "0.0.0.0", settings.listen[1]
    if not settings.allow_anonymous and not _is_loopback(host):
        raise CannotStart(
            f"listening on {host} lets anyone on the network read and report; say --allow-anonymous if that is meant"
        )
    server = Server(plane.app, host, port, Limits(threads=max(1, settings.threads)), at_once=is_heartbeat)
    ready(server.url)
    server.run()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
