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
    within,
)
from webapp.measurement import LONGEST_INTERVAL_SECONDS, SHORTEST_INTERVAL_SECONDS
from webapp.settings import Setting

#: Command -> what it does, as `--help` says it.
COMMANDS = {
    "up": "run agent, control plane and dashboard for this machine",
    "serve": "run the control plane and the dashboard",
    "agent": "measure this machine and report to a control plane",
    "run": "start an engine, register it with a control plane and report its machine's resources",
    "resource-agent": "serve this machine's resource readings over HTTP on a local port",
    "report": "forward a resource agent's snapshots to a control plane",
    "demo": "show a made-up fleet",
    "doctor": "check everything between this node and the pages, and say what is wrong and how to mend it",
    "embed-link": "print a signed link that opens one page without signing in",
}


def default_data_dir() -> Path:
    """Where this user's programs keep data (XDG base directories)."""
    home = os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share")
    return Path(home) / "enginehouse"


_INTERVAL = within(SECONDS, SHORTEST_INTERVAL_SECONDS, LONGEST_INTERVAL_SECONDS)

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
    Setting("log_level", "info", choice("debug", "info", "warning", "error"), "least severe messages to log", tuple(COMMANDS)),
    Setting(
        "log_format",
        "text",
        choice("text", "json"),
        "format of the log: a line of text or a JSON object per event",
        tuple(COMMANDS),
    ),
    # the control plane and the dashboard
    Setting("listen", ("127.0.0.1", 8765), ADDRESS, "address to serve on; [::1]:8765 for IPv6", _SERVERS),
    Setting(
        "allow_anonymous",
        False,
        SWITCH,
        "accept anyone without a token, even on an address that other machines can reach",
        (*_SERVERS, "resource-agent"),
    ),
    Setting(
        "frame_ancestor",
        (),
        ORIGIN,
        "origin whose pages may embed ours in a frame; may be given more than once",
        _SERVERS,
        many=True,
    ),
    Setting(
        "data_dir",
        default_data_dir(),
        PATH,
        "directory for data that must survive a restart",
        ("up", "serve", "agent", "doctor", "embed-link"),
    ),
    Setting(
        "tls_certificate", None, PATH, "file with the TLS certificate, followed by any intermediate certificates", ("serve",)
    ),
    Setting("tls_key", None, PATH, "file with the private key, if the certificate's file doesn't hold it", ("serve",)),
    Setting("threads", 8, COUNT, "requests answered at the same time, heartbeats aside", _SERVERS),
    Setting(
        "connections",
        1000,
        COUNT,
        "most open connections; beyond it the one that has kept the server waiting longest is closed",
        _SERVERS,
    ),
    Setting("read_timeout", 20.0, SECONDS, "seconds that a client may take to send a request", _SERVERS),
    Setting("largest_body", 1024 * 1024, COUNT, "most bytes of a heartbeat, both as sent and decompressed", _SERVERS),
    Setting("most_nodes", 20_000, COUNT, "most nodes in the fleet; beyond it a new one is refused, unless one is gone", _SERVERS),
    Setting("most_engines", 256, COUNT, "most engines of a node; the rest of a heartbeat's are left out", _SERVERS),
    Setting("most_series", 2_000_000, COUNT, "most series on /metrics; nodes beyond it are left out and counted", _SERVERS),
    Setting("keep_hours", 24.0, within(HOURS, 6, 8784), "hours of samples kept in the embedded history", _SERVERS),
    Setting("forget_after_hours", 168.0, HOURS, "hours after which a silent node is forgotten", _SERVERS),
    Setting("heartbeat_interval", 10.0, _INTERVAL, "seconds between heartbeats that agents are asked for", _SERVERS),
    Setting(
        "instance_ttl_s",
        30.0,
        within(SECONDS, 1, 3600),
        "seconds of silence after which a registered engine counts as dead",
        _SERVERS,
    ),
    # who may do what
    Setting(
        "agent_tokens",
        None,
        PATH,
        "file with the tokens that agents must send: one per line, optionally followed by the only node that it is for",
        _PLANES,
    ),
    Setting("viewer_tokens", None, PATH, "file with the tokens that allow reading, for people and programs", _PLANES),
    Setting("admin_tokens", None, PATH, "file with the tokens that allow reading and administering", _PLANES),
    Setting("session_hours", 12.0, HOURS, "hours for which a browser stays signed in", _PLANES),
    Setting("trusted_proxy", (), NETWORK, "proxy that authenticates viewers; may be given more than once", _PLANES, many=True),
    Setting("user_header", "X-Forwarded-User", TEXT, "header in which the trusted proxy names the user", _PLANES),
    Setting(
        "admin_user",
        (),
        TEXT,
        "user named by the trusted proxy who may administer; may be given more than once",
        _PLANES,
        many=True,
    ),
    Setting(
        "secret_file",
        None,
        PATH,
        "file with the key that signs sessions and embed links (default: secret.key in the data directory)",
        (*_PLANES, "embed-link"),
    ),
    Setting("proxy_hops", 0, COUNT, "number of proxies in front whose X-Forwarded-* headers are believed", _SERVERS),
    Setting("base_path", None, TEXT, "path prefix that the proxy in front leaves on requests, such as /ops/fleet", _SERVERS),
    # embed links
    Setting("path", None, TEXT, "page that the link opens, such as /nodes/cpu-07", ("embed-link",)),
    Setting("expires", 12 * 3600.0, DURATION, "how long the link is valid, such as 12h or 7d", ("embed-link",)),
    Setting("base_url", "http://127.0.0.1:8765", URL, "address of the control plane as its readers see it", ("embed-link",)),
    # history from Prometheus, or a server that speaks its HTTP API
    Setting(
        "prometheus", None, URL, "address of the Prometheus, or compatible server, to draw the charts from", (*_PLANES, "doctor")
    ),
    Setting("with_prometheus", False, SWITCH, "start a Prometheus and draw the charts from it", ("up",)),
    Setting("prometheus_timeout", 3.0, SECONDS, "seconds that a query may take", _PLANES),
    Setting("prometheus_username", None, TEXT, "user name for HTTP basic authentication", _PLANES),
    Setting("prometheus_password_file", None, PATH, "file with the password for HTTP basic authentication", _PLANES),
    Setting("prometheus_token_file", None, PATH, "file with a bearer token; read again for each query", _PLANES),
    Setting("prometheus_header", (), HEADER, "HTTP header to add to each query; may be given more than once", _PLANES, many=True),
    Setting(
        "prometheus_parameter",
        (),
        PARAMETER,
        "URL parameter to add to each query; may be given more than once",
        _PLANES,
        many=True,
    ),
    Setting("prometheus_ca_file", None, PATH, "file with the certificate authorities to trust", _PLANES),
    Setting("prometheus_insecure", False, SWITCH, "don't verify the server's certificate", _PLANES),
    Setting("prometheus_selector", None, TEXT, 'label matchers to add to every selector, such as cluster="eu"', _PLANES),
    Setting("prometheus_scrape_interval", None, SECONDS, "seconds between scrapes; none: found from the samples", _PLANES),
    Setting(
        "vocabulary",
        "enginehouse",
        choice("enginehouse", "node_exporter"),
        "metric names to query: our own, or those of node_exporter, GPU exporters and the engines",
        _PLANES,
    ),
    Setting("estate", {}, TABLE, "changes to the node_exporter vocabulary; see docs/prometheus.md", _PLANES, file_only=True),
    Setting("fleet", "heartbeats", choice("heartbeats", "prometheus"), "where the nodes on the pages come from", _PLANES),
    # the agent
    Setting("server", (), URL, "control plane to report to; may be given more than once", ("agent", "doctor"), many=True),
    Setting("node", None, TEXT, "name of this node (default: its host name)", _MEASURERS),
    Setting("token_file", None, PATH, "file with the token to send to the control plane", ("agent", *_REPORTERS, "doctor")),
    Setting("ca_file", None, PATH, "file with the certificate authorities to trust for the control plane", ("agent", "doctor")),
    Setting("interval", None, _INTERVAL, "seconds between heartbeats; none: as the control plane asks", _AGENTS),
    Setting("once", False, SWITCH, "report once and exit", ("agent", "report")),
    Setting("install", False, SWITCH, "install the agent as a systemd service with these settings", ("agent",)),
    Setting("proc", Path("/proc"), PATH, "where procfs is mounted", (*_MEASURERS, "doctor")),
    Setting("sys", Path("/sys"), PATH, "where sysfs is mounted", _MEASURERS),
    Setting("discover", True, SWITCH, "find engines by their command lines", _MEASURERS),
    Setting(
        "engine",
        (),
        TABLES,
        "engines on this node: id, model, kind, port, and one of pid, pidfile, command, unit, container",
        _MEASURERS,
        file_only=True,
    ),
    Setting("labels", {}, TABLE, 'labels of this node, such as rack = "b2"', _AGENTS, file_only=True),
    # the resource agent
    Setting(
        "agent_listen",
        ("127.0.0.1", 9201),
        ADDRESS,
        "address to serve on; port 0 takes a free one",
        ("resource-agent",),
        flag="--listen",
    ),
    # The kernel counts CPU time in hundredths of a second: shorter intervals say little.
    Setting(
        "sample_interval_ms", 1000.0, within(MILLISECONDS, 50), "milliseconds between two samples", ("resource-agent", "run")
    ),
    Setting(
        "instance_id",
        None,
        TEXT,
        "name of the engine in the control plane (default: hp_HOST:PORT)",
        ("resource-agent", *_REPORTERS),
        also="INSTANCE_ID",
    ),
    Setting(
        "gpu_util_window_ms", 5000.0, MILLISECONDS, "milliseconds over which GPU utilisation is averaged", ("resource-agent",)
    ),
    Setting("gpu_util_max_samples", 20, within(COUNT, 1), "most samples to average in that time", ("resource-agent",)),
    # engines that register themselves
    Setting("host", "127.0.0.1", TEXT, "address at which others can reach the engine", ("run",)),
    Setting("port", None, PORT, "port of the engine", ("run",)),
    Setting("model", None, TEXT, "model that the engine serves", ("run",)),
    Setting("proxy_cp_url", "http://127.0.0.1:8765", URL, "control plane to register with and report to", _REPORTERS),
    Setting("resource_monitor", True, SWITCH, "report the machine's resources", ("run",)),
    Setting(
        "resource_agent_listen",
        None,
        ADDRESS,
        "address for the resource agent to serve on (default: 127.0.0.1:9201, or a free port)",
        ("run",),
    ),
    Setting("resource_agent_url", None, URL, "resource agent to use (default: the one at --resource-agent-listen)", ("run",)),
    Setting("resource_report_interval_ms", 1000.0, MILLISECONDS, "milliseconds between two reports", ("run",)),
    Setting("stop_timeout_s", 10.0, SECONDS, "seconds that the engine has to stop after SIGTERM before it is killed", ("run",)),
    Setting("agent_url", "http://127.0.0.1:9201", URL, "address of the resource agent", ("report",)),
    Setting("interval_ms", 1000.0, MILLISECONDS, "milliseconds between two reports", ("report",)),
    Setting("timeout_s", 2.0, SECONDS, "seconds that the agent and the control plane each have to answer", _REPORTERS),
    Setting("quiet_success", False, SWITCH, "don't log reports that were accepted", ("report",)),
    Setting("failure_log_every", 30, COUNT, "log one failure out of this many", ("report",)),
    # the demo
    Setting("nodes", 12, COUNT, "nodes in the made-up fleet", ("demo",)),
)


def settings_of(command: str) -> tuple[Setting, ...]:
    """The rows that a command takes, in the table's order."""
    return tuple(setting for setting in SETTINGS if command in setting.commands)
