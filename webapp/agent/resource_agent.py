"""`enginehouse resource-agent`: this machine's readings for whoever asks on a local port.

Samples on its own clock and answers from the last sample. Before the first one the answer is 503, so that
nobody takes "not measured yet" for "nothing used".
"""

from __future__ import annotations

import json
import logging
import socket
import threading
from collections.abc import Mapping, Sequence
from types import SimpleNamespace

from webapp.addresses import is_loopback, url
from webapp.agent import arguments, http_server, stopping
from webapp.agent.clock import Clock, next_due
from webapp.agent.engines.declared import declared
from webapp.agent.engines.metrics import EngineMetrics
from webapp.agent.http_server import Answer, answer
from webapp.agent.machine.gpu import Gpus
from webapp.agent.machine.network import Networks
from webapp.agent.resource_snapshot import GpuWindows, to_mapping
from webapp.agent.resources import Resources
from webapp.agent.sampler import Sample, Sampler, Sensors
from webapp.measurement import FRESH_FOR_SECONDS
from webapp.settings import SettingError
from webapp.snapshot import SCHEMA

log = logging.getLogger("enginehouse.resource-agent")

#: Where nobody says whose machine this is.
UNNAMED = "unknown"

#: Seconds between the first two readings, so that the first answer has rates.
FIRST_PAUSE_S = 0.25


class Snapshots:
    """The last snapshot, as it is answered."""

    def __init__(self, instance_id: str, windows: GpuWindows, interval_s: float, clock: Clock | None = None) -> None:
        self._instance_id = instance_id
        self._windows = windows
        self._stale_after_s = max(FRESH_FOR_SECONDS, 3 * interval_s)
        self._clock = clock or Clock()
        #: Without its closing brace, and when it was taken on the boot clock.
        self._last: tuple[bytes, float] | None = None

    def take(self, sample: Sample) -> None:
        """Answer with this sample from now on."""
        now = self._clock.boottime()
        message = to_mapping(
            sample.measurement,
            instance_id=self._instance_id,
            timestamp_ms=round((self._clock.wall() - (now - sample.taken)) * 1000),
            gpu_windows=self._windows.add(sample.measurement.gpus, sample.taken * 1000),
            gpu_window_ms=round(self._windows.window_ms),
        )
        self._last = json.dumps(message, separators=(",", ":"), allow_nan=False).encode()[:-1], sample.taken

    def answer(self) -> Answer:
        """The snapshot with its age; 503 while there is none, or only one that is too old."""
        if self._last is None:
            return self._unready("not_ready")
        body, taken = self._last
        age_s = max(0.0, self._clock.boottime() - taken)
        if age_s > self._stale_after_s:
            return self._unready("stale_sample")
        return Answer(200, b'%s,"age_ms":%d}' % (body, round(age_s * 1000)))

    def _unready(self, error: str) -> Answer:
        return answer(503, (("Retry-After", "1"),), ok=False, error=error, schema_version=SCHEMA, instance_id=self._instance_id)


def sample_forever(resources: Resources, snapshots: Snapshots, interval_s: float, stop: threading.Event, clock: Clock) -> None:
    """Measures each `interval_s` until `stop` is set; a measurement that takes longer costs the next one."""
    _measure(resources)
    stop.wait(min(FIRST_PAUSE_S, interval_s))
    due = clock.monotonic()
    while not stop.is_set():
        sample = _measure(resources)
        if sample is not None:
            snapshots.take(sample)
        now = clock.monotonic()
        due = next_due(due, now, interval_s)
        stop.wait(due - now)


def _measure(resources: Resources) -> Sample | None:
    try:
        return resources.measure()
    except Exception:  # one bad reading must not end the agent
        log.exception("this machine could not be measured")
        return None


def main(given: Sequence[str], environment: Mapping[str, str]) -> int:
    """The resource agent as a command. Raises SettingError."""
    return run(arguments.read("resource-agent", given, environment))


def run(settings: SimpleNamespace) -> int:
    """Answers until SIGTERM or SIGINT. Raises SettingError before anything starts."""
    interval_s = settings.sample_interval_ms / 1000
    host, port = settings.agent_listen
    if not settings.allow_anonymous and not is_loopback(host or "0.0.0.0"):
        raise SettingError(f"--listen={host}:{port}: others can read it there; pass --allow-anonymous if that is intended")
    resources = _resources(settings, interval_s)
    try:
        listener = http_server.listen(host, port)
    except OSError as error:
        raise SettingError(f"--listen={host}:{port}: cannot listen there: {error.strerror}") from error
    clock = Clock()
    windows = GpuWindows(settings.gpu_util_window_ms, settings.gpu_util_max_samples)
    snapshots = Snapshots(settings.instance_id or UNNAMED, windows, interval_s, clock)
    stop = threading.Event()
    sampling = threading.Thread(
        target=sample_forever, args=(resources, snapshots, interval_s, stop, clock), name="sampling", daemon=True
    )
    routes = {"/healthz": lambda: answer(200, ok=True), "/v1/resource/snapshot": snapshots.answer}
    with stopping.signals() as came:
        sampling.start()
        log.info("the resource agent of %r is at %s", settings.instance_id or UNNAMED, url(host, listener.getsockname()[1]))
        http_server.HttpServer(listener, routes).run(came)
    stop.set()
    sampling.join(2.0)
    return 0


def _resources(settings: SimpleNamespace, interval_s: float) -> Resources:
    everything = Sampler(
        settings.node or socket.gethostname(),
        settings.proc,
        settings.sys,
        declared=declared(settings.engine),
        discover=settings.discover,
        sensors=Sensors(engine_metrics=EngineMetrics()),
    )
    # The window of the answers is made here, of single looks.
    gpus = Gpus(settings.sys, settings.proc, look_seconds=min(2.0, interval_s), window_seconds=1e-6)
    return Resources(
        settings.proc, settings.sys, everything=everything, networks=Networks(settings.proc, settings.sys), gpus=gpus
    )
