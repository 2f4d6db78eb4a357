"""Kinds of settings: how a value is read from what was given, and how to say what is expected.

Runs on nodes: standard library only, CPython 3.9 and later.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Callable, NamedTuple


class Kind(NamedTuple):
    """A sort of value: how to make it from what was given, and how to say what is wanted."""

    #: Takes text (flag, environment) or a TOML value; raises ValueError.
    make: Callable[[Any], Any]
    #: Completes "expected ...".
    wanted: str
    #: Shown in --help for the value.
    metavar: str
    #: Messages never quote what was given.
    secret: bool = False
    #: Its least and its greatest value, in words; "" if it has none.
    bounds: str = ""


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value or "\0" in value:
        raise ValueError
    return value


def path(value: Any) -> Path:
    """Raises ValueError; also for the home of a user who is not there."""
    try:
        return Path(_text(value)).expanduser()
    except RuntimeError as error:
        raise ValueError from error


def _number(value: Any) -> float:
    if isinstance(value, bool) or (isinstance(value, str) and not _is_plain(value)):
        raise ValueError
    number = float(value)
    if not 0 <= number < 1e12:
        raise ValueError
    return number


def _is_plain(number: str) -> bool:
    """Python reads more as a number than an operator means by one: 1_0, and the digits of every script."""
    return number.isascii() and "_" not in number


def _positive(value: Any) -> float:
    number = _number(value)
    if number == 0:
        raise ValueError
    return number


def _whole(value: Any) -> int:
    if isinstance(value, (bool, float)) or (isinstance(value, str) and not _is_plain(value)):
        raise ValueError
    number = int(value)
    if number < 0:
        raise ValueError
    return number


def _switch(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    return {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}[
        str(value).lower()
    ]


def _address(value: Any) -> tuple[str, int]:
    """Host and port.

    >>> _address("[::1]:8765"), _address("127.0.0.1:8765"), _address(":8765")
    (('::1', 8765), ('127.0.0.1', 8765), ('', 8765))
    """
    host, colon, port = _text(value).rpartition(":")
    if (
        not colon
        or not (port.isascii() and port.isdecimal())
        or int(port) > 65535
        or (":" in host and not (host.startswith("[") and host.endswith("]")))
    ):
        raise ValueError
    return host.strip("[]"), int(port)


def _url(value: Any) -> str:
    from urllib.parse import urlsplit

    url = _text(value).rstrip("/")
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise ValueError
    if re.search(r"[\s\x00-\x1f\x7f]", url):  # no request could carry it
        raise ValueError
    parts.port  # noqa: B018 - raises ValueError if it is not a port
    return url


def _header(value: Any) -> tuple[str, str]:
    name, colon, text = _text(value).partition(":")
    text.encode("latin-1")
    if not colon or not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name) or any(ord(sign) < 32 for sign in text.strip()):
        raise ValueError
    return name, text.strip()


def _parameter(value: Any) -> tuple[str, str]:
    name, equals, text = _text(value).partition("=")
    if not name or not equals:
        raise ValueError
    return name, text


def _origin(value: Any) -> str:
    """Scheme, host and port of a page, as frame-ancestors takes it.

    >>> _origin("https://portal.example"), _origin("https://*.example:8443")
    ('https://portal.example', 'https://*.example:8443')
    """
    origin = _text(value)
    if not re.fullmatch(r"https?://(\*\.)?[A-Za-z0-9.-]+(:\d{1,5})?", origin):
        raise ValueError
    return origin


def _network(value: Any) -> Any:
    import ipaddress

    return ipaddress.ip_network(_text(value), strict=False)


def _duration(value: Any) -> float:
    """Seconds.

    >>> _duration("90"), _duration("12h"), _duration("7d")
    (90.0, 43200.0, 604800.0)
    """
    text = str(value).strip()
    unit = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}.get(text[-1:])
    return _positive(text[:-1]) * unit if unit else _positive(value)


def _table(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError
    return value


def _tables(value: Any) -> tuple[dict[str, Any], ...]:
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise ValueError
    return tuple(value)


def _port(value: Any) -> int:
    number = _whole(value)
    if not 0 < number <= 65535:
        raise ValueError
    return number


TEXT = Kind(_text, "a text", "TEXT")
PATH = Kind(path, "a path", "PATH")
SECONDS = Kind(_positive, "seconds, such as 10", "SECONDS")
MILLISECONDS = Kind(_positive, "milliseconds, such as 1000", "MS")
DURATION = Kind(_duration, "a duration, such as 90s, 12h or 7d", "DURATION")
NETWORK = Kind(_network, "an address or a network, such as 10.0.0.0/8", "NETWORK")
HOURS = Kind(_positive, "hours, such as 6", "HOURS")
COUNT = Kind(_whole, "a whole number, such as 20", "N")
PORT = Kind(_port, "a port from 1 to 65535", "PORT")
SWITCH = Kind(_switch, "on or off", "on|off")
ADDRESS = Kind(_address, "HOST:PORT, such as 127.0.0.1:8765", "HOST:PORT")
URL = Kind(_url, "an address such as http://127.0.0.1:8765", "URL")
HEADER = Kind(_header, "NAME: VALUE, such as X-Scope-OrgID: tenant-1", "HEADER", secret=True)
PARAMETER = Kind(_parameter, "NAME=VALUE, such as nocache=1", "NAME=VALUE", secret=True)
ORIGIN = Kind(_origin, "an origin such as https://portal.example", "ORIGIN")
TABLE = Kind(_table, "a table of texts", "")
TABLES = Kind(_tables, "a list of tables", "")


def choice(*names: str) -> Kind:
    def make(value: Any) -> str:
        if value not in names:
            raise ValueError
        return str(value)

    return Kind(make, "one of " + ", ".join(names), "|".join(names))


def within(kind: Kind, low: float, high: float = float("inf")) -> Kind:
    """A number of this kind from `low` to `high`.

    >>> within(HOURS, 6, 8784).wanted, within(COUNT, 1).wanted
    ('hours, 6 to 8784', 'a whole number, at least 1')
    """

    def make(value: Any) -> Any:
        number = kind.make(value)
        if not low <= number <= high:
            raise ValueError
        return number

    bounds = f"at least {low:g}" if high == float("inf") else f"{low:g} to {high:g}"
    return kind._replace(make=make, wanted=f"{kind.wanted.partition(',')[0]}, {bounds}", bounds=bounds)
