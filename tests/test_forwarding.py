"""Behind proxies: whom they name, and below which address they serve us."""

from __future__ import annotations

import ipaddress

import pytest

from tests.answers import Page
from tests.signing_in import VIEWER, bearer
from webapp import heartbeat


def test_a_trusted_proxy_tells_who_reads_and_who_may_act(site, beat):
    beat("cpu-07")
    rules = {"proxies": (ipaddress.ip_network("10.0.0.0/8"),), "admin_users": frozenset({"ann"})}
    client = site(**rules)
    by_proxy = {"REMOTE_ADDR": "10.1.2.3"}
    assert client.get("/nodes/cpu-07", headers={"X-Forwarded-User": "bob"}, environ_base=by_proxy).status_code == 200
    assert "Forget this node" not in client.get("/nodes/cpu-07", headers={"X-Forwarded-User": "bob"}, environ_base=by_proxy).text
    assert "Forget this node" in client.get("/nodes/cpu-07", headers={"X-Forwarded-User": "ann"}, environ_base=by_proxy).text
    assert client.get("/", environ_base=by_proxy).status_code == 401
    spoofed = client.get("/", headers={"X-Forwarded-User": "ann"}, environ_base={"REMOTE_ADDR": "192.0.2.1"})
    assert spoofed.status_code == 401
    assert "did not say who you are" in spoofed.text


@pytest.mark.parametrize("given", ["//evil.example", '"><script>', "/a/../b", "https://evil", "javascript:x", "/" + "a" * 500])
@pytest.mark.parametrize("hops", [0, 1])
def test_a_spoofed_prefix_or_host_is_never_reflected(site, given, hops):
    """T139"""
    headers = {"X-Forwarded-Prefix": given, "X-Forwarded-For": "127.0.0.1", "X-Forwarded-Proto": "javascript"}
    if not hops:
        headers |= {"X-Forwarded-Host": "evil.example", "Forwarded": "host=evil.example"}
    for path in ("/", "/add", "/nothing", "/fragments/cluster"):
        answer = site(hops=hops).get(path, headers=headers)
        text = answer.text + answer.headers.get("Location", "")
        assert "evil" not in text
        assert given not in text
        assert "javascript:" not in text


@pytest.mark.parametrize("given", ["/ops/llm", "ops/llm/", "/ops/llm/"])
@pytest.mark.parametrize("stripped", [True, False])
def test_below_a_sub_path_every_address_carries_it_once(site, beat, given, stripped):
    """T136, T137: sent by the proxy that strips it, or that leaves it"""
    beat("cpu-07")
    client = site(hops=1, viewers=True)
    headers = {
        "X-Forwarded-Prefix": given,
        "X-Forwarded-For": "192.0.2.1",
        "X-Forwarded-Proto": "https",
        "X-Forwarded-Host": "house",
    }
    root = "" if stripped else "/ops/llm"
    assert client.get(f"{root}/", headers=headers).headers["Location"] == "/ops/llm/login?next=/"
    answer = client.post(f"{root}/login", data={"token": VIEWER, "next": "/nodes/cpu-07"}, headers=headers)
    assert answer.headers["Location"] == "/ops/llm/nodes/cpu-07"
    assert {"Path=/ops/llm/", "Secure", "HttpOnly", "SameSite=Lax"} <= set(answer.headers["Set-Cookie"].split("; "))
    for path in ("/", "/nodes/cpu-07", "/add", "/nothing"):
        answer = client.get(root + path, headers=headers | bearer(VIEWER))
        assert_below("/ops/llm", answer.text)
    assert "https://house/ops/llm/agent.pyz" in client.get(f"{root}/add", headers=headers | bearer(VIEWER)).text


def assert_below(root: str, html: str) -> None:
    addresses = [
        value
        for _, attributes in Page(html).tags
        for name, value in attributes.items()
        if name in ("href", "src", "hx-get", "action") and value and not value.startswith(("#", "?", "data:"))
    ]
    assert addresses
    for address in addresses:
        assert address.startswith(f"{root}/"), address
        assert not address.startswith(f"{root}{root}")


def test_below_a_base_path_that_is_not_stripped(site, beat):
    """T137"""
    beat("cpu-07")
    client = site(base_path="/ops/llm")
    assert_below("/ops/llm", client.get("/ops/llm/nodes/cpu-07").text)
    assert client.get("/ops/llm").status_code == 200
    answer = client.get("/nodes/cpu-07")
    assert (answer.status_code, answer.text) == (404, "Enginehouse serves below /ops/llm/ here.\n")
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert client.get("/ops/llmx").status_code == 404


def test_the_address_of_a_node_behind_a_proxy_is_its_own(site, registry, measurement):
    client = site(hops=1)
    headers = {"X-Forwarded-For": "203.0.113.9, 198.51.100.7"}
    client.post("/v1/nodes/heartbeat", data=heartbeat.write(measurement), headers=headers)
    assert registry.node("cpu-07").source == "198.51.100.7"
