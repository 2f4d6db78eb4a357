"""From settings to the rules of access; refuses what would open more than was meant."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

from webapp.access import TokenFile, secret_key
from webapp.addresses import is_loopback
from webapp.settings import SettingError
from webapp.views.callers import Access
from webapp.views.forwarding import prefix


def access(settings: SimpleNamespace) -> Access:
    """Raises SettingError, AccessUnusable."""
    key = secret_key(secret_file(settings))
    host = settings.listen[0] or "0.0.0.0"

    def tokens(name: str) -> TokenFile | None:
        path = getattr(settings, name, None)
        return TokenFile(path, key) if path else None

    made = Access(
        key=key,
        agents=tokens("agent_tokens"),
        viewers=tokens("viewer_tokens"),
        admins=tokens("admin_tokens"),
        proxies=getattr(settings, "trusted_proxy", ()),
        user_header=getattr(settings, "user_header", Access.user_header),
        admin_users=frozenset(getattr(settings, "admin_user", ())),
        session_seconds=getattr(settings, "session_hours", 12.0) * 3600,
    )
    made.only_local_names = is_loopback(host) and not (settings.allow_anonymous or settings.proxy_hops or made.asks_viewers)
    made.local_admin = made.agents is None and not settings.allow_anonymous
    if made.admin_users and not made.proxies:
        raise SettingError("admin_user: expected --trusted-proxy too, which names the proxy that authenticates users")
    if not is_loopback(host) and not settings.allow_anonymous:
        _refuse_open(host, made)
    return made


def _refuse_open(host: str, made: Access) -> None:
    anyone = [what for what, asked in (("read", made.asks_viewers), ("report", made.agents is not None)) if not asked]
    if anyone:
        files = {"read": "--viewer-tokens", "report": "--agent-tokens"}
        raise SettingError(
            f"listening on {host} lets anyone on the network {' and '.join(anyone)}; "
            f"give {' and '.join(files[what] for what in anyone)}, or pass --allow-anonymous if that is intended"
        )


def secret_file(settings: SimpleNamespace) -> Path | None:
    """Where the key lies that signs sessions and embed links; None where nothing is kept."""
    given: Path | None = getattr(settings, "secret_file", None)
    return given or (settings.data_dir / "secret.key" if settings.data_dir else None)


def base_path(settings: SimpleNamespace) -> str:
    """Raises SettingError."""
    found = prefix(settings.base_path or "")
    if found is None:
        raise SettingError(f"base_path={settings.base_path[:60]!r}: expected a path, such as /ops/llm")
    return found
