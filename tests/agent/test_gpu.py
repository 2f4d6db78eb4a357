"""GPUs, reported by a fake NVML and by a /sys of AMD's driver."""

from __future__ import annotations

import csv
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from webapp.agent.machine import gpu_amd
from webapp.agent.machine.gpu import GpuReading, Gpus
from webapp.agent.machine.gpu_nvidia import Nvidia, Seen
from webapp.measurement import Gpu

FIXTURES = Path(__file__).parent.parent / "fixtures" / "gpu"
MIB = 1024**2
PATIENCE = 20.0

UNINITIALIZED, NOT_SUPPORTED, NO_PERMISSION, DRIVER_NOT_LOADED, LIBRARY_NOT_FOUND, IS_LOST, MISMATCH = 1, 3, 4, 9, 12, 15, 18


class NVMLError(Exception):
    def __init__(self, value: int) -> None:
        super().__init__(f"error {value}")
        self.value = value


class FakeNvml:
    """The part of pynvml that is used. A device is a dict; a value that is an exception is raised."""

    nvmlMemory_v2 = 0x2000028

    def __init__(self, *devices: dict[str, object], begins: object = None) -> None:
        self.devices = list(devices)
        self.begins = begins
        self.attempts = 0
        self.count: object = None

    def nvmlInit(self) -> None:
        self.attempts += 1
        self._reported(self.begins)

    def nvmlShutdown(self) -> None:
        pass

    def nvmlDeviceGetCount(self) -> object:
        return self._reported(len(self.devices) if self.count is None else self.count)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> object:
        return self._reported(self.devices[index].get("handle", self.devices[index]))

    def nvmlDeviceGetUUID(self, device) -> object:
        return self._reported(device.get("uuid", "GPU-1"))

    def nvmlDeviceGetName(self, device) -> object:
        return self._reported(device.get("name", "NVIDIA L4"))

    def nvmlDeviceGetUtilizationRates(self, device) -> object:
        return SimpleNamespace(gpu=self._reported(device.get("utilization", NVMLError(NOT_SUPPORTED))))

    def nvmlDeviceGetMemoryInfo(self, device, version=None) -> object:
        total, used = self._reported(device.get("memory", NVMLError(NOT_SUPPORTED)))
        return SimpleNamespace(total=total, used=used)

    def nvmlDeviceGetTemperature(self, device, sensor) -> object:
        assert sensor == 0
        return self._reported(device.get("temperature", NVMLError(NOT_SUPPORTED)))

    def nvmlDeviceGetPowerUsage(self, device) -> object:
        return self._reported(device.get("milliwatts", NVMLError(NOT_SUPPORTED)))

    def nvmlDeviceGetMigMode(self, device) -> object:
        return self._reported(device.get("mig", NVMLError(NOT_SUPPORTED)))

    def nvmlDeviceGetComputeRunningProcesses(self, device) -> object:
        return [SimpleNamespace(pid=pid, usedGpuMemory=used) for pid, used in self._reported(device.get("compute", []))]

    def nvmlDeviceGetGraphicsRunningProcesses(self, device) -> object:
        return [SimpleNamespace(pid=pid, usedGpuMemory=used) for pid, used in self._reported(device.get("graphics", []))]

    def _reported(self, value):
        if isinstance(value, Exception):
            raise value
        return value


@pytest.fixture
def look(tmp_path):
    """One look at a fake NVML's GPUs, on a node where the processes `alive` run."""

    def look(nvml: FakeNvml, alive: tuple[int, ...] = ()) -> Seen:
        for pid in alive:
            (tmp_path / str(pid)).mkdir(exist_ok=True)
        return Nvidia(tmp_path, tmp_path, nvml).look()

    return look


def captured(name: str) -> dict[str, object]:
    """A fake device that says what nvidia-smi said."""
    with (FIXTURES / f"{name}.csv").open() as file:
        (row,) = csv.DictReader(file, skipinitialspace=True)
    reported = {column.split(" [")[0]: value for column, value in row.items()}

    def number(column: str) -> float | NVMLError:
        value = reported[column].split()[0]
        return NVMLError(NOT_SUPPORTED) if value in ("[N/A]", "[Not") else float(value)

    with (FIXTURES / f"{name}-processes.csv").open() as file:
        processes = list(csv.DictReader(file, skipinitialspace=True))
    utilization = number("utilization.gpu")
    return {
        "uuid": reported["uuid"],
        "name": reported["name"],
        "utilization": utilization if isinstance(utilization, NVMLError) else int(utilization),
        "memory": (int(number("memory.total")) * MIB, int(number("memory.used")) * MIB),
        "temperature": int(number("temperature.gpu")),
        "milliwatts": round(number("power.draw") * 1000),
        "mig": {"Enabled": (1, 1), "Disabled": (0, 0)}.get(reported["mig.mode.current"], NVMLError(NOT_SUPPORTED)),
        "compute": [(int(p["pid"]), int(p["used_gpu_memory [MiB]"].split()[0]) * MIB) for p in processes],
    }


@pytest.mark.parametrize(
    ("name", "expected", "memory_by_pid"),
    [
        (
            "h100",
            ("NVIDIA H100 80GB HBM3", 100.0, 81559, 19818, 59.0, 631.95, None),
            {11327: 2566, 11328: 1542, 11345: 15690},
        ),
        (
            "h100-mig",
            ("NVIDIA H100 80GB HBM3", None, 81559, 11125, 53.0, 433.78, "in MIG mode the driver reports no utilisation"),
            {21180: 2296, 21181: 1272, 21198: 7484},
        ),
        (
            "rtx-4080-super",
            ("NVIDIA GeForce RTX 4080 SUPER", 7.0, 16376, 1474, 46.0, 84.24, None),
            {2165: 25, 5022: 503, 5021: 360},
        ),
    ],
)
def test_a_captured_gpu_is_reported_as_by_nvidia_smi(look, name, expected, memory_by_pid):
    seen = look(FakeNvml(captured(name)), alive=tuple(memory_by_pid))
    (gpu,) = seen.gpus
    assert gpu == Gpu(
        "GPU-00000000-0000-0000-0000-000000000000",
        0,
        expected[0],
        expected[1],
        expected[2] * MIB,
        expected[3] * MIB,
        expected[4],
        expected[5],
        error=expected[6],
    )
    assert seen.memory_by_pid == {pid: used * MIB for pid, used in memory_by_pid.items()}
    assert seen.error is None


@pytest.mark.parametrize("memory", [NVMLError(NOT_SUPPORTED), (0, 0), (None, None), (-1, 5)])
def test_memory_that_is_shared_with_the_host_is_unknown(look, memory):
    """T55"""
    (gpu,) = look(FakeNvml({"utilization": 37, "memory": memory, "temperature": 38})).gpus
    assert (gpu.utilization_percent, gpu.memory_total_bytes, gpu.memory_used_bytes) == (37.0, None, None)


@pytest.mark.parametrize(
    ("reported", "name"),
    [
        (b"\xf8\x01bad", "\ufffd\ufffdbad"),
        (b"NVIDIA L4", "NVIDIA L4"),
        ("NVIDIA L4", "NVIDIA L4"),
        (UnicodeDecodeError("utf-8", b"\xf8", 0, 1, "invalid start byte"), "NVIDIA GPU"),
    ],
)
def test_a_name_that_is_no_text_costs_the_name_only(look, reported, name):
    """T56"""
    (gpu,) = look(FakeNvml({"name": reported, "utilization": 5})).gpus
    assert (gpu.id, gpu.name, gpu.utilization_percent) == ("GPU-1", name, 5.0)


def test_gpus_are_told_apart_by_their_uuid_not_by_their_number(look):
    """T59"""
    first = look(FakeNvml({"uuid": "GPU-A", "name": "P40"}, {"uuid": "GPU-B", "name": "3090"}))
    second = look(FakeNvml({"uuid": "GPU-B", "name": "3090"}, {"uuid": "GPU-A", "name": "P40"}))
    assert {gpu.id: gpu.name for gpu in first.gpus} == {gpu.id: gpu.name for gpu in second.gpus}


def test_processes_that_can_not_be_are_dropped(look):
    """T61"""
    entries = [(4294967295, 12345), (0, None), (0, 5), (10, None), (11, 900 * MIB), (12, 5 * MIB), (13, 7 * MIB), (True, 5)]
    device = {"memory": (800 * MIB, 12 * MIB), "compute": entries, "graphics": [(12, 5 * MIB)]}
    assert look(FakeNvml(device), alive=(0, 10, 11, 12)).memory_by_pid == {12: 5 * MIB}


def test_memory_of_a_process_is_summed_over_gpus(look):
    devices = ({"uuid": "A", "compute": [(12, 5)]}, {"uuid": "B", "compute": [(12, 7)]})
    assert look(FakeNvml(*devices), alive=(12,)).memory_by_pid == {12: 12}


@pytest.mark.parametrize("code", [LIBRARY_NOT_FOUND, DRIVER_NOT_LOADED])
def test_a_node_without_nvidia_has_no_gpus_and_no_error(look, code):
    """T62"""
    assert look(FakeNvml(begins=NVMLError(code))) == Seen()


def test_a_probe_that_failed_is_an_error_and_no_gpu(look):
    """T62"""
    assert look(FakeNvml(begins=NVMLError(999))) == Seen(error="NVML: error 999")


def test_a_gpu_that_may_not_be_opened_is_shown_with_its_reason(look):
    seen = look(FakeNvml({"uuid": "A"}, {"handle": NVMLError(NO_PERMISSION)}))
    assert seen.gpus[1] == Gpu(id="nvidia-1", index=1, error="NVML: error 4")


def test_values_beyond_reason_are_unknown(look):
    device = {"utilization": 4294967295, "temperature": 9999, "milliwatts": 2**40, "memory": (10, 11)}
    (gpu,) = look(FakeNvml(device)).gpus
    assert gpu == Gpu("GPU-1", 0, "NVIDIA L4", memory_total_bytes=10)


def test_a_driver_that_was_updated_is_tried_again_with_growing_pauses(tmp_path):
    """T58"""
    now = [0.0]
    nvml = FakeNvml({"uuid": "A"}, begins=NVMLError(MISMATCH))
    nvidia = Nvidia(tmp_path, tmp_path, nvml, lambda: now[0])
    seen = nvidia.look()
    assert seen.gpus == ()
    assert "different versions" in seen.error
    for second in range(60):
        now[0] = float(second)
        assert nvidia.look().error == seen.error
    assert nvml.attempts == 4  # at 0, 5, 15 and 35 s
    nvml.begins = None
    now[0] = 75.0
    assert [gpu.id for gpu in nvidia.look().gpus] == ["A"]
    assert nvidia.look().error is None


def test_the_library_of_an_updated_driver_is_loaded_anew(tmp_path):
    """T58"""
    import ctypes

    nvml = FakeNvml(begins=NVMLError(MISMATCH))
    nvml.nvmlLib = ctypes.CDLL(None)
    nvml._nvmlGetFunctionPointer_cache = {"nvmlInit_v2": object()}
    Nvidia(tmp_path, tmp_path, nvml).look()
    assert nvml.nvmlLib is None
    assert nvml._nvmlGetFunctionPointer_cache == {}


def test_a_driver_that_is_lost_is_begun_again(tmp_path):
    now = [0.0]
    nvml = FakeNvml({"uuid": "A"})
    nvidia = Nvidia(tmp_path, tmp_path, nvml, lambda: now[0])
    nvidia.look()
    nvml.count = NVMLError(UNINITIALIZED)
    assert nvidia.look() == Seen(error="NVML: error 1")
    nvml.count, nvml.begins = None, NVMLError(DRIVER_NOT_LOADED)
    now[0] = 5.0
    assert nvidia.look() == Seen(error="an NVIDIA driver was loaded, but it does not answer")
    nvml.begins = None
    now[0] = 15.0
    assert [gpu.id for gpu in nvidia.look().gpus] == ["A"]


def test_a_driver_without_its_python_package_is_reported(tmp_path, monkeypatch):
    (tmp_path / "module" / "nvidia").mkdir(parents=True)

    def no_package(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr("webapp.agent.machine.gpu_nvidia.importlib.import_module", no_package)
    assert "nvidia-ml-py" in Nvidia(tmp_path, tmp_path).look().error


class Node:
    """GPUs of a node under a clock that is set by hand. The clock of the waits is the real one."""

    def __init__(self, root: Path, *devices: dict[str, object]) -> None:
        self.now = 0.0
        self.nvml = FakeNvml(*devices)
        self.gpus = Gpus(root, root, self.nvml, lambda: self.now, look_seconds=3600.0)

    def measured(self) -> GpuReading:
        self.gpus.measure()
        assert self.gpus.wait(PATIENCE)
        return self.gpus.measure()

    def look_again(self) -> GpuReading:
        """As if the time for the next look had come."""
        seen = self.gpus._look()
        self.gpus._take(seen)
        return self.gpus.measure()


@pytest.fixture
def node(tmp_path):
    nodes = []

    def node(*devices: dict[str, object]) -> Node:
        nodes.append(Node(tmp_path, *devices))
        return nodes[-1]

    yield node
    for one in nodes:
        one.gpus.close()


def test_a_machine_without_gpus_starts_no_thread(tmp_path):
    """T62"""
    before = threading.active_count()
    gpus = Gpus(tmp_path, tmp_path)
    assert gpus.measure() == GpuReading()
    assert gpus.wait(0.0)
    assert threading.active_count() == before


def test_until_the_first_look_has_ended_it_is_not_said_that_there_are_none(node):
    started, go_on = threading.Event(), threading.Event()
    one = node({"uuid": "A"})
    begin = one.nvml.nvmlInit

    def slow() -> None:
        started.set()
        go_on.wait(PATIENCE)
        begin()

    one.nvml.nvmlInit = slow
    assert one.gpus.measure() == GpuReading(error="GPUs are still being looked for")
    assert started.wait(PATIENCE)
    one.now = 12.0
    assert one.gpus.measure() == GpuReading(error="the GPU driver has not answered for 12 s")
    go_on.set()
    assert one.gpus.wait(PATIENCE)
    assert [gpu.id for gpu in one.gpus.measure().gpus] == ["A"]


def test_a_driver_that_hangs_makes_its_gpus_unknown_with_the_reason(node):
    one = node({"uuid": "A", "utilization": 50})
    assert one.measured().gpus[0].utilization_percent == 50.0
    one.now = 10.1
    reason = "the GPU driver has not answered for 10 s"
    assert one.gpus.measure() == GpuReading((Gpu(id="A", index=0, name="NVIDIA L4", error=reason),), reason)


def test_utilisation_is_the_mean_of_the_last_ten_seconds(node):
    one = node({"uuid": "A", "utilization": 100})
    one.measured()
    means = []
    for one.now, one.nvml.devices[0]["utilization"] in ((5.0, 0), (10.0, 20), (12.0, 10)):
        means.append(one.look_again().gpus[0].utilization_percent)
    assert means == [50.0, 10.0, 10.0]


def test_a_gpu_that_fell_off_the_bus_is_missing_since_then(node):
    one = node({"uuid": "A"}, {"uuid": "B"})
    one.measured()
    one.nvml.devices[0]["handle"] = NVMLError(IS_LOST)
    one.now = 7.0
    here, missing = one.look_again().gpus
    assert (here.id, here.missing_since_s) == ("B", None)
    assert missing == Gpu(id="A", index=0, name="NVIDIA L4", missing_since_s=7.0, error="NVML: error 15")
    del one.nvml.devices[0]["handle"]
    assert [gpu.missing_since_s for gpu in one.look_again().gpus] == [None, None]


def test_a_gpu_lost_while_it_is_asked_costs_no_other_its_values(node):
    one = node({"uuid": "A", "utilization": NVMLError(IS_LOST)}, {"uuid": "B", "utilization": 9})
    gpus = {gpu.id: gpu for gpu in one.measured().gpus}
    assert gpus["B"].utilization_percent == 9.0


def test_gpus_of_a_lost_driver_are_missing_with_its_reason(node):
    one = node({"uuid": "A"})
    one.measured()
    one.nvml.count = NVMLError(UNINITIALIZED)
    one.now = 3.0
    reading = one.look_again()
    assert reading.error == "NVML: error 1"
    assert reading.gpus == (Gpu(id="A", index=0, name="NVIDIA L4", missing_since_s=3.0, error="NVML: error 1"),)


@pytest.fixture
def amd(tmp_path):
    """Adds a card of AMD's driver to a /sys, and gives the /sys."""

    def amd(card: str = "card1", address: str = "0000:03:00.0", **files: str) -> Path:
        device = tmp_path / "devices" / address
        (device / "hwmon" / "hwmon4").mkdir(parents=True)
        (device / "power").mkdir()
        reported = {"vendor": "0x1002", "device": "0x74a1", "mem_info_vram_total": str(192 * 1024 * MIB), **files}
        for name, text in reported.items():
            (device / name.replace("__", "/")).write_text(text + "\n")
        (tmp_path / "class" / "drm" / card).mkdir(parents=True)
        (tmp_path / "class" / "drm" / card / "device").symlink_to(device)
        return tmp_path

    return amd


def test_an_amd_card_is_read_from_sys(amd):
    sys = amd(
        product_name="AMD Instinct MI300X",
        uevent="DRIVER=amdgpu\nPCI_SLOT_NAME=0000:03:00.0",
        gpu_busy_percent="87",
        mem_info_vram_used=str(64 * MIB),
        hwmon__hwmon4__temp1_input="45000",
        hwmon__hwmon4__power1_average="312000000",
    )
    (sys / "class" / "drm" / "card1-DP-1").mkdir()
    assert gpu_amd.look(sys) == (Gpu("0000:03:00.0", 0, "AMD Instinct MI300X", 87.0, 192 * 1024 * MIB, 64 * MIB, 45.0, 312.0),)


def test_what_an_amd_card_does_not_tell_is_unknown(amd):
    sys = amd(gpu_busy_percent="", mem_info_vram_used="-1")
    assert gpu_amd.look(sys) == (Gpu("0000:03:00.0", 0, "AMD GPU 0x74a1", memory_total_bytes=192 * 1024 * MIB),)


def test_an_amd_card_that_sleeps_is_not_woken(amd):
    (gpu,) = gpu_amd.look(amd(power__runtime_status="suspended", gpu_busy_percent="3"))
    assert (gpu.utilization_percent, gpu.error) == (None, "the GPU is asleep")


def test_cards_of_other_makers_are_not_amd_s(amd):
    assert gpu_amd.look(amd(vendor="0x10de")) == ()


def test_an_amd_card_is_found_without_nvidia(amd):
    gpus = Gpus(amd(gpu_busy_percent="50"), Path("/nonexistent"))
    gpus.measure()
    assert gpus.wait(PATIENCE)
    assert [gpu.utilization_percent for gpu in gpus.measure().gpus] == [50.0]
    gpus.close()


def test_nobody_looks_when_nobody_asks(tmp_path):
    now = [0.0]
    gpus = Gpus(tmp_path, tmp_path, FakeNvml({"uuid": "A"}), lambda: now[0], look_seconds=0.001)
    gpus.measure()
    looker = gpus._thread
    now[0] = 61.0
    looker.join(PATIENCE)
    assert not looker.is_alive()
    assert gpus.measure().error == "GPUs are still being looked for"
    gpus.close()
