"""Who the agent is: a UUID kept on the node's disk, so that a node keeps its history whatever it is called."""

from __future__ import annotations

import os
import re
from pathlib import Path

from webapp.settings import SettingError, shown

_FILE = "agent-id"

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def new_uuid() -> str:
    """A random UUID, made by the kernel. https://man7.org/linux/man-pages/man4/random.4.html"""
    return Path("/proc/sys/kernel/random/uuid").read_text("ascii").strip()


def agent_id(data_dir: Path) -> str:
    """The UUID in `data_dir`, made at the first call. Raises SettingError, which names the file."""
    path = data_dir / _FILE
    try:
        return _read(path)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise SettingError(f"{path}: cannot be read: {error.strerror}") from error
    try:
        data_dir.mkdir(parents=True, exist_ok=True)
        return _make(path)
    except OSError as error:
        raise SettingError(
            f"data_dir={data_dir}: cannot be written: {error.strerror}; the agent keeps its identity there"
        ) from error


def _read(path: Path) -> str:
    with path.open("rb") as file:
        text = file.read(256).decode("utf-8", "replace").strip()
    if not _UUID.fullmatch(text.lower()):
        raise SettingError(f"{path}: expected a UUID, got {shown(text)}; once the file is removed, the node gets a new identity")
    return text.lower()


def _make(path: Path) -> str:
    """Writes a new UUID; if another process is faster, its UUID is taken. Never leaves half a file."""
    made = new_uuid()
    beside = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        with beside.open("w", encoding="ascii") as file:
            file.write(made + "\n")
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(beside, path)
        except FileExistsError:
            return _read(path)
        except OSError:  # a file system without hard links
            os.replace(beside, path)
            return made
    finally:
        beside.unlink(missing_ok=True)
    return made
