"""At which address the site is and who asks, as far as proxies are trusted: what happens to a request before Flask sees it.

Forwarded headers are believed for `hops` proxies, counted from us; those of anyone else are dropped. A sub-path comes
from X-Forwarded-Prefix (the proxy strips it) or from `base_path` (it doesn't). The token of an embed link is at
the start of the path and becomes part of the site's root, so that every address which is made carries it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from werkzeug.middleware.proxy_fix import ProxyFix

from webapp.embedding import MOUNT

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

#: In the environment: the token of the embed link; "yes" where forwarded headers were dropped; the address of the
#: connection's other end; the root without the token.
TOKEN, DROPPED, PEER, ROOT = (f"enginehouse.{name}" for name in ("embed_token", "dropped", "peer", "root"))

_FORWARDED = (
    "HTTP_FORWARDED",
    *(f"HTTP_X_FORWARDED_{name}" for name in ("FOR", "PROTO", "HOST", "PORT", "PREFIX", "BY", "SERVER")),
)
_SEGMENTS = re.compile(r"(/[A-Za-z0-9._~-]+)*")
_LONGEST_PREFIX = 200

_LABEL = r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,62})"
_HOST = re.compile(rf"({_LABEL}(\.{_LABEL})*\.?|\[[0-9A-Fa-f:.]+\])?(:[0-9]{{1,5}})?")


def prefix(given: str) -> str | None:
    """A sub-path with a slash before it and none after; None for what is no path.

    >>> prefix("/a/b/llm"), prefix("a/b/llm/"), prefix("/"), prefix("")
    ('/a/b/llm', '/a/b/llm', '', '')
    >>> prefix("//evil.example"), prefix('"><script>'), prefix("/a/../b"), prefix("https://evil.example")
    (None, None, None, None)
    """
    given = given.strip()
    if given in ("", "/"):
        return ""
    path = (given if given.startswith("/") else "/" + given).removesuffix("/")
    usable = len(path) <= _LONGEST_PREFIX and _SEGMENTS.fullmatch(path) and not {".", ".."} & set(path.split("/"))
    return path if usable else None


class Forwarding:
    """A WSGI application around another."""

    def __init__(self, application: WSGIApplication, hops: int = 0, base_path: str = "") -> None:
        self._application = application
        self._base = base_path
        self._hops = hops
        self._fixed = ProxyFix(self._place, x_for=hops, x_proto=hops, x_host=hops, x_port=0, x_prefix=0) if hops else self._place

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        environ[PEER] = environ.get("REMOTE_ADDR", "")
        if not is_host(environ.get("HTTP_HOST", "")):
            return _refused("400 Bad Request", "The Host header is not a host name.", start_response)
        if not self._hops:
            for name in _FORWARDED:
                if environ.pop(name, None) is not None:
                    environ[DROPPED] = "yes"
        return self._fixed(environ, start_response)

    def _place(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        if not is_host(environ.get("HTTP_HOST", "")):  # a proxy's X-Forwarded-Host
            environ["HTTP_HOST"] = environ["SERVER_NAME"]
        if environ.get("wsgi.url_scheme") not in ("http", "https"):
            environ["wsgi.url_scheme"] = "http"
        if self._base and not _move(environ, self._base):
            environ["SCRIPT_NAME"] = self._base
            return _refused("404 Not Found", f"Enginehouse serves below {self._base}/ here.", start_response)
        given = prefix(_nth_last(environ.pop("HTTP_X_FORWARDED_PREFIX", ""), self._hops)) if self._hops else ""
        if given and not _move(environ, given):  # else the proxy sent the prefix and left it in the path
            environ["SCRIPT_NAME"] = environ.get("SCRIPT_NAME", "") + given
        environ[ROOT] = environ.get("SCRIPT_NAME", "")
        path = environ.get("PATH_INFO", "")
        if path.startswith(MOUNT):
            token, slash, _ = path.removeprefix(MOUNT).partition("/")
            if token and slash:
                _move(environ, MOUNT + token)
                environ[TOKEN] = token
        return self._application(environ, start_response)


def _move(environ: WSGIEnvironment, root: str) -> bool:
    """Takes `root` from the path to the script's name; False if the path doesn't lie below it."""
    path = environ.get("PATH_INFO", "")
    if path != root and not path.startswith(root + "/"):
        return False
    environ["SCRIPT_NAME"] = environ.get("SCRIPT_NAME", "") + root
    environ["PATH_INFO"] = path.removeprefix(root) or "/"
    return True


def _nth_last(values: str, number: int) -> str:
    """The value that the outermost trusted proxy gave.

    >>> _nth_last("/spoofed, /a", 1), _nth_last("/a", 2), _nth_last("", 1)
    ('/a', '', '')
    """
    found = values.split(",")
    return found[-number].strip() if len(found) >= number else ""


def is_host(text: str) -> bool:
    """Whether a header Host names a host, with a port perhaps; an empty one names none, which HTTP/1.0 allows.

    >>> [is_host(text) for text in ("house.example:8765", "[::1]:80", "my_service", "")]
    [True, True, True, True]
    >>> [is_host(text) for text in (".", "a..b", "a/b", "x" * 64, "[::1", "a:b")]
    [False, False, False, False, False, False]
    """
    return len(text) <= 300 and _HOST.fullmatch(text) is not None


def _refused(status: str, message: str, start_response: Any) -> Iterable[bytes]:
    headers = [("Content-Type", "text/plain; charset=utf-8"), ("X-Content-Type-Options", "nosniff")]
    headers += [("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'"), ("Cache-Control", "no-store")]
    headers += [("Referrer-Policy", "same-origin")]
    start_response(status, headers)
    return [f"{message}\n".encode()]
