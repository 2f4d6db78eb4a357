"""Small files that are written whole: a reader, or a crash at any time, finds the old one or the new one."""

from __future__ import annotations

import os
from pathlib import Path


def replace(path: Path, text: str) -> None:
    """Write `text` as UTF-8 to the disk, then put it in the place of what is there. Raises OSError."""
    fresh = path.with_suffix(".new")
    with fresh.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
