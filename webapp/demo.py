"""A made-up fleet, for looking at the pages and for screenshots; every message says `demo`.

What a node reports is a function of its number and of the time, so that the hour before the start, which is
written into the history, runs on into what is sent over HTTP afterwards.
"""

from __future__ import annotations

import http.client
import logging
import math
import random
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from webapp import __version__, heartbeat
from webapp.fleet.registry import Registry
from webapp.measurement import Agent, Disk, Engine, Gpu, Host, Load, Measurement, Network, Pressure, Process, Requests

log = logging.getLogger(__name__)

GIB = 2**30
INTERVAL_SECONDS = 10.0
#: Spacing of the made-up past, in seconds: as fine as the charts of an hour.
PAST_STEP_SECONDS = 15.0
PAST_SECONDS = 3600.0


@dataclass(frozen=True)
class _Model:
    name: str
    kind: str
    port: int
    #: Cores at full load, weights in GiB, share of the weights that is mapped from files.
    cores: float
    weights_gib: float
    mapped: float
    #: Whether its metrics report requests and tokens.
    reports_requests: bool = True


MODELS = (
    _Model("llama-3.3-70b-instruct", "vllm", 8000, 28, 74, 0.05),
    _Model("qwen3-32b", "llama.cpp", 8080, 22, 20, 0.92),
    _Model("gpt-oss-20b", "llama.cpp", 8081, 14, 12, 0.95),
    _Model("mistral-small-24b", "sglang", 30000, 18, 26, 0.05),
    _Model("gemma-3-12b", "ollama", 11434, 9, 8, 0.9, reports_requests=False),
    _Model("bge-m3", "tei", 3000, 3, 2.3, 0.4),
)

_MACHINES = (  # cores, memory in GiB, processor
    (64, 256, "AMD EPYC 9354P 32-Core Processor"),
    (128, 512, "AMD EPYC 9554 64-Core Processor"),
    (96, 384, "Intel Xeon Platinum 8468"),
    (32, 128, "AMD EPYC 7313 16-Core Processor"),
)


class Demo:
    """`nodes` made-up nodes; where there are at least four, the last is gone and the one before it stale."""

    def __init__(self, nodes: int) -> None:
        self._count = nodes
        self._silence = {nodes - 1: 2700.0, nodes - 2: 252.0} if nodes >= 4 else {}
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def past(self) -> Iterator[tuple[Measurement, float]]:
        """What each node reported in the hour before now, with the Unix times."""
        now = time.time()
        step = PAST_STEP_SECONDS if self._count <= 100 else 60.0
        for number in range(self._count):
            moment = now - PAST_SECONDS
            while moment <= now - self._silence.get(number, 0.0):
                yield node(number, moment), moment
                moment += step

    def restore_silent(self, registry: Registry) -> None:
        """The nodes that fell silent in that hour."""
        for number, silence in self._silence.items():
            last = time.time() - silence
            registry.restore(node(number, last), silent_s=silence, heard_at=last, first_heard_at=last - 40 * 86400)

    def start(self, url: str) -> None:
        """Send heartbeats to the control plane at `url` until `stop`."""
        self._thread = threading.Thread(target=self._send_all, args=(url,), name="demo", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread:
            self._thread.join(5)

    def _send_all(self, url: str) -> None:
        address = urlsplit(url)
        connection = http.client.HTTPConnection(address.hostname or "127.0.0.1", address.port, timeout=10)
        alive = [number for number in range(self._count) if number not in self._silence]
        sequence = 0
        while not self._stopping.is_set():
            sequence += 1
            started = time.monotonic()
            for index, number in enumerate(alive):
                due = started + index * INTERVAL_SECONDS / len(alive) if sequence > 1 else started
                if self._stopping.wait(max(0.0, due - time.monotonic())):
                    return
                try:
                    connection.request("POST", "/v1/nodes/heartbeat", heartbeat.write(node(number, time.time(), sequence)))
                    connection.getresponse().read()
                except (OSError, http.client.HTTPException) as error:
                    log.warning("demo: node %d could not be sent: %s", number, error)
                    connection.close()
            self._stopping.wait(max(0.0, started + INTERVAL_SECONDS - time.monotonic()))


def _wave(seed: int, moment: float, slowest_s: float = 5400.0) -> float:
    """0 to 1, smooth over minutes with a little noise; the same for the same seed and moment."""
    phase = random.Random(seed).random() * 2 * math.pi
    slow = math.sin(2 * math.pi * moment / slowest_s + phase)
    quick = math.sin(2 * math.pi * moment / 660 + 3 * phase)
    noise = random.Random(f"{seed} {moment // 10}").random() - 0.5
    return min(1.0, max(0.0, 0.48 + 0.30 * slow + 0.14 * quick + 0.16 * noise))


def name_of(number: int) -> str:
    return f"{'gpu' if number % 6 == 4 else 'cpu'}-{number + 1:02d}"


def node(number: int, moment: float, sequence: int = 1) -> Measurement:
    """What node `number` reports at a Unix time."""
    dice = random.Random(number)
    cpus, memory_gib, cpu_model = _MACHINES[dice.randrange(len(_MACHINES))]
    served = dice.sample(MODELS, k=dice.choice((1, 1, 2, 2, 3)))
    if number == 2:
        served = list(MODELS[:1])
    engines = [_engine(model, number, index, moment) for index, model in enumerate(served)]
    if number == 6:
        engines[0] = replace(engines[0], state="orphaned", requests=Requests(), metrics_error="metrics: connection refused")
    if number == 8:
        engines += _router(moment)
    engine_cores = sum(engine.cpu_cores or 0.0 for engine in engines)
    busy = min(float(cpus), engine_cores + 0.4 + 2 * _wave(number * 7 + 3, moment, 1800))
    if number == 2:
        busy = cpus * (0.955 + 0.04 * _wave(number, moment))
    anonymous = sum(engine.memory_anonymous_bytes or 0 for engine in engines)
    files = sum(engine.memory_file_bytes or 0 for engine in engines)
    total = memory_gib * GIB
    other = int(total * 0.02) + int(2 * GIB * _wave(number * 11, moment))
    used = min(total - GIB, anonymous + other + int(total * (0.62 if number == 5 else 0.0)))
    cache = min(total - used - GIB // 2, files + int(total * 0.11))
    disk_total = dice.choice((960, 1920, 3840)) * 10**9
    return Measurement(
        node=name_of(number),
        demo=True,
        agent=Agent(
            id=f"demo-{number}",
            boot="demo",
            sequence=sequence,
            version=__version__,
            interval_s=INTERVAL_SECONDS,
            sent_at=moment + (312.0 if number == 7 else 0.0),
        ),
        host=Host(
            address=f"192.0.2.{number % 250 + 1}",
            kernel="6.1.0-26-amd64",
            cpu_model=cpu_model,
            labels={"rack": f"b{number // 12 + 1}", "zone": ("north", "south")[number % 2]},
        ),
        load=Load(
            age_s=0.01,
            interval_s=INTERVAL_SECONDS,
            cpu_percent=round(100 * busy / cpus, 2),
            cpus=cpus,
            load1=round(busy * 1.04 + (30 if number == 2 else 0), 2),
            load5=round(busy * 0.98, 2),
            load15=round(busy * 0.9, 2),
            memory_total_bytes=total,
            memory_used_bytes=used,
            memory_available_bytes=total - used,
            memory_free_bytes=total - used - cache,
            memory_cache_bytes=cache,
            memory_shared_bytes=GIB // 4,
        ),
        disks=(
            Disk("/", "/dev/nvme0n1p2", "ext4", 480 * 10**9, 140 * 10**9, 316 * 10**9),
            Disk(
                "/models",
                "/dev/nvme1n1",
                "xfs",
                disk_total,
                int(disk_total * (0.93 if number == 3 else 0.3 + 0.4 * dice.random())),
                int(disk_total * (0.07 if number == 3 else 0.3)),
                holds=", ".join(f"{model.name}.gguf" for model in served),
            ),
        ),
        networks=(Network("eno1", 2e6 + 6e7 * _wave(number + 900, moment), 1e6 + 2e7 * _wave(number + 901, moment), 1e10),),
        gpus=_gpus(number, moment) if name_of(number).startswith("gpu") else (),
        gpu_error="NVML: driver and library versions differ; restart after the driver's update" if number == 9 else None,
        pressure=Pressure(round(max(0.0, busy / cpus - 0.6), 3), 0.0, 0.0, round(0.02 * _wave(number + 77, moment), 4), 0.0),
        engines=tuple(engines),
    )


def _engine(model: _Model, number: int, index: int, moment: float) -> Engine:
    busy = _wave(number * 31 + index, moment)
    waiting = max(0.0, round((busy - 0.55) * 34)) if model.reports_requests else None
    memory = int(model.weights_gib * GIB + 3 * GIB * busy)
    files = int(model.weights_gib * GIB * model.mapped)
    cores = round(model.cores * (0.04 + 0.9 * busy), 3)
    pid = 4000 + 100 * index + number
    age_s = (moment % (9 * 86400)) + 600
    members = _processes(model.kind, pid, age_s, cores, memory)
    return Engine(
        id=f"{model.kind}-{model.port}",
        model=model.name,
        kind=model.kind,
        state="running",
        pid=pid,
        port=model.port,
        cpu_cores=cores,
        memory_bytes=memory,
        memory_anonymous_bytes=memory - files - GIB // 8,
        memory_file_bytes=files,
        memory_shared_bytes=GIB // 8,
        processes=len(members),
        started_s_ago=age_s,
        requests=Requests(waiting, float(round(16 * busy)) if model.reports_requests else None),
        kv_cache_usage_ratio=round(0.1 + 0.8 * busy, 3) if model.kind in ("vllm", "sglang") else None,
        generation_tokens_per_second=round(busy * 1800 / model.weights_gib, 1) if model.reports_requests else None,
        membership="group",
        members=members,
    )


def _processes(kind: str, pid: int, age_s: float, cores: float, memory: int) -> tuple[Process, ...]:
    """A server, and the workers that do most of the work where the kind has them."""
    shares = (0.04, 0.32, 0.32, 0.32) if kind in ("vllm", "sglang") else (1.0,)
    return tuple(
        Process(
            pid + 1000 * place,
            max(1.0, age_s - 20 * place),
            kind[:15] if place == 0 else f"{kind}-worker"[:15],
            "S" if place == 0 else "R",
            100_000,
            100_000 + round(1000 * cores * share),
            round(cores * share, 3),
            round(memory * share),
        )
        for place, share in enumerate(shares)
    )


def _router(moment: float) -> list[Engine]:
    """A llama.cpp router and one model that it loaded."""
    router = Engine(
        id="llama.cpp-router-8090",
        kind="llama.cpp-router",
        state="running",
        pid=7000,
        port=8090,
        cpu_cores=0.02,
        memory_bytes=GIB // 8,
        memory_anonymous_bytes=GIB // 16,
        memory_file_bytes=GIB // 16,
        memory_shared_bytes=0,
        processes=1,
        started_s_ago=(moment % (9 * 86400)) + 600,
        metrics_error="metrics: not asked, since asking a router loads a model",
    )
    child = replace(_engine(MODELS[2], 8, 7, moment), id="llama.cpp-8090/gpt-oss-20b", port=41873, pid=7001)
    return [router, child]


def _gpus(number: int, moment: float) -> tuple[Gpu, ...]:
    if number == 10:
        lost = (Gpu(id="GPU-demo-10-1", index=1, name="NVIDIA L40S", missing_since_s=1900.0),)
        return (*_working_gpus(number, moment)[:1], *lost)
    return _working_gpus(number, moment)


def _working_gpus(number: int, moment: float) -> tuple[Gpu, ...]:
    return tuple(
        Gpu(
            id=f"GPU-demo-{number}-{index}",
            index=index,
            name="NVIDIA L40S",
            utilization_percent=round(100 * _wave(number * 13 + index, moment), 1),
            memory_total_bytes=48 * GIB,
            memory_used_bytes=int(48 * GIB * (0.5 + 0.4 * _wave(number * 17 + index, moment))),
            temperature_celsius=round(44 + 30 * _wave(number * 13 + index, moment)),
            power_watts=round(90 + 240 * _wave(number * 13 + index, moment)),
        )
        for index in range(2)
    )
