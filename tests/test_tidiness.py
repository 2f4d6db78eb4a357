"""Nothing lies about: no code that nobody calls, no dependency that nobody imports, none that is not named."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from vulture import Vulture

ROOT = Path(__file__).parent.parent

#: Called by name: handlers and hooks that Flask, and methods that the standard library, look up.
DECORATORS = [
    "@*.get",
    "@*.post",
    "@*.put",
    "@*.delete",
    "@*.route",
    "@*.errorhandler",
    "@*.*_request",
    "@*.template_*",
    "@*.app_*",
    "@*.url_*",
]

#: Attributes that are set for others to read, and methods that others look up.
FOR_OTHERS = [
    # Flask and Werkzeug
    *("jinja_options", "sort_keys", "merge_slashes", "regex", "part_isolating", "to_python", "filter_stream"),
    # requests and urllib3
    *("verify", "auth", "trust_env", "pool_classes_by_scheme", "ConnectionCls", "get_redirect_target"),
    # http.server and socketserver
    *("do_*", "log_message", "log_request", "daemon_threads", "block_on_close", "protocol_version", "server_version"),
    *("handle_error", "request_queue_size", "allow_reuse_address", "disable_nagle_algorithm", "close_connection"),
    # zipfile
    *("compress_type", "external_attr"),
    # a row of metrics names them by the state
    *("is_running", "is_orphaned", "is_dead"),
    # asyncio and httptools
    *("connection_made", "connection_lost", "data_received", "eof_received", "pause_writing", "resume_writing", "on_*"),
    "rendered",  # counted for tests/test_rows.py
]


@pytest.mark.slow
def test_no_code_lies_about_that_nobody_calls():
    """Fields of dataclasses are read by name, by the table of metrics and the wire; templates call functions too."""
    vulture = Vulture(ignore_names=FOR_OTHERS, ignore_decorators=DECORATORS)
    vulture.scavenge([str(ROOT / "webapp")])
    templates = " ".join(path.read_text("utf-8") for path in (ROOT / "templates").rglob("*.html"))
    tables = " ".join((ROOT / "webapp" / name).read_text("utf-8") for name in ("metrics.py", "lens.py"))
    by_name = set(re.findall(r"\w+", templates + tables))
    unused = [
        f"{Path(item.filename).relative_to(ROOT)}:{item.first_lineno} {item.typ} {item.name}"
        for item in vulture.get_unused_code(min_confidence=60)
        if item.name not in by_name and not (item.typ == "variable" and _is_field(Path(item.filename), item.first_lineno))
    ]
    assert unused == []


def _is_field(path: Path, line: int) -> bool:
    return bool(re.match(r"    \w+: ", path.read_text("utf-8").splitlines()[line - 1]))


def test_dependencies_are_those_that_are_imported():
    done = subprocess.run(
        [sys.executable, "-m", "deptry", "webapp", "--no-ansi"], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
