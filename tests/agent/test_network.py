"""Network devices on machines as they are built in the tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from webapp.agent.machine.network import Counters, Networks, parse

FIXTURES = Path(__file__).parent.parent / "fixtures"


class Machine:
    """A /proc and a /sys with network devices."""

    def __init__(self, root: Path) -> None:
        self.proc, self.sys = root / "proc", root / "sys"
        (self.proc / "net").mkdir(parents=True)
        self.networks = Networks(self.proc, self.sys)

    def counters(self, **devices: tuple[int, int]) -> None:
        """Received and sent bytes by device."""
        lines = [
            f"{device.rjust(6)}: {received} 1 0 0 0 0 0 0 {sent} 1 0 0 0 0 0 0" for device, (received, sent) in devices.items()
        ]
        (self.proc / "net" / "dev").write_text("Inter-| Receive\n face |bytes packets\n" + "\n".join(lines) + "\n")

    def about(self, device: str, *, physical: bool = False, bond: bool = False, master: str = "", **files: str) -> None:
        directory = self.sys / "class" / "net" / device
        directory.mkdir(parents=True, exist_ok=True)
        if physical:
            (directory / "device").mkdir()
        if bond:
            (directory / "bonding").mkdir()
        if master:
            (directory / "master").symlink_to(f"../{master}")
        for name, text in files.items():
            (directory / name).write_text(text)

    def rates(self, elapsed_s: float | None = 10.0) -> dict[str, tuple[float | None, float | None]]:
        return {
            network.device: (network.receive_bytes_per_second, network.transmit_bytes_per_second)
            for network in self.networks.measure(elapsed_s)
        }


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


def test_a_rate_needs_two_readings(machine):
    machine.counters(eth0=(1000, 100))
    assert machine.rates(None) == {"eth0": (None, None)}
    machine.counters(eth0=(3000, 100))
    assert machine.rates() == {"eth0": (200.0, 0.0)}
    assert machine.rates(0.0) == {"eth0": (None, None)}


def test_an_alias_is_read_with_its_colon_and_not_counted_beside_its_device(machine):
    """T49"""
    text = "bond0:1: 7 1 0 0 0 0 0 0 9 1 0 0 0 0 0 0\neth1:0:55 1 0 0 0 0 0 0 66 1 0 0 0 0 0 0"
    assert parse(text) == {"bond0:1": Counters(7, 9), "eth1:0": Counters(55, 66)}
    machine.counters(**{"eth1": (5, 5), "eth1:0": (1, 1), "eth7:0": (2, 2)})
    assert list(machine.rates()) == ["eth1", "eth7:0"]


def test_a_counter_that_began_anew_is_unknown_once(machine):
    """T50"""
    seen = []
    for received in (63_000_000_000, 120_000, 1_120_000):
        machine.counters(eth0=(received, 0))
        seen.append(machine.rates()["eth0"])
    assert seen == [(None, None), (None, None), (100_000.0, 0.0)]


@pytest.mark.parametrize("known_by", ["sys", "proc", "nobody"])
def test_a_bond_is_counted_once(machine, known_by):
    """T52"""
    if known_by == "sys":
        machine.about("bond0", bond=True)
        machine.about("eth0", physical=True, master="bond0")
        machine.about("eth1", physical=True, master="bond0")
    elif known_by == "proc":
        (machine.proc / "net" / "bonding").mkdir()
        (machine.proc / "net" / "bonding" / "bond0").write_text("Slave Interface: eth0\nSpeed: x\n\nSlave Interface: eth1\n")
    machine.counters(eth0=(0, 0), eth1=(0, 0), bond0=(0, 0), docker0=(0, 0), veth1=(0, 0), lo=(0, 0))
    machine.rates(None)
    traffic = {"eth0": 1e9, "eth1": 1e9, "bond0": 2e9, "docker0": 5e8, "veth1": 5e8, "lo": 7e8}
    machine.counters(**{device: (int(count), 0) for device, count in traffic.items()})
    assert machine.rates() == {"bond0": (2e8, 0.0)}


def test_a_device_in_a_bridge_counts_and_the_bridge_does_not(machine):
    machine.about("lan", master="")
    machine.about("eno1", physical=True, master="lan")
    machine.counters(lan=(5, 5), eno1=(5, 5))
    assert list(machine.rates()) == ["eno1"]


def test_a_virtual_function_under_a_physical_master_is_not_counted_beside_it(machine):
    machine.about("eth0", physical=True)
    machine.about("enP1s1", physical=True, master="eth0")
    machine.counters(eth0=(5, 5), enP1s1=(5, 5))
    assert list(machine.rates()) == ["eth0"]


def test_vlans_are_not_counted_beside_their_device(machine):
    machine.counters(**{"eth0": (5, 5), "eth0.100": (5, 5)})
    assert list(machine.rates()) == ["eth0"]


def test_the_first_device_that_is_not_lo_may_be_a_bridge(machine):
    """T53"""
    machine.about("eth0", physical=True, speed="-1\n", operstate="up\n")
    machine.counters(lo=(9, 9), docker0=(0, 0), eth0=(7, 7))
    (network,) = machine.networks.measure(None)
    assert (network.device, network.speed_bits_per_second) == ("eth0", None)


def test_the_speed_is_in_bits_a_second(machine):
    machine.about("eth0", physical=True, speed="25000\n")
    machine.counters(eth0=(7, 7))
    assert machine.networks.measure(None)[0].speed_bits_per_second == 25e9


def test_another_device_under_the_same_name_is_unknown(machine):
    """T53"""
    machine.about("eth0", physical=True, ifindex="2\n")
    machine.counters(eth0=(100, 100))
    machine.rates(None)
    (machine.sys / "class/net/eth0/ifindex").write_text("7\n")
    machine.counters(eth0=(200, 200))
    assert machine.rates() == {"eth0": (None, None)}


def test_a_device_that_came_between_the_readings_is_unknown(machine):
    machine.counters(eth0=(100, 100))
    machine.rates(None)
    machine.counters(eth1=(5000, 100))
    assert machine.rates() == {"eth1": (None, None)}


def test_a_device_that_was_never_up_is_left_out(machine):
    machine.about("eth0", physical=True, operstate="up")
    machine.about("eth1", physical=True, operstate="down")
    machine.about("eth2", physical=True, operstate="down")
    machine.counters(eth0=(5, 5), eth1=(0, 0), eth2=(9, 0))
    assert list(machine.rates()) == ["eth0", "eth2"]


def test_inside_a_container_its_own_end_of_the_cable_is_counted(machine):
    machine.about("eth0")
    machine.about("lo")
    machine.counters(lo=(1, 1), tunl0=(0, 0), eth0=(5, 5))
    assert list(machine.rates()) == ["eth0"]


def test_the_host_behind_a_mounted_proc_is_read_not_the_container(machine):
    machine.counters(eth0=(1, 1))
    (machine.proc / "1" / "net").mkdir(parents=True)
    (machine.proc / "1" / "net" / "dev").write_text("eno1: 5 1 0 0 0 0 0 0 6 1 0 0 0 0 0 0\n")
    assert list(machine.rates()) == ["eno1"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Inter-| x\n face |y\n",
        "eth0: 1 2\neth1: -1 0 0 0 0 0 0 0 5\n",
        "eth0: x\n:\n",
        "9" * 9999,
        "eth0: " + "9" * 5000 + " 0" * 15,
    ],
)
def test_a_broken_file_has_no_devices(machine, text):
    (machine.proc / "net" / "dev").write_text(text)
    assert machine.networks.measure(10.0) == ()


def test_a_machine_without_network_statistics_has_no_devices(tmp_path):
    assert Networks(tmp_path, tmp_path).measure(None) == ()
