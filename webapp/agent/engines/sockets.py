"""Who listens on a TCP port of this network namespace."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from webapp.agent.machine.proc import read_or_empty

_LISTEN = b"0A"


def parse_listeners(data: bytes, port: int) -> set[int]:
    """Inodes of the sockets that listen on `port`, from /proc/net/tcp or tcp6.

    >>> header = b"  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\\n"
    >>> parse_listeners(header + b"   0: 0100007F:1F40 00000000:0000 0A 0:0 00:0 0     0        0 4711 1\\n", 8000)
    {4711}
    """
    wanted = b":%04X" % port
    found = set()
    for line in data.split(b"\n"):
        words = line.split()
        if len(words) > 9 and words[3] == _LISTEN and words[1].endswith(wanted) and words[9].isdigit():
            found.add(int(words[9][:19]))
    return found


def listeners(proc: Path, port: int) -> set[int]:
    """Inodes of the sockets that listen on `port` here."""
    found = set()
    for name in ("tcp", "tcp6"):
        # Listening sockets come first in these files, so the bound costs no listener.
        found |= parse_listeners(read_or_empty(proc / "net" / name, 1024 * 1024), port)
    return found


def holders(proc: Path, pids: Iterable[int], inodes: set[int]) -> list[int]:
    """Those of `pids` that hold one of the sockets open, where their descriptors may be read."""
    wanted = {f"socket:[{inode}]" for inode in inodes}
    return [pid for pid in pids if _holds(f"{proc}/{pid}/fd", wanted)]


def _holds(directory: str, wanted: set[str]) -> bool:
    try:
        for name in os.listdir(directory):
            try:
                if os.readlink(f"{directory}/{name}") in wanted:
                    return True
            except OSError:
                continue  # closed meanwhile
    except OSError:
        pass  # gone, or another user's
    return False
