"""Whatever comes from outside: no exception escapes, nothing answers 500, JSON is strict, /metrics stays readable.

`make fuzz` runs these, and every other property test, with many more cases.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import string
from pathlib import Path
from urllib.parse import parse_qsl, quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from tests.answers import ROUTES, strict
from tests.conftest import HTMX
from webapp.access import AccessUnusable, TokenFile
from webapp.app import create_app
from webapp.config import COMMANDS, settings_of
from webapp.embedding import EmbedLinks, LinkRefused
from webapp.fleet.notes import Notes
from webapp.fleet.registry import Registry
from webapp.history.embedded import EmbeddedHistory
from webapp.logs import plain
from webapp.overview.selection import Selection
from webapp.settings import SettingError, add_flags, resolve
from webapp.storage.store import Store
from webapp.views.callers import COOKIE, NOBODY, Access
from webapp.views.forwarding import prefix

#: Text of any kind, with what breaks things more often than chance would.
NASTY = [
    "\x00",
    "\r\n",
    "\u2028",
    "\ud800",
    '"',
    "'",
    "\\",
    "<script>",
    "{{7*7}}",
    "%00",
    "%ff",
    "../",
    "//",
    "\x1b[31m",
    "٣",
    "é",
    "💥",
]
TEXT = st.lists(st.one_of(st.sampled_from(NASTY), st.text(max_size=12)), max_size=5).map("".join)
FINE = TEXT.map(lambda text: text.encode("utf-8", "replace").decode())
NUMBERS = st.one_of(
    st.integers(), st.floats(allow_nan=True), st.sampled_from([2**63, -(2**63), 10**400, 1e308, -0.0, True, False, None])
)
JSON = st.recursive(
    st.one_of(TEXT, NUMBERS),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXT, inner, max_size=4)),
    max_leaves=12,
)
FIELDS = ["agent", "host", "load", "disks", "engines", "gpus", "networks", "pressure", "limits", "schema", "swap", "instance_id"]
INNER = ["id", "boot", "sequence", "interval_s", "age_s", "cpu_percent", "cpus", "labels", "mount", "model", "kind", "port",
         "members", "requests", "waiting", "uptime_s", "sent_at", "load1", "memory_total_bytes", "started_s_ago", "index",
         "device"]  # fmt: skip
PARTS = st.dictionaries(st.sampled_from(INNER), JSON, max_size=8)
HEARTBEATS = st.fixed_dictionaries(
    {"node": st.one_of(st.sampled_from(["n1", "n2"]), FINE)},
    optional={name: st.one_of(PARTS, st.lists(PARTS, max_size=3), JSON) for name in FIELDS},
)
QUERY = st.dictionaries(
    st.one_of(st.sampled_from(["q", "state", "model", "label", "sort", "order", "range", "embed", "theme", "refresh", "group",
                               "view", "measure", "columns", "at", "start", "end", "node", "cores", "memory_gib", "include_dead",
                               "next"]), FINE),
    st.one_of(FINE, st.sampled_from(["1h", "24h", "cpu", "desc", "fresh", "1", "-1", "1e999", "nan", "0", "2026-11-30T03:00Z"])),
    max_size=6,
)  # fmt: skip
SHARED = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None)


@pytest.fixture(scope="module")
def site():
    """A control plane with a store, filled with one node."""
    store = Store(None, commit_every=None)
    registry = Registry(record=store.record)
    app = create_app(registry, EmbeddedHistory(store), access=Access(key=b"k" * 32))
    app.testing = False
    client = app.test_client()

    def forget_all() -> None:
        """The fleet stays small, or each case would be slower than the one before."""
        for node in registry.nodes():
            if node.name not in ("cpu-07", "n1", "n2"):
                registry.forget(node.name)

    client.forget_all = forget_all
    client.post("/v1/nodes/heartbeat", json={"node": "cpu-07", "engines": [{"id": "e", "model": "m"}]})
    client.post("/v1/instance/register", json={"host": "cpu-07", "port": 8000})
    store.commit()
    yield client
    store.close()


def check(answer, path: str) -> None:
    assert answer.status_code != 500, path
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    body = answer.get_data()
    if answer.mimetype == "application/json" and body:
        strict(body.decode())


def one_line(error: Exception) -> None:
    assert len(str(error).splitlines()) == 1
    assert str(error).isprintable()


@SHARED
@given(HEARTBEATS)
def test_any_heartbeat_is_taken_or_refused_and_every_output_stays_readable(site, message):
    body = json.dumps(message).encode()
    answer = site.post("/v1/nodes/heartbeat", data=body)
    check(answer, "heartbeat")
    assert answer.status_code in (200, 400, 409)
    metrics = site.get("/metrics").text
    names = [family.name for family in text_string_to_metric_families(metrics)]
    assert len(names) == len(set(names))
    for path in ("/", f"/nodes/{quote(str(message['node']), safe='')}"):
        check(site.get(path), path)
    site.forget_all()


@SHARED
@given(st.binary(max_size=200), st.sampled_from(["", "gzip", "identity", "br", "gzip, gzip"]))
def test_any_bytes_are_answered_as_json(site, body, encoding):
    for path in (
        "/v1/nodes/heartbeat",
        "/v1/instance/register",
        "/v1/instance/heartbeat",
        "/v1/instance/resource_snapshot",
        "/v1/instance/unregister",
    ):
        headers = {"Content-Encoding": encoding} if encoding else {}
        answer = site.post(path, data=body, headers=headers)
        check(answer, path)
        assert answer.mimetype == "application/json"


@SHARED
@given(JSON, st.sampled_from(["register", "heartbeat", "resource_snapshot", "unregister"]))
def test_any_json_is_answered_by_the_instance_protocol(site, message, which):
    check(site.post(f"/v1/instance/{which}", data=json.dumps(message).encode()), which)


GET = sorted({path.partition("?")[0] for _, who, path in ROUTES.values() if path and who != "agent"})


@SHARED
@given(st.sampled_from(GET), QUERY)
def test_any_query_is_answered(site, path, query):
    for headers in ({}, HTMX):
        place, _, more = path.partition("?")
        check(site.get(place, query_string=dict(parse_qsl(more)) | query, headers=headers, buffered=True), path)


@SHARED
@given(FINE, st.sampled_from(["GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "TRACE", "X"]))
def test_any_path_is_answered_in_its_format(site, path, method):
    start = (
        "",
        "nodes/",
        "fragments/",
        "fragments/node/",
        "fragments/charts/",
        "v1/",
        "admin/",
        "login",
        "shared/",
        "instances/",
    )
    for place in start:
        check(site.open("/" + place + quote(path.lstrip("/")), method=method, buffered=True), place)
    raw = {"PATH_INFO": "/" + path.encode().decode("latin-1")}
    check(site.open("/", method=method, buffered=True, environ_overrides=raw), path)


HEADERS = st.dictionaries(
    st.sampled_from(["Host", "Origin", "Cookie", "Authorization", "X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host",
                     "Accept", "X-Forwarded-Prefix", "X-Forwarded-User", "Forwarded", "Content-Type", "If-None-Match",
                     "HX-Request", "Range",
                     "Sec-Fetch-Site", "HX-Current-URL", "Content-Encoding", "If-Modified-Since", "Transfer-Encoding"]),
    st.text(string.printable[:95] + "\xe9\xff", max_size=30), max_size=6,
)  # fmt: skip


@pytest.fixture(scope="module")
def proxied(tmp_path_factory):
    """Control planes that ask for tokens, behind no proxy, one and two."""
    file = tmp_path_factory.mktemp("proxied") / "tokens"
    file.write_text("a-token-of-viewers\n")
    store = Store(None, commit_every=None)
    clients = []
    for hops in range(3):
        access = Access(key=b"k" * 32, viewers=TokenFile(file, b"k"))
        app = create_app(Registry(), EmbeddedHistory(store), access=access, hops=hops)
        app.testing = False
        clients.append(app.test_client())
    yield clients
    store.close()


@SHARED
@given(HEADERS, st.sampled_from(GET), st.integers(0, 2))
def test_any_header_is_answered(proxied, headers, path, hops):
    check(proxied[hops].get(path, headers=headers, buffered=True), path)
    check(proxied[hops].post("/login", data={"token": "x", "next": "/"}, headers=headers), "/login")


@SHARED
@given(FINE)
def test_any_cookie_form_and_link_is_nobody(site, text):
    access = Access(key=b"k" * 32)
    with contextlib.suppress(LinkRefused):
        EmbedLinks(b"k").path(text)
        raise AssertionError("a link that nobody signed")
    assert not access.is_our_form(NOBODY, text)
    check(site.get("/", headers={"Cookie": f"{COOKIE}={quote(text)}"}), "cookie")


@given(FINE)
def test_a_prefix_is_a_plain_path_or_none(text):
    found = prefix(text)
    assert found is None or found == "" or (found.startswith("/") and "//" not in found and ".." not in found.split("/"))


@given(st.lists(st.tuples(st.sampled_from(["q", "state", "label", "sort", "order", "model", "group", "view"]), FINE), max_size=6))
def test_any_query_is_a_selection_that_reads_back(pairs):
    selection = Selection.of(pairs)
    assert Selection.of(pairs) == selection
    assert selection.query == "" or selection.query.startswith("?")


@given(TEXT)
def test_a_logged_name_is_one_printable_line(text):
    assert plain(text).isprintable()
    assert len(plain(text).splitlines()) <= 1


TOML = st.lists(
    st.one_of(
        st.tuples(st.sampled_from([setting.name for setting in settings_of("serve")] + ["x", "[a]", "[[engine]]"]), FINE).map(
            lambda pair: f"{pair[0]} = {pair[1]}"
        ),
        st.tuples(st.sampled_from([setting.name for setting in settings_of("serve")]), st.one_of(NUMBERS, FINE)).map(
            lambda pair: f"{pair[0]} = {json.dumps(pair[1])}"
        ),
        FINE,
    ),
    max_size=5,
).map("\n".join)


@SHARED
@given(st.one_of(TOML.map(str.encode), st.binary(max_size=100)), st.sampled_from(sorted(COMMANDS)))
def test_any_file_of_settings_is_read_or_refused_in_one_line(tmp_path_factory, content, command):
    file: Path = tmp_path_factory.getbasetemp() / "settings.toml"
    file.write_bytes(content)
    parser = argparse.ArgumentParser()
    add_flags(parser, settings_of(command))
    flags = parser.parse_args([])
    flags.config = str(file)
    try:
        resolve(settings_of(command), flags, {})
    except SettingError as error:
        one_line(error)


@given(st.dictionaries(st.sampled_from([setting.variable for setting in settings_of("serve") if not setting.file_only]), TEXT))
def test_any_environment_is_read_or_refused_in_one_line(environment):
    environment.pop("ENGINEHOUSE_CONFIG", None)
    try:
        resolve(settings_of("serve"), argparse.Namespace(), environment)
    except SettingError as error:
        one_line(error)


@SHARED
@given(st.one_of(st.binary(max_size=300), TEXT.map(lambda text: text.encode("utf-8", "replace"))))
def test_any_file_of_tokens_or_notes_is_read_or_refused_in_one_line(tmp_path_factory, content):
    file: Path = tmp_path_factory.getbasetemp() / "any"
    file.write_bytes(content)
    try:
        TokenFile(file, b"key")
    except AccessUnusable as error:
        one_line(error)
    file.write_bytes(content)
    Notes(file)
