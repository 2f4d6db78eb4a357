"""What was vendored is what is said, and is what the pages load."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
VENDOR = ROOT / "static" / "vendor"
TABLE = re.compile(
    r"\| `(?P<file>[^`]+)` \| (?P<version>[\d.]+) \| (?P<licence>[^|]+) \| (?P<source>[^|]+) \| `(?P<digest>[0-9a-f]{64})` \|"
)


def test_every_vendored_script_is_listed_with_version_licence_source_and_digest():
    rows = {row["file"]: row for row in TABLE.finditer((VENDOR / "README.md").read_text("utf-8"))}
    assert set(rows) == {path.name for path in VENDOR.glob("*.js")}
    for name, row in rows.items():
        assert row["version"] in name
        assert hashlib.sha256((VENDOR / name).read_bytes()).hexdigest() == row["digest"]
        assert (VENDOR / name.replace(".min.js", ".LICENSE")).is_file()


def test_the_pages_load_the_vendored_versions():
    loaded = {
        name
        for path in (ROOT / "templates").rglob("*.html")
        for name in re.findall(r"vendor/([\w.-]+\.js)", path.read_text("utf-8"))
    }
    assert loaded == {path.name for path in VENDOR.glob("*.js")}
