"""What breaks in a fleet, with real processes: kills, stops, full disks, floods, slow clients, tokens over TLS."""

from __future__ import annotations

import http.client
import json
import os
import re
import resource
import shlex
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.programs import AGENT, ENGINEHOUSE, control_plane, eventually, fetch, running, sample
from tests.sockets import certificate

pytestmark = pytest.mark.live


@pytest.fixture
def on_end():
    with ExitStack() as stack:
        yield stack


def post(url: str, body: bytes, connection: http.client.HTTPConnection | None = None, **headers: str) -> tuple[int, dict]:
    parts = urlsplit(url)
    client = connection or http.client.HTTPConnection(parts.hostname, parts.port, timeout=20)
    try:
        client.request("POST", "/v1/nodes/heartbeat", body, {"Content-Type": "application/json", **headers})
        answer = client.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        if connection is None:
            client.close()


def beat(node: str, sequence: int, cpu: float = 5.0) -> bytes:
    agent = {"id": f"agent of {node}", "boot": "1", "sequence": sequence, "interval_s": 1.0}
    return json.dumps({"node": node, "agent": agent, "load": {"age_s": 0, "cpu_percent": cpu, "cpus": 4}}).encode()


def state(url: str, node: str) -> str:
    found = re.search(r'class="state" data-state="(\w+)"', fetch(f"{url}/nodes/{node}").partition("<main")[2])
    return found.group(1) if found else "none"


def rss_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text("utf-8").split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_a_stopped_control_plane_flaps_no_node_and_says_that_it_did_not_listen(tmp_path: Path):
    with control_plane(tmp_path / "plane.log", "--data-dir", str(tmp_path / "plane")) as (url, process):
        for node in ("n1", "n2", "n3"):
            assert post(url, beat(node, 1))[0] == 200
        process.send_signal(signal.SIGSTOP)
        time.sleep(8)  # twice what makes a node late that reports each second
        process.send_signal(signal.SIGCONT)
        page = fetch(url + "/")
        assert "did not listen for 8 s" in page
        assert page.count('data-state="fresh"') > 3
        assert [state(url, node) for node in ("n1", "n2", "n3")] == ["fresh"] * 3
        eventually(lambda: state(url, "n1") == "late", "silence that was listened to to count", patience_s=10)


def test_a_stopped_agent_is_late_and_comes_back_without_a_spike(tmp_path: Path):
    with control_plane(tmp_path / "plane.log", "--data-dir", str(tmp_path / "plane")) as (url, _):
        flags = ["--server", url, "--node", "n1", "--interval", "1", "--data-dir", str(tmp_path / "agent")]
        with running([*AGENT, *flags], tmp_path / "agent.log") as agent:
            percent = 'llmgw_node_cpu_utilization_percent{node="n1"}'
            eventually(lambda: sample(url, percent) is not None, "the first numbers")
            agent.send_signal(signal.SIGSTOP)
            eventually(lambda: state(url, "n1") == "late", "the stopped agent's node to be late", patience_s=15)
            agent.send_signal(signal.SIGCONT)
            eventually(lambda: state(url, "n1") == "fresh", "it to come back", patience_s=10)
            assert 0 <= sample(url, percent) <= 100


def test_what_was_acknowledged_over_two_seconds_ago_survives_kill_9(tmp_path: Path):
    flags = ("--data-dir", str(tmp_path / "plane"))
    acknowledged: list[tuple[float, str, int]] = []
    with control_plane(tmp_path / "one.log", *flags) as (url, process):
        ended = threading.Event()

        def report(first: int) -> None:
            parts = urlsplit(url)
            client = http.client.HTTPConnection(parts.hostname, parts.port, timeout=20)
            sequence = 0
            while not ended.is_set():
                sequence += 1
                for number in range(first, first + 50):
                    try:
                        status, _ = post(url, beat(f"n{number}", sequence), client)
                    except (OSError, http.client.HTTPException):
                        client.close()
                        return
                    if status == 200:
                        acknowledged.append((time.monotonic(), f"n{number}", sequence))
            client.close()

        threads = [threading.Thread(target=report, args=(50 * index,)) for index in range(2)]
        for thread in threads:
            thread.start()
        time.sleep(5)
        process.kill()
        killed = time.monotonic()
        process.wait()
        ended.set()
        for thread in threads:
            thread.join(10)
    kept = {(node, sequence) for at, node, sequence in acknowledged if at < killed - 2}
    assert len(kept) > 500
    with control_plane(tmp_path / "two.log", *flags) as (url, _):
        for node, sequence in {node: max(s for n, s in kept if n == node) for node, _ in kept}.items():
            assert post(url, beat(node, sequence))[1]["outcome"] == "replayed", f"{node} was lost"


def test_on_a_full_disk_pages_and_metrics_live_on_and_say_so(tmp_path: Path):
    """A limit on the size of its files stands for the disk."""
    log = tmp_path / "plane.log"
    command = [*ENGINEHOUSE, "serve", "--listen", "127.0.0.1:0", "--data-dir", str(tmp_path / "plane")]
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000))  # noqa: E731
    with running(command, log, preexec_fn=limit) as process:
        found = eventually(lambda: re.search(r"is at (http://\S+)", log.read_text("utf-8")), "its address")
        url = found.group(1)
        parts = urlsplit(url)
        client = http.client.HTTPConnection(parts.hostname, parts.port, timeout=20)

        def is_full() -> bool:
            for number in range(200):
                assert post(url, beat(f"node-{number}", int(time.monotonic() * 1000)), client)[0] == 200
            return "The history cannot be written" in fetch(url + "/")

        eventually(is_full, "the page to say that the disk is full", patience_s=60)
        client.close()
        assert sample(url, 'llmgw_node_up{node="node-7"}') == 1
        assert sample(url, "enginehouse_store_write_lag_seconds") > 0
        assert "The history cannot be written" in str(json.loads(fetch(url + "/healthz"))["problems"])
        assert process.poll() is None
    assert log.read_text("utf-8").count("cannot be written") == 1  # once, not with each commit


def test_a_flood_of_names_takes_bounded_memory_and_is_refused_and_counted(tmp_path: Path):
    """T86"""
    with control_plane(tmp_path / "plane.log", "--data-dir", str(tmp_path / "plane"), "--most-nodes", "300") as (url, process):
        parts = urlsplit(url)
        client = http.client.HTTPConnection(parts.hostname, parts.port, timeout=20)
        codes = {200: 0, 429: 0}
        for number in range(1000):
            codes[post(url, beat(f"flood-{number}", 1), client)[0]] += 1
        before = rss_bytes(process.pid)
        for number in range(1000, 4000):
            codes[post(url, beat(f"flood-{number}", 1), client)[0]] += 1
        client.close()
        assert codes == {200: 300, 429: 3700}
        assert rss_bytes(process.pid) - before < 20_000_000
        assert sample(url, 'enginehouse_heartbeats_total{outcome="full"}') == 3700
        assert fetch(url + "/metrics").count("llmgw_node_up{") == 300


def test_while_slow_clients_hang_heartbeats_and_pages_are_answered(tmp_path: Path, on_end: ExitStack):
    flags = ("--data-dir", str(tmp_path / "plane"), "--connections", "60", "--read-timeout", "3", "--threads", "2")
    with control_plane(tmp_path / "plane.log", *flags) as (url, _):
        place = (urlsplit(url).hostname, urlsplit(url).port)
        hanging = []
        on_end.callback(lambda: [client.close() for client in hanging])
        for number in range(100):
            client = socket.create_connection(place, timeout=10)
            try:
                client.sendall(
                    [b"POST /v1/nodes/heartbeat HTTP/1.1\r\nHost: a\r\nContent-Length: 50\r\n\r\n{", b"GET / HT"][number % 2]
                )
            except OSError:
                pass  # it has made room already
            hanging.append(client)
        for sequence in range(1, 50):
            assert post(url, beat("n1", sequence))[0] == 200
        assert "n1" in fetch(url + "/")
        eventually(
            lambda: (sample(url, 'enginehouse_closed_connections_total{reason="slow_request"}') or 0) > 10,
            "slow clients to be closed",
            patience_s=15,
        )
        assert sample(url, 'enginehouse_closed_connections_total{reason="crowded"}') > 10


def test_tokens_over_tls_from_agent_to_page(tmp_path: Path):
    tls = certificate(tmp_path)
    agents, viewers = tmp_path / "agents", tmp_path / "viewers"
    agents.write_text("an-agents-token-01 live-1\n")
    viewers.write_text("a-viewers-token-01\n")
    (tmp_path / "token").write_text("an-agents-token-01\n")
    flags = ["--agent-tokens", str(agents), "--viewer-tokens", str(viewers), "--data-dir", str(tmp_path / "plane")]
    flags += ["--tls-certificate", str(tls.certificate), "--tls-key", str(tls.key)]
    log = tmp_path / "plane.log"
    with running([*ENGINEHOUSE, "serve", "--listen", "127.0.0.1:0", *flags], log) as process:
        url = eventually(lambda: re.search(r"is at (https://\S+)", log.read_text("utf-8")), "its address").group(1)

        def agent(node: str, *more: str) -> subprocess.CompletedProcess[str]:
            command = [*AGENT, "--server", url, "--node", node, "--once", "--data-dir", str(tmp_path / node), *more]
            return subprocess.run(command, capture_output=True, text=True, timeout=30)

        trusts = ("--ca-file", str(tls.certificate))
        token = ("--token-file", str(tmp_path / "token"))
        assert agent("live-1", *trusts, *token).returncode == 0
        assert "403 not allowed" in agent("live-2", *trusts, *token).stderr
        assert "401 the token is missing or wrong" in agent("live-1", *trusts).stderr
        assert "certificate" in agent("live-1", *token).stderr
        context = ssl.create_default_context(cafile=tls.certificate)
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(url + "/metrics", context=context, timeout=10)
        asked = urllib.request.Request(url + "/metrics", headers={"Authorization": "Bearer a-viewers-token-01"})
        with urllib.request.urlopen(asked, context=context, timeout=10) as answer:
            assert b'llmgw_node_up{node="live-1"} 1' in answer.read()
        made = [*ENGINEHOUSE, "embed-link", "--data-dir", str(tmp_path / "plane"), "--path", "/nodes/live-1", "--base-url", url]
        link = subprocess.run(made, capture_output=True, text=True, timeout=30, check=True).stdout.strip()
        with urllib.request.urlopen(link, context=context, timeout=10) as answer:
            assert b"live-1" in answer.read()
        doctor = [*ENGINEHOUSE, "doctor", "--server", url, "--ca-file", str(tls.certificate), "--data-dir", str(tmp_path)]
        result = subprocess.run([*doctor, *token], capture_output=True, text=True, timeout=60)
        assert (result.returncode, f"{url} takes heartbeats from here" in result.stdout) == (0, True)
        result = subprocess.run(doctor, capture_output=True, text=True, timeout=60)
        assert (result.returncode, f"First, this is wrong: {url} asks agents for a token" in result.stdout) == (1, True)
        shown = Path(f"/proc/{process.pid}/cmdline").read_bytes() + log.read_bytes()
        assert b"an-agents-token-01" not in shown
        assert b"a-viewers-token-01" not in shown


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ([], "give --viewer-tokens and --agent-tokens, or pass --allow-anonymous"),
        (["--agent-tokens", "TOKENS"], "lets anyone on the network read; give --viewer-tokens, or pass"),
        (["--viewer-tokens", "TOKENS"], "lets anyone on the network report; give --agent-tokens, or pass"),
        (["--agent-tokens", "/nowhere"], "/nowhere: cannot be read"),
        (["--admin-user", "ann"], "expected --trusted-proxy too"),
        (["--base-path", "//x", "--allow-anonymous"], "base_path='//x': expected a path"),
        (["--tls-key", "TOKENS", "--allow-anonymous"], "expected --tls-certificate too"),
        (["--tls-certificate", "TOKENS", "--allow-anonymous"], "not a certificate"),
    ],
)
def test_what_would_open_more_than_was_meant_does_not_start(tmp_path: Path, flags: list[str], said: str):
    (tmp_path / "tokens").write_text("a-token-of-enough-length\n")
    given = [str(tmp_path / "tokens") if flag == "TOKENS" else flag for flag in flags]
    command = [*ENGINEHOUSE, "serve", "--listen", "0.0.0.0:0", "--data-dir", str(tmp_path / "data"), *given]
    result = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert result.returncode == 2
    assert said in result.stderr
    assert "a-token-of" not in result.stderr


def test_up_reports_to_itself_by_a_token_of_its_own(tmp_path: Path):
    for name in ("agents", "viewers"):
        (tmp_path / name).write_text(f"a-token-of-{name}-01\n")
    data = tmp_path / "data"
    flags = ["--agent-tokens", str(tmp_path / "agents"), "--viewer-tokens", str(tmp_path / "viewers"), "--data-dir", str(data)]
    with control_plane(tmp_path / "up.log", *flags, "--node", "this", command="up") as (url, process):
        headers = {"Authorization": "Bearer a-token-of-viewers-01"}
        eventually(lambda: 'llmgw_node_up{node="this"} 1' in fetch(url + "/metrics", headers), "this machine's numbers")
        assert (data / "up.token").stat().st_mode & 0o777 == 0o600
        assert (data / "up.token").read_bytes().strip() not in Path(f"/proc/{process.pid}/cmdline").read_bytes()


def test_the_documented_backup_of_a_running_control_plane_starts_elsewhere(tmp_path: Path):
    guide = (Path(__file__).parent.parent / "docs" / "operations.md").read_text("utf-8")
    command = re.search(r"^ *(python3 -c .*history\.sqlite)$", guide, re.MULTILINE).group(1)
    data, backup = tmp_path / "data", tmp_path / "backup"
    backup.mkdir()
    with control_plane(tmp_path / "one.log", "--data-dir", str(data)) as (url, _):
        assert post(url, beat("kept", 7))[0] == 200
        eventually(lambda: sample(url, "enginehouse_store_write_lag_seconds") == 0, "the sample to be written")
        words = shlex.split(command.replace("DATA", str(data)).replace("BACKUP", str(backup)))
        assert subprocess.run([sys.executable, *words[1:]], timeout=30).returncode == 0
        with control_plane(tmp_path / "two.log", "--data-dir", str(backup)) as (other, _):
            assert post(other, beat("kept", 7))[1]["outcome"] == "replayed"
