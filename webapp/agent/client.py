"""JSON over HTTP, in bounded time and size: how resource agents and control planes are asked."""

from __future__ import annotations

import http.client
import json
import socket
from pathlib import Path
from typing import Any, NamedTuple

from webapp import __version__, json_object
from webapp.agent.answers import without_secrets
from webapp.agent.connection import TokenUnusable, ended_after, target, token
from webapp.agent.lines import one_line
from webapp.settings import SettingError

#: Longer answers are given up.
LARGEST_ANSWER = 1024 * 1024


class Unanswered(Exception):
    """No usable answer. The message is one line, for the operator; it names no secret."""


class Reply(NamedTuple):
    """A status, and the JSON object that came with it; {} where none did."""

    status: int
    content: dict[str, Any]


class Client:
    """Asks one server. Safe to use from many threads: each request has a connection of its own."""

    def __init__(self, base: str, timeout_s: float, token_file: Path | None = None) -> None:
        """`base`: its address, with a path in front of the paths asked for if need be. `timeout_s` is for all of a request."""
        self.base = base.rstrip("/")
        #: As logs may show it.
        self.name = without_secrets(self.base)
        self.timeout_s = timeout_s
        self._token_file = token_file

    def get(self, path: str) -> Reply:
        """Raises Unanswered."""
        return self._ask("GET", path, None)

    def post(self, path: str, content: dict[str, Any]) -> Reply:
        """Raises Unanswered."""
        return self._ask("POST", path, json.dumps(content, separators=(",", ":"), allow_nan=False).encode())

    def post_ok(self, path: str, content: dict[str, Any]) -> dict[str, Any]:
        """The answer to a request that the server took up, which may still say no. Raises Unanswered for all others."""
        reply = self.post(path, content)
        if reply.status == 200 and reply.content:
            return reply.content
        raise Unanswered(f"{self.name}{path} answered {described(reply)}")

    def _ask(self, method: str, path: str, body: bytes | None) -> Reply:
        to = target(self.base + path)
        headers = {
            "Host": to.authority,
            "Accept": "application/json",
            "User-Agent": f"enginehouse/{__version__}",
            "Connection": "close",
        }
        if body is not None:
            headers["Content-Type"] = "application/json"
        if self._token_file:
            try:
                headers["Authorization"] = "Bearer " + token(self._token_file)
            except TokenUnusable as error:
                raise Unanswered(str(error)) from error
        connection: http.client.HTTPConnection
        if to.scheme == "https":
            connection = http.client.HTTPSConnection(to.host, to.port, timeout=self.timeout_s)
        else:
            connection = http.client.HTTPConnection(to.host, to.port, timeout=self.timeout_s)
        try:
            with ended_after(connection, self.timeout_s):
                connection.request(method, to.path, body, headers)
                answer = connection.getresponse()
                return Reply(answer.status, json_object.read(answer.read(LARGEST_ANSWER)) or {})
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise Unanswered(f"{self.name} {self._reason(error)}") from error

    def _reason(self, error: Exception) -> str:
        if isinstance(error, (socket.timeout, TimeoutError)):
            return f"did not answer within {self.timeout_s:g} s"
        if isinstance(error, http.client.RemoteDisconnected):
            return "closed the connection without an answer"
        return "cannot be asked: " + one_line(getattr(error, "strerror", None) or str(error) or type(error).__name__)


def described(reply: Reply) -> str:
    """A reply in a few words: `503 not_ready`."""
    error = reply.content.get("error")
    return one_line(
        f"{reply.status} {error}" if isinstance(error, str) else f"{reply.status}" + ("" if reply.content else ", not JSON")
    )


def checked(url: str, flag: str) -> str:
    """The address, if it is one. Raises SettingError."""
    try:
        target(url)
    except ValueError as error:
        raise SettingError(f"{flag}={without_secrets(url)}: {error}") from error
    return url
