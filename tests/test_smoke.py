"""`enginehouse run` and its relatives as real processes."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.programs import AGENT, ENGINEHOUSE, control_plane, eventually, fetch, running
from tests.smoke import answers, child_on, instance, smoke, toy, wait_for_reports
from webapp import zipapp
from webapp.addresses import free_port

pytestmark = pytest.mark.live

SLEEPER = [sys.executable, "-c", "import time; time.sleep(600)"]


def test_the_managed_path_stops_what_it_started_and_leaves_what_it_reused(tmp_path: Path):
    said: list[str] = []
    smoke(toy, tmp_path, said.append)
    assert said[-1] == "the resource agent that it reused still answers"


def test_several_instances_on_one_machine_have_an_agent_each(tmp_path: Path):
    with control_plane(tmp_path / "plane.log", "--data-dir", str(tmp_path / "data")) as (url, _):
        ports = [free_port(), free_port()]
        flags = ["--proxy-cp-url", url, "--resource-report-interval-ms", "200"]
        commands = [[*ENGINEHOUSE, "run", "--port", str(port), *flags, "--", *SLEEPER] for port in ports]
        with running(commands[0], tmp_path / "a.log") as first:
            one = wait_for_reports(url, f"hp_127.0.0.1:{ports[0]}")
            with running(commands[1], tmp_path / "b.log") as second:
                two = wait_for_reports(url, f"hp_127.0.0.1:{ports[1]}")
                for found in (one, two):
                    assert found["resource"]["raw_resource"]["instance_id"] == found["instance_id"]
                nodes = fetch(url + "/metrics").count("llmgw_node_cpus{")
                assert nodes == 1
                second.send_signal(signal.SIGTERM)
                assert second.wait(20) == 143
            wait_for_reports(url, f"hp_127.0.0.1:{ports[0]}")
            first.send_signal(signal.SIGTERM)
            assert first.wait(20) == 143


def test_a_control_plane_that_comes_later_and_goes_and_comes_again_is_found(tmp_path: Path):
    port, name = free_port(), ""
    url = f"http://127.0.0.1:{free_port()}"
    flags = ("--data-dir", str(tmp_path / "data"), "--listen", url[7:])
    run = [*ENGINEHOUSE, "run", "--port", str(port), "--proxy-cp-url", url, "--no-resource-monitor", "--", *SLEEPER]
    name = f"hp_127.0.0.1:{port}"
    with running(run, tmp_path / "run.log") as managed:
        eventually(lambda: "registration of" in (tmp_path / "run.log").read_text("utf-8"), "the first failure")
        with control_plane(tmp_path / "one.log", *flags):
            assert eventually(lambda: instance(url, name), "the registration")["resource"]["cpu_util"] is None
        with control_plane(tmp_path / "two.log", *flags):
            eventually(lambda: instance(url, name), "the second registration", 40)
            managed.send_signal(signal.SIGTERM)
            assert managed.wait(20) == 143
            assert instance(url, name) is None


def test_the_engine_and_its_agent_end_when_run_is_killed(tmp_path: Path):
    with control_plane(tmp_path / "plane.log", "--data-dir", str(tmp_path / "data")) as (url, _):
        port, agent_port = free_port(), free_port()
        listen = ["--resource-agent-listen", f"127.0.0.1:{agent_port}"]
        run = [*ENGINEHOUSE, "run", "--port", str(port), "--proxy-cp-url", url, *listen, "--", *toy(port)]
        with running(run, tmp_path / "run.log") as managed:
            wait_for_reports(url, f"hp_127.0.0.1:{port}")
            engine = eventually(lambda: child_on(managed.pid, str(port)), "the engine")
            managed.kill()
            managed.wait()
            eventually(lambda: not Path(f"/proc/{engine}").exists(), "the engine's end")
            eventually(lambda: not answers(f"http://127.0.0.1:{agent_port}"), "the agent's end")


@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        (["--port", "1", "--", "/nowhere/engine"], 127, "/nowhere/engine: No such file or directory"),
        (["--port", "1", "--", "/etc/passwd"], 126, "Permission denied"),
        (["--port", "1"], 2, "expected the engine's command after --"),
        (["--", "true"], 2, "--port: expected the port"),
        (["--port", "x", "--", "true"], 2, "expected a port from 1 to 65535"),
    ],
)
def test_an_engine_that_cannot_be_started_is_one_line(tmp_path: Path, command: list[str], code: int, said: str):
    result = subprocess.run([*ENGINEHOUSE, "run", *command], capture_output=True, text=True, timeout=30)
    assert (result.returncode, said in result.stderr) == (code, True), result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_the_engines_code_is_passed_on_without_a_control_plane():
    url = f"http://127.0.0.1:{free_port()}"
    engine = [sys.executable, "-c", "raise SystemExit(7)"]
    result = subprocess.run([*ENGINEHOUSE, "run", "--port", "1", "--proxy-cp-url", url, "--", *engine], timeout=30)
    assert result.returncode == 7


def test_the_packed_agent_has_all_of_it(tmp_path: Path):
    archive = tmp_path / "agent.pyz"
    archive.write_bytes(zipapp.build())
    packed = [sys.executable, "-I", "-S", str(archive)]
    with control_plane(tmp_path / "plane.log", "--data-dir", str(tmp_path / "data")) as (url, _):
        port, agent_port = free_port(), free_port()
        name, agent = f"hp_127.0.0.1:{port}", f"http://127.0.0.1:{agent_port}"
        listen = ["--resource-agent-listen", f"127.0.0.1:{agent_port}"]
        run = [*packed, "run", "--port", str(port), "--proxy-cp-url", url, *listen, "--", *toy(port)]
        with running(run, tmp_path / "run.log", cwd=tmp_path) as managed:
            wait_for_reports(url, name)
            once = [*packed, "report", "--agent-url", agent, "--proxy-cp-url", url, "--instance-id", name, "--once"]
            assert subprocess.run(once, timeout=30).returncode == 0
            managed.send_signal(signal.SIGTERM)
            assert managed.wait(20) == 0
        assert not answers(agent)


def test_the_resource_agent_measures_this_machine(tmp_path: Path):
    port = free_port()
    agent = [*AGENT, "resource-agent", "--listen", f"127.0.0.1:{port}", "--sample-interval-ms", "100"]
    with running(agent, tmp_path / "agent.log", env={"PATH": "/usr/bin", "INSTANCE_ID": "from the environment"}) as process:
        url = f"http://127.0.0.1:{port}"

        def measured() -> dict | None:
            try:
                return json.loads(fetch(url + "/v1/resource/snapshot?x=1"))
            except OSError:
                return None

        found = eventually(measured, "a snapshot")
        assert found["instance_id"] == "from the environment"
        assert 0 <= found["devices"]["cpu"]["utilization_pct"] <= 100
        assert found["devices"]["memory"]["total_mb"] > found["devices"]["memory"]["free_mb"] > 0
        process.send_signal(signal.SIGTERM)
        assert process.wait(15) == 0
