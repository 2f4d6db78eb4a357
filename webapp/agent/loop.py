"""Heartbeats, for ever: one thread samples on its own clock, one thread a control plane sends.

A fleet is spread over the interval by its nodes' names, after a restart of the control plane too: whoever failed
waits for one of its own next beats. Nothing queues: what is late is replaced by what is new.
"""

from __future__ import annotations

import dataclasses
import logging
import threading
import zlib
from collections.abc import Callable, Sequence

from webapp import __version__, heartbeat
from webapp.agent.answers import NotDelivered, without_secrets
from webapp.agent.clock import Clock
from webapp.agent.identity import new_uuid
from webapp.agent.lines import one_line
from webapp.agent.machine.host import reachable_address
from webapp.agent.sampler import Sample, Sampler
from webapp.agent.sender import Sender
from webapp.measurement import FRESH_FOR_SECONDS, LONGEST_INTERVAL_SECONDS, SHORTEST_INTERVAL_SECONDS, Agent

log = logging.getLogger("enginehouse.agent")

DEFAULT_INTERVAL_S = 10.0

#: Seconds between the first two readings, so that the first heartbeat has rates.
FIRST_PAUSE_S = 1.0

#: Longest wait after failures, in intervals.
_MOST_SKIPPED = 3


def phase(node: str, interval_s: float) -> float:
    """The node's own place in the interval, in seconds: the same in every run.

    >>> 0 <= phase("cpu-07", 10.0) < 10
    True
    """
    return zlib.crc32(node.encode("utf-8", "surrogatepass")) / 2**32 * interval_s


def next_beat(now: float, phase_s: float, interval_s: float) -> float:
    """The next moment of the node's own, at least half an interval away.

    >>> next_beat(103.0, 7.0, 10.0), next_beat(109.0, 1.0, 10.0)
    (117.0, 121.0)
    """
    ahead = (phase_s - now) % interval_s
    return now + (ahead if ahead >= interval_s / 2 else ahead + interval_s)


class Heartbeats:
    """Makes messages of samples: numbers them and says who measured."""

    def __init__(self, agent_id: str, clock: Clock) -> None:
        self._id = agent_id
        self._boot = new_uuid()
        self._sequence = 0
        self._clock = clock

    def number(self, sample: Sample, interval_s: float) -> Sample:
        self._sequence += 1
        agent = Agent(self._id, self._boot, self._sequence, __version__, interval_s)
        return sample._replace(measurement=dataclasses.replace(sample.measurement, agent=agent))

    def age_s(self, sample: Sample) -> float:
        """Seconds since /proc was read, suspend included."""
        return max(0.0, self._clock.boottime() - sample.taken)

    def message(self, sample: Sample, local_address: str, answered: float | None = None) -> bytes:
        """The body as it is sent now. `answered`: when the control plane took the last one, on the boot clock."""
        measurement = sample.measurement
        return heartbeat.write(
            dataclasses.replace(
                measurement,
                agent=dataclasses.replace(
                    measurement.agent,
                    sent_at=self._clock.wall(),
                    answered_s_ago=None if answered is None else max(0.0, self._clock.boottime() - answered),
                ),
                host=dataclasses.replace(measurement.host, address=reachable_address(local_address)),
                load=dataclasses.replace(measurement.load, age_s=self.age_s(sample)),
            )
        )


class Reporter:
    """Reports to one control plane: the newest sample, never an old one."""

    def __init__(self, sender: Sender, heartbeats: Heartbeats, clock: Clock) -> None:
        self._sender = sender
        self._heartbeats = heartbeats
        self._clock = clock
        self._newest: Sample | None = None
        self._changed = threading.Condition()
        self._stopped = False
        self._failures = 0
        self._failing_since = 0.0
        self._last_reason = ""
        self._skip = 0
        self._answered: float | None = None
        #: What the control plane asked for last.
        self.interval_s: float | None = None

    def offer(self, sample: Sample) -> None:
        """Replaces the sample that waits, if one does."""
        with self._changed:
            self._newest = sample
            self._changed.notify()

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify()

    def run(self) -> None:
        """Sends until it is stopped."""
        while True:
            with self._changed:
                while self._newest is None and not self._stopped:
                    self._changed.wait()
                sample, self._newest = self._newest, None
                if self._stopped or sample is None:
                    return
            self.report(sample)

    def report(self, sample: Sample) -> bool:
        """Sends one sample; after failures only every second, then every third beat is tried."""
        if self._skip > 0:
            self._skip -= 1
            return False
        if self._heartbeats.age_s(sample) > FRESH_FOR_SECONDS:
            return False  # the machine slept in between; the next sample is on its way
        try:
            self.interval_s = self._sender.send(lambda address: self._heartbeats.message(sample, address, self._answered))
        except NotDelivered as error:
            self._failed(str(error))
            return False
        except Exception as error:  # whatever it is, the next heartbeat must go out
            if repr(error) != self._last_reason:
                log.debug("heartbeat to %s", without_secrets(self._sender.server), exc_info=True)
            self._failed(repr(error))
            return False
        self._delivered()
        return True

    def _failed(self, reason: str) -> None:
        if not self._failures:
            self._failing_since = self._clock.monotonic()
        self._failures += 1
        self._skip = min(self._failures, _MOST_SKIPPED) - 1
        if reason != self._last_reason:
            log.warning("heartbeat to %s failed: %s", without_secrets(self._sender.server), reason)
        self._last_reason = reason

    def _delivered(self) -> None:
        self._answered = self._clock.boottime()
        if self._failures:
            log.info(
                "heartbeat to %s delivered again after %d failures in %.0f s",
                without_secrets(self._sender.server),
                self._failures,
                self._clock.monotonic() - self._failing_since,
            )
        self._failures = self._skip = 0
        self._last_reason = ""


def report_once(sampler: Sampler, reporters: Sequence[Reporter], heartbeats: Heartbeats, wait: Callable[[float], object]) -> bool:
    """One heartbeat to each control plane, after two readings; whether all of them took it."""
    sampler.measure()
    wait(FIRST_PAUSE_S)
    sample = heartbeats.number(sampler.measure(), DEFAULT_INTERVAL_S)
    taken = [reporter.report(sample) for reporter in reporters]
    return all(taken)


def report_forever(
    node: str,
    sampler: Sampler,
    reporters: Sequence[Reporter],
    heartbeats: Heartbeats,
    stop: threading.Event,
    interval_s: float | None = None,
    clock: Clock | None = None,
) -> None:
    """Samples and reports until `stop` is set. `interval_s`: the operator's; else what the control planes ask for."""
    clock = clock or Clock()
    threads = [threading.Thread(target=reporter.run, name="reporter", daemon=True) for reporter in reporters]
    for thread in threads:
        thread.start()
    log.info("node %s reports, version %s", one_line(node), __version__)
    readings = _Readings(sampler)
    readings.measure()
    stop.wait(FIRST_PAUSE_S)
    # The wall clock sets the grid once: agents that were started together don't beat together.
    offset = clock.wall() - clock.monotonic()
    while not stop.is_set():
        every = interval_s or _asked(reporters)
        sample = readings.measure()
        if sample:
            numbered = heartbeats.number(sample, every)
            for reporter in reporters:
                reporter.offer(numbered)
        now = clock.monotonic()
        stop.wait(next_beat(now + offset, phase(node, every), every) - offset - now)
    for reporter in reporters:
        reporter.stop()
    for thread in threads:
        thread.join(2.0)


class _Readings:
    """Measures on when a reading fails; a run of failures is logged when it starts and when it ends."""

    def __init__(self, sampler: Sampler) -> None:
        self._sampler = sampler
        self._failing = False

    def measure(self) -> Sample | None:
        try:
            sample = self._sampler.measure()
        except Exception:  # one bad reading must not end the agent
            if not self._failing:
                log.exception("this machine could not be measured")
            self._failing = True
            return None
        if self._failing:
            log.info("this machine could be measured again")
        self._failing = False
        return sample


def _asked(reporters: Sequence[Reporter]) -> float:
    asked = [reporter.interval_s for reporter in reporters if reporter.interval_s]
    return min(max(min(asked, default=DEFAULT_INTERVAL_S), SHORTEST_INTERVAL_SECONDS), LONGEST_INTERVAL_SECONDS)
