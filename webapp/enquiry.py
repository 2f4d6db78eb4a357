"""Questions over HTTP whose failure is an answer: what went wrong on the way, and what helps."""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
import time
import urllib.error
import urllib.request
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple
from urllib.parse import urlsplit

#: Seconds for one step of a question, for all of it, and the size of its answer.
TIMEOUT_S = 5.0
WHOLE_S = 12.0
LONGEST_ANSWER = 1024 * 1024


class Finding(NamedTuple):
    """What one look showed."""

    state: Literal["ok", "unsure", "wrong"]
    what: str
    #: What helps, as an order.
    remedy: str = ""


class Answer(NamedTuple):
    """What came back; `date` is the server's Unix time, `asked_at` ours."""

    status: int
    kind: str
    body: bytes
    date: float | None
    asked_at: float


def ask(
    url: str, headers: dict[str, str] | None = None, body: bytes | None = None, ca_file: Path | None = None
) -> Answer | Finding:
    """The answer, whatever its status, or why there is none. Redirects are not followed."""
    place = urlsplit(url).netloc.rpartition("@")[2]
    found: list[Answer | Finding] = []
    # A server that sends a byte now and then keeps each read from ending late: the thread is left to it.
    asking = threading.Thread(target=lambda: found.append(_ask(place, url, headers or {}, body, ca_file)), daemon=True)
    asking.start()
    asking.join(WHOLE_S)
    if found:
        return found[0]
    return Finding("wrong", f"{place}: it did not answer in full within {WHOLE_S:.0f} s", "Look at the load of that machine.")


def _ask(place: str, url: str, headers: dict[str, str], body: bytes | None, ca_file: Path | None) -> Answer | Finding:
    try:
        context = ssl.create_default_context(cafile=str(ca_file) if ca_file else None)
        request = urllib.request.Request(url, body, headers)  # noqa: S310 - URL settings are http or https
        asked_at = time.time()
        try:
            with _opener(context).open(request, timeout=TIMEOUT_S) as answer:
                return _understood(answer, asked_at)
        except urllib.error.HTTPError as answer:
            with answer:
                return _understood(answer, asked_at)
    except urllib.error.URLError as error:
        return _unreachable(place, error.reason if isinstance(error.reason, Exception) else error)
    except (OSError, ValueError, http.client.HTTPException) as error:
        return _unreachable(place, error)


def _opener(context: ssl.SSLContext) -> urllib.request.OpenerDirector:
    """Leaves redirects to whoever asked, without a look at where they lead, which may be no address."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(context=context),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPErrorProcessor(),
    ):
        opener.add_handler(handler)
    return opener


def _understood(answer: Any, asked_at: float) -> Answer:
    try:
        date = parsedate_to_datetime(answer.headers.get("Date", "")).timestamp()
    except (ValueError, OverflowError):
        date = None
    return Answer(answer.status, answer.headers.get("Content-Type", ""), answer.read(LONGEST_ANSWER), date, asked_at)


def _unreachable(place: str, error: Exception) -> Finding:
    remedies: tuple[tuple[type[Exception], str, str], ...] = (
        (socket.gaierror, "its name cannot be resolved", "Check the name, and this machine's DNS."),
        (ssl.SSLCertVerificationError, "its certificate is not trusted", "Give the authority that signed it as --ca-file."),
        (ssl.SSLError, "it does not speak TLS on this port", "Check the port, and https or http."),
        (ConnectionResetError, "it closed the connection without an answer", "Check the port, and https or http."),
        (http.client.HTTPException, "it does not speak HTTP on this port", "Check the port, and https or http."),
        (
            ConnectionRefusedError,
            "nothing is listening there",
            "Start the control plane: enginehouse serve --listen ADDRESS:PORT, on an address that this machine reaches.",
        ),
        (
            TimeoutError,
            f"it did not answer within {TIMEOUT_S:.0f} s",
            "Look for a firewall between here and there; then at the load of that machine.",
        ),
    )
    for kind, what, remedy in remedies:
        if isinstance(error, kind):
            return Finding("wrong", f"{place}: {what}", remedy)
    return Finding(
        "wrong", f"{place}: {getattr(error, 'strerror', None) or error}", "Check the address and the network on the way."
    )
