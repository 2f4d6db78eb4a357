"""The table of settings: name, default, kind, help, and the commands that take it.

`settings` reads the values; `docs/configuration.md` is printed from here.
Runs on nodes: standard library only, CPython 3.9 and later.
"""

from __future__ import annotations

import os
from pathlib import Path

from webapp.settings import (
    ADDRESS,
    COUNT,
    DURATION,
    HOURS,
    NETWORK,
    PATH,
    SECONDS,
    SWITCH,
    TABLE,
    TABLES,
    TEXT,
    URL,
    Setting,
    choice,
)

#: Command -> what it does, as `--help` says it.
COMMANDS = {
    "up": "run agent, control plane and dashboard for this machine",
    "serve": "run the control plane and the dashboard",
    "agent": "measure this machine and report to a control plane",
    "demo": "show a made-up fleet",
    "doctor": "look for what is wrong on the way from this node to the pages, and say what helps",
    "embed-link": "print a signed link that opens one page without signing in",
}


def default_data_dir() -> Path:
    """Where this user's programs keep data (XDG base directories)."""
    home = os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share")
    return Path(home) / "enginehouse"


_SERVERS = ("up", "serve", "demo")
_AGENTS = ("up", "agent")
_PLANES = ("up", "serve")

SETTINGS: tuple[Setting, ...] = (
    Setting("config", None, PATH, "TOML file with any of these settings", ("up", "serve", "agent", "doctor", "embed-link")),
    Setting("log_level", "info", choice("debug", "info", "warning", "error"), "how much is logged", tuple(COMMANDS)),
    Setting(
        "log_format",
        "text",
        choice("text", "json"),
        "how it is logged: a line of text or a JSON object an event",
        tuple(COMMANDS),
    ),
    # the control plane and the dashboard
    Setting("listen", ("127.0.0.1", 8765), ADDRESS, "address to serve on; [::1]:8765 for IPv6", _SERVERS),
    Setting("allow_anonymous", False, SWITCH, "listen on an address that others reach, without asking who they are", _SERVERS),
    Setting(
        "data_dir",
        default_data_dir(),
        PATH,
        "directory for what must survive a restart",
        ("up", "serve", "agent", "doctor", "embed-link"),
    ),
    Setting("tls_certificate", None, PATH, "file with the certificate to speak TLS by, and those that signed it", ("serve",)),
    Setting("tls_key", None, PATH, "file with its private key, if that is a file of its own", ("serve",)),
    Setting("threads", 8, COUNT, "requests answered at the same time", _SERVERS),
    Setting("connections", 1000, COUNT, "open connections; beyond, the one that waits longest makes room", _SERVERS),
    Setting("read_timeout", 20.0, SECONDS, "seconds that a client may take to send a request", _SERVERS),
    Setting("largest_body", 1024 * 1024, COUNT, "bytes of a heartbeat, as sent and once expanded", _SERVERS),
    Setting("most_nodes", 20_000, COUNT, "nodes in the fleet; a new one is refused beyond, unless one is gone", _SERVERS),
    Setting("most_engines", 256, COUNT, "engines of a node; the rest of a heartbeat's are left out", _SERVERS),
    Setting("most_series", 2_000_000, COUNT, "series on /metrics; nodes beyond are left out and counted", _SERVERS),
    Setting("keep_hours", 24.0, HOURS, "hours of samples that the embedded history keeps; at least 6", _SERVERS),
    Setting("forget_after_hours", 168.0, HOURS, "hours after which a silent node is forgotten", _SERVERS),
    Setting(
        "heartbeat_interval", 10.0, SECONDS, "seconds between heartbeats that the control plane asks for; at most 20", _SERVERS
    ),
    # who may do what
    Setting(
        "agent_tokens",
        None,
        PATH,
        "file with the tokens that agents must show: one a line, perhaps followed by the one node that it is for",
        _PLANES,
    ),
    Setting("viewer_tokens", None, PATH, "file with the tokens that let people and programs read", _PLANES),
    Setting("admin_tokens", None, PATH, "file with the tokens that let people read and act", _PLANES),
    Setting("session_hours", 12.0, HOURS, "hours for which a browser stays signed in", _PLANES),
    Setting(
        "trusted_proxy",
        (),
        NETWORK,
        "proxy that tells who reads; may be given more than once",
        _PLANES,
        many=True,
    ),
    Setting("user_header", "X-Forwarded-User", TEXT, "header in which it tells that", _PLANES),
    Setting("admin_user", (), TEXT, "user, as it tells, who may act; may be given more than once", _PLANES, many=True),
    Setting(
        "secret_file",
        None,
        PATH,
        "file with the key that signs sessions and embed links (default: secret.key in the data directory)",
        ("up", "serve", "embed-link"),
    ),
    Setting("proxy_hops", 0, COUNT, "proxies in front, whose forwarded headers are believed", _SERVERS),
    Setting("base_path", None, TEXT, "path below which a proxy that does not strip it serves the pages", _SERVERS),
    # embed links
    Setting("path", None, TEXT, "page that the link opens, such as /nodes/cpu-07", ("embed-link",)),
    Setting("expires", 12 * 3600.0, DURATION, "how long it opens it, such as 12h or 7d", ("embed-link",)),
    Setting("base_url", "http://127.0.0.1:8765", URL, "address of the control plane as its readers see it", ("embed-link",)),
    # the agent
    Setting("server", (), URL, "control plane to report to; may be given more than once", ("agent", "doctor"), many=True),
    Setting("node", None, TEXT, "name of this node (default: its host name)", _AGENTS),
    Setting("token_file", None, PATH, "file with the token that the control plane asks of agents", ("agent", "doctor")),
    Setting(
        "ca_file", None, PATH, "file with the authorities that may sign the control plane's certificate", ("agent", "doctor")
    ),
    Setting("interval", None, SECONDS, "seconds between heartbeats, 1 to 20; none: as the control plane asks", _AGENTS),
    Setting("once", False, SWITCH, "send one heartbeat and stop", ("agent",)),
    Setting("install", False, SWITCH, "keep the agent running as a systemd service with these settings", ("agent",)),
    Setting("proc", Path("/proc"), PATH, "where the kernel's process file system is", (*_AGENTS, "doctor")),
    Setting("sys", Path("/sys"), PATH, "where the kernel's device file system is", _AGENTS),
    Setting("discover", True, SWITCH, "find engines by their command lines", _AGENTS),
    Setting(
        "engine",
        (),
        TABLES,
        "engines on this node: id, model, kind, port, and one of pid, pidfile, port, command",
        _AGENTS,
        file_only=True,
    ),
    Setting("labels", {}, TABLE, "labels of this node: names and texts", _AGENTS, file_only=True),
    # the demo
    Setting("nodes", 12, COUNT, "nodes in the made-up fleet", ("demo",)),
)


def settings_of(command: str) -> tuple[Setting, ...]:
    """The rows that a command takes, in the table's order."""
    return tuple(setting for setting in SETTINGS if command in setting.commands)
