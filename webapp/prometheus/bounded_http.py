"""HTTP connections that end in time, for requests.

A timeout of a socket runs anew with each byte, so that a server that sends one now and then could hold a thread
for ever. Here each exchange has one time limit, and its connection is shut when that is over.
"""

from __future__ import annotations

import socket
import threading
from typing import Any

import requests.adapters
import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection


class _Bounded:
    """A connection that is shut when its time is over, unless `watch` of the response is cancelled before."""

    sock: socket.socket | None
    timeout: float | None

    def getresponse(self) -> Any:
        sock = self.sock
        watch = threading.Timer(self.timeout or 60.0, lambda: _shut(sock))
        watch.daemon = True
        watch.start()
        try:
            response = super().getresponse()  # type: ignore[misc]
        except BaseException:
            watch.cancel()
            raise
        response.watch = watch
        return response


def _shut(sock: socket.socket | None) -> None:
    try:
        if sock is not None:
            sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # it is closed already


class _BoundedHTTPConnection(_Bounded, HTTPConnection):
    pass


class _BoundedHTTPSConnection(_Bounded, HTTPSConnection):
    pass


class _BoundedHTTPPool(urllib3.HTTPConnectionPool):
    ConnectionCls = _BoundedHTTPConnection


class _BoundedHTTPSPool(urllib3.HTTPSConnectionPool):
    ConnectionCls = _BoundedHTTPSConnection


class BoundedAdapter(requests.adapters.HTTPAdapter):
    """Shuts the connection once the read timeout has passed since the request was sent.

    Whoever reads an answer to its end cancels `response.raw.watch`, before the connection is used again.
    """

    def init_poolmanager(self, *arguments: Any, **options: Any) -> None:
        super().init_poolmanager(*arguments, **options)
        self.poolmanager.pool_classes_by_scheme = {"http": _BoundedHTTPPool, "https": _BoundedHTTPSPool}
