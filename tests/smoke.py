"""The managed path with a real control plane and a real engine; `make smoke` prints it as it goes.

    python -m tests.smoke [MODEL.gguf]

Without a model the engine is the toy of the tests.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.programs import AGENT, ENGINEHOUSE, control_plane, eventually, fetch, running, sample
from webapp.addresses import free_port

HERE = Path(__file__).parent


def answers(url: str) -> bool:
    """Whether anybody listens there."""
    try:
        fetch(url + "/healthz")
    except urllib.error.HTTPError:
        return True
    except urllib.error.URLError:
        return False
    return True


def is_ready(port: int) -> bool:
    """Whether the engine there has loaded its model."""
    try:
        fetch(f"http://127.0.0.1:{port}/health")
    except OSError:
        return False
    return True


def instance(url: str, name: str) -> dict[str, Any] | None:
    """What the control plane lists of an instance that is alive."""
    return next((one for one in json.loads(fetch(url + "/v1/instance/list")) if one["instance_id"] == name), None)


def smoke(engine: Callable[[int], list[str]], directory: Path, say: Callable[[str], object] = print) -> None:
    """`engine` makes the engine's command for a port. Raises AssertionError, which says what did not come."""
    with control_plane(directory / "plane.log", "--data-dir", str(directory / "data")) as (url, _):
        say(f"control plane at {url}")
        port, agent_port = free_port(), free_port()
        name, agent = f"hp_127.0.0.1:{port}", f"http://127.0.0.1:{agent_port}"
        run = [
            *(*ENGINEHOUSE, "run", "--port", str(port), "--model", "smoke", "--proxy-cp-url", url),
            *("--resource-agent-listen", f"127.0.0.1:{agent_port}", "--resource-report-interval-ms", "200"),
            *("--sample-interval-ms", "200", "--", *engine(port)),
        ]
        with running(run, directory / "run.log") as managed:
            say(f"$ enginehouse {' '.join(run[len(ENGINEHOUSE) :])}")
            found = wait_for_reports(url, name)
            say(f"registered and reported: {json.dumps({**found['resource'], 'raw_resource': '...'})}")
            assert answers(agent)
            say(f"the resource agent answers at {agent}")
            assert f"/instances/{name.replace(':', '%3A')}" in fetch(url + "/instances").replace(":", "%3A")
            eventually(lambda: is_ready(port), "the engine to be ready", 120)
            leader = eventually(lambda: child_on(managed.pid, str(port)), "the engine's process")
            say(f"the engine (process {leader}) is stopped")
            subprocess.run(["kill", "-TERM", str(leader)], check=True)
            code = managed.wait(30)
            say(f"`enginehouse run` ended with the engine's code {code}")
            assert code == 0, (directory / "run.log").read_text("utf-8")
        assert not answers(agent)
        say("the resource agent that it started no longer answers")
        assert instance(url, name) is None
        say("the instance is unregistered")

        own = [*AGENT, "resource-agent", "--listen", f"127.0.0.1:{agent_port}", "--instance-id", name]
        with running(own, directory / "agent.log") as reused:
            say(f"$ enginehouse {' '.join(own[len(AGENT) :])}")
            eventually(lambda: answers(agent), "the agent")
            with running(run, directory / "again.log") as managed:
                wait_for_reports(url, name)
                eventually(lambda: is_ready(port), "the engine to be ready", 120)
                say("the engine runs again, and reports what the agent that was there measures")
                managed.send_signal(signal.SIGINT)
                code = managed.wait(30)
                say(f"Ctrl-C: `enginehouse run` ended with code {code}")
                assert code == 0, (directory / "again.log").read_text("utf-8")
            assert answers(agent)
            assert reused.poll() is None
            say("the resource agent that it reused still answers")
            assert "is used" in (directory / "again.log").read_text("utf-8")
            reused.terminate()
            assert reused.wait(15) == 0


def wait_for_reports(url: str, name: str) -> dict[str, Any]:
    """The instance, once its resources were reported three times."""
    before = sample(url, 'enginehouse_instance_messages_total{outcome="report"}') or 0

    def reported() -> dict[str, Any] | None:
        found = instance(url, name)
        count = sample(url, 'enginehouse_instance_messages_total{outcome="report"}') or 0
        return found if found and count >= before + 3 and found["resource"]["cpu_util"] is not None else None

    return eventually(reported, "three reports", 60)


def child_on(parent: int, port: str) -> int | None:
    """The child of a process that has the port as the last word of its command line."""
    for pid in Path(f"/proc/{parent}/task/{parent}/children").read_text("utf-8").split():
        words = Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0").split(b"\0")
        if words[-1] == port.encode():
            return int(pid)
    return None


def toy(port: int) -> list[str]:
    return [sys.executable, str(HERE / "toy_engine.py"), str(port)]


def llama(model: str) -> Callable[[int], list[str]]:
    return lambda port: [sys.executable, str(HERE / "llama_engine.py"), model, str(port)]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        smoke(llama(sys.argv[1]) if sys.argv[1:] else toy, Path(folder))
    print("all of it is as it should be")
