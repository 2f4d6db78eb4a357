"""Reads /proc/<pid>/stat again and again, at less than the cost of opening it each time.

A descriptor of the file stays valid for as long as the process lives, and fails with ESRCH ever after, even when
its pid is given to another process. Opening and closing are two thirds of the way through the kernel, so
descriptors are kept, at about 4 KiB of kernel memory each; beyond `most` files are opened each time.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Iterable
from pathlib import Path

#: No stat line is longer: 52 numbers of at most 20 digits, and a name.
_LONGEST = 2048

#: Descriptors that are left for everything else: sockets, files of a moment, threads that hang.
_SPARE = 256
_MOST_KEPT = 8192


class StatFiles:
    """Opens and reads; `keep` closes what is no longer needed."""

    def __init__(self, proc: Path, most: int | None = None) -> None:
        """`most`: descriptors to keep; None: as many as the process may have, none on a copy of a /proc."""
        self._kept: dict[int, int] = {}
        self._proc = proc
        self._most = (_allowed() if _is_live(proc) else 0) if most is None else most

    def read(self, pid: int) -> bytes:
        """The file's bytes now. Raises FileNotFoundError or ProcessLookupError if the process is gone, else OSError."""
        descriptor = self._kept.get(pid)
        if descriptor is not None:
            try:
                return os.pread(descriptor, _LONGEST, 0)
            except ProcessLookupError:
                self._close(pid)  # another process may have its pid by now
        descriptor = os.open(f"{self._proc}/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
        if len(self._kept) < self._most:
            self._kept[pid] = descriptor
            return os.pread(descriptor, _LONGEST, 0)
        try:
            return os.read(descriptor, _LONGEST)
        finally:
            os.close(descriptor)

    def keep(self, pids: Iterable[int]) -> None:
        """Closes the files of all other processes."""
        for pid in self._kept.keys() - set(pids):
            self._close(pid)

    def close(self) -> None:
        self.keep(())

    def __del__(self) -> None:
        self.close()

    def _close(self, pid: int) -> None:
        os.close(self._kept.pop(pid))


def _is_live(proc: Path) -> bool:
    """Whether this is a kernel's /proc: a copy's files can be replaced under a descriptor."""
    try:
        return os.readlink(proc / "self").isdigit() and (proc / "self" / "fd").is_dir()
    except OSError:
        return False


def _allowed() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MOST_KEPT if soft == resource.RLIM_INFINITY else max(0, min(soft - _SPARE, _MOST_KEPT))


def allow_more_files() -> None:
    """Raises this process's soft limit of open files as far as it may go and as `StatFiles` can use."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST_KEPT + _SPARE if hard == resource.RLIM_INFINITY else min(hard, _MOST_KEPT + _SPARE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
