"""Host names and IP addresses as people and programs write them.

Runs on nodes: standard library only, CPython 3.9 and later.
"""

from __future__ import annotations

import ipaddress
from urllib.parse import quote


def plain(host: str) -> str:
    """A host to compare by: no brackets, no zone, one spelling.

    >>> [plain(host) for host in ("[::1]", "FE80::1%eth0", "2001:DB8:0::3222", "::ffff:10.0.0.7", "GPU-1.example.")]
    ['::1', 'fe80::1', '2001:db8::3222', '10.0.0.7', 'gpu-1.example']
    """
    host = host.strip()
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    name = host.partition("%")[0]
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return host.casefold().rstrip(".")
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address)


def is_address(host: str) -> bool:
    """Whether it is an IP address, not a name."""
    try:
        ipaddress.ip_address(plain(host))
    except ValueError:
        return False
    return True


def is_loopback(host: str) -> bool:
    """Whether it means the machine itself: a loopback address, or a name that stands for one (RFC 6761, section 6.3).

    >>> [is_loopback(host) for host in ("127.0.0.1", "127.8.8.8", "[::1]", "::ffff:127.0.0.1", "localhost", "a.localhost")]
    [True, True, True, True, True, True]
    >>> [is_loopback(host) for host in ("10.0.0.7", "0.0.0.0", "localhost.example", "")]
    [False, False, False, False]
    """
    name = plain(host)
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return name == "localhost" or name.endswith(".localhost")


def is_own(host: str) -> bool:
    """Whether it says nothing to others about where it is: loopback, every address, or nothing at all."""
    return plain(host) in ("", "0.0.0.0", "::") or is_loopback(host)


def url(host: str, port: int) -> str:
    """The address of a server.

    >>> url("10.0.0.7", 9001), url("2001:db8::3222", 9001), url("[::1]", 9001)
    ('http://10.0.0.7:9001/', 'http://[2001:db8::3222]:9001/', 'http://[::1]:9001/')
    >>> url("fe80::1%eth0", 9001), url("a b", 80)
    ('http://[fe80::1%25eth0]:9001/', 'http://a%20b:80/')
    """
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if ":" in bare:
        address, percent, zone = bare.partition("%")
        zone = zone[2:] if zone.startswith("25") else zone
        return f"http://[{quote(address, safe=':.')}{'%25' + quote(zone, safe='') if percent else ''}]:{port}/"
    return f"http://{quote(bare, safe='')}:{port}/"
