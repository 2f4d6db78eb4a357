"""The rules in deploy/prometheus, by Prometheus' own tool."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from webapp.metrics import HEARTBEAT_AGE, METRICS, UP

pytestmark = pytest.mark.slow

RULES = Path(__file__).parents[2] / "deploy" / "prometheus"


@pytest.mark.parametrize(
    "command",
    [
        ["check", "config", "prometheus.yml"],
        ["check", "rules", "recording.yml", "alerts.yml"],
        ["test", "rules", "rules_test.yml"],
    ],
    ids=" ".join,
)
def test_the_rules_pass(command: list[str]) -> None:
    done = subprocess.run(["promtool", *command], cwd=RULES, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_rules_name_series_that_we_export() -> None:
    known = {metric.name for metric in METRICS} | {UP.name, HEARTBEAT_AGE.name}
    for name in ("recording.yml", "alerts.yml"):
        assert set(re.findall(r"llmgw_\w+", (RULES / name).read_text())) <= known
