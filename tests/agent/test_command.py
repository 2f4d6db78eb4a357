"""`python -m webapp.agent`, from settings to exit code."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from types import SimpleNamespace

import pytest

from tests.agent.test_sender import OK, serve  # noqa: F401 - a fixture
from webapp import heartbeat
from webapp.agent import command
from webapp.agent.__main__ import main
from webapp.config import settings_of


@pytest.fixture
def refused(capsys, tmp_path):
    """refused(arguments, environment) -> the one line that it says."""

    def run(*arguments: str, **environment: str) -> str:
        assert main([*arguments, "--data-dir", str(tmp_path)], environment) == 2
        said = capsys.readouterr().err
        assert said.count("\n") == 1
        return said

    return run


SERVER = ("--server", "http://127.0.0.1:9")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "--server: expected the address of a control plane"),
        (("--server", "house"), "--server=house: expected an address such as"),
        ((*SERVER, "--interval", "30"), "--interval=30: expected seconds, 1 to 20"),
        ((*SERVER, "--interval", "soon"), "--interval=soon: expected seconds"),
        ((*SERVER, "--node", "x" * 254), "expected a name of 1 to 253 characters"),
        ((*SERVER, "--nodes", "4"), "unrecognized arguments: --nodes 4"),
        ((*SERVER, "--config", "/absent.toml"), "/absent.toml: cannot be read"),
        ((*SERVER, "--proc", "/absent"), "--proc=/absent: expected a directory such as /proc"),
    ],
)
def test_a_setting_that_can_not_be_used_is_one_line_and_exit_code_2(refused, arguments, said):
    assert said in refused(*arguments)


@pytest.mark.parametrize(
    ("toml", "said"),
    [
        ('[[engine]]\nid = "a"\n', "engine 1: expected one of pid, pidfile, command, unit, container, port; none is there"),
        (
            '[[engine]]\nid = "a"\npid = 1\nunit = "x"\n',
            "engine 1: expected one of pid, pidfile, command, unit, container; pid and unit are there",
        ),
        ("[[engine]]\npid = 1\n", "engine 1: expected an id"),
        ('[[engine]]\nid = ""\npid = 1\n', "engine 1: id=: expected a text"),
        ('[[engine]]\nid = "a"\npid = true\n', "engine 1: pid=true: expected a whole number"),
        ('[[engine]]\nid = "a"\nport = 70000\n', "engine 1: port=70000: expected a whole number from 1 to 65535"),
        ('[[engine]]\nid = "a"\ncommand = "("\n', "engine 1: command=(: expected a regular expression"),
        ('[[engine]]\nid = "a"\nkind = "gpt"\nport = 1\n', "engine 1: kind=gpt: expected one of vllm, sglang"),
        ('[[engine]]\nid = "a"\nprot = 1\n', "engine 1: prot is not one of id, model"),
        ('[[engine]]\nid = "a"\nport = 1\n[[engine]]\nid = "a"\nport = 2\n', "engine 2: id=a is there before"),
        ('[[engine]]\nid = "a"\npidfile = "a\\u0000b"\n', "engine 1: pidfile=a\\x00b: expected a path"),
        ("[labels]\nrack = [1]\n", "labels: rack=[1]: expected a text"),
        ('colour = "red"\n', "colour is not a setting of this command"),
    ],
)
def test_a_file_that_can_not_be_used_is_one_line_and_exit_code_2(refused, tmp_path, toml, said):
    (tmp_path / "agent.toml").write_text(toml)
    assert said in refused(*SERVER, "--config", str(tmp_path / "agent.toml"))


def test_a_data_directory_that_can_not_be_written_is_one_line_and_exit_code_2(capsys, tmp_path):
    (tmp_path / "file").write_text("")
    assert main([*SERVER, "--data-dir", str(tmp_path / "file")], {}) == 2
    assert str(tmp_path / "file") in capsys.readouterr().err


def test_once_sends_a_whole_heartbeat(serve, machine, tmp_path, monkeypatch):  # noqa: F811
    monkeypatch.setattr(command.signal, "signal", lambda *_: None)
    monkeypatch.setattr("webapp.agent.loop.FIRST_PAUSE_S", 0.0)
    server = serve(OK)
    machine.cpu(100, 300)
    machine.process(4200, command="vllm serve Qwen/Qwen3-8B")
    machine.process(4300, command="python engine.py --x")
    (tmp_path / "agent.toml").write_text('[[engine]]\nid = "mine"\nmodel = "m"\ncommand = "engine.py"\n[labels]\nrack = 7\n')
    settings = SimpleNamespace(**{setting.name: setting.default for setting in settings_of("agent")})
    settings.proc, settings.sys, settings.data_dir, settings.node, settings.once = (
        machine.proc,
        machine.sys,
        tmp_path,
        "cpu-07",
        True,
    )
    settings.labels = {"rack": 7}
    settings.engine = ({"id": "mine", "model": "m", "command": "engine.py"},)
    assert command.run(settings, (server.url,), threading.Event()) == 0
    reading = heartbeat.read(server.asked[0][3])
    assert reading.rejected == ()
    measurement = reading.measurement
    assert (measurement.node, dict(measurement.host.labels), measurement.load.cpus) == ("cpu-07", {"rack": "7"}, 4)
    assert [engine.id for engine in measurement.engines] == ["mine", "vllm-Qwen_Qwen3-8B-8000"]
    assert (measurement.agent.sequence, len(measurement.agent.id), measurement.load.interval_s > 0) == (1, 36, True)
    assert main(["--server", "http://127.0.0.1:9", "--once", "--data-dir", str(tmp_path), "--proc", str(machine.proc)], {}) == 1


@pytest.mark.live
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_the_agent_cleanly(serve, tmp_path, number):  # noqa: F811
    heard = threading.Event()
    server = serve(lambda path: heard.set() or OK)
    arguments = ["--server", server.url, "--data-dir", str(tmp_path), "--interval", "1", "--log-level", "warning"]
    agent = subprocess.Popen(
        [sys.executable, "-m", "webapp.agent", *arguments], stderr=subprocess.PIPE, env={**os.environ, "PYTHONPATH": os.getcwd()}
    )
    assert heard.wait(30)
    agent.send_signal(number)
    _, said = agent.communicate(timeout=30)
    assert (agent.returncode, said) == (0, b"")


def test_the_agent_imports_nothing_but_the_standard_library_and_the_wire():
    """Nodes have no packages."""
    code = "import sys, webapp.agent.command, webapp.agent.arguments, webapp.agent.install; print(*sorted(sys.modules))"
    environment = {"PYTHONPATH": os.getcwd()}
    shown = subprocess.run(
        [sys.executable, "-S", "-c", code], env=environment, capture_output=True, text=True, check=True
    ).stdout.split()
    ours = {name for name in shown if name.startswith("webapp.") and not name.startswith("webapp.agent")}
    shared = ("config", "fields", "heartbeat", "json_object", "kinds", "logs", "measurement", "settings")
    assert ours == {f"webapp.{name}" for name in shared}
    foreign = {name.partition(".")[0] for name in shown} - set(sys.stdlib_module_names) - {"webapp", "__main__"}
    assert {name for name in foreign if not re.match(r"_?(sitecustomize|distutils|__mp_main__|_virtualenv)", name)} == set()
