"""The table of settings: name, default, kind, help, and the commands that take it.

`settings` reads the values; `docs/configuration.md` is printed from here.
Runs on nodes: standard library only, CPython 3.9 and later.
"""

from __future__ import annotations

import os
from pathlib import Path

from webapp.kinds import (
    ADDRESS,
    COUNT,
    DURATION,
    HEADER,
    HOURS,
    MILLISECONDS,
    NETWORK,
    ORIGIN,
    PARAMETER,
    PATH,
    PORT,
    SECONDS,
    SWITCH,
    TABLE,
    TABLES,
    TEXT,
    URL,
    choice,
)
from webapp.settings import Setting

#: Command -> what it does, as `--help` says it.
COMMANDS = {
    "up": "run agent, control plane and dashboard for this machine",
    "serve": "run the control plane and the dashboard",
    "agent": "measure this machine and report to a control plane",
    "run": "start an engine, register it with a control plane and report its machine's resources",
    "resource-agent": "answer with this machine's resources on a local port",
    "report": "pass a resource agent's snapshots on to a control plane",
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
_MEASURERS = (*_AGENTS, "resource-agent")
_REPORTERS = ("run", "report")

SETTINGS: tuple[Setting, ...] = (
    Setting(
        "config",
        None,
        PATH,
        "TOML file with any of these settings",
        ("up", "serve", "agent", "run", "resource-agent", "doctor", "embed-link"),
    ),
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
    Setting(
        "allow_anonymous",
        False,
        SWITCH,
        "listen on an address that others reach, without asking who they are",
        (*_SERVERS, "resource-agent"),
    ),
    Setting(
        "frame_ancestor",
        (),
        ORIGIN,
        "origin that may show the pages in a frame; may be given more than once",
        _SERVERS,
        many=True,
    ),
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
    Setting("instance_ttl_s", 30.0, SECONDS, "seconds of silence after which a registered engine counts as dead", _SERVERS),
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
    Setting("trusted_proxy", (), NETWORK, "proxy that tells who reads; may be given more than once", _PLANES, many=True),
    Setting("user_header", "X-Forwarded-User", TEXT, "header in which it tells that", _PLANES),
    Setting("admin_user", (), TEXT, "user, as it tells, who may act; may be given more than once", _PLANES, many=True),
    Setting(
        "secret_file",
        None,
        PATH,
        "file with the key that signs sessions and embed links (default: secret.key in the data directory)",
        (*_PLANES, "embed-link"),
    ),
    Setting("proxy_hops", 0, COUNT, "proxies in front, whose forwarded headers are believed", _SERVERS),
    Setting("base_path", None, TEXT, "path below which a proxy that does not strip it serves the pages", _SERVERS),
    # embed links
    Setting("path", None, TEXT, "page that the link opens, such as /nodes/cpu-07", ("embed-link",)),
    Setting("expires", 12 * 3600.0, DURATION, "how long it opens it, such as 12h or 7d", ("embed-link",)),
    Setting("base_url", "http://127.0.0.1:8765", URL, "address of the control plane as its readers see it", ("embed-link",)),
    # history from Prometheus, or a server that speaks its HTTP API
    Setting(
        "prometheus", None, URL, "Prometheus, or a server that speaks its HTTP API, to take the charts from", (*_PLANES, "doctor")
    ),
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
    Setting("server", (), URL, "control plane to report to; may be given more than once", ("agent", "doctor"), many=True),
    Setting("node", None, TEXT, "name of this node (default: its host name)", _MEASURERS),
    Setting(
        "token_file", None, PATH, "file with the token that the control plane asks of agents", ("agent", *_REPORTERS, "doctor")
    ),
    Setting(
        "ca_file", None, PATH, "file with the authorities that may sign the control plane's certificate", ("agent", "doctor")
    ),
    Setting("interval", None, SECONDS, "seconds between heartbeats, 1 to 20; none: as the control plane asks", _AGENTS),
    Setting("once", False, SWITCH, "send once and stop", ("agent", "report")),
    Setting("install", False, SWITCH, "keep the agent running as a systemd service with these settings", ("agent",)),
    Setting("proc", Path("/proc"), PATH, "where the kernel's process file system is", (*_MEASURERS, "doctor")),
    Setting("sys", Path("/sys"), PATH, "where the kernel's device file system is", _MEASURERS),
    Setting("discover", True, SWITCH, "find engines by their command lines", _MEASURERS),
    Setting(
        "engine",
        (),
        TABLES,
        "engines on this node: id, model, kind, port, and one of pid, pidfile, port, command",
        _MEASURERS,
        file_only=True,
    ),
    Setting("labels", {}, TABLE, "labels of this node: names and texts", _AGENTS, file_only=True),
    # the resource agent
    Setting(
        "agent_listen",
        ("127.0.0.1", 9201),
        ADDRESS,
        "address to answer on; port 0: a free one",
        ("resource-agent",),
        flag="--listen",
    ),
    Setting(
        "sample_interval_ms", 1000.0, MILLISECONDS, "milliseconds between two samples, at least 50", ("resource-agent", "run")
    ),
    Setting(
        "instance_id",
        None,
        TEXT,
        "the engine's name in the control plane; INSTANCE_ID gives it too (default: hp_HOST:PORT)",
        ("resource-agent", *_REPORTERS),
        also="INSTANCE_ID",
    ),
    Setting("gpu_util_window_ms", 5000.0, MILLISECONDS, "milliseconds over which GPU utilisation is told", ("resource-agent",)),
    Setting("gpu_util_max_samples", 20, COUNT, "most samples in that time", ("resource-agent",)),
    # engines that register themselves
    Setting("host", "127.0.0.1", TEXT, "address at which others reach the engine", ("run",)),
    Setting("port", None, PORT, "port of the engine", ("run",)),
    Setting("model", None, TEXT, "model that the engine serves", ("run",)),
    Setting("proxy_cp_url", "http://127.0.0.1:8765", URL, "control plane to register with and report to", _REPORTERS),
    Setting("resource_monitor", True, SWITCH, "report the machine's resources", ("run",)),
    Setting(
        "resource_agent_listen",
        None,
        ADDRESS,
        "where the resource agent is started (default: 127.0.0.1:9201, or a free port)",
        ("run",),
    ),
    Setting("resource_agent_url", None, URL, "resource agent to use (default: the one at --resource-agent-listen)", ("run",)),
    Setting("resource_report_interval_ms", 1000.0, MILLISECONDS, "milliseconds between two reports", ("run",)),
    Setting("stop_timeout_s", 10.0, SECONDS, "seconds that the engine has to stop before it is killed", ("run",)),
    Setting("agent_url", "http://127.0.0.1:9201", URL, "resource agent to ask", ("report",)),
    Setting("interval_ms", 1000.0, MILLISECONDS, "milliseconds between two reports", ("report",)),
    Setting("timeout_s", 2.0, SECONDS, "seconds that the agent, and the control plane, have to answer", _REPORTERS),
    Setting("quiet_success", False, SWITCH, "say nothing of reports that were taken", ("report",)),
    Setting("failure_log_every", 30, COUNT, "failures of which one is logged", ("report",)),
    # the demo
    Setting("nodes", 12, COUNT, "nodes in the made-up fleet", ("demo",)),
)


def settings_of(command: str) -> tuple[Setting, ...]:
    """The rows that a command takes, in the table's order."""
    return tuple(setting for setting in SETTINGS if command in setting.commands)
