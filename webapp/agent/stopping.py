"""Signals as bytes to read, since a handler that locks or logs could interrupt itself."""

from __future__ import annotations

import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

STOPPING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def _nothing(number: int, frame: FrameType | None) -> None:
    """The number is in the socket already."""


@contextmanager
def signals(*numbers: signal.Signals) -> Iterator[socket.socket]:
    """A socket from which one byte, its number, can be read for each signal that came.

    Without `numbers`: SIGTERM, SIGINT, SIGHUP. Only in the main thread.
    """
    reading, writing = socket.socketpair()
    reading.setblocking(False)
    writing.setblocking(False)
    before: dict[Any, Any] = {number: signal.signal(number, _nothing) for number in numbers or STOPPING}
    earlier = signal.set_wakeup_fd(writing.fileno(), warn_on_full_buffer=False)
    try:
        yield reading
    finally:
        signal.set_wakeup_fd(earlier)
        for number, handler in before.items():
            signal.signal(number, handler)
        reading.close()
        writing.close()
