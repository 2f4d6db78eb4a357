"""What the container that the agent runs in may use, from cgroup v2 or v1; where a process is, from /proc/<pid>/cgroup.

A limit counts at the agent's own cgroup and at those above it. A systemd unit's limit is no limit of the node:
it is passed over. Memory in use is read at the cgroup that sets the limit, so that both are of one scope.
https://docs.kernel.org/admin-guide/cgroup-v2.html
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from webapp.agent.machine.proc import read_or_empty
from webapp.measurement import Limits

#: v1 says "no limit" by a huge number: 2**63 less a page.
_NO_LIMIT_BYTES = 2**60

_UNIT = re.compile(r".*\.(service|slice|scope)$")
_CONTAINER = re.compile(r"(kubepods|docker|libpod|crio|cri-|nerdctl|lxc|machine)")


class _Names(NamedTuple):
    """The files of one version."""

    limit: str
    used: str
    #: In memory.stat: file pages that the kernel drops first.
    inactive: str


_V2 = _Names("memory.max", "memory.current", "inactive_file")
_V1 = _Names("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")


def limits(proc: Path = Path("/proc"), sys: Path = Path("/sys")) -> Limits:
    """The tightest limits that hold for the agent; None where there is none, as on a machine without containers."""
    paths = parse_cgroup(read_or_empty(proc / "self" / "cgroup", 65536))
    root = sys / "fs" / "cgroup"
    unified = root / "unified" if (root / "unified").is_dir() else root
    v2 = _directories([unified], paths.get("", "/"))
    v1_memory = _directories([root / "memory"], paths.get("memory", "/"))
    v1_cpu = _directories([root / "cpu", root / "cpu,cpuacct", root / "cpuacct,cpu"], paths.get("cpu", "/"))
    memory = min(_memory(v2, _V2) + _memory(v1_memory, _V1), default=None)
    cpus = min(
        [*map(_cpus_v2, v2), *map(_cpus_v1, v1_cpu)], key=lambda cpus: float("inf") if cpus is None else cpus, default=None
    )
    if memory is None:
        return Limits(cpus=cpus)
    return Limits(cpus=cpus, memory_bytes=memory[0], memory_used_bytes=_used(memory[2], memory[1]))


def parse_cgroup(data: bytes) -> dict[str, str]:
    """Path by controller from /proc/<pid>/cgroup; the unified hierarchy of version 2 has the name "".

    >>> parse_cgroup(b"9:cpu,cpuacct:/a\\n1:name=systemd:/b\\n0::/system.slice/vllm.service\\n")
    {'cpu': '/a', 'cpuacct': '/a', 'name=systemd': '/b', '': '/system.slice/vllm.service'}
    """
    found = {}
    for line in data.split(b"\n"):
        number, _, rest = line.partition(b":")
        controllers, colon, path = rest.partition(b":")
        if number.isdigit() and colon and path.startswith(b"/"):
            for controller in controllers.decode("utf-8", "surrogateescape").split(","):
                found[controller] = path.decode("utf-8", "surrogateescape")
    return found


def _directories(roots: list[Path], path: str) -> list[Path]:
    """The cgroup's directory and those above it up to the root, without systemd's units.

    Inside a container the path may be the host's: then the root that is seen there is the container's own.
    """
    names = [name for name in path.split("/") if name]
    for root in roots:
        if not root.is_dir():
            continue
        if ".." in names or not root.joinpath(*names).is_dir():
            return [root]
        chain = [root.joinpath(*names[:depth]) for depth in range(len(names), -1, -1)]
        return [directory for directory in chain if directory == root or not _is_unit(directory.name)]
    return []


def _is_unit(name: str) -> bool:
    """
    >>> [_is_unit(name) for name in ("enginehouse.service", "docker-7f.scope", "kubepods-pod1.slice", "7f")]
    [True, False, False, False]
    """
    return bool(_UNIT.match(name)) and not _CONTAINER.match(name)


def _memory(directories: list[Path], names: _Names) -> list[tuple[int, Path, _Names]]:
    found = []
    for directory in directories:
        limit = _whole(_text(directory / names.limit))
        if limit is not None and 0 < limit < _NO_LIMIT_BYTES:
            found.append((limit, directory, names))
    return found


def _used(names: _Names, directory: Path) -> int | None:
    used = _whole(_text(directory / names.used))
    if used is None:
        return None
    inactive = re.search(rf"^{names.inactive} (\d{{1,20}})$", _text(directory / "memory.stat"), re.MULTILINE)
    return max(0, used - int(inactive.group(1))) if inactive else used


def _cpus_v2(directory: Path) -> float | None:
    quota, _, period = _text(directory / "cpu.max").strip().partition(" ")
    return _cpus(quota, period)


def _cpus_v1(directory: Path) -> float | None:
    return _cpus(_text(directory / "cpu.cfs_quota_us"), _text(directory / "cpu.cfs_period_us"))


def _cpus(quota: str, period: str) -> float | None:
    """
    >>> _cpus("250000", "100000\\n"), _cpus("max", "100000"), _cpus("-1", "100000")
    (2.5, None, None)
    """
    quota_us, period_us = _whole(quota), _whole(period)
    return quota_us / period_us if quota_us and period_us else None


def _whole(text: str) -> int | None:
    text = text.strip()
    return int(text) if text.isdecimal() and len(text) < 25 else None


def _text(file: Path) -> str:
    return read_or_empty(file, 65536).decode("utf-8", "replace")
