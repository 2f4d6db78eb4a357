"""What an embed link opens, and what it does not."""

from __future__ import annotations

from flask.testing import FlaskClient

from tests.answers import Page
from tests.conftest import HTMX
from tests.signing_in import ADMIN, VIEWER, bearer, form_token, sign_in
from webapp.access import secret_key
from webapp.cli import main
from webapp.embedding import link


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


def test_the_command_prints_an_address_for_a_frame(tmp_path, capsys):
    """Without `embed=1` the frame showed a navigation of which every link was refused."""
    secret_key(tmp_path / "secret.key")
    assert main(["embed-link", "--data-dir", str(tmp_path), "--path", "/nodes/cpu-07?range=6h"]) == 0
    assert capsys.readouterr().out.endswith("/nodes/cpu-07?range=6h&embed=1\n")


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
