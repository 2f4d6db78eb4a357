"""File systems: one entry a device, read so that a dead mount delays nothing."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from webapp.agent.clock import Clock
from webapp.agent.machine.proc import read_or_empty
from webapp.agent.patience import Patience
from webapp.measurement import Disk

#: Mount points and types that node_exporter leaves out by default, and memory that only looks like a disk.
_NO_DISK_PATHS = re.compile(r"/(dev|proc|sys|run/credentials/.+|var/lib/docker/.+|var/lib/containers/storage/.+)($|/)")
_NO_DISK_KINDS = re.compile(
    r"(autofs|binfmt_misc|bpf|cgroup2?|configfs|debugfs|devpts|devtmpfs|fusectl|hugetlbfs|iso9660|mqueue|nsfs|proc|procfs"
    r"|pstore|rpc_pipefs|securityfs|selinuxfs|squashfs|erofs|sysfs|tracefs|tmpfs|ramfs|efivarfs"
    r"|fuse\.(gvfsd-fuse|lxcfs|portal|snapfuse))\Z"
)
_REMOTE_KINDS = ("nfs", "cifs", "smb", "ceph", "lustre", "gpfs", "beegfs", "glusterfs", "9p", "virtiofs", "fuse", "afs")

#: Seconds for which the last answer is used in place of one that is late.
_FRESH_FOR_S = 30.0


class Mount(NamedTuple):
    """One line of mountinfo."""

    id: str
    #: The mount that it is mounted on.
    parent: str
    #: major:minor
    number: str
    #: The directory of the file system that is mounted: "/", or a part of it under a bind mount.
    root: str
    mount: str
    kind: str
    device: str

    @property
    def key(self) -> tuple[str, ...]:
        """The same for all mounts of one device. The data sets of a ZFS pool share its room."""
        if self.kind == "zfs":
            return ("zfs", self.device.partition("/")[0])
        return (self.kind, self.device) if self.number.startswith("0:") else (self.number,)


def parse_mountinfo(data: bytes) -> list[Mount]:
    """/proc/<pid>/mountinfo, in its order; lines of another form are passed over.

    >>> parse_mountinfo(b"29 1 259:2 / /a\\\\040b rw,relatime shared:1 - ext4 /dev/dm-2 rw\\n")
    [Mount(id='29', parent='1', number='259:2', root='/', mount='/a b', kind='ext4', device='/dev/dm-2')]
    """
    found = []
    for line in data.split(b"\n"):
        before, dash, after = line.partition(b" - ")
        words, source = before.split(b" "), after.split(b" ")
        if dash and len(words) >= 6 and len(source) >= 2:
            found.append(Mount(*(_unescaped(word) for word in (*words[:5], source[0], source[1]))))
    return found


def _unescaped(word: bytes) -> str:
    plain = re.sub(rb"\\([0-3][0-7]{2})", lambda match: bytes([int(match.group(1), 8)]), word)
    return os.fsdecode(plain)


def reachable(mounts: Sequence[Mount]) -> list[Mount]:
    """Without those that another one was mounted over: their paths lead to that one.

    >>> lines = [b"30 1 8:1 / / rw - ext4 a rw", b"31 30 8:2 / /b rw - ext4 b rw", b"32 31 8:3 / /b rw - ext4 c rw"]
    >>> [mount.device for mount in reachable(parse_mountinfo(b"\\n".join(lines)))]
    ['a', 'c']
    """
    by_id = {mount.id: mount for mount in mounts}
    by_path: dict[str, list[Mount]] = {}
    for mount in mounts:
        if mount.parent in by_id:  # else nothing that can be seen lies below it
            by_path.setdefault(mount.mount.rstrip("/"), []).append(mount)
    found = []
    for mount in mounts:
        below, parent = {mount.id}, by_id.get(mount.parent)
        while parent and parent.id not in below:
            below.add(parent.id)
            parent = by_id.get(parent.parent)
        parts = mount.mount.rstrip("/").split("/")
        over = (other for end in range(len(parts), 0, -1) for other in by_path.get("/".join(parts[:end]), ()))
        if all(other.id in below for other in over):
            found.append(mount)
    return found


def devices(mounts: Iterable[Mount]) -> list[Mount]:
    """One mount a device, in order: where its root is mounted if anywhere, and the shortest path of those.

    In a container "/" is an overlay, which stands for the device below it.
    """
    chosen: dict[tuple[str, ...], Mount] = {}
    for mount in mounts:
        overlay = mount.kind == "overlay"
        if _NO_DISK_KINDS.match(mount.kind) or _NO_DISK_PATHS.match(mount.mount) or (overlay and mount.mount != "/"):
            continue
        key = ("overlay",) if overlay else mount.key
        if key not in chosen or _rank(mount) < _rank(chosen[key]):
            chosen[key] = mount
    return list(chosen.values())


def _rank(mount: Mount) -> tuple[bool, int]:
    return (mount.root != "/" and mount.kind != "btrfs", len(mount.mount))


def sizes(answer: Any) -> dict[str, int]:
    """Bytes from statvfs, in fragments: f_bsize is only the preferred size of a transfer.

    Used is what is not free; available is what is left for ordinary users, which is less on ext4.
    """
    return {
        "total_bytes": answer.f_blocks * answer.f_frsize,
        "used_bytes": max(0, answer.f_blocks - answer.f_bfree) * answer.f_frsize,
        "available_bytes": max(0, answer.f_bavail) * answer.f_frsize,
    }


class Disks:
    """Reads file systems; one that hangs delays the others by less than half a second, once."""

    def __init__(
        self,
        proc: Path,
        ask: Callable[[str], Any] = os.statvfs,
        clock: Clock | None = None,
        wait_s: float = 0.25,
    ) -> None:
        """`wait_s`: how long `measure` waits; what comes later counts in the next measurement."""
        self._proc = proc
        self._ask = ask
        self._clock = clock or Clock()
        self._mounts: Patience[Mount, dict[str, int] | str] = Patience(self._read, self._clock, wait_s, "disks")

    def _read(self, mount: Mount) -> dict[str, int] | str:
        """Sizes, or why they can't be read."""
        try:
            found = sizes(self._ask(mount.mount))
        except OSError as error:
            return error.strerror or str(error)
        except Exception as error:  # a mount must not end the round for the others
            return repr(error)
        return found if found["total_bytes"] else "it has no blocks"

    def measure(self, model_files: Iterable[str] = ()) -> tuple[Disk, ...]:
        """One entry a device. One that has not answered for 30 s has only its error."""
        everything = parse_mountinfo(read_or_empty(self._proc / "self" / "mountinfo"))
        everything = reachable(everything or parse_mountinfo(read_or_empty(self._proc / "1" / "mountinfo")))
        mounts = devices(everything)
        self._mounts.forget(but=mounts)
        self._mounts.ask_all(sorted(mounts, key=lambda mount: mount.kind.startswith(_REMOTE_KINDS)))
        holds = _holds(everything, model_files)
        disks = [self._disk(mount, holds.get(mount.key)) for mount in mounts]
        return tuple(_without_overlay(disks)[:64])

    def _disk(self, mount: Mount, holds: str | None) -> Disk:
        about: dict[str, Any] = {
            "mount": _text(mount.mount),
            "device": _text(mount.device),
            "kind": _text(mount.kind)[:64],
            "holds": holds,
        }
        answer = self._mounts.answers.get(mount)
        if answer and isinstance(answer.value, str):
            return Disk(**about, error=answer.value[:300])
        if answer and isinstance(answer.value, dict) and self._clock.boottime() - answer.taken <= _FRESH_FOR_S:
            return Disk(**{**about, **answer.value})
        waiting_s = self._mounts.waiting_s(mount)
        if waiting_s is None:
            return Disk(**about, error="it could not be asked for yet")
        return Disk(**about, error=f"statvfs has not answered for {waiting_s:.0f} s")


def _text(path: str) -> str:
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")[:1024]


def _without_overlay(disks: list[Disk]) -> list[Disk]:
    """An overlay shows the room of the device below it: where that device is there too, it takes the overlay's place."""
    overlay = next((disk for disk in disks if disk.kind == "overlay"), None)
    if overlay is None:
        return disks
    for index, disk in enumerate(disks):
        if disk.kind != "overlay" and disk.total_bytes and disk.total_bytes == overlay.total_bytes:
            shown = Disk(**{**vars(disk), "mount": overlay.mount, "holds": disk.holds or overlay.holds})
            return [shown if at == index else other for at, other in enumerate(disks) if other is not overlay]
    return disks


def _holds(mounts: Sequence[Mount], files: Iterable[str]) -> dict[tuple[str, ...], str]:
    """Model files by the device that they lie on, found by their paths alone: a stat could hang."""
    found: dict[tuple[str, ...], list[str]] = {}
    for file in sorted(set(files)):
        above = [mount for mount in mounts if _lies_on(file, mount.mount)]
        if above:
            longest = max(above, key=lambda mount: len(mount.mount))
            found.setdefault(longest.key, []).append(_text(file))
    return {key: ", ".join(names)[:1024] for key, names in found.items()}


def _lies_on(file: str, mount: str) -> bool:
    return file.startswith(mount.rstrip("/") + "/")
