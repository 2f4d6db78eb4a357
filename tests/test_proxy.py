"""Below a sub-path of a real nginx, with deploy/nginx's own snippets: agents, programs and a real Chromium."""

from __future__ import annotations

import json
import re
import shutil
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser import Watched, refresh
from tests.programs import AGENT, control_plane, eventually, fetch, running
from tests.prometheus.promlab import free_port

pytestmark = pytest.mark.browser

SNIPPETS = Path(__file__).parent.parent / "deploy" / "nginx"
PREFIX = "/ops/fleet"

CONFIGURATION = """
daemon off;
master_process off;
pid nginx.pid;
error_log stderr warn;
events {{ worker_connections 64; }}
http {{
    access_log off;
    client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; scgi_temp_path scgi;
    server {{
        listen 127.0.0.1:{port};
        {snippet}
    }}
}}
"""


@contextmanager
def nginx(folder: Path, snippet: str) -> Iterator[str]:
    """A child of its own on a loopback port, never Debian's service; its address."""
    program = shutil.which("nginx", path="/usr/sbin:/usr/local/sbin:/usr/bin")
    assert program, "nginx is missing: apt-get install nginx-light"
    folder.mkdir()
    port = free_port()
    file = folder / "nginx.conf"
    file.write_text(CONFIGURATION.format(port=port, snippet=snippet), "utf-8")
    log = folder / "log"
    with running([program, "-p", str(folder), "-c", str(file), "-e", str(folder / "error.log")], log) as process:

        def answers() -> bool:
            assert process.poll() is None, log.read_text("utf-8", "replace")
            try:
                socket.create_connection(("127.0.0.1", port), timeout=5).close()
            except OSError:
                return False
            return True

        eventually(answers, "nginx to answer")
        yield f"http://127.0.0.1:{port}"


@pytest.fixture(scope="module", params=["stripped.conf", "kept.conf"])
def mounted(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address below which nginx mounts a control plane, started as the snippet says, to which an agent reports."""
    folder = tmp_path_factory.mktemp("mounted")
    snippet = (SNIPPETS / request.param).read_text("utf-8")
    (flags,) = re.findall(r"enginehouse serve (.*)$", snippet, re.MULTILINE)
    with control_plane(folder / "plane", *flags.split(), "--data-dir", str(folder / "data")) as (plane, _):
        upstream = re.sub(r"http://127\.0\.0\.1:8765", plane.removesuffix(PREFIX), snippet)
        with nginx(folder / "nginx", upstream) as origin:
            agent = [*AGENT, "--server", origin + PREFIX, "--node", "behind", "--data-dir", str(folder / "agent")]
            with running(agent, folder / "agent.log"):
                eventually(lambda: 'cpu_utilization_percent{node="behind"}' in fetch(origin + PREFIX + "/metrics"), "a heartbeat")
                yield origin + PREFIX


class Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *arguments: object) -> None:
        """Redirects are looked at, not followed."""


def sent_on(url: str) -> str:
    with pytest.raises(urllib.error.HTTPError) as redirect:
        urllib.request.build_opener(Stay).open(url, timeout=10)
    with redirect.value as answer:
        assert answer.code in (301, 302, 303, 307, 308)
        return answer.headers["Location"]


def test_every_address_of_a_page_stays_below_the_mount(mounted):
    for page in ("/", "/nodes/behind", "/models", "/instances", "/placement", "/add", "/embed/check"):
        text = fetch(mounted + page)
        addresses = re.findall(r'(?:href|src|action|hx-get)="(/[^"]*)"', text)
        assert addresses
        assert [address for address in addresses if not address.startswith(PREFIX + "/")] == []
    assert f"{mounted}/agent.pyz" in fetch(mounted + "/add")


def test_static_files_fragments_and_programs_are_answered_below_it(mounted):
    (style,) = re.findall(rf'href="{PREFIX}(/static/css/layout[^"]+)"', fetch(mounted + "/"))
    assert "{" in fetch(mounted + style)
    assert "behind" in fetch(mounted + "/fragments/cluster", {"HX-Request": "true"})
    assert json.loads(fetch(mounted + "/healthz"))["ok"] is True
    assert json.loads(fetch(mounted + "/api/v1/nodes"))["nodes"][0]["node"] == "behind"


def test_redirects_lead_below_it(mounted):
    origin = mounted.removesuffix(PREFIX)
    assert sent_on(mounted).removeprefix(origin) == PREFIX + "/"
    assert sent_on(mounted + "/fragments/cluster").removeprefix(origin) == PREFIX + "/"
    assert sent_on(mounted + "/fragments/node/behind").removeprefix(origin) == PREFIX + "/nodes/behind"


def test_a_reader_follows_links_and_blocks_refresh_in_place(mounted, browser):
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    page = context.new_page()
    watched = Watched(page, mounted + "/")
    page.goto(mounted + "/")
    row = page.locator("#node-behind")
    expect(row).to_be_visible()
    row.evaluate("row => { row.kept = true }")
    refresh(page, "#cluster")
    assert row.evaluate("row => row.kept") is True
    row.get_by_role("link", name="behind").first.click()
    expect(page).to_have_url(mounted + "/nodes/behind")
    expect(page.locator("plotly-figure").first).to_be_visible(timeout=30_000)
    refresh(page, "#node")
    watched.assert_calm()
    assert any("/fragments/charts/behind" in asked for asked in watched.requests)
    context.close()
