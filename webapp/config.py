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
    HEADER,
    HOURS,
    PARAMETER,
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
}


def default_data_dir() -> Path:
    """Where this user's programs keep data (XDG base directories)."""
    home = os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share")
    return Path(home) / "enginehouse"


_SERVERS = ("up", "serve", "demo")
_AGENTS = ("up", "agent")
_PLANES = ("up", "serve")

SETTINGS: tuple[Setting, ...] = (
    Setting("config", None, PATH, "TOML file with any of these settings", ("up", "serve", "agent")),
    Setting("log_level", "info", choice("debug", "info", "warning", "error"), "how much is logged", tuple(COMMANDS)),
    # the control plane and the dashboard
    Setting("listen", ("127.0.0.1", 8765), ADDRESS, "address to serve on; [::1]:8765 for IPv6", _SERVERS),
    Setting("allow_anonymous", False, SWITCH, "listen on an address that others reach, without asking who they are", _SERVERS),
    Setting("data_dir", default_data_dir(), PATH, "directory for what must survive a restart", ("up", "serve", "agent")),
    Setting("threads", 8, COUNT, "requests answered at the same time", _SERVERS),
    Setting("keep_hours", 24.0, HOURS, "hours of samples that the embedded history keeps; at least 6", _SERVERS),
    Setting("forget_after_hours", 168.0, HOURS, "hours after which a silent node is forgotten", _SERVERS),
    Setting(
        "heartbeat_interval", 10.0, SECONDS, "seconds between heartbeats that the control plane asks for; at most 20", _SERVERS
    ),
    # history from Prometheus, or a server that speaks its HTTP API
    Setting("prometheus", None, URL, "Prometheus, or a server that speaks its HTTP API, to take the charts from", _PLANES),
    Setting("with_prometheus", False, SWITCH, "start a Prometheus of our own and take the charts from it", ("up",)),
    Setting("prometheus_timeout", 3.0, SECONDS, "seconds that a query may take", _PLANES),
    Setting("prometheus_username", None, TEXT, "user name for HTTP basic authentication", _PLANES),
    Setting("prometheus_password_file", None, PATH, "file with the password for it", _PLANES),
    Setting("prometheus_token_file", None, PATH, "file with a bearer token; read anew for each query", _PLANES),
    Setting("prometheus_header", (), HEADER, "HTTP header of each query; may be given more than once", _PLANES, many=True),
    Setting(
        "prometheus_parameter",
        (),
        PARAMETER,
        "added to the address of each query; may be given more than once",
        _PLANES,
        many=True,
    ),
    Setting("prometheus_ca_file", None, PATH, "file with the authorities that may sign its certificate", _PLANES),
    Setting("prometheus_insecure", False, SWITCH, "accept any certificate", _PLANES),
    Setting("prometheus_selector", None, TEXT, 'matchers that every selector carries, such as cluster="eu"', _PLANES),
    Setting("prometheus_scrape_interval", None, SECONDS, "seconds between scrapes; none: told from the samples", _PLANES),
    Setting(
        "vocabulary",
        "enginehouse",
        choice("enginehouse", "node_exporter"),
        "whose metric names the queries use: ours, or those of node_exporter, GPU exporters and the engines",
        _PLANES,
    ),
    Setting("estate", {}, TABLE, "rows and rules that change the vocabulary; see docs/prometheus.md", _PLANES, file_only=True),
    Setting("fleet", "heartbeats", choice("heartbeats", "prometheus"), "where the nodes on the pages come from", _PLANES),
    # the agent
    Setting("server", (), URL, "control plane to report to; may be given more than once", ("agent",), many=True),
    Setting("node", None, TEXT, "name of this node (default: its host name)", _AGENTS),
    Setting("token_file", None, PATH, "file with the token that the control plane asks of agents", ("agent",)),
    Setting("interval", None, SECONDS, "seconds between heartbeats, 1 to 20; none: as the control plane asks", _AGENTS),
    Setting("once", False, SWITCH, "send one heartbeat and stop", ("agent",)),
    Setting("install", False, SWITCH, "keep the agent running as a systemd service with these settings", ("agent",)),
    Setting("proc", Path("/proc"), PATH, "where the kernel's process file system is", _AGENTS),
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
