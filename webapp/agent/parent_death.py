"""Has the kernel end a program that we start when we are gone, even by SIGKILL."""

from __future__ import annotations

import ctypes
import os
import signal
from typing import Callable

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True)


def end_with_us() -> Callable[[], None]:
    """What the child is to run before its program (`preexec_fn`): SIGTERM comes when the thread that started it has ended.

    https://man7.org/linux/man-pages/man2/PR_SET_PDEATHSIG.2const.html
    """
    parent = os.getpid()

    def in_child() -> None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # gone before the kernel was told
            os._exit(1)

    return in_child
