"""A program with everything that it starts: the leader of a process group of its own, stopped as a whole."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from typing import Callable

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True)

#: Seconds between two looks whether a group that was told to stop has done so.
_LOOK_SECONDS = 0.05

#: Seconds after which a killed leader is given up.
_KILLED_WITHIN_SECONDS = 5.0


def _end_with_parent() -> None:
    """Runs in the child: the kernel ends the leader when our thread is gone, even by SIGKILL. prctl(2)"""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


class ProcessGroup:
    """A started program. The leader is not reaped before its group was stopped, so that its number stays its own."""

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str] | None = None, directory: str | None = None
    ) -> None:
        """Starts it; to be called from the main thread, with which it ends. Raises OSError."""
        self._process = subprocess.Popen(
            list(command),
            env=None if environment is None else dict(environment),
            cwd=directory,
            start_new_session=True,
            preexec_fn=_end_with_parent,
        )
        self.pid = self._process.pid
        self._code: int | None = None

    def poll(self) -> int | None:
        """The leader's exit code as a shell gives it, 128 + signal included; None while it runs."""
        if self._code is None:
            ended = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if ended is not None:
                by_itself = ended.si_code == os.CLD_EXITED
                self._code = ended.si_status if by_itself else 128 + ended.si_status
        return self._code

    def stop(
        self,
        patience_s: float,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        wait: Callable[[float], object] = time.sleep,
    ) -> int:
        """SIGTERM to the group, SIGKILL to what is left of it after `patience_s`; the leader's exit code.

        `wait` may return True for: don't wait any longer.
        """
        until = monotonic() + patience_s
        self._signal(signal.SIGTERM)
        while not self._is_empty():
            if monotonic() >= until or wait(_LOOK_SECONDS) is True:
                self._signal(signal.SIGKILL)
                break
        try:
            code = self._process.wait(_KILLED_WITHIN_SECONDS)
        except subprocess.TimeoutExpired:  # the kernel holds it, in an I/O that does not end
            code = -signal.SIGKILL
        return code if code >= 0 else 128 - code

    def _signal(self, number: int) -> None:
        try:
            os.killpg(self.pid, number)
        except (ProcessLookupError, PermissionError):
            pass  # nobody is left, or only what changed its user

    def _is_empty(self) -> bool:
        """Whether nobody but the ended leader is left."""
        return self.poll() is not None and not any(_runs(pid) for pid in self._members())

    def _members(self) -> list[int]:
        found = []
        for name in os.listdir("/proc"):
            if name.isdigit():
                try:
                    if int(name) != self.pid and os.getpgid(int(name)) == self.pid:
                        found.append(int(name))
                except (ProcessLookupError, PermissionError):
                    continue
        return found


def _runs(pid: int) -> bool:
    """False for a zombie, which its parent has only to take notice of."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read(4096).rpartition(b")")[2].split()[:1] not in ([b"Z"], [b"X"])
    except OSError:
        return False
