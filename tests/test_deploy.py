"""What is under deploy/ is what its own tools take. The Dockerfile is linted, not built; no cluster is asked."""

from __future__ import annotations

import argparse
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from webapp.config import settings_of
from webapp.settings import add_flags, resolve

DEPLOY = Path(__file__).parent.parent / "deploy"
ROOT = DEPLOY.parent
MANIFESTS = [
    (path.name, manifest)
    for path in sorted((DEPLOY / "kubernetes").glob("*.yaml"))
    for manifest in yaml.safe_load_all(path.read_text("utf-8"))
]


def taken(words: list[str]) -> argparse.Namespace:
    """The flags of an `enginehouse` command line; fails for one that does not exist or a value that can't be used."""
    command, *given = words
    parser = argparse.ArgumentParser(exit_on_error=False)
    add_flags(parser, settings_of(command))
    flags = parser.parse_args(given)
    flags.config = None
    return resolve(settings_of(command), flags, {})


def test_the_control_planes_unit_is_one_that_systemd_takes_and_gives_away_little(tmp_path):
    program = shutil.which("systemd-analyze")
    assert program, "systemd-analyze is missing: apt-get install systemd"
    text = (DEPLOY / "systemd" / "enginehouse.service").read_text("utf-8")
    (command,) = re.findall(r"^ExecStart=\S+/enginehouse (.*)$", text, re.MULTILINE)
    assert taken(shlex.split(command)).data_dir == Path("/var/lib/enginehouse")
    unit = tmp_path / "enginehouse.service"
    unit.write_text(re.sub(r"^ExecStart=.*$", "ExecStart=/bin/true", text, flags=re.MULTILINE), "utf-8")
    check = subprocess.run([program, "verify", str(unit)], capture_output=True, text=True, timeout=60, check=False)
    assert [line for line in check.stderr.splitlines() if "enginehouse" in line] == []
    # From 0 (nothing is given away) to 100; 15 is what systemd calls OK.
    exposure = [program, "security", "--offline=true", "--threshold=15", str(unit)]
    rated = subprocess.run(exposure, capture_output=True, text=True, timeout=60, check=False)
    assert rated.returncode == 0, rated.stdout[-500:]


def test_the_settings_beside_the_unit_can_be_used():
    flags = argparse.Namespace(config=str(DEPLOY / "systemd" / "enginehouse.toml"))
    assert resolve(settings_of("serve"), flags, {}).listen == ("127.0.0.1", 8765)


@pytest.mark.parametrize(("file", "manifest"), MANIFESTS, ids=[f"{file}-{one['kind']}" for file, one in MANIFESTS])
def test_a_manifest_follows_kubernetes_schema(file: str, manifest: dict[str, Any]):
    kubernetes_validate.validate(manifest, "1.31", strict=True)
    kubernetes_validate.validate(manifest, "1.37", strict=True)


def test_containers_are_started_with_flags_that_exist():
    commands = {}
    for _, manifest in MANIFESTS:
        for container in manifest.get("spec", {}).get("template", {}).get("spec", {}).get("containers", []):
            commands[container["args"][0]] = taken(container["args"])
    assert commands["agent"].proc == Path("/host/proc")
    assert commands["serve"].listen == ("0.0.0.0", 8765)


def test_the_agent_may_read_the_node_and_write_nothing_of_it():
    (pod,) = (one["spec"]["template"]["spec"] for _, one in MANIFESTS if one["kind"] == "DaemonSet")
    assert pod["hostPID"]
    (container,) = pod["containers"]
    host = {volume["name"]: volume["hostPath"]["path"] for volume in pod["volumes"] if "hostPath" in volume}
    written = [mount["name"] for mount in container["volumeMounts"] if not mount.get("readOnly")]
    assert host == {"proc": "/proc", "sys": "/sys", "identity": "/var/lib/enginehouse-agent"}
    assert written == ["identity"]
    assert container["securityContext"]["capabilities"]["drop"] == ["ALL"]
    assert "privileged" not in container["securityContext"]


def test_the_dockerfile_passes_its_linter_and_copies_what_is_there():
    file = DEPLOY / "docker" / "Dockerfile"
    linter = Path(sys.executable).with_name("hadolint")
    lint = subprocess.run([linter, str(file)], capture_output=True, text=True, timeout=60, check=False)
    assert lint.returncode == 0, lint.stdout
    copied = [
        word for line in re.findall(r"^COPY (?!--from)(.*)$", file.read_text("utf-8"), re.MULTILINE) for word in line.split()[:-1]
    ]
    assert copied
    ignored = (file.with_name("Dockerfile.dockerignore")).read_text("utf-8").splitlines()
    for path in copied:
        assert (ROOT / path).exists()
        assert f"!{path}" in ignored
