"""Tokens of a control plane with rules, and how its visitors show them. The fixture `site` builds it."""

from __future__ import annotations

import re

from flask.testing import FlaskClient

AGENT, VIEWER, ADMIN = "agent-token-00001", "viewer-token-0001", "admin-token-00001"


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def sign_in(client: FlaskClient, token: str, **more: object):
    return client.post("/login", data={"token": token, "next": "/nodes/cpu-07?range=6h"}, **more)


def form_token(client: FlaskClient, headers: dict[str, str]) -> str:
    found = re.search(r'name="form_token" value="([^"]+)"', client.get("/nodes/cpu-07", headers=headers).text)
    return found.group(1) if found else "x"
