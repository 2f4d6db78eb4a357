"""Small files that are written whole: a reader, or a crash at any time, finds the old one or the new one."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def replace(path: Path, text: str) -> None:
    """Write `text` as UTF-8 to the disk, then put it in the place of what is there. Raises OSError."""
    fresh = path.with_suffix(".new")
    _write(fresh, text, 0o666)
    fresh.replace(path)


def create(path: Path, text: str, mode: int) -> None:
    """Put `text` there as UTF-8, unless there is a file already: also one that another process makes meanwhile stays.

    Its directory is made too. Raises OSError; a disk that is full leaves nothing behind.
    """
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        _write(fresh, text, mode)
        try:
            os.link(fresh, path)
        except FileExistsError:
            return
        except OSError:  # a file system without hard links
            fresh.replace(path)
    finally:
        with contextlib.suppress(OSError):
            fresh.unlink()


def _write(path: Path, text: str, mode: int) -> None:
    """To the disk, with the bits of `mode` that the umask leaves where the file is new."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
