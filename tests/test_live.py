"""The whole way, with real processes: /proc, agent, control plane, /metrics, pages."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.programs import AGENT, BURNER, ENGINEHOUSE, children_of, control_plane, eventually, fetch, has_ended, running, sample

pytestmark = pytest.mark.live

TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


@pytest.fixture
def engine_file(tmp_path: Path):
    """Declares one engine of two burning processes; yields the file and the processes."""
    command = [sys.executable, "-c", BURNER, "0.3"]
    with running(command, tmp_path / "a.log", start_new_session=True) as first:
        file = tmp_path / "agent.toml"
        file.write_text(f'[labels]\nrack = "b2"\n\n[[engine]]\nid = "burner"\nmodel = "toy"\npid = {first.pid}\n', "utf-8")
        yield file, first


def test_an_engines_cores_reach_metrics_and_page_and_a_killed_agent_is_stale_after_a_minute(tmp_path: Path, engine_file):
    file, engine = engine_file
    with control_plane(tmp_path / "plane.log", "--data-dir", str(tmp_path / "plane")) as (url, _):
        command = [
            *AGENT,
            "--server",
            url,
            "--node",
            "live-1",
            "--interval",
            "1",
            "--config",
            str(file),
            "--data-dir",
            str(tmp_path / "agent"),
        ]
        with running(command, tmp_path / "agent.log") as agent:
            cores = 'llmgw_shard_cpu_cores{node="live-1",shard="burner",model="toy"}'
            eventually(lambda: sample(url, cores), "the engine's cores")
            before, started = cpu_seconds(engine.pid), time.monotonic()
            seen = []
            while time.monotonic() - started < 8:
                seen.append(sample(url, cores) or 0.0)
                time.sleep(1)
            truth = (cpu_seconds(engine.pid) - before) / (time.monotonic() - started)
            assert sum(seen) / len(seen) == pytest.approx(truth, rel=0.2)
            assert sample(url, 'llmgw_node_cpus{node="live-1"}') == os.cpu_count()
            assert "burner" in fetch(url + "/nodes/live-1")
            agent.send_signal(signal.SIGKILL)
            killed = time.monotonic()

        def is_stale() -> tuple[bool, ...]:
            return (
                sample(url, 'llmgw_node_up{node="live-1"}') == 0,
                sample(url, 'llmgw_node_cpus{node="live-1"}') is None,
                'id="node-live-1" data-state="stale"' in fetch(url + "/"),
            )

        time.sleep(max(0.0, killed + 55 - time.monotonic()))
        assert is_stale() == (False, False, False)
        eventually(lambda: all(is_stale()), "the node to be stale", patience_s=10)
        assert "not heard for" in fetch(url + "/nodes/live-1")


def test_up_shows_this_machine_and_leaves_nothing_behind(tmp_path: Path):
    with control_plane(tmp_path / "up.log", "--data-dir", str(tmp_path / "data"), "--node", "this", command="up") as (
        url,
        process,
    ):
        eventually(
            lambda: sample(url, 'llmgw_node_cpu_utilization_percent{node="this"}') is not None, "the first numbers", patience_s=15
        )
        children = children_of(process.pid)
        assert len(children) == 1
        process.send_signal(signal.SIGINT)
        assert process.wait(15) == 0
        eventually(lambda: has_ended(children[0]), "the agent to end")


def test_the_agent_ends_when_up_is_killed(tmp_path: Path):
    with control_plane(tmp_path / "up.log", "--data-dir", str(tmp_path / "data"), command="up") as (url, process):
        eventually(lambda: sample(url, 'enginehouse_heartbeats_total{outcome="accepted"}'), "a heartbeat")
        children = children_of(process.pid)
        process.kill()
        process.wait()
        eventually(lambda: all(map(has_ended, children)), "the agent to end")


def test_nodes_and_samples_survive_a_kill(tmp_path: Path):
    flags = ("--data-dir", str(tmp_path / "plane"))
    with control_plane(tmp_path / "one.log", *flags) as (url, process):
        once = [*AGENT, "--server", url, "--node", "kept", "--once", "--data-dir", str(tmp_path / "agent")]
        assert subprocess.run(once, timeout=30).returncode == 0
        eventually(lambda: sample(url, "enginehouse_store_write_lag_seconds") == 0, "the commit")
        process.kill()
        process.wait()
    with control_plane(tmp_path / "two.log", *flags) as (url, _):
        assert "kept" in fetch(url + "/")
        assert sample(url, 'llmgw_node_up{node="kept"}') == 1
        fragment = url + "/fragments/charts/kept"
        eventually(lambda: "figure=" in fetch(fragment, {"HX-Request": "true"}), "the sample on the charts' grid of 15 s")


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--listen", "8765x"], "--listen=8765x: expected HOST:PORT"),
        (["--keep-hours", "an hour"], "--keep-hours=an hour: expected hours"),
        (["--listen", "0.0.0.0:0"], "--allow-anonymous"),
        (["--data-dir", "/proc/enginehouse"], "/proc/enginehouse"),
        (["--config", "/nowhere.toml"], "/nowhere.toml: cannot be read"),
    ],
)
def test_what_cannot_start_says_why_in_one_line(tmp_path: Path, flags: list[str], said: str):
    data = [] if "--data-dir" in flags else ["--data-dir", str(tmp_path)]
    result = subprocess.run([*ENGINEHOUSE, "serve", *data, *flags], capture_output=True, text=True, timeout=30)
    assert result.returncode == 2
    assert said in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_a_port_in_use_is_one_line(tmp_path: Path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        command = [*ENGINEHOUSE, "serve", "--data-dir", str(tmp_path), "--listen", address]
        result = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert (result.returncode, result.stderr) == (2, f"enginehouse serve: cannot listen on {address}: Address already in use\n")


def test_a_corrupt_data_file_is_set_aside_and_said(tmp_path: Path):
    data = tmp_path / "plane"
    data.mkdir()
    (data / "history.sqlite").write_bytes(b"this was never a database" * 1000)
    with control_plane(tmp_path / "plane.log", "--data-dir", str(data)) as (url, _):
        assert "set aside" in fetch(url + "/")
    assert [path.name for path in data.iterdir() if ".corrupt-" in path.name]
