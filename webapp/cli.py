"""The commands. `enginehouse --help` lists them; `config` says which settings each takes."""

from __future__ import annotations

import argparse
import gc
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace

from webapp import __version__, logs
from webapp.access import AccessUnusable, existing_key
from webapp.agent.__main__ import COMMANDS as NODE_COMMANDS
from webapp.agent.__main__ import main as node_main
from webapp.child import Child
from webapp.config import COMMANDS, settings_of
from webapp.control_plane import ControlPlane
from webapp.embedding import EmbedLinks, framed, link
from webapp.prometheus.managed import CannotManage, ManagedPrometheus
from webapp.server.serving import CannotListen, Limits, Server, Tls
from webapp.settings import SettingError, add_flags, resolve
from webapp.storage.store import StoreUnusable
from webapp.telemetry import Gauge
from webapp.views.heartbeats import is_heartbeat
from webapp.views.rules import base_path, secret_file


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
        logs.start(settings.log_level, settings.log_format)
        return _COMMANDS[flags.command](settings, flags)
    except (SettingError, StoreUnusable, AccessUnusable, CannotListen, CannotManage) as error:
        print(f"enginehouse {flags.command}: {error}", file=sys.stderr)
        return 2


def _serve(settings: SimpleNamespace, flags: argparse.Namespace) -> int:
    with ControlPlane(settings) as plane:
        return _answer(plane, settings, lambda url: print(f"Enginehouse is at {url}", flush=True))


def _up(settings: SimpleNamespace, flags: argparse.Namespace) -> int:
    prometheus = ManagedPrometheus(settings.data_dir) if settings.with_prometheus else None
    with ControlPlane(settings, prometheus=prometheus) as plane:
        children: list[Child | ManagedPrometheus] = []
        token_file = settings.data_dir / "up.token"
        asked = plane.access.let_in(token_file)

        def ready(url: str) -> None:
            # A child of its own, that reports over HTTP exactly as a remote agent does.
            command = [sys.executable, "-m", "webapp.agent", "--server", url, *_agent_flags(flags)]
            command += ["--token-file", str(token_file)] if asked else []
            agent = Child("the agent", command)
            agent.start()
            children.append(agent)
            if prometheus is not None:
                prometheus.start(url.removeprefix("http://"), token_file if asked else None)
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


def _doctor(settings: SimpleNamespace, flags: argparse.Namespace) -> int:
    from webapp import doctor

    return doctor.report(settings, sys.stdout.write)


def _embed_link(settings: SimpleNamespace, flags: argparse.Namespace) -> int:
    if not settings.path:
        raise SettingError("--path: expected the page that the link opens, such as /nodes/cpu-07")
    file = secret_file(settings)
    links = EmbedLinks(existing_key(file) if file else b"")
    try:
        print(settings.base_url + link(links, framed(settings.path), settings.expires))
    except ValueError as error:
        raise SettingError(f"--path: {error}") from error
    return 0


def _answer(plane: ControlPlane, settings: SimpleNamespace, ready: Callable[[str], None]) -> int:
    """Answer requests until SIGINT or SIGTERM; `ready` is called with the address once it is bound."""
    host, port = settings.listen[0] or "0.0.0.0", settings.listen[1]
    limits = Limits(
        threads=max(1, settings.threads),
        connections=max(20, settings.connections),
        body_bytes=2 * settings.largest_body,
        read_seconds=settings.read_timeout,
    )
    server = Server(plane.app, host, port, limits, tls=_tls(settings), closed=plane.telemetry.closed, at_once=is_heartbeat)
    plane.telemetry.add(Gauge("enginehouse_connections", "Open connections.", lambda: float(server.connections)))
    _tune()
    ready(server.url + base_path(settings))
    server.run()
    return 0


def _tune() -> None:
    """Keep heartbeats from waiting for pages or for garbage collection; see docs/decisions/0009."""
    # The event loop releases the GIL at each read and write; a rendering thread then holds it for this long (default: 5 ms).
    sys.setswitchinterval(1e-4)
    # Measurements and connections come and go by the thousand and leave no reference cycles: a full collection stops all
    # threads for half a second or more, to find the few objects that requests for pages leave.
    gc.set_threshold(2_000, 10, 10_000)


def _tls(settings: SimpleNamespace) -> Tls | None:
    certificate, key = getattr(settings, "tls_certificate", None), getattr(settings, "tls_key", None)
    if key and not certificate:
        raise SettingError("tls_key: expected --tls-certificate too")
    return Tls(certificate, key) if certificate else None


_COMMANDS: dict[str, Callable[[SimpleNamespace, argparse.Namespace], int]] = {
    "up": _up,
    "serve": _serve,
    "demo": _demo,
    "doctor": _doctor,
    "embed-link": _embed_link,
}


if __name__ == "__main__":
    raise SystemExit(main())
