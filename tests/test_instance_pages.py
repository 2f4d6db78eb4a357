"""Pages of instances and of placement."""

from __future__ import annotations

import re

import pytest

from tests.answers import HOSTILE, Page, drawn, named
from tests.conftest import HTMX
from tests.instance_messages import METADATA, SNAPSHOT
from webapp.app import create_app
from webapp.fleet.instances import Instances


@pytest.fixture
def client(registry, clock, wall):
    instances = Instances(30.0, clock=clock, wall=wall)
    return create_app(registry, object(), instances=instances, wall=wall).test_client()


def register(client, **body):
    assert client.post("/v1/instance/register", json={"host": "10.0.0.9", "port": 8000, **body}).status_code == 200


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_stays_text_and_every_link_leads_back(client, text):
    """T134, T76"""
    register(client, instance_id=text, host=text, tags=[text], meta={"model": text, text: text})
    snapshot = {**SNAPSHOT, "instance_id": text, "agent_version": text, "capacity_hint": {"admission_state": text[:32]}}
    client.post("/v1/instance/resource_snapshot", json={"instance_id": text, "snapshot": snapshot, "metadata": METADATA})
    for path in ("/instances", "/", "/placement?memory_gib=1"):
        page = Page(client.get(path).text)
        assert all(script.get("src", "").startswith("/static/") for script in page.all("script"))
        assert not [name for _, attributes in page.tags for name in attributes if name.startswith("on")]
        assert not page.all("img")
    index = Page(client.get("/instances").text)
    links = [a["href"] for a in index.all("a") if (a["href"] or "").startswith("/instances/")]
    assert [named(link) for link in links] == [text]
    answer = client.get(links[0])
    assert answer.status_code == 200
    page = Page(answer.text)
    assert not page.all("img")
    block = next(tags for tag, tags in page.tags if tag == "section" and tags.get("hx-get"))
    assert client.get(block["hx-get"], headers=HTMX).status_code == 200
    assert client.get(block["hx-get"]).headers["Location"] == links[0]
    assert drawn(text) in page.text


@pytest.mark.parametrize("path", ["/instances", "/instances/hp_10.0.0.9:8000"])
def test_an_embedded_page_of_instances_refreshes_as_rarely_as_asked(client, path):
    register(client)
    (block,) = [tags for _, tags in Page(client.get(f"{path}?embed=1&refresh=30").text).tags if "data-block" in tags]
    assert block["hx-trigger"] == "every 30s, refresh"


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("2001:db8::3222", "http://[2001:db8::3222]:9001/"),
        ("[::1]", "http://[::1]:9001/"),
        ("fe80::1%eth0", "http://[fe80::1%25eth0]:9001/"),
    ],
)
def test_an_ipv6_instance_has_an_address_with_brackets(client, host, address):
    """T76"""
    register(client, host=host, port=9001)
    path = re.search(r'href="(/instances/hp_[^"]+)"', client.get("/instances").text).group(1)
    page = client.get(path).text
    assert f"<span>{address}</span>" in page
    node = re.search(r'href="(/nodes/[^"]+)"', page).group(1)
    assert client.get(node).status_code == 200


def test_an_instance_shows_its_numbers_its_snapshot_and_three_times(client):
    register(client, instance_id="i")
    client.post("/v1/instance/heartbeat", json={"instance_id": "i", "inflight": 4, "qps_1m": 1.5})
    client.post("/v1/instance/resource_snapshot", json={"instance_id": "i", "snapshot": SNAPSHOT, "metadata": METADATA})
    text = " ".join(Page(client.get("/instances/i").text).text.split())
    for shown in (
        "accepting",
        "43.25",
        "requests in flight4",
        "1.50",
        "collected, by the agent's clock",
        "reported, by",
        "received, by",
    ):
        assert shown in text
    assert '"schema_version": "resource_snapshot_v1"' in text
    assert "The resource agent calls itself hp_127.0.0.1:9001." in text
    listed = " ".join(Page(client.get("/instances").text).text.split())
    assert "1 of 1 instance alive" in listed
    node = " ".join(Page(client.get("/nodes/10.0.0.9").text).text.split())
    assert "Registered instances" in node


def test_old_numbers_are_nowhere_on_the_page_but_in_the_snapshot(client, clock):
    """T82"""
    register(client, instance_id="i")
    client.post("/v1/instance/resource_snapshot", json={"instance_id": "i", "snapshot": SNAPSHOT, "metadata": METADATA})
    clock.advance(61)
    html = client.get("/instances/i").text
    assert "the numbers are left out" in html
    assert "43.25" not in html[: html.index("<details")]
    assert "43.25" not in client.get("/instances").text


def test_an_unknown_instance_is_a_page_that_says_so(client):
    answer = client.get("/instances/nobody")
    assert answer.status_code == 404
    assert "No instance is called nobody" in answer.text


def test_without_instances_the_page_says_how_they_come(client):
    assert "enginehouse run --port" in client.get("/instances").text


def test_the_form_keeps_what_was_asked(client):
    page = Page(client.get("/placement?memory_gib=40&cores=x&model=m").text)
    assert {field["name"]: field.get("value") for field in page.all("input")} == {
        "memory_gib": "40",
        "cores": "x",
        "gpu_memory_gib": "",
        "model": "m",
    }
