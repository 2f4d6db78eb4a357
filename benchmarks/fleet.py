"""The nodes that benchmarks are about: random numbers, the same in each run."""

from __future__ import annotations

import random
from dataclasses import replace

from webapp.measurement import Agent, Disk, Engine, Host, Load, Measurement, Network, Pressure, Requests

GIB = 2**30
MODELS = ("llama-3.1-8b", "qwen3-30b", "gpt-oss-120b", "gemma-3-27b")


def small_node(number: int, chance: random.Random) -> Measurement:
    """A node of 18 series, which with its two of contact makes 20."""
    return Measurement(
        f"node-{number:05}",
        agent=Agent(id=f"id-{number}", boot="boot", sequence=1, version="0.1.0", interval_s=10.0),
        host=Host(address="10.0.0.7", kernel="6.1.0", cpu_model="AMD EPYC 9354P 32-Core Processor"),
        load=Load(
            cpu_percent=chance.random() * 100,
            cpus=64,
            load1=chance.random() * 64,
            load5=chance.random() * 64,
            load15=chance.random() * 64,
            memory_total_bytes=256 * GIB,
            memory_used_bytes=chance.randrange(200 * GIB),
            memory_available_bytes=chance.randrange(200 * GIB),
        ),
        disks=tuple(
            Disk(mount=mount, total_bytes=900 * GIB, available_bytes=chance.randrange(900 * GIB)) for mount in ("/", "/models")
        ),
        networks=(Network(device="eth0", receive_bytes_per_second=chance.random() * 1e9, transmit_bytes_per_second=1e6),),
        pressure=Pressure(*(chance.random() for _ in range(4))),
    )


def node_with_engines(number: int, chance: random.Random) -> Measurement:
    """A node of three engines, 52 series in all."""
    node = small_node(number, chance)
    return replace(
        node,
        pressure=replace(node.pressure, io_full=chance.random()),
        engines=tuple(_engine(number, place, chance) for place in range(3)),
    )


def _engine(number: int, place: int, chance: random.Random) -> Engine:
    return Engine(
        id=f"vllm-{8000 + place}",
        model=MODELS[(number + place) % len(MODELS)],
        cpu_cores=chance.random() * 12,
        memory_bytes=chance.randrange(20 * GIB),
        memory_anonymous_bytes=chance.randrange(4 * GIB),
        memory_file_bytes=chance.randrange(16 * GIB),
        processes=4,
        started_s_ago=chance.random() * 1e6,
        requests=Requests(float(chance.randrange(9)), float(chance.randrange(9))),
        kv_cache_usage_ratio=chance.random(),
        prompt_tokens_per_second=chance.random() * 1000,
        generation_tokens_per_second=chance.random() * 300,
    )
