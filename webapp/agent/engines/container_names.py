"""What Docker and Podman call their containers, from the files that they keep; readable by root."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from webapp.agent.lines import one_line
from webapp.agent.machine.proc import read_or_empty

_DOCKER = Path("docker") / "containers"
_PODMAN = Path("containers") / "storage" / "overlay-containers" / "containers.json"

#: More containers than this are not looked through for a name.
_MOST = 1000


def container_name(id: str, state: Path) -> str | None:
    """The name of the container with this 64-digit id; `state` is /var/lib."""
    name = _docker_name(state / _DOCKER / id)
    return name or next((name for found, name in _podman(state) if found == id), None)


def container_id(name: str, state: Path) -> str | None:
    """The id of the container with this name."""
    try:
        ids = os.listdir(state / _DOCKER)[:_MOST]
    except OSError:
        ids = []
    for id in ids:
        if _docker_name(state / _DOCKER / id) == name:
            return id
    return next((id for id, found in _podman(state) if found == name), None)


def _docker_name(directory: Path) -> str | None:
    table = _json(directory / "config.v2.json")
    name = table.get("Name") if isinstance(table, dict) else None
    return one_line(name.lstrip("/")) or None if isinstance(name, str) else None


def _podman(state: Path) -> Iterator[tuple[str, str]]:
    table = _json(state / _PODMAN)
    for container in table[:_MOST] if isinstance(table, list) else ():
        if isinstance(container, dict) and isinstance(container.get("id"), str) and isinstance(container.get("names"), list):
            for name in container["names"][:1]:
                if isinstance(name, str):
                    yield container["id"], one_line(name)


def _json(file: Path) -> Any:
    try:
        return json.loads(read_or_empty(file))
    except (ValueError, RecursionError):
        return None
