"""Looks at the node, the agent, the control plane, Prometheus and the clocks, one by one; says what is wrong and what helps."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

from webapp import __version__, json_object
from webapp.agent.answers import without_secrets
from webapp.enquiry import Answer, Finding, ask
from webapp.logs import plain

#: Seconds that two clocks may be apart.
CLOCK_SECONDS = 5.0

#: Bytes below which a data directory is about to be full.
LEAST_FREE_BYTES = 500 * 1024 * 1024


def examine(settings: SimpleNamespace) -> Iterator[Finding]:
    """Everything in the order in which a number travels: node, agent, control plane, Prometheus."""
    for look in (node, agent, data_directory, server, prometheus):
        try:
            yield from look(settings)
        except Exception as error:  # a look that fails is a finding, and the next one still helps
            yield Finding(
                "unsure", f"{look.__name__}: could not be checked: {error!r}", "Please report this as a bug in Enginehouse."
            )


def node(settings: SimpleNamespace) -> Iterator[Finding]:
    for name, gives in (("stat", "CPU"), ("meminfo", "memory"), ("loadavg", "load")):
        try:
            content = (settings.proc / name).read_bytes()
        except OSError as error:
            yield Finding(
                "wrong",
                f"{settings.proc / name} cannot be read: {error.strerror}",
                f"Mount /proc; without it {gives} is unknown.",
            )
            return
        if not content.strip():
            yield Finding(
                "wrong", f"{settings.proc / name} is empty", f"A container's file system hides it: {gives} is unknown here."
            )
            return
    others = [entry for entry in os.listdir(settings.proc) if entry.isdecimal()]
    hidden = not (settings.proc / "1").is_dir() and len(others) > 0
    if hidden:
        yield Finding(
            "unsure",
            f"processes of other users are hidden in {settings.proc}",
            "Run the agent as root, or mount /proc without hidepid, to see every engine.",
        )
    elif os.geteuid() != 0:
        yield Finding(
            "unsure",
            "not run as root: PSS and environment variables of other users' engines are unknown",
            "Run the agent as the service that --install sets up.",
        )
    yield Finding("ok", f"node {socket.gethostname()}: {settings.proc} can be read, {len(others)} processes are visible")


def agent(settings: SimpleNamespace) -> Iterator[Finding]:
    found = list(_agents(settings.proc))
    if found:
        yield Finding("ok", f"an agent runs here, process {', '.join(map(str, found[:5]))}")
    else:
        yield Finding(
            "unsure",
            "no agent runs on this machine",
            "Start one if this machine is a node: enginehouse agent --server URL, or enginehouse up.",
        )
    if settings.token_file:
        yield from _token(settings.token_file)


def _agents(proc: Path) -> Iterator[int]:
    for entry in proc.iterdir():
        if entry.name.isdecimal() and int(entry.name) != os.getpid():
            try:
                words = (entry / "cmdline").read_bytes()[:4096].split(b"\0")
            except OSError:
                continue
            packed = any(word.endswith(b"agent.pyz") for word in words[:3])
            installed = len(words) > 2 and words[1].endswith(b"enginehouse") and words[2] == b"agent"
            if b"webapp.agent" in words or packed or installed:
                yield int(entry.name)


def _token(path: Path) -> Iterator[Finding]:
    try:
        text = path.read_bytes()[:4096].decode("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        yield Finding(
            "wrong",
            f"{path}: cannot be read: {getattr(error, 'strerror', None) or 'not ASCII'}",
            "Write the agent's token into it.",
        )
        return
    if not text or not text.isprintable() or " " in text:
        yield Finding(
            "wrong", f"{path}: does not hold exactly one token", "Write the agent's token into it, alone and on one line."
        )


def data_directory(settings: SimpleNamespace) -> Iterator[Finding]:
    folder: Path = settings.data_dir
    if not folder.exists():
        yield Finding(
            "unsure", f"{folder} does not exist", "Nothing has been stored here yet; a control plane or an agent creates it."
        )
        return
    if not os.access(folder, os.W_OK):
        yield Finding(
            "wrong",
            f"{folder} cannot be written by this user",
            f"Give it to the user that runs Enginehouse: chown -R USER {folder}",
        )
        return
    free = shutil.disk_usage(folder).free
    if free < LEAST_FREE_BYTES:
        yield Finding("wrong", f"{folder}: {free // 2**20} MiB are left", "Make room: samples that cannot be written are lost.")
        return
    aside = sorted(path.name for path in folder.iterdir() if ".corrupt" in path.name)
    if aside:
        yield Finding(
            "unsure",
            f"{folder}: {aside[-1]} was damaged and set aside",
            "Remove it when it is no longer needed, or put a backup in the place of the new file.",
        )
    yield Finding("ok", f"{folder} can be written, {free // 2**30} GiB are left")


def server(settings: SimpleNamespace) -> Iterator[Finding]:
    for url in settings.server or ("http://127.0.0.1:8765",):
        yield from _control_plane(url, settings)


def _control_plane(url: str, settings: SimpleNamespace) -> Iterator[Finding]:
    shown = without_secrets(url)
    answer = ask(url + "/healthz", ca_file=settings.ca_file)
    if isinstance(answer, Finding):
        yield answer
        return
    health = json_object.read(answer.body)
    if answer.status != 200 or not health or "version" not in health:
        yield Finding(
            "wrong",
            f"{shown} answers {answer.status} with {answer.kind or 'no type'}: this is not a control plane",
            "Give the control plane's address with its sub-path; a proxy in front must not ask programs to sign in.",
        )
        return
    yield Finding("ok", f"{shown} is a control plane, version {health['version']}")
    if health["version"] != __version__:
        yield Finding(
            "unsure",
            f"this program is version {__version__}, {shown} is {health['version']}",
            "Upgrade the older one when convenient; they understand each other.",
        )
    for problem in health.get("problems", []):
        yield Finding("wrong", f"{shown} says: {problem}", "See docs/operations.md for this message.")
    yield from _clock(url, answer)
    yield from _reporting(url, settings)


def _clock(url: str, answer: Answer) -> Iterator[Finding]:
    shown = without_secrets(url)
    if answer.date is None:
        return
    apart = answer.date - answer.asked_at
    if abs(apart) > CLOCK_SECONDS:
        yield Finding(
            "unsure",
            f"this machine's clock and that of {shown} are {abs(apart):.0f} s apart",
            "Run chrony or systemd-timesyncd on both: nothing depends on it, but the times that are shown are wrong.",
        )
    else:
        yield Finding("ok", f"this machine's clock and that of {shown} agree")


def _reporting(url: str, settings: SimpleNamespace) -> Iterator[Finding]:
    """Whether a heartbeat would be let in; an empty one is sent, which changes nothing."""
    shown = without_secrets(url)
    headers = {"Content-Type": "application/json"}
    if settings.token_file:
        try:
            headers["Authorization"] = "Bearer " + settings.token_file.read_text("ascii").strip()
        except (OSError, UnicodeDecodeError):
            return  # reported above
    answer = ask(url + "/v1/nodes/heartbeat", headers, b"{}", ca_file=settings.ca_file)
    if isinstance(answer, Finding):
        yield answer
    elif answer.status == 400:
        yield Finding("ok", f"{shown} takes heartbeats from here")
    elif answer.status == 401:
        given = "does not know the token in " + str(settings.token_file) if settings.token_file else "asks agents for a token"
        yield Finding(
            "wrong", f"{shown} {given}", "Put a line of its --agent-tokens file into a file here and give that as --token-file."
        )
    else:
        yield Finding(
            "wrong",
            f"{shown} answers a heartbeat with {answer.status}",
            "Let the proxy in front pass POST /v1/nodes/heartbeat on, unchanged.",
        )


def prometheus(settings: SimpleNamespace) -> Iterator[Finding]:
    url = getattr(settings, "prometheus", None)
    if not url:
        return
    shown = without_secrets(url)
    answer = ask(url + "/api/v1/query?query=max(llmgw_node_up)")
    if isinstance(answer, Finding):
        yield answer
        return
    found = json_object.read(answer.body)
    if answer.status != 200 or not found or found.get("status") != "success":
        yield Finding(
            "wrong",
            f"{shown} answers {answer.status}: this is not Prometheus",
            "Give its address with its sub-path, but without /api/v1.",
        )
    elif not (found.get("data") or {}).get("result"):
        yield Finding("wrong", f"{shown} has no series llmgw_node_up", "Let it scrape the control plane's /metrics.")
    else:
        yield Finding("ok", f"{shown} has our series")


def report(settings: SimpleNamespace, write: Callable[[str], object]) -> int:
    """Write a line for each finding and, at the end, the first thing that is wrong with its remedy; 1 if there is one."""
    findings = []
    for finding in examine(settings):
        findings.append(finding)
        write(f"{finding.state:<7}{plain(finding.what)}\n")
    for state, verdict in (("wrong", "First, this is wrong"), ("unsure", "Nothing is wrong; look at this")):
        for finding in findings:
            if finding.state == state:
                write(f"\n{verdict}: {plain(finding.what)}\n{plain(finding.remedy)}\n")
                return 1 if state == "wrong" else 0
    write("\nNothing is wrong.\n")
    return 0
