"""Who asks: an agent or a program by its token, a person by a session, by a proxy's word or by an embed link."""

from __future__ import annotations

import ipaddress
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

from flask import Request
from itsdangerous import BadData, URLSafeSerializer
from werkzeug import Response

from webapp.access import Failures, TokenFile, new_token
from webapp.addresses import is_loopback, plain
from webapp.embedding import EmbedLinks, LinkRefused
from webapp.views.forwarding import DROPPED, PEER, TOKEN

Role = Literal["nobody", "viewer", "admin"]
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

COOKIE = "enginehouse_session"


class Caller(NamedTuple):
    """A person, or a program that reads."""

    role: Role
    #: Who it is, for the log and the page; "" where nobody said.
    name: str = ""
    #: The only path that it may read, of an embed link.
    path: str = ""
    #: What its forms are bound to.
    session: str = ""
    #: Why it is nobody, for the reader.
    reason: str = ""


NOBODY = Caller("nobody")


@dataclass
class Access:
    """The rules of one control plane; without any, who can reach it may read, report and act."""

    key: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)
    agents: TokenFile | None = None
    viewers: TokenFile | None = None
    admins: TokenFile | None = None
    #: Proxies whose `user_header` names who asks, and which of those users are admins.
    proxies: tuple[Network, ...] = ()
    user_header: str = "X-Forwarded-User"
    admin_users: frozenset[str] = frozenset()
    session_seconds: float = 12 * 3600.0
    #: Only this machine reaches us, so the address in a browser must be one of this machine's own.
    only_local_names: bool = False
    #: Where no admin is named: whether anyone who may read and comes from this machine itself may act.
    local_admin: bool = True
    wall: Callable[[], float] = time.time
    failures: Failures = field(default_factory=Failures, repr=False)

    def __post_init__(self) -> None:
        self.links = EmbedLinks(self.key, self.wall)
        self._sessions = URLSafeSerializer(self.key, salt="enginehouse session")
        self._forms = URLSafeSerializer(self.key, salt="enginehouse form")

    @property
    def asks_viewers(self) -> bool:
        return bool(self.viewers or self.admins or self.proxies)

    @property
    def has_login(self) -> bool:
        """Whether a person can show a token."""
        return bool(self.viewers or self.admins)

    def caller(self, request: Request) -> Caller:
        """Who asks for something to read, or to act."""
        if token := request.environ.get(TOKEN):
            try:
                return Caller("viewer", path=self.links.path(token))
            except LinkRefused as error:
                return Caller("nobody", reason=str(error))
        found = self._by_proxy(request) or self._by_bearer(request) or self._by_session(request)
        if found:
            return found
        if self.asks_viewers:
            return NOBODY
        return Caller("admin" if self._acts_from_here(request) else "viewer", session="open")

    def _by_proxy(self, request: Request) -> Caller | None:
        user = request.headers.get(self.user_header, "").strip()
        if not self.proxies or not user or not _within(request.environ.get(PEER, ""), self.proxies):
            return None
        return Caller("admin" if user in self.admin_users else "viewer", user[:100], session="user " + user)

    def _by_bearer(self, request: Request) -> Caller | None:
        token = bearer(request)
        found = self.role_of(token) if token else None
        return Caller(found[0], "by token", session=found[1]) if found else None

    def role_of(self, token: str) -> tuple[Role, str] | None:
        """What a token lets a person do, and its digest."""
        kinds: tuple[tuple[Role, TokenFile | None], ...] = (("admin", self.admins), ("viewer", self.viewers))
        for role, file in kinds:
            if file and (holder := file.holder(token)):
                return role, holder.digest
        return None

    def _by_session(self, request: Request) -> Caller | None:
        cookie = request.cookies.get(COOKIE)
        if not cookie:
            return None
        try:
            role, digest, name, until = self._sessions.loads(cookie)
        except (BadData, ValueError, TypeError):
            return None
        if self.wall() > until:
            return None
        file = {"admin": self.admins, "viewer": self.viewers}.get(role)
        if file is None or file.known(digest) is None:  # the token was taken from the file
            return None
        return Caller(role, "by token", session=name)

    def _acts_from_here(self, request: Request) -> bool:
        direct = DROPPED not in request.environ and is_loopback(request.environ.get(PEER, ""))
        return self.local_admin and direct and is_loopback(request.remote_addr or "")

    def let_in(self, path: Path) -> bool:
        """Write a new token for our own helpers into a file; False, and none, where nobody is asked for one.

        Raises AccessUnusable.
        """
        files = [file for file in (self.agents, self.viewers or self.admins) if file]
        if not files:
            return False
        token = new_token(path)
        for file in files:
            file.add(token)
        return True

    def sign_in(self, response: Response, request: Request, role: Role, digest: str) -> None:
        """Let the browser keep a session; it ends with its time, or when its token is taken from the file."""
        value = self._sessions.dumps([role, digest, secrets.token_urlsafe(12), int(self.wall() + self.session_seconds)])
        response.set_cookie(
            COOKIE,
            str(value),
            max_age=int(self.session_seconds),
            path=(request.script_root or "") + "/",
            secure=request.is_secure,
            httponly=True,
            samesite="Lax",
        )

    def sign_out(self, response: Response, request: Request) -> None:
        response.delete_cookie(
            COOKIE, path=(request.script_root or "") + "/", secure=request.is_secure, httponly=True, samesite="Lax"
        )

    def form_token(self, caller: Caller) -> str:
        """Proves that a form was made here, for this caller."""
        return str(self._forms.dumps([caller.session, int(self.wall() + self.session_seconds)]))

    def is_our_form(self, caller: Caller, token: str) -> bool:
        try:
            session, until = self._forms.loads(token)
        except (BadData, ValueError, TypeError):
            return False
        return bool(session == caller.session and self.wall() <= until)


def bearer(request: Request) -> str:
    """The token in the header Authorization, "" if there is none."""
    kind, _, token = request.headers.get("Authorization", "").partition(" ")
    return token.strip() if kind.lower() == "bearer" else ""


def _within(address: str, networks: tuple[Network, ...]) -> bool:
    try:
        found = ipaddress.ip_address(plain(address))
    except ValueError:
        return False
    return any(found in network for network in networks)
