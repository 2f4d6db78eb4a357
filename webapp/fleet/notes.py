"""Notes of admins on nodes: that one drains, and why. Few and small, so they lie in one JSON file, written whole."""

from __future__ import annotations

import json
import logging
import threading
from pathlib import Path
from typing import NamedTuple

from webapp import whole_file
from webapp.fields import printable

log = logging.getLogger(__name__)

LONGEST_NOTE = 200


class Note(NamedTuple):
    """Why a node drains, who said so, and when (Unix time)."""

    text: str
    by: str
    at: float


class Notes:
    """Notes by node; kept in memory alone without a path. A file that can't be read is set aside, never overwritten."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._notes: dict[str, Note] = self._read()

    def get(self, node: str) -> Note | None:
        return self._notes.get(node)

    def set(self, node: str, note: Note | None) -> None:
        """Keeps a note, or removes the one that is there. What can't be written is logged and kept in memory."""
        with self._lock:
            notes = {name: known for name, known in self._notes.items() if name != node}
            if note is not None:
                notes[node] = note
            if notes == self._notes:
                return
            self._notes = notes
            self._write()

    def _read(self) -> dict[str, Note]:
        if self._path is None:
            return {}
        try:
            found = json.loads(self._path.read_text("utf-8"))
            return {
                str(node): Note(printable(str(text))[:LONGEST_NOTE], printable(str(by))[:100], float(at))
                for node, (text, by, at) in found.items()
            }
        except FileNotFoundError:
            return {}
        except OSError as error:
            log.error("%s: cannot be read: %s", self._path, error.strerror)
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            log.error("%s: not a file of notes (%s); it is set aside", self._path, error)
            try:
                self._path.replace(self._path.with_suffix(".corrupt"))
            except OSError as refusal:
                log.error("%s: cannot be set aside: %s", self._path, refusal.strerror)
        return {}

    def _write(self) -> None:
        if self._path is None:
            return
        try:
            whole_file.replace(self._path, json.dumps(self._notes, indent=1))
        except OSError as error:
            log.error("%s: notes cannot be written: %s", self._path, error.strerror)
