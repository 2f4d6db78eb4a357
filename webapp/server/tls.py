"""TLS by the operator's own certificate, which is read again when its file changes."""

from __future__ import annotations

import logging
import ssl
import time
from dataclasses import dataclass, field
from pathlib import Path

log = logging.getLogger(__name__)

#: Seconds between two looks at the certificate's files.
LOOK_SECONDS = 10.0


class CannotListen(Exception):
    """The address or the certificate can't be used. The message is one line, for the operator."""


@dataclass
class Tls:
    """A certificate with its key. Raises CannotListen when it is made; later it keeps the last good one."""

    certificate: Path
    key: Path | None = None
    context: ssl.SSLContext = field(init=False)

    def __post_init__(self) -> None:
        self.context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self.context.options |= ssl.OP_NO_RENEGOTIATION
        self._stamp = self._load()
        self._looked = time.monotonic()

    def _load(self) -> tuple[int, ...]:
        files = [path for path in (self.certificate, self.key) if path]
        try:
            stamp = tuple(path.stat().st_mtime_ns for path in files)
            self.context.load_cert_chain(self.certificate, self.key, password=_no_password)
        except ssl.SSLError as error:
            shown = " and ".join(map(str, files))
            raise CannotListen(f"{shown}: not a certificate and its key: {error.reason or error}") from error
        except OSError as error:
            raise CannotListen(f"{error.filename or self.certificate}: cannot be read: {error.strerror or error}") from error
        except ValueError as error:
            raise CannotListen(f"{self.key or self.certificate}: {error}") from error
        return stamp

    def current(self) -> ssl.SSLContext:
        """For a new connection; the files are looked at now and then, since certificates are renewed."""
        now = time.monotonic()
        if now - self._looked > LOOK_SECONDS:
            self._looked = now
            try:
                if tuple(path.stat().st_mtime_ns for path in (self.certificate, self.key) if path) != self._stamp:
                    self._stamp = self._load()
                    log.info("%s was read again", self.certificate)
            except (OSError, CannotListen) as error:
                log.error("%s cannot be read again: %s; the certificate before stays", self.certificate, error)
        return self.context


def _no_password() -> str:
    raise ValueError("the key is protected by a password; expected one without")
