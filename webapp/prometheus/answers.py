"""What a server said: the API's JSON, or which of the many other things that can come in its place.

https://prometheus.io/docs/prometheus/latest/querying/api/#format-overview
"""

from __future__ import annotations

import re
from typing import Any

import requests

from webapp import json_object
from webapp.fields import printable
from webapp.history import HistoryUnavailable


class QueryRefused(HistoryUnavailable):
    """The server understood the query and said no; asking again changes nothing."""


class Rows(list[Any]):
    """The series of an answer, with the server's warnings."""

    warnings: tuple[str, ...] = ()


def envelope(response: requests.Response, body: bytes, name: str) -> dict[str, Any]:
    """The API's JSON object, if the answer is one that holds data; its `data.result` is `Rows`.

    `name` is what messages call the server. Raises QueryRefused where the server found fault with the query,
    HistoryUnavailable for everything else.
    """
    status = response.status_code
    if 300 <= status < 400:
        place = printable(response.headers.get("Location", "elsewhere"))[:100]
        raise HistoryUnavailable(f"{name} redirects to {place}; is that a login page?")
    found = json_object.read(body) if "json" in response.headers.get("Content-Type", "").lower() else None
    if found is None or found.get("status") not in ("success", "error"):
        raise HistoryUnavailable(f"{name} {_foreign(response)}")
    if found["status"] == "error":
        said = _one_line(found.get("error", "without a reason"))
        if status == 503 or found.get("errorType") in ("timeout", "canceled", "unavailable", "internal"):
            raise HistoryUnavailable(f"{name} could not answer: {said}")
        if status == 429:
            raise HistoryUnavailable(f"{name} limits the rate of queries: {said}")
        raise QueryRefused(f"{name} refused the query: {said}")
    data = found.get("data")
    if status != 200 or not isinstance(data, dict) or not isinstance(data.get("result"), list):
        raise HistoryUnavailable(f"{name} {_foreign(response)}")
    if data.get("resultType") in ("scalar", "string"):
        data["result"] = [{"metric": {}, "value": data["result"]}]
    data["result"] = Rows(data["result"])
    data["result"].warnings = _warnings(found)
    return found


def _one_line(value: Any) -> str:
    text = " ".join(printable(str(value)).split())
    return text if len(text) <= 300 else text[:299] + "…"


def _warnings(envelope: dict[str, Any]) -> tuple[str, ...]:
    given = envelope.get("warnings")
    found = [_one_line(text) for text in given[:5]] if isinstance(given, list) else []
    if envelope.get("isPartial") is True:
        found.append("parts of the server's storage did not answer")
    return tuple(found)


def _foreign(response: requests.Response) -> str:
    """What to say of an answer that is not the API's."""
    status = response.status_code
    kind = printable(response.headers.get("Content-Type", "no content type").partition(";")[0].strip()[:60])
    if status == 401:
        return "rejects the credentials (HTTP 401)"
    if status == 403:
        return "denies access (HTTP 403)"
    if status == 404:
        return "has no Prometheus API at this address (HTTP 404); does it lack a path?"
    if status == 429:
        return "limits the rate of queries (HTTP 429)"
    if status in (502, 503, 504):
        return f"is not reachable through the proxy in front of it (HTTP {status})"
    if status >= 400:
        return f"answered HTTP {status} ({kind})"
    if "html" in kind:
        return "answered with a web page; is there a login page in front of it?"
    return f"answered with something other than Prometheus' JSON ({kind})"


def mishap(error: Exception) -> str:
    """What to say of a connection that failed."""
    text = str(error)
    if isinstance(error, requests.exceptions.SSLError) or "CERTIFICATE" in text:
        reason = re.search(r"certificate verify failed: ([^(]+)", text)
        return f"shows a certificate that is not trusted{': ' + reason[1].strip() if reason else ''}"
    if isinstance(error, requests.exceptions.ProxyError):
        return "can't be reached through the proxy that the environment names"
    for sign, meaning in (
        ("refused", "can't be reached: connection refused"),
        ("NameResolution", "can't be reached: its name cannot be resolved"),
        ("unreachable", "can't be reached: no route to it"),
        ("IncompleteRead", "cut its answer short"),
        ("RemoteDisconnected", "closed the connection without an answer"),
        ("Connection aborted", "dropped the connection"),
        ("decod", "answered with something that can't be unpacked"),
    ):
        if sign in text or sign in type(error).__name__:
            return meaning
    return f"can't be queried: {type(error).__name__}"
