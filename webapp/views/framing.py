"""Pages inside somebody else's page: what an address asks for with `embed=1`, kept on every link.

`embed=1` drops navigation and posts the page's height to the parent (static/js/embed.js); `theme=light|dark` sets
the colours; `refresh=SECONDS`, 5 to 300, slows refreshing down.
"""

from __future__ import annotations

from typing import Any

from flask import Flask, has_request_context, request

#: Parts of an address that stay on every link of an embedded page.
KEPT = ("embed", "theme", "refresh")

#: Blueprints whose addresses take them.
_TAKERS = ("pages", "fragments", "instances", "placement")


def keep(app: Flask) -> None:
    """Carry what was asked for along, and teach templates `embedded()`, `kept()` and `every(seconds)`."""

    @app.url_defaults
    def carry(endpoint: str, values: dict[str, Any]) -> None:
        if has_request_context() and embedded() and endpoint.partition(".")[0] in _TAKERS:
            for name, value in kept().items():
                values.setdefault(name, value)

    app.jinja_env.globals.update(embedded=embedded, kept=kept, every=every)


def embedded() -> bool:
    return request.args.get("embed") == "1"


def kept() -> dict[str, str]:
    """What an embedded page carries along; nothing on other pages."""
    return {name: request.args[name][:16] for name in KEPT if name in request.args} if embedded() else {}


def every(usual: int) -> int:
    """Seconds between refreshes of a block that usually has `usual`; never faster."""
    asked = request.args.get("refresh", "")
    return max(usual, min(300, int(asked))) if asked.isascii() and asked.isdecimal() and len(asked) < 6 else usual
