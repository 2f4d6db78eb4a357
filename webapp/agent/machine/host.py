"""What hardly changes: kernel, processor, address."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from pathlib import Path

from webapp.agent.machine.proc import parse_cpu_model, parse_uptime, read_or_empty
from webapp.measurement import Host


class HostFacts:
    """Reads the kernel's release and the processor's name once."""

    def __init__(self, proc: Path, labels: Mapping[str, str]) -> None:
        self._proc = proc
        self._labels = dict(labels)
        release = read_or_empty(proc / "sys" / "kernel" / "osrelease", 256).strip()
        self._kernel = release.decode("utf-8", "replace") or None
        # On hundreds of cores the file is long; the name is at its beginning or nowhere.
        self._cpu_model = parse_cpu_model(read_or_empty(proc / "cpuinfo", 65536))

    def measure(self) -> Host:
        """All but the address, which the connection to a control plane shows."""
        return Host(
            kernel=self._kernel,
            cpu_model=self._cpu_model,
            uptime_s=parse_uptime(read_or_empty(self._proc / "uptime", 256)),
            labels=self._labels,
        )


def reachable_address(towards_control_plane: str) -> str:
    """The address to show for this node, given its own end of the connection to the control plane.

    A loopback address says nothing to others; then it is the one that the default route leaves from, if there is one.
    Nothing is sent: connecting a UDP socket only looks up the route (192.0.2.1 and 2001:db8::1 are documentation
    addresses).
    """
    if not (towards_control_plane.startswith("127.") or towards_control_plane == "::1"):
        return towards_control_plane
    for family, elsewhere in ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1")):
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as probe:
                probe.connect((elsewhere, 9))
                return str(probe.getsockname()[0])
        except OSError:
            continue
    return towards_control_plane
