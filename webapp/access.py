"""Who may do what: tokens that are read from files, and how often a wrong one may be tried.

A token file holds one token a line; "#" begins a comment. Text after the token, separated by blanks, names the one
node that it is for. Several tokens are valid at once, so that one is replaced without a pause: add the new one,
change its users, remove the old one. The file is read anew when it changes. No token is kept in memory, only its
keyed digest.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import logging
import os
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from webapp import whole_file

log = logging.getLogger(__name__)

#: A shorter token could be guessed.
SHORTEST_TOKEN = 16
LONGEST_TOKEN = 512

#: A larger file is not a token file.
LARGEST_FILE_BYTES = 4 * 1024 * 1024

#: Seconds between two checks for a change of a token file.
LOOK_SECONDS = 1.0


class AccessUnusable(Exception):
    """A file with secrets can't be used. The message is one line, for the operator, and holds no secret."""


class Holder(NamedTuple):
    """Whom a token belongs to."""

    #: Keyed digest of the token: names it in sessions without revealing it.
    digest: str
    #: The one node that it is for; "" for any.
    node: str


class TokenFile:
    """The tokens of one kind of caller. Raises AccessUnusable when it is made; later it keeps the last good content."""

    def __init__(self, path: Path, key: bytes, clock: Callable[[], float] = time.monotonic) -> None:
        """`key` makes the digests: a caller who doesn't know it learns nothing from how long a look-up takes."""
        self._path = path
        self._key = key
        self._clock = clock
        self._lock = threading.Lock()
        self._added: dict[str, Holder] = {}
        self._problem = ""
        self._looked = clock()
        self._stamp = self._stamped()
        self._holders = self._read()

    def __repr__(self) -> str:
        return f"TokenFile({str(self._path)!r})"

    def holder(self, token: str) -> Holder | None:
        """Whose token it is, None if nobody's."""
        return self.known(self._digest(token)) if len(token) <= LONGEST_TOKEN else None

    def known(self, digest: str) -> Holder | None:
        """The holder of a token by its digest, None once the token is no longer in the file."""
        self._look()
        return self._holders.get(digest) or self._added.get(digest)

    def add(self, token: str) -> None:
        """Accepts one more token, which is in no file."""
        digest = self._digest(token)
        self._added[digest] = Holder(digest, "")

    def _digest(self, token: str) -> str:
        return hmac.new(self._key, b"token\0" + token.encode("utf-8", "replace"), hashlib.sha256).hexdigest()

    def _look(self) -> None:
        with self._lock:
            now = self._clock()
            if now - self._looked < LOOK_SECONDS:
                return
            self._looked = now
            try:
                stamp = self._stamped()
                if stamp == self._stamp and not self._problem:
                    return
                self._holders, self._stamp = self._read(), stamp
            except AccessUnusable as error:
                if str(error) != self._problem:
                    log.error("%s; the tokens read before stay valid", error)
                self._problem = str(error)
            else:
                log.info("%s was read again: %d tokens", self._path, len(self._holders))
                self._problem = ""

    def _stamped(self) -> tuple[int, int, int]:
        try:
            found = self._path.stat()
        except OSError as error:
            raise AccessUnusable(f"{self._path}: cannot be read: {error.strerror}") from error
        return found.st_mtime_ns, found.st_size, found.st_ino

    def _read(self) -> dict[str, Holder]:
        try:
            with self._path.open("rb") as file:
                content = file.read(LARGEST_FILE_BYTES + 1)
                mode = os.fstat(file.fileno()).st_mode
            text = content.decode("utf-8")
        except OSError as error:
            raise AccessUnusable(f"{self._path}: cannot be read: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise AccessUnusable(f"{self._path}: expected UTF-8 text, one token a line") from error
        if len(content) > LARGEST_FILE_BYTES:
            raise AccessUnusable(f"{self._path}: larger than {LARGEST_FILE_BYTES} bytes")
        if mode & 0o004:
            log.warning("%s can be read by every user of this machine; chmod 600 keeps it secret", self._path)
        holders = {}
        for number, (token, node) in _entries(text):
            if not SHORTEST_TOKEN <= len(token) <= LONGEST_TOKEN or not (token.isascii() and token.isprintable()):
                raise AccessUnusable(
                    f"{self._path}: line {number}: expected a token of {SHORTEST_TOKEN} to {LONGEST_TOKEN} printable ASCII "
                    f"characters, got {len(token)} characters"
                )
            digest = self._digest(token)
            holders[digest] = Holder(digest, node)
        if not holders:
            raise AccessUnusable(f"{self._path}: holds no token; expected one a line")
        return holders


def _entries(text: str) -> list[tuple[int, tuple[str, str]]]:
    """Line number, token and node of each line that holds a token.

    >>> _entries("# agents\\nabc\\n\\n  def  cpu 07 \\n")
    [(2, ('abc', '')), (4, ('def', 'cpu 07'))]
    """
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split(None, 1)
        if words and not words[0].startswith("#"):
            found.append((number, (words[0], words[1].strip() if len(words) > 1 else "")))
    return found


def secret_key(path: Path | None) -> bytes:
    """The key that signs sessions and links: read from the file, which is made if it isn't there; a new one without a path.

    Raises AccessUnusable.
    """
    if path is None:
        return secrets.token_bytes(32)
    try:
        whole_file.create(path, secrets.token_hex(32) + "\n", 0o600)
    except OSError as error:
        raise AccessUnusable(f"{path}: cannot be written: {error.strerror}") from error
    return existing_key(path)


def new_token(path: Path) -> str:
    """A token of our own, which replaces the one in the file. Raises AccessUnusable."""
    token = secrets.token_urlsafe(32)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_name(path.name + ".new")
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="ascii") as file:
            file.write(token + "\n")
        fresh.replace(path)
    except OSError as error:
        raise AccessUnusable(f"{path}: cannot be written: {error.strerror}") from error
    return token


def existing_key(path: Path) -> bytes:
    """The key in a file that is there already. Raises AccessUnusable."""
    try:
        with path.open("rb") as file:
            text = file.read(4096).strip()
    except OSError as error:
        raise AccessUnusable(f"{path}: cannot be read: {error.strerror}") from error
    if len(text) < 32:
        raise AccessUnusable(f"{path}: expected a key of at least 32 characters, got {len(text)}; without it a new one is made")
    return text


class Failures:
    """Who tried wrong tokens lately, by address. Bounded; safe to use from many threads."""

    def __init__(
        self,
        most: int = 10,
        within_s: float = 60.0,
        *,
        most_sources: int = 10_000,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._most = most
        self._within_s = within_s
        self._most_sources = most_sources
        self._clock = clock
        self._lock = threading.Lock()
        #: Address -> failures and the time at which they are forgiven; the last one to fail comes last.
        self._failed: OrderedDict[str, tuple[int, float]] = OrderedDict()

    def add(self, address: str) -> None:
        source, now = _source(address), self._clock()
        with self._lock:
            count, until = self._failed.pop(source, (0, 0.0))
            self._failed[source] = (count + 1, until) if now < until else (1, now + self._within_s)
            while len(self._failed) > self._most_sources:
                self._failed.popitem(last=False)

    def wait_s(self, address: str) -> float:
        """Seconds until an address may try again; 0 if it may now."""
        with self._lock:
            count, until = self._failed.get(_source(address), (0, 0.0))
            return max(0.0, until - self._clock()) if count >= self._most else 0.0


def _source(address: str) -> str:
    """What counts as one caller: an IPv4 address, or a network of IPv6, which one machine may own whole.

    >>> _source("192.0.2.7"), _source("2001:db8::1:2:3:4"), _source("")
    ('192.0.2.7', '2001:db8::/64', '')
    """
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address[:64]
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    if found.ipv4_mapped:
        return str(found.ipv4_mapped)
    return str(ipaddress.ip_network((found, 64), strict=False))
