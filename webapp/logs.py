"""The log: one event a line, whatever a name holds; as text or as JSON.

Names and errors come from nodes that are not trusted. In text every character that a terminal would obey is written as
an escape, and the further lines of a traceback are indented, so that no line can pretend to be another event.

Runs on nodes: standard library only, CPython 3.9 and later.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import Any

#: A longer event is cut.
LONGEST_EVENT = 8_000


def plain(text: str) -> str:
    r"""Text without line breaks, escape codes and marks that turn the direction of reading.

    >>> print(plain("a\nb \x1b[31mred\x1b[0m \u202etxt.exe\ud800 é模"))
    a\nb \x1b[31mred\x1b[0m \u202etxt.exe\ud800 é模
    """
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in text)


class _Text(logging.Formatter):
    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        first, *rest = super().format(_cut(record)).split("\n")
        return "\n".join([first, *(f"  | {plain(line)}" for line in rest)])

    def formatMessage(self, record: logging.LogRecord) -> str:
        record.message = plain(record.message)
        return super().formatMessage(record)


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        event: dict[str, Any] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _cut(record).getMessage(),
        }
        if record.exc_info:
            event["exception"] = self.formatException(record.exc_info)[-LONGEST_EVENT:]
        return json.dumps(event, ensure_ascii=True)


def _cut(record: logging.LogRecord) -> logging.LogRecord:
    message = record.getMessage()
    if len(message) > LONGEST_EVENT:
        record.msg, record.args = message[:LONGEST_EVENT] + " ...", ()
    return record


def start(level: str, style: str = "text") -> None:
    """Log to standard error from now on: `level` and everything above it, as "text" or "json"."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Json() if style == "json" else _Text())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
