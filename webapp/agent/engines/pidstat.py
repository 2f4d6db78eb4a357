"""/proc/<pid>/stat, status, smaps_rollup, cmdline and environ: parsers for their bytes.

https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from webapp.agent.machine.proc import MISREAD, ProcError, whole

#: The process was forked and has not called exec since (PF_FORKNOEXEC in linux/sched.h).
_FORKED_ONLY = 0x40


class Stat(NamedTuple):
    """One process at one moment. Times are clock ticks, counted since the process started."""

    pid: int
    comm: bytes
    state: str
    ppid: int
    pgrp: int
    session: int
    #: utime + stime; None if misread.
    cpu: int | None
    #: cutime + cstime: of children that were waited for, and of theirs. Never part of the process's own time.
    reaped: int | None
    threads: int
    #: Clock ticks after boot.
    start: int
    #: Pages; None if misread.
    rss: int | None
    #: Changes when the process calls exec, as far as this user may see.
    image: bytes

    @property
    def key(self) -> tuple[int, int]:
        """Identifies this process among all since boot."""
        return (self.pid, self.start)

    @property
    def forked(self) -> bool:
        """It has not called exec: its command line is its parent's."""
        return self.image.endswith(b"/%d" % _FORKED_ONLY)

    @property
    def dead(self) -> bool:
        """A zombie. With more than one thread only the first thread has ended; the process lives."""
        return self.state in "ZXx" and self.threads <= 1

    @property
    def outlived(self) -> bool:
        """Its first thread has ended and others live: the kernel then shows no memory for the first one."""
        return self.state in "ZXx" and self.threads > 1


def parse_stat(data: bytes) -> Stat:
    """Raises ProcError.

    The name is between the first "(" and the last ")" and may hold anything, blanks and brackets included.

    >>> stat = parse_stat(b"7 (a) S (b) ) R 1 7 7 0 -1 64 0 0 0 0 10 5 3 1 20 0 8 0 900 4096 2 18446744073709551615 1")
    >>> stat.comm, stat.state, stat.cpu, stat.reaped, stat.threads, stat.start, stat.rss
    (b'a) S (b) ', 'R', 15, 4, 8, 900, 2)
    """
    opening, closing = data.find(b"("), data.rfind(b")")
    words = data[closing + 2 :].split(None, 25)
    try:
        flags = int(words[6])
        return Stat(
            int(data[:opening]),
            data[opening + 1 : closing],
            chr(words[0][0]),
            int(words[1]),
            int(words[2]),
            int(words[3]),
            _sum(words[11], words[12]),
            _sum(words[13], words[14]),
            int(words[17]),
            int(words[19]),
            whole(words[21]),
            b"%b/%d" % (words[23] if len(words) > 23 else b"", flags & _FORKED_ONLY),
        )
    except (ValueError, IndexError) as error:
        raise ProcError(f"expected the fields of /proc/<pid>/stat, got {data[:80]!r}") from error


def _sum(first: bytes, second: bytes) -> int | None:
    total = int(first) + int(second)
    return total if 0 <= total < MISREAD and first[0] != 45 and second[0] != 45 else None


class Resident(NamedTuple):
    """Resident memory of one process in bytes, by what backs it."""

    anonymous: int
    file: int
    shared: int

    @property
    def total(self) -> int:
        return self.anonymous + self.file + self.shared


_PARTS = (b"\nRssAnon:", b"\nRssFile:", b"\nRssShmem:")


def parse_status(data: bytes) -> Resident | None:
    """The split of resident memory in /proc/<pid>/status; None before Linux 4.5 and for zombies.

    >>> parse_status(b"Name:\\tvllm\\nVmRSS:\\t 10 kB\\nRssAnon:\\t 6 kB\\nRssFile:\\t 3 kB\\nRssShmem:\\t 1 kB\\n")
    Resident(anonymous=6144, file=3072, shared=1024)
    """
    found = []
    for name in _PARTS:
        _, there, rest = data.partition(name)
        words = rest[:40].split(None, 1)
        number = whole(words[0]) if there and words else None
        if number is None:
            return None
        found.append(number * 1024)
    return Resident(*found)


def parse_smaps_rollup(data: bytes) -> int | None:
    """Proportional set size in bytes: each page is shared out among the processes that map it.

    >>> parse_smaps_rollup(b"5581-7ffd ---p 00000000 00:00 0 [rollup]\\nRss: 900 kB\\nPss: 884 kB\\nPss_Anon: 1 kB\\n")
    905216
    """
    _, there, rest = data.partition(b"\nPss:")
    words = rest[:40].split(None, 1)
    number = whole(words[0]) if there and words else None
    return None if number is None else number * 1024


def parse_cmdline(data: bytes) -> list[str]:
    """Arguments from /proc/<pid>/cmdline; a title that was written over them is one argument.

    >>> parse_cmdline(b"vllm\\0serve\\0m\\0"), parse_cmdline(b"VLLM::Worker       \\0\\0")
    (['vllm', 'serve', 'm'], ['VLLM::Worker'])
    """
    words = data.rstrip(b"\0 ").split(b"\0")
    return [word.decode("utf-8", "replace") for word in words] if words != [b""] else []


def parse_environ(data: bytes, names: Iterable[str]) -> dict[str, str]:
    """The named variables of /proc/<pid>/environ; all others are ignored.

    >>> parse_environ(b"HF_TOKEN=secret\\0PORT=80\\0EMPTY=\\0", ["PORT", "EMPTY", "HOST"])
    {'PORT': '80', 'EMPTY': ''}
    """
    found = {}
    wanted = set(names)
    for entry in data.split(b"\0"):
        name, equals, value = entry.partition(b"=")
        text = name.decode("utf-8", "replace")
        if equals and text in wanted:
            found[text] = value.decode("utf-8", "replace")
    return found
