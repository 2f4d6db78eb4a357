"""Traffic of the devices that carry it to and from the node, from /proc/net/dev.

A packet passes several devices on its way (a bond and its slaves, a bridge, a container's veth). Counted are
physical devices and bonds; where there are none, as inside a container, whatever is not virtual by its name.
https://docs.kernel.org/networking/statistics.html
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from webapp.measurement import Network

#: Devices that only pass on what others carry: never physical, whatever else is known.
_VIRTUAL = re.compile(
    r"(lo$|lo:|veth|docker|br-|br\d|virbr|vmbr|vnet|lxc|lxdbr|podman|cni|cali|cilium|flannel|weave|kube-|nodelocaldns|"
    r"azv|tun|tap|wg|ifb|dummy|gre|gretap|erspan|sit|ip6|ip_vti|vxlan|geneve|macv|ipvl|nlmon|teql|bonding_masters|"
    r"ovs|fwbr|fwpr|fwln|team\d)"
)
_BOND = re.compile(r"bond\d+$")

#: As many as a heartbeat carries.
_MOST_DEVICES = 64

#: Faster than this is a misread.
_FASTEST_BYTES_PER_SECOND = 1e13

#: /sys/class/net/<device>/speed is in Mbit/s; -1 and its unsigned form mean that it is not known.
_FASTEST_MEGABITS_PER_SECOND = 10_000_000


class Counters(NamedTuple):
    """Bytes since the device came up."""

    receive: int
    transmit: int


class _Reading(NamedTuple):
    counters: Counters
    #: Number that a device keeps as long as it lives, or "" where it can't be read.
    ifindex: str


class _About(NamedTuple):
    """What /sys says about a device."""

    is_physical: bool
    is_bond: bool
    master: str


class Networks:
    """Rates of each device since the reading before."""

    def __init__(self, proc: Path = Path("/proc"), sys: Path = Path("/sys")) -> None:
        # Where a host's /proc is mounted elsewhere, `net` leads to the reader's own network, 1/net to the host's.
        self._files = [proc / "net" / "dev"] if proc == Path("/proc") else [proc / "1/net/dev", proc / "net" / "dev"]
        self._bonding = proc / "net" / "bonding"
        self._classes = sys / "class" / "net"
        self._before: dict[str, _Reading] = {}

    def measure(self, elapsed_s: float | None) -> tuple[Network, ...]:
        """One entry a device, in the kernel's order. `elapsed_s`: since the call before; None at the first one."""
        counters = parse(self._text())
        readings = {
            device: _Reading(counters[device], _line(self._classes / device / "ifindex")) for device in self._carriers(counters)
        }
        networks = tuple(
            Network(
                device=device[:64],
                speed_bits_per_second=_speed(_line(self._classes / device / "speed")),
                **_rates(self._before.get(device), reading, elapsed_s),
            )
            for device, reading in list(readings.items())[:_MOST_DEVICES]
        )
        self._before = readings
        return networks

    def _text(self) -> str:
        for file in self._files:
            try:
                return file.read_text("utf-8", "replace")
            except OSError:
                continue
        return ""

    def _carriers(self, counters: Mapping[str, Counters]) -> list[str]:
        candidates = [device for device in counters if not _VIRTUAL.match(device) and not _is_alias(device, counters)]
        about = {device: self._about(device) for device in candidates}
        carriers = [device for device in candidates if about[device].is_physical or about[device].is_bond]
        if carriers:
            carriers = [device for device in carriers if about[device].master not in carriers]
            return [device for device in carriers if any(counters[device]) or not self._is_down(device)]
        return self._carriers_by_name([device for device in candidates if "." not in device])

    def _about(self, device: str) -> _About:
        directory = self._classes / device
        try:
            master = os.path.basename(os.readlink(directory / "master"))
        except OSError:
            master = ""
        return _About((directory / "device").exists(), (directory / "bonding").exists(), master)

    def _is_down(self, device: str) -> bool:
        return _line(self._classes / device / "operstate") in ("down", "notpresent")

    def _carriers_by_name(self, candidates: list[str]) -> list[str]:
        bonds = [device for device in candidates if _BOND.match(device)]
        if not bonds:
            return candidates
        slaves = set()
        for bond in bonds:
            try:
                text = (self._bonding / bond).read_text("utf-8", "replace")
            except OSError:
                return bonds  # which devices are its slaves is not known: rather one device less than traffic twice
            slaves.update(re.findall(r"^Slave Interface:\s*(\S+)", text, re.MULTILINE))
        return [device for device in candidates if device not in slaves]


def parse(text: str) -> dict[str, Counters]:
    """The devices in /proc/net/dev, in its order. Aliases have a colon in their name.

    >>> parse("bond0:1: 7 1 0 0 0 0 0 0 9 1 0 0 0 0 0 0\\neth1:0:55 1 0 0 0 0 0 0 66 1 0 0 0 0 0 0")
    {'bond0:1': Counters(receive=7, transmit=9), 'eth1:0': Counters(receive=55, transmit=66)}
    """
    found = {}
    for line in text.splitlines():
        device, _, numbers = line.rpartition(":")
        words = numbers.split()
        device = device.strip()
        if device and len(words) >= 9 and _is_count(words[0]) and _is_count(words[8]):
            found[device] = Counters(int(words[0]), int(words[8]))
    return found


def _is_count(word: str) -> bool:
    return word.isdecimal() and len(word) <= 20


def _is_alias(device: str, others: Iterable[str]) -> bool:
    """Second name of a device that is there itself, so that its traffic is counted already."""
    name, colon, _ = device.partition(":")
    return bool(colon) and name in others


def _rates(before: _Reading | None, now: _Reading, elapsed_s: float | None) -> dict[str, float | None]:
    """Bytes a second; unknown at the first reading, and when the device is another one or began anew.

    >>> _rates(_Reading(Counters(1000, 0), "2"), _Reading(Counters(3000, 500), "2"), 10.0)
    {'receive_bytes_per_second': 200.0, 'transmit_bytes_per_second': 50.0}
    """
    receive = transmit = None
    if before is not None and elapsed_s is not None and elapsed_s > 0 and before.ifindex == now.ifindex:
        received = now.counters.receive - before.counters.receive
        sent = now.counters.transmit - before.counters.transmit
        if received >= 0 and sent >= 0:
            receive, transmit = _rate(received, elapsed_s), _rate(sent, elapsed_s)
    return {"receive_bytes_per_second": receive, "transmit_bytes_per_second": transmit}


def _rate(count: int, elapsed_s: float) -> float | None:
    rate = count / elapsed_s
    return rate if rate <= _FASTEST_BYTES_PER_SECOND else None


def _speed(text: str) -> float | None:
    """Bits a second.

    >>> _speed("25000"), _speed("-1"), _speed("4294967295"), _speed("")
    (25000000000.0, None, None, None)
    """
    if not text.isdecimal() or not 0 < int(text[:20]) <= _FASTEST_MEGABITS_PER_SECOND:
        return None
    return int(text) * 1e6


def _line(file: Path) -> str:
    """What a small file of /sys says, or "" where it says nothing: the driver of a link that is down may refuse."""
    try:
        return file.read_text("ascii", "replace").strip()
    except OSError:
        return ""
