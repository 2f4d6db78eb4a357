"""The agent as one file that a node fetches and runs: `python3 agent.pyz --server URL`.

Made from the installed package: the agent, what it may import, and the small libraries that it uses where they
are installed here (tomli for Pythons without tomllib, pynvml for NVIDIA GPUs). The same files always give the same bytes.
https://docs.python.org/3/library/zipapp.html
"""

from __future__ import annotations

import importlib.util
import io
import zipfile
from collections.abc import Iterator
from pathlib import Path

#: Modules beside `webapp.agent` that it may import. The import contract and docs/architecture.md are tested against this.
SHARED = (
    "__init__",
    "addresses",
    "fields",
    "json_object",
    "measurement",
    "heartbeat",
    "snapshot",
    "kinds",
    "settings",
    "config",
    "logs",
)

#: Pure libraries that are taken along where they are installed.
LIBRARIES = ("tomli", "pynvml")

_MAIN = """import os
import sys

if sys.version_info < (3, 9):
    sys.exit("the agent needs Python 3.9 or later; this is " + sys.version.split()[0])

from webapp.agent.__main__ import main

sys.exit(main(sys.argv[1:], os.environ))
"""

#: No earlier time fits into a zip archive.
_EPOCH = (1980, 1, 1, 0, 0, 0)


def build() -> bytes:
    """The archive, with the line that lets a shell run it."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as file:
        for name, content in sorted(_files()):
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            file.writestr(entry, content)
    return b"#!/usr/bin/env python3\n" + archive.getvalue()


def _files() -> Iterator[tuple[str, bytes]]:
    package = Path(__file__).parent
    yield "__main__.py", _MAIN.encode()
    for name in SHARED:
        path = package / f"{name}.py"
        if path.is_file():
            yield f"webapp/{name}.py", path.read_bytes()
    for path in (package / "agent").rglob("*.py"):
        yield f"webapp/{path.relative_to(package).as_posix()}", path.read_bytes()
    for name in LIBRARIES:
        yield from _library(name)


def _library(name: str) -> Iterator[tuple[str, bytes]]:
    found = importlib.util.find_spec(name)
    if found is None or found.origin is None:
        return
    origin = Path(found.origin)
    if origin.name != "__init__.py":
        yield origin.name, origin.read_bytes()
        return
    for path in origin.parent.rglob("*.py"):  # compiled parts are left out; both have pure ones
        yield f"{name}/{path.relative_to(origin.parent).as_posix()}", path.read_bytes()
