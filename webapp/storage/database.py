"""One SQLite file that one process owns: locked, opened, set aside when it is damaged, never overwritten."""

from __future__ import annotations

import fcntl
import logging
import os
import sqlite3
import time
from pathlib import Path
from typing import IO

log = logging.getLogger(__name__)

#: The file's user_version; raised with each change of SCHEMA.
VERSION = 1

SCHEMA = """
CREATE TABLE nodes (
    id INTEGER PRIMARY KEY AUTOINCREMENT,  -- never used twice: samples of a forgotten node may outlive it for a while
    name TEXT NOT NULL UNIQUE,
    first_heard REAL NOT NULL,             -- Unix time
    heard REAL NOT NULL,                   -- Unix time
    boot TEXT NOT NULL,                    -- boot of the machine that heard
    boottime REAL NOT NULL,                -- its CLOCK_BOOTTIME
    measured REAL NOT NULL,                -- Unix time
    message BLOB NOT NULL                  -- heartbeat_v1
) STRICT;
CREATE TABLE forgotten (node INTEGER PRIMARY KEY) STRICT;

CREATE TABLE tables (id INTEGER PRIMARY KEY, columns TEXT NOT NULL UNIQUE) STRICT;
CREATE TABLE layouts (
    id INTEGER PRIMARY KEY,
    "table" INTEGER NOT NULL,
    items TEXT NOT NULL,
    used REAL NOT NULL,                    -- Unix time, to the hour
    UNIQUE ("table", items)
) STRICT;
CREATE TABLE samples (
    id INTEGER PRIMARY KEY,
    node INTEGER NOT NULL,
    time REAL NOT NULL,                    -- Unix time of the measurement
    layout INTEGER NOT NULL,
    numbers BLOB NOT NULL                  -- see samples.py
) STRICT;
CREATE INDEX samples_by_node ON samples (node, time);
CREATE TABLE runs (                        -- a node's samples have this layout from then on
    node INTEGER NOT NULL,
    since REAL NOT NULL,
    layout INTEGER NOT NULL,
    PRIMARY KEY (node, since)
) STRICT, WITHOUT ROWID;

CREATE TABLE listening (
    id INTEGER PRIMARY KEY,
    start REAL NOT NULL,
    "end" REAL NOT NULL,
    before TEXT NOT NULL                   -- why nothing was kept before the start
) STRICT;
"""

#: Looking for damage when the file is opened ends after this long.
CHECK_SECONDS = 2.0


class StoreUnusable(Exception):
    """Nothing can be kept in this directory. The message is one line, for the operator."""


def own(path: Path) -> IO[str]:
    """Makes the file's directory and locks the file for this process, until what comes back is closed.

    Raises StoreUnusable.
    """
    directory = path.parent
    try:
        directory.mkdir(parents=True, exist_ok=True)
        lock = path.with_name(path.name + ".lock").open("a+", encoding="utf-8", errors="replace")
    except OSError as error:
        raise StoreUnusable(f"data directory {directory}: cannot be written: {error.strerror}") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        lock.truncate(0)
        lock.write(f"{os.getpid()}\n")
        lock.flush()
    except BlockingIOError as error:
        lock.seek(0)
        owner = lock.read(20).strip()
        lock.close()
        process = f" (process {owner})" if owner.isdecimal() else ""
        raise StoreUnusable(f"data directory {directory}: in use by another control plane{process}") from error
    except OSError as error:
        lock.close()
        raise StoreUnusable(f"data directory {directory}: cannot be written: {error.strerror}") from error
    return lock


def open_for_writing(path: Path | None) -> tuple[sqlite3.Connection, str | None]:
    """The database, with its schema, and what the operator must be told about it; None opens one in memory.

    A file that is damaged, or that a later version has written, is set aside. Raises StoreUnusable.
    """
    try:
        return _open(path), None
    except sqlite3.DatabaseError as error:
        if path is None or _is_trouble_of_the_disk(error):
            raise StoreUnusable(f"{path}: cannot be opened: {reason(error)}") from error
        notice = set_aside(path, reason(error))
    try:
        return _open(path), notice
    except sqlite3.Error as error:
        raise StoreUnusable(f"{path}: cannot be created: {reason(error)}") from error


def open_for_reading(path: Path) -> sqlite3.Connection:
    """A connection that cannot write; it may be closed by another thread than the one that uses it."""
    connection = sqlite3.connect(
        path.absolute().as_uri() + "?mode=ro", uri=True, isolation_level=None, timeout=1.0, check_same_thread=False
    )
    connection.execute("PRAGMA query_only = ON")
    return connection


def _open(path: Path | None) -> sqlite3.Connection:
    connection = sqlite3.connect(path or ":memory:", isolation_level=None, timeout=1.0, check_same_thread=False)
    try:
        _prepare(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _prepare(connection: sqlite3.Connection) -> None:
    connection.executescript(
        # Readers never wait for the writer. NORMAL: a commit reaches the kernel, and so outlives this process;
        # fsync comes with each checkpoint, so that a power cut may cost the last minute but never the file.
        "PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;"
        "PRAGMA wal_autocheckpoint = 4000; PRAGMA journal_size_limit = 33554432; PRAGMA cache_size = -16384;"
        # Debian's SQLite overwrites what it deletes with zeros, which doubles the writing for nothing here.
        "PRAGMA secure_delete = OFF; PRAGMA temp_store = MEMORY;"
    )
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version > VERSION:
        raise sqlite3.DatabaseError(f"written by a later version of the program (schema {version}; this one knows {VERSION})")
    if version == 0:
        connection.executescript(f"BEGIN IMMEDIATE; {SCHEMA} PRAGMA user_version = {VERSION}; COMMIT;")
        return
    until = time.monotonic() + CHECK_SECONDS
    connection.set_progress_handler(lambda: time.monotonic() > until, 10_000)
    try:
        (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:
            raise
    else:
        if found != "ok":
            raise sqlite3.DatabaseError(f"damaged: {found}")
    finally:
        connection.set_progress_handler(None, 0)


def set_aside(path: Path, why: str) -> str:
    """Renames the file and what belongs to it. Returns what the operator must know."""
    aside = path.with_name(f"{path.name}.corrupt-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}")
    number = 1
    while aside.exists():
        number += 1
        aside = aside.with_name(f"{aside.name.partition('Z')[0]}Z-{number}")
    try:
        for suffix in ("-wal", "-shm", ""):
            part = path.with_name(path.name + suffix)
            if part.exists():
                part.rename(aside.with_name(aside.name + suffix))
    except OSError as error:
        raise StoreUnusable(f"{path}: {why}, and it cannot be set aside: {error.strerror}") from error
    log.error("%s could not be used (%s); it was set aside as %s", path, why, aside.name)
    return f"The history was started anew: {path.name} could not be used ({why}). It was set aside as {aside.name}."


_REASONS = {
    "SQLITE_FULL": "the disk is full",
    "SQLITE_READONLY": "it is read-only",
    "SQLITE_IOERR": "the disk refuses",
    "SQLITE_CANTOPEN": "the file cannot be opened",
    "SQLITE_NOTADB": "not a database",
    "SQLITE_CORRUPT": "damaged",
    "SQLITE_BUSY": "another process holds it",
}


def reason(error: sqlite3.Error) -> str:
    """What went wrong, for the operator."""
    name = getattr(error, "sqlite_errorname", "")
    return next((text for code, text in _REASONS.items() if name.startswith(code)), str(error))


def _is_trouble_of_the_disk(error: sqlite3.Error) -> bool:
    """Whether the file may well be good, and only cannot be used now."""
    return isinstance(error, sqlite3.OperationalError)


def is_damage(error: sqlite3.Error) -> bool:
    """Whether the file's content is at fault."""
    return getattr(error, "sqlite_errorname", "").startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB"))
