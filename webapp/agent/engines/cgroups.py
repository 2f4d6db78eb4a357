"""The cgroup of an engine: whether it is the engine's own, who is in it, and the CPU time that it counted.

Version 2, version 1 (systemd's hierarchy for the processes, cpuacct for the time) and both at once.
https://docs.kernel.org/admin-guide/cgroup-v2.html
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from webapp.agent.engines.container_names import container_id, container_name
from webapp.agent.engines.pidstat import parse_cgroup
from webapp.agent.machine.proc import read, read_or_empty, whole

#: Controller in /proc/<pid>/cgroup -> where its tree may be mounted below /sys/fs/cgroup.
_TREES = {
    "": ("", "unified"),
    "name=systemd": ("systemd",),
    "cpuacct": ("cpuacct", "cpu,cpuacct"),
}

#: Units and scopes that hold whatever somebody starts in them, not one service.
_SHARED = re.compile(
    r"(session-.*|init|user@.*|user-.*|app-.*|vte-spawn-.*|tmux-.*|screen.*|ssh.*|sshd.*|cron.*|crond.*|atd.*|getty.*|login.*"
    r"|supervisor.*|docker|containerd|crio|kubelet|podman|rescue|emergency|systemd-.*|dbus.*|gnome-.*|plasma-.*|code-.*"
    r"|jupyter.*|slurmd|kernel)\.(scope|service|slice)\Z|.*\.slice\Z"
)

#: What a container's cgroup is called by Docker, Podman, containerd, CRI-O and cgroupfs drivers.
_CONTAINER = re.compile(r"(?:docker-|libpod-|cri-containerd-|crio-|nerdctl-)?([0-9a-f]{64})(?:\.scope)?\Z")

#: A cgroup tree with more processes than this is not one engine's.
_MOST_PROCESSES = 20_000


class Cgroup(NamedTuple):
    """A cgroup that may be an engine's own."""

    #: Path of the cgroup in its hierarchy.
    path: str
    #: Unit, or container with the first 12 digits of its id.
    unit: str
    #: Where its cgroup.procs lies.
    directory: Path
    #: Where its CPU time lies; None if nothing counts it.
    accounting: Path | None


def unit_of(path: str) -> str | None:
    """The unit or container that a cgroup path ends in; None if it is shared by whatever runs there.

    >>> unit_of("/system.slice/vllm.service"), unit_of("/user.slice/user-1000.slice/session-3.scope"), unit_of("/")
    ('vllm.service', None, None)
    >>> unit_of("/system.slice/docker-" + "0123456789ab" + "c" * 52 + ".scope")
    'container 0123456789ab'
    """
    name = path.rpartition("/")[2]
    container = _CONTAINER.match(name)
    if container:
        return "container " + container.group(1)[:12]
    if not name or _SHARED.match(name):
        return None
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")[:300]


class Cgroups:
    """Reads cgroups below `sys`/fs/cgroup."""

    def __init__(self, proc: Path, sys: Path, state: Path = Path("/var/lib")) -> None:
        """`state`: where container engines keep what they know of their containers."""
        self._proc = proc
        self._state = state
        self._names: dict[str, str] = {}
        self._root = sys / "fs" / "cgroup"

    def of(self, pid: int) -> Cgroup | None:
        """The cgroup of a process where it names a unit or container; None too if it can't be read."""
        paths = parse_cgroup(read_or_empty(f"{self._proc}/{pid}/cgroup", 65536))
        accounting = self._directory("", paths.get("")) or self._directory("cpuacct", paths.get("cpuacct"))
        for controller in _TREES:
            path = paths.get(controller, "/")
            unit = self._unit(path)
            directory = self._directory(controller, path)
            if unit and directory:
                counts = accounting if accounting and accounting.name == directory.name else None
                return Cgroup(path, unit, directory, counts)
        return None

    def _unit(self, path: str) -> str | None:
        """Like `unit_of`, with a container's name in place of its id where it is known."""
        container = _CONTAINER.match(path.rpartition("/")[2])
        if not container:
            return unit_of(path)
        id = container.group(1)
        if id not in self._names:
            self._names[id] = container_name(id, self._state) or id[:12]
        return "container " + self._names[id]

    def _directory(self, controller: str, path: str | None) -> Path | None:
        if not path or path == "/" or "/../" in path + "/":
            return None
        for tree in _TREES[controller]:
            directory = self._root / tree / path.lstrip("/")
            if (directory / "cgroup.procs").exists():
                return directory
        return None

    def named(self, name: str) -> Cgroup | None:
        """The cgroup of the unit or container of that name; a container also by the start of its id."""
        wanted = (name, name + ".service", name + ".scope")
        id = container_id(name, self._state) or name
        for tree in ("", "unified", "systemd"):
            for directory, names in _walk(self._root / tree):
                for found in names:
                    container = _CONTAINER.match(found)
                    if found in wanted or (container and len(id) >= 8 and container.group(1).startswith(id)):
                        return self._found(self._root / tree, directory / found)
        return None

    def _found(self, tree: Path, directory: Path) -> Cgroup:
        path = "/" + str(directory.relative_to(tree))
        counts = directory if (directory / "cpu.stat").exists() else self._directory("cpuacct", path)
        return Cgroup(path, self._unit(path) or directory.name, directory, counts)


def _walk(root: Path) -> Iterator[tuple[Path, list[str]]]:
    """Directories at most six deep and at most 5,000 of them."""
    waiting = [(root, 0)]
    for _ in range(5000):
        if not waiting:
            return
        directory, depth = waiting.pop()
        try:
            with os.scandir(directory) as entries:
                names = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
        except OSError:
            continue
        yield directory, names
        if depth < 6:
            waiting.extend((directory / name, depth + 1) for name in names)


def members(cgroup: Cgroup) -> frozenset[int] | None:
    """Pids in the cgroup and below it; None if it can't be read."""
    found: set[int] = set()
    try:
        found.update(_pids(read(cgroup.directory / "cgroup.procs")))
    except OSError:
        return None
    for directory, names in _walk(cgroup.directory):
        for name in names:
            found.update(_pids(read_or_empty(directory / name / "cgroup.procs")))
            if len(found) > _MOST_PROCESSES:
                return None
    return frozenset(found)


def _pids(data: bytes) -> list[int]:
    # 0 stands for a process outside of the reader's pid namespace.
    return [int(word) for word in data.split() if word.isdigit() and len(word) < 10 and word != b"0"]


def cpu_seconds(cgroup: Cgroup) -> float | None:
    """CPU time that the cgroup has used, ended processes included; None if it is not counted."""
    if cgroup.accounting is None:
        return None
    data = read_or_empty(cgroup.accounting / "cpu.stat", 65536)
    microseconds = parse_cpu_stat(data)
    if microseconds is not None:
        return microseconds / 1e6
    nanoseconds = whole(read_or_empty(cgroup.accounting / "cpuacct.usage", 64).strip())
    return None if nanoseconds is None else nanoseconds / 1e9


def parse_cpu_stat(data: bytes) -> int | None:
    """Microseconds from cpu.stat of version 2.

    >>> parse_cpu_stat(b"usage_usec 1234\\nuser_usec 1000\\n"), parse_cpu_stat(b"nr_periods 0\\n")
    (1234, None)
    """
    for line in data.split(b"\n"):
        name, _, value = line.partition(b" ")
        if name == b"usage_usec":
            return whole(value.strip())
    return None
