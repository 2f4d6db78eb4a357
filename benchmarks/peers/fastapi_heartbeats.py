"""The peer for heartbeats: FastAPI, uvicorn and pydantic, as small as such an endpoint can be.

    python -m benchmarks.peers.fastapi_heartbeats PORT minimal|tuned

minimal: what `pip install fastapi uvicorn` gives; tuned: with uvloop and httptools, as `uvicorn[standard]` has them.
It validates the same body with the same fields, keeps the last of each node in a dict, and does nothing else: no
history, no text for /metrics, no replays, no conflicts.
"""

from __future__ import annotations

import sys

import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel, Field

Count = int | None
Number = float | None
Text = str | None


class Agent(BaseModel):
    id: Text = Field(None, max_length=64)
    boot: Text = Field(None, max_length=64)
    sequence: Count = Field(None, ge=0)
    version: Text = Field(None, max_length=64)
    interval_s: Number = Field(None, ge=0.05, le=3600)
    sent_at: Number = Field(None, ge=0, le=1e11)


class Host(BaseModel):
    address: Text = Field(None, max_length=253)
    kernel: Text = Field(None, max_length=253)
    cpu_model: Text = Field(None, max_length=253)
    uptime_s: Number = Field(None, ge=0, le=1e18)
    labels: dict[str, str] = {}


class Load(BaseModel):
    age_s: Number = Field(None, ge=0, le=1e18)
    interval_s: Number = Field(None, ge=0, le=1e7)
    cpu_percent: Number = Field(None, ge=0, le=100)
    cpus: Count = Field(None, ge=1, le=100_000)
    load1: Number = Field(None, ge=0, le=1e18)
    load5: Number = Field(None, ge=0, le=1e18)
    load15: Number = Field(None, ge=0, le=1e18)
    memory_total_bytes: Count = Field(None, ge=1)
    memory_used_bytes: Count = Field(None, ge=0)
    memory_available_bytes: Count = Field(None, ge=0)
    memory_free_bytes: Count = Field(None, ge=0)
    memory_cache_bytes: Count = Field(None, ge=0)
    memory_shared_bytes: Count = Field(None, ge=0)
    swap_total_bytes: Count = Field(None, ge=0)
    swap_used_bytes: Count = Field(None, ge=0)


class Disk(BaseModel):
    mount: str = Field(max_length=1024)
    device: Text = Field(None, max_length=1024)
    kind: Text = Field(None, max_length=64)
    total_bytes: Count = Field(None, ge=1)
    used_bytes: Count = Field(None, ge=0)
    available_bytes: Count = Field(None, ge=0)


class Network(BaseModel):
    device: str = Field(max_length=64)
    receive_bytes_per_second: Number = Field(None, ge=0, le=1e13)
    transmit_bytes_per_second: Number = Field(None, ge=0, le=1e13)
    speed_bits_per_second: Number = Field(None, ge=1)


class Gpu(BaseModel):
    id: str = Field(max_length=253)
    index: Count = Field(None, ge=0)
    name: Text = Field(None, max_length=253)
    utilization_percent: Number = Field(None, ge=0, le=100)
    memory_total_bytes: Count = Field(None, ge=1)
    memory_used_bytes: Count = Field(None, ge=0)
    temperature_celsius: Number = Field(None, ge=-60, le=200)
    power_watts: Number = Field(None, ge=0, le=10_000)


class Pressure(BaseModel):
    cpu_some: Number = Field(None, ge=0, le=1)
    memory_some: Number = Field(None, ge=0, le=1)
    memory_full: Number = Field(None, ge=0, le=1)
    io_some: Number = Field(None, ge=0, le=1)
    io_full: Number = Field(None, ge=0, le=1)


class Requests(BaseModel):
    waiting: Number = Field(None, ge=0, le=1e12)
    running: Number = Field(None, ge=0, le=1e12)


class Process(BaseModel):
    pid: int = Field(ge=1)
    started_s_ago: Number = Field(None, ge=0)
    command: Text = Field(None, max_length=64)
    state: Text = Field(None, max_length=1)
    ticks_before: Count = Field(None, ge=0)
    ticks_now: Count = Field(None, ge=0)
    cpu_cores: Number = Field(None, ge=0, le=100_000)
    memory_bytes: Count = Field(None, ge=0)


class Engine(BaseModel):
    id: str = Field(max_length=253)
    model: Text = Field(None, max_length=253)
    kind: Text = Field(None, max_length=64)
    state: Text = Field(None, max_length=16)
    declared: bool | None = None
    membership: Text = Field(None, max_length=64)
    pid: Count = Field(None, ge=1)
    port: Count = Field(None, ge=1, le=65535)
    cpu_cores: Number = Field(None, ge=0, le=100_000)
    memory_bytes: Count = Field(None, ge=0)
    memory_anonymous_bytes: Count = Field(None, ge=0)
    memory_file_bytes: Count = Field(None, ge=0)
    memory_shared_bytes: Count = Field(None, ge=0)
    processes: Count = Field(None, ge=0)
    started_s_ago: Number = Field(None, ge=0)
    requests: Requests = Requests()
    kv_cache_usage_ratio: Number = Field(None, ge=0, le=1)
    prompt_tokens_per_second: Number = Field(None, ge=0, le=1e9)
    generation_tokens_per_second: Number = Field(None, ge=0, le=1e9)
    members: list[Process] = Field([], max_length=64)


class Heartbeat(BaseModel):
    node: str = Field(max_length=253)
    agent: Agent = Agent()
    host: Host = Host()
    load: Load = Load()
    disks: list[Disk] = Field([], max_length=64)
    networks: list[Network] = Field([], max_length=64)
    gpus: list[Gpu] = Field([], max_length=64)
    pressure: Pressure = Pressure()
    engines: list[Engine] = Field([], max_length=256)
    demo: bool | None = None


app = FastAPI()
nodes: dict[str, Heartbeat] = {}


@app.post("/v1/nodes/heartbeat")
async def beat(heartbeat: Heartbeat) -> dict[str, object]:
    nodes[heartbeat.node] = heartbeat
    return {"ok": True, "interval_s": 10.0}


if __name__ == "__main__":
    loop, http = ("uvloop", "httptools") if sys.argv[2] == "tuned" else ("asyncio", "h11")
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="error", access_log=False, loop=loop, http=http)
