"""The commands. `enginehouse --help` lists them; `config` says which settings each takes."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from types import FrameType, SimpleNamespace

import waitress
import waitress.server

from webapp import __version__
from webapp.access import AccessUnusable, existing_key
from webapp.agent.command import main as agent_main
from webapp.app import ControlPlane, build
from webapp.child import Child
from webapp.config import COMMANDS, settings_of
from webapp.embedding import EmbedLinks, link
from webapp.heartbeat import LARGEST_BODY_BYTES
from webapp.settings import SettingError, add_flags, resolve
from webapp.store import StoreUnusable
from webapp.views.rules import secret_file

log = logging.getLogger("enginehouse")


class CannotStart(Exception):
    """One line that says why."""


def main(argv: Sequence[str] | None = None, environment: Mapping[str, str] = os.environ) -> int:
    """Run a command; its exit code: 2 for a setting or a machine that can't be used."""
    argv = list(sys.argv[1:] if argv is None else argv)
    if argv[:1] == ["agent"]:
        return agent_main(argv[1:], environment)
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
        logging.basicConfig(
            level=getattr(settings, "log_level", "info").upper(),
            format="%(asctime)s %(levelname)s %(message)s",
            stream=sys.stderr,
        )
        return _COMMANDS[flags.command](settings, flags)
    except (SettingError, StoreUnusable, AccessUnusable, CannotStart) as error:
        print(f"enginehouse {flags.command}: {error}", file=sys.stderr)
        return 2


def _serve(settings: SimpleNamespace, flags: argparse.Namespace) -> int:
    with build(settings) as plane:
        return _answer(plane, settings, lambda url: print(f"Enginehouse is at {url}", flush=True))


def _up(settings: SimpleNamespace, flags: argparse.Namespace) -> int:
    with build(settings) as plane:
        children: list[Child] = []

        def ready(url: str) -> None:
            # A child of its own, that reports over HTTP exactly as a remote agent does.
            command = [sys.executable, "-m", "webapp.agent", "--server", url, *_agent_flags(flags)]
            agent = Child("the agent", command)
            agent.start()
            children.append(agent)
            print(f"Enginehouse is at {url}\nThis machine's first numbers appear within seconds. Ctrl-C stops it.", flush=True)

        try:
            return _answer(plane, settings, ready)
        finally:
            for child in children:
                child.stop()


def _demo(settings: SimpleNamespace, flags: argparse.Namespace) -> int:
    from webapp.demo import Demo

    settings.data_dir = None  # made-up numbers are never kept
    with build(settings, demo=True) as plane:
        fleet = Demo(settings.nodes)
        fleet.fill_past(plane.store, plane.registry)

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


def _embed_link(settings: SimpleNamespace, flags: argparse.Namespace) -> int:
    if not settings.path:
        raise SettingError("--path: expected the page that the link opens, such as /nodes/cpu-07")
    file = secret_file(settings)
    links = EmbedLinks(existing_key(file) if file else b"")
    try:
        print(settings.base_url + link(links, settings.path, settings.expires))
    except ValueError as error:
        raise SettingError(f"--path: {error}") from error
    return 0


def _answer(plane: ControlPlane, settings: SimpleNamespace, ready: Callable[[str], None]) -> int:
    """Answer requests until SIGINT or SIGTERM; `ready` is told the address once it is bound."""
    host, port = settings.listen[0] or "0.0.0.0", settings.listen[1]
    try:
        server = waitress.server.create_server(
            plane.app,
            host=host,
            port=port,
            threads=settings.threads,
            ident=None,
            connection_limit=1000,
            channel_timeout=60,
            cleanup_interval=10,
            max_request_body_size=2 * LARGEST_BODY_BYTES,
            asyncore_use_poll=True,
            clear_untrusted_proxy_headers=True,
        )
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise CannotStart(f"cannot listen on {host}:{port}: {reason}") from error

    def stop(number: int, frame: FrameType | None) -> None:
        raise SystemExit(0)

    signal.signal(signal.SIGTERM, stop)
    shown = f"[{host}]" if ":" in host else host
    try:
        ready(f"http://{shown}:{server.effective_port}")
        server.run()  # returns on KeyboardInterrupt and SystemExit
    except (KeyboardInterrupt, SystemExit):
        server.close()
    return 0


_COMMANDS: dict[str, Callable[[SimpleNamespace, argparse.Namespace], int]] = {
    "up": _up,
    "serve": _serve,
    "demo": _demo,
    "embed-link": _embed_link,
}


if __name__ == "__main__":
    raise SystemExit(main())
