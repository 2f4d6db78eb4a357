"""Who may do what, over HTTP."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable

import pytest
from flask.testing import FlaskClient

from tests.answers import ROUTES, Page, strict
from tests.conftest import HTMX
from webapp import heartbeat
from webapp.app import create_app
from webapp.embedding import link
from webapp.views.callers import COOKIE, Access

AGENT, VIEWER, ADMIN = "agent-token-00001", "viewer-token-0001", "admin-token-00001"

#: A path of each route that needs one of its own here.
PATHS = {
    "machines.beat": "/v1/nodes/heartbeat",
    "instance_api.register": "/v1/instance/register",
    "instance_api.beat": "/v1/instance/heartbeat",
    "instance_api.report": "/v1/instance/resource_snapshot",
    "instance_api.unregister": "/v1/instance/unregister",
    "admin.forget": "/admin/forget",
    "admin.note": "/admin/note",
    "admin.hand_over": "/admin/name",
    "login.form": "/login",
    "login.sign_in": "/login",
    "login.sign_out": "/login/end",
}


@pytest.fixture
def site(registry, history, wall, tokens) -> Callable[..., FlaskClient]:
    """A client of a control plane with rules: `site(viewers=True, hops=1)`."""

    def build(*, agents=False, viewers=False, admins=False, hops=0, base_path="", **rules: object) -> FlaskClient:
        access = Access(
            key=b"k" * 32,
            agents=tokens("agents", AGENT, "node-token-000001 cpu-07") if agents else None,
            viewers=tokens("viewers", VIEWER) if viewers else None,
            admins=tokens("admins", ADMIN) if admins else None,
            wall=wall,
            **rules,  # type: ignore[arg-type]
        )
        app = create_app(registry, history, wall=wall, access=access, hops=hops, base_path=base_path)
        app.access = access  # type: ignore[attr-defined]
        return app.test_client()

    return build


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def sign_in(client: FlaskClient, token: str, **more: object):
    return client.post("/login", data={"token": token, "next": "/nodes/cpu-07?range=6h"}, **more)


@pytest.mark.parametrize("endpoint", ROUTES)
@pytest.mark.parametrize("credential", ["none", "agent", "viewer", "admin"])
def test_each_route_lets_in_whom_it_is_for(site, beat, measurement, endpoint, credential):
    """The whole table: a route and a caller; nobody gets in by another's token."""
    beat("cpu-07")
    client = site(agents=True, viewers=True, admins=True)
    client.post("/v1/instance/register", json={"host": "cpu-07", "port": 8000}, headers=bearer(AGENT))
    kind, who, path = ROUTES[endpoint]
    path = path or PATHS[endpoint]
    headers = bearer({"agent": AGENT, "viewer": VIEWER, "admin": ADMIN}[credential]) if credential != "none" else {}
    if kind == "fragment":
        headers |= HTMX
    if endpoint == "machines.beat":
        answer = client.post(path, data=heartbeat.write(measurement), headers=headers)
    elif who == "agent":
        answer = client.post(path, json={"instance_id": "a", "host": "cpu-07", "port": 8000}, headers=headers)
    elif kind == "form":
        answer = client.post(path, data={"node": "nobody", "form_token": form_token(client, headers)}, headers=headers)
    else:
        answer = client.get(path, headers=headers, buffered=True)
    let_in = {
        "anyone": {"none", "agent", "viewer", "admin"},
        "agent": {"agent"},
        "viewer": {"viewer", "admin"},
        "admin": {"admin"},
    }
    if credential in let_in[who]:
        assert answer.status_code in (200, 302, 303, 404, 422, 401 if endpoint == "login.sign_in" else 200)
        assert "/login" not in answer.headers.get("Location", "") or endpoint == "login.sign_out"
    else:
        signs_in = answer.status_code == 302 and answer.headers["Location"].startswith("/login?next=")
        assert answer.status_code in (401, 403) or (kind == "page" and signs_in)
        assert "cpu-07" not in answer.text.replace(path, "")
    assert "frame-ancestors" in answer.headers["Content-Security-Policy"]
    for secret in (AGENT, VIEWER, ADMIN):
        assert secret.encode() not in answer.get_data()


def form_token(client: FlaskClient, headers: dict[str, str]) -> str:
    found = re.search(r'name="form_token" value="([^"]+)"', client.get("/nodes/cpu-07", headers=headers).text)
    return found.group(1) if found else "x"


@pytest.mark.parametrize(
    ("path", "headers", "kind"),
    [("/metrics", {}, "application/json"), ("/fragments/cluster", HTMX, "text/html"), ("/v1/nothing", {}, "application/json")],
)
def test_a_refusal_comes_in_the_format_of_who_asked(site, path, headers, kind):
    answer = site(viewers=True).get(path, headers=headers)
    assert answer.mimetype == kind
    if kind == "application/json":
        assert strict(answer.text)["ok"] is False
    else:
        assert "<form" not in answer.text
        assert "<html" not in answer.text


def test_an_expired_session_tells_the_block_and_not_the_table(site, wall):
    """T127"""
    client = site(viewers=True, session_seconds=3600.0)
    sign_in(client, VIEWER)
    assert client.get("/fragments/cluster", headers=HTMX).status_code == 200
    wall.advance(3601)
    answer = client.get("/fragments/cluster", headers=HTMX)
    assert (answer.status_code, answer.headers["X-Enginehouse-Signed-Out"]) == (401, "1")
    assert "password" not in answer.text
    assert client.get("/").headers["Location"] == "/login?next=/"


def test_signing_in_leads_back_and_the_cookie_is_kept_from_scripts_and_other_sites(site):
    client = site(viewers=True, admins=True)
    assert client.get("/nodes/a?range=6h").headers["Location"] == "/login?next=/nodes/a?range%3D6h"
    answer = sign_in(client, VIEWER)
    assert (answer.status_code, answer.headers["Location"]) == (303, "/nodes/cpu-07?range=6h")
    cookie = answer.headers["Set-Cookie"]
    assert {"HttpOnly", "Path=/", "SameSite=Lax"} <= set(cookie.split("; "))
    assert "Secure" not in cookie
    assert VIEWER not in cookie
    assert client.get("/").status_code == 200
    assert client.post("/login/end").status_code == 303
    assert client.get("/").status_code == 302


def test_a_session_ends_with_its_token(site, tokens, clock):
    client = site(viewers=True)
    sign_in(client, VIEWER)
    assert client.get("/").status_code == 200
    tokens("viewers", "another-token-002")
    clock.advance(1)
    assert client.get("/").status_code == 302


@pytest.mark.parametrize("forged", ["", "x", "W10.x", "eyJhIjoxfQ.AAAA", "\x00", "é"])
def test_a_cookie_that_we_did_not_sign_is_nobody(site, forged):
    client = site(viewers=True)
    client.set_cookie(COOKIE, forged)
    assert client.get("/metrics").status_code == 401


@pytest.mark.parametrize(
    "path", ["//evil.example", "https://evil.example/", "/\\evil.example", "javascript:alert(1)", "/a\r\nX: y"]
)
def test_signing_in_leads_nowhere_else(site, path):
    answer = site(viewers=True).post("/login", data={"token": VIEWER, "next": path})
    assert answer.headers["Location"] == "/"


def test_wrong_tokens_are_slowed_down_on_the_login_page_and_for_programs(site):
    client = site(viewers=True, agents=True)
    for _ in range(10):
        assert sign_in(client, "wrong").status_code == 401
    assert sign_in(client, VIEWER).status_code == 429
    answer = client.get("/metrics", headers=bearer("wrong"))
    assert answer.status_code == 429
    assert int(answer.headers["Retry-After"]) > 0
    # Behind one address live many: a right token of a program is not refused for a neighbour's wrong one.
    assert client.get("/metrics", headers=bearer(VIEWER)).status_code == 200
    metrics = client.get("/metrics", headers=bearer(VIEWER)).text
    assert 'enginehouse_refused_requests_total{reason="login"} 10' in metrics
    assert 'enginehouse_refused_requests_total{reason="too_many_failures"} 2' in metrics


def test_a_token_for_one_node_reports_for_no_other(site, measurement):
    client = site(agents=True)
    body = heartbeat.write(measurement)
    assert client.post("/v1/nodes/heartbeat", data=body, headers=bearer("node-token-000001")).status_code == 200
    answer = client.post("/v1/nodes/heartbeat", data=body.replace(b"cpu-07", b"cpu-08"), headers=bearer("node-token-000001"))
    assert (answer.status_code, answer.json["error"]) == (403, "other_node")
    assert client.post("/v1/nodes/heartbeat", data=body).json["error"] == "unauthorized"


def test_the_page_that_adds_a_node_says_that_a_token_is_asked_for(site):
    assert "--token-file" not in site().get("/add").text
    assert "--token-file" in site(agents=True).get("/add").text


def test_health_tells_strangers_nothing_but_that_it_is_there(site, beat):
    beat("cpu-07")
    client = site(viewers=True)
    assert set(client.get("/healthz").json) == {"ok", "version", "build", "ttl_s"}
    assert client.get("/healthz", headers=bearer(VIEWER)).json["nodes"] == 1


# Proxies that tell who reads


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
    """T136, T137: told by the proxy that strips it, or that leaves it"""
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


# What admins do


def test_an_admin_forgets_a_node_notes_that_it_drains_and_hands_a_name_over(site, registry, beat):
    beat("cpu-07", agent="a")
    with pytest.raises(Exception, match="reported by agent a"):
        beat("cpu-07", agent="b")
    client = site(admins=True)
    sign_in(client, ADMIN)
    token = form_token(client, {})
    note = client.post("/admin/note", data={"node": "cpu-07", "note": " new\nDIMM ", "form_token": token})
    assert (note.status_code, note.headers["Location"]) == (303, "/nodes/cpu-07")
    assert registry.node("cpu-07").note.text == "new DIMM"
    assert "Draining: new DIMM" in client.get("/nodes/cpu-07").text
    assert "draining" in client.get("/").text
    client.post("/admin/name", data={"node": "cpu-07", "form_token": token})
    assert "takes it with its next heartbeat" in client.get("/nodes/cpu-07").text
    beat("cpu-07", agent="b")
    assert registry.node("cpu-07").measurement.agent.id == "b"
    with pytest.raises(Exception, match="reported by agent b"):
        beat("cpu-07", agent="a", sequence=99)
    client.post("/admin/note", data={"node": "cpu-07", "note": "", "form_token": token})
    assert registry.node("cpu-07").note is None
    assert client.post("/admin/forget", data={"node": "cpu-07", "form_token": token}).headers["Location"] == "/"
    assert registry.nodes() == []
    assert client.post("/admin/forget", data={"node": "cpu-07", "form_token": token}).status_code == 404


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
    ],
)
@pytest.mark.parametrize("path", ["/admin/forget", "/v1/nodes/heartbeat", "/login"])
def test_another_sites_page_sends_nothing(site, registry, beat, headers, path):
    beat("cpu-07")
    client = site()
    answer = client.post(path, data={"node": "cpu-07", "form_token": form_token(client, {})}, headers=headers)
    assert answer.status_code == 403
    assert registry.node("cpu-07")


def test_our_own_pages_send_forms_behind_a_proxy_that_was_not_told_of(site, beat):
    beat("cpu-07")
    client = site()
    headers = {"Host": "house.example", "Origin": "https://house.example"}
    assert (
        client.post(
            "/admin/note", data={"node": "cpu-07", "note": "x", "form_token": form_token(client, {})}, headers=headers
        ).status_code
        == 303
    )


@pytest.mark.parametrize("token", ["", "x", "W10.abc"])
def test_a_form_that_was_not_made_here_changes_nothing(site, registry, beat, token):
    beat("cpu-07")
    assert site().post("/admin/forget", data={"node": "cpu-07", "form_token": token}).status_code == 403
    assert registry.node("cpu-07")


def test_a_form_is_bound_to_its_session_and_ends_with_it(site, registry, beat, wall):
    beat("cpu-07")
    client = site(admins=True)
    sign_in(client, ADMIN)
    token = form_token(client, {})
    other = client.application.test_client()
    sign_in(other, ADMIN)
    assert other.post("/admin/forget", data={"node": "cpu-07", "form_token": token}).status_code == 403
    assert registry.node("cpu-07")


def test_without_tokens_only_this_machine_itself_acts(site, beat):
    beat("cpu-07")
    client = site()
    assert "Forget this node" in client.get("/nodes/cpu-07").text
    assert "Forget this node" not in client.get("/nodes/cpu-07", environ_base={"REMOTE_ADDR": "192.0.2.1"}).text
    assert "Forget this node" not in client.get("/nodes/cpu-07", headers={"X-Forwarded-For": "192.0.2.1"}).text
    assert "Forget this node" not in site(hops=1).get("/nodes/cpu-07", headers={"X-Forwarded-For": "192.0.2.1"}).text


@pytest.mark.parametrize(
    ("host", "code"),
    [("localhost:8765", 200), ("127.0.0.1", 200), ("[::1]:1", 200), ("evil.example", 421), ("", 421), ("[", 400)],
)
def test_a_name_that_was_bent_to_this_machine_reads_nothing(site, host, code):
    """A page elsewhere whose host name suddenly leads to 127.0.0.1."""
    assert site(only_local_names=True).get("/", headers={"Host": host}).status_code == code


# Embed links


def shared(client: FlaskClient, path: str, seconds: float = 3600.0) -> str:
    return link(client.application.access.links, path, seconds)


def test_an_embed_link_opens_its_page_and_its_blocks_without_a_cookie(site, beat):
    beat("cpu-07")
    client = site(viewers=True)
    address = shared(client, "/nodes/cpu-07?range=6h")
    answer = client.get(address)
    assert answer.status_code == 200
    assert "Set-Cookie" not in answer.headers
    page = Page(answer.text)
    blocks = [attributes["hx-get"] for _, attributes in page.tags if "hx-get" in attributes]
    assert len(blocks) == 2
    for block in blocks:
        assert client.get(block, headers=HTMX).status_code == 200
    ranges = [link["href"] for link in page.all("a") if "range=" in link["href"]]
    assert all(client.get(address).status_code == 200 for address in ranges)
    assert all(script["src"].startswith("/static/") for script in page.all("script"))


def test_an_embed_link_opens_nothing_else_and_says_so(site, beat):
    beat("cpu-07")
    beat("cpu-08", agent="b")
    client = site(viewers=True)
    root = shared(client, "/nodes/cpu-07").removesuffix("/nodes/cpu-07")
    for path in (
        "/fragments/numbers?chart=cpu&node=cpu-08",
        "/fragments/numbers?chart=cpu&node=cpu-07&model=x",
        "/fragments/about/cpu?model=x",
        "/reports/cpu-07",
        "/api/v1/nodes/cpu-07",
    ):
        assert client.get(root + path, headers=HTMX).status_code == 403
    assert client.get(root + "/fragments/numbers?chart=cpu&node=cpu-07", headers=HTMX).status_code == 200
    for path in ("/", "/nodes/cpu-08", "/fragments/cluster", "/fragments/node/cpu-08", "/metrics", "/add", "/nodes/"):
        answer = client.get(root + path, headers=HTMX)
        assert answer.status_code == 403
        assert "opens /nodes/cpu-07 only" in answer.text
        assert "43 %" not in answer.text  # its own address may hold any two digits
    assert client.get(root + "/static/icon.svg", buffered=True).status_code == 200


def test_an_embed_link_never_acts_whoever_follows_it(site, registry, beat):
    beat("cpu-07")
    client = site(admins=True)
    sign_in(client, ADMIN)
    token = form_token(client, {})
    address = shared(client, "/nodes/cpu-07")
    assert "Forget this node" not in client.get(address).text
    root = address.removesuffix("/nodes/cpu-07")
    assert client.post(root + "/admin/forget", data={"node": "cpu-07", "form_token": token}).status_code == 403
    assert client.post(root + "/login", data={"token": ADMIN}).status_code == 404
    assert registry.node("cpu-07")


def test_an_embed_link_ends(site, beat, wall):
    beat("cpu-07")
    client = site(viewers=True)
    address = shared(client, "/nodes/cpu-07", 60)
    wall.advance(61)
    answer = client.get(address)
    assert answer.status_code == 403
    assert "This link expired on" in answer.text
    assert "/login" not in answer.headers.get("Location", "")


def test_an_embed_link_works_below_a_sub_path_and_for_any_name(site, beat):
    name = "a//b/../c?d#e%41 <x>"
    beat(name)
    client = site(viewers=True, base_path="/ops")
    with client.application.test_request_context():
        path = client.application.url_for("pages.node", name=name)
    answer = client.get("/ops" + link(client.application.access.links, path.removeprefix("/ops"), 60))
    assert answer.status_code == 200
    blocks = [attributes["hx-get"] for _, attributes in Page(answer.text).tags if "hx-get" in attributes]
    assert all(client.get(block, headers=HTMX).status_code == 200 for block in blocks)


def test_in_a_frame_nobody_is_sent_to_a_login_page(site):
    """T131, T133: a cookie would not be kept there, and no prompt would appear"""
    answer = site(viewers=True).get("/nodes/a?x=1", headers={"Sec-Fetch-Dest": "iframe"})
    assert answer.status_code == 401
    assert {"href": "/nodes/a", "target": "_blank", "rel": "noopener"} in Page(answer.text).all("a")


def test_a_rendering_that_is_shared_carries_nobodys_link_and_leaves_nobody_in(site, beat):
    """Large fleets are rendered once for all viewers: by embed link, by token and by nobody."""
    for number in range(150):
        beat(f"n{number}", agent=str(number))
    client = site(viewers=True)
    root = shared(client, "/").removesuffix("/")
    by_link = client.get(root + "/fragments/cluster", headers=HTMX)
    by_token = client.get("/fragments/cluster", headers=HTMX | bearer(VIEWER))
    assert by_link.status_code == by_token.status_code == 200
    assert all(a["href"].startswith(root + "/") for a in Page(by_link.text).all("a") if a["href"].startswith("/"))
    assert "/shared/" not in by_token.text
    assert client.get("/fragments/cluster", headers=HTMX).status_code == 401
    assert (
        client.get(shared(client, "/nodes/n1").removesuffix("/nodes/n1") + "/fragments/cluster", headers=HTMX).status_code == 403
    )
