"""Engines that registered themselves: who they are, when they were heard, what their resource agents said last.

One rule says who lives: an instance is alive while it was heard at most `ttl_s` ago, to the fraction of a second,
by this machine's boot clock. The list, the pages and /metrics take it from `Instance`. Another rule says what is
shown: numbers that were collected more than a minute ago are left out, however often they are sent.

Nothing here is kept through a restart: a heartbeat of an instance that is not known makes it register again.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from webapp import snapshot
from webapp.fields import Rejection
from webapp.fleet import descriptions
from webapp.fleet.descriptions import Description, Load, ReportTimes
from webapp.fleet.instance import Instance, Report, is_alive
from webapp.fleet.listening import boottime
from webapp.snapshot import Snapshot

#: An instance that has been silent for longer is forgotten.
FORGET_AFTER_SECONDS = 3600.0

MOST_INSTANCES = 10_000

#: Bytes that the snapshots and capabilities of all instances may take together; those of at most USUAL_BYTES find room
#: whatever others sent.
LARGEST_INSTANCES_BYTES = 256 * 1024 * 1024
USUAL_BYTES = 16 * 1024


class UnknownInstance(Exception):
    """Nobody of that name is registered."""


class InstancesFull(Exception):
    """No room for one more instance, or for so much of one."""


class CapabilitiesWanted(Exception):
    """The instance speaks of capabilities that are not those kept here. `error` is the protocol's word."""

    def __init__(self, error: str, expected: str | None, reported: str) -> None:
        super().__init__(error)
        self.error = error
        self.expected = expected
        self.reported = reported


@dataclass
class _Record:
    description: Description
    seen: float
    registered_at: float
    source: str
    fingerprint: str | None = None
    #: The fingerprint that was last refused: it belongs to capabilities that come next without one.
    refused: str | None = None
    load: Load = field(default_factory=Load)
    load_at: float | None = None
    report: Report | None = None
    #: Of its capabilities, as JSON.
    capabilities_bytes: int = 0

    @property
    def bytes(self) -> int:
        return self.capabilities_bytes + (len(self.report.raw) if self.report else 0)


class Instances:
    """Every instance that registered and was not forgotten. Safe to use from many threads.

    Each message is taken in one locked step, and only a registration makes an instance: what was in flight while
    its instance unregistered changes nothing.
    """

    def __init__(
        self,
        ttl_s: float = 30.0,
        *,
        clock: Callable[[], float] = boottime,
        wall: Callable[[], float] = time.time,
        most: int = MOST_INSTANCES,
        most_bytes: int = LARGEST_INSTANCES_BYTES,
        forget_after_s: float = FORGET_AFTER_SECONDS,
    ) -> None:
        self.ttl_s = ttl_s
        #: Seconds between heartbeats that instances are asked for.
        self.interval_s = min(10.0, ttl_s / 3)
        self._clock = clock
        self._wall = wall
        self._most = most
        self._most_bytes = most_bytes
        self._forget_after = max(forget_after_s, ttl_s)
        self._lock = threading.Lock()
        self._records: dict[str, _Record] = {}
        #: Messages by kind and outcome.
        self.messages: Counter[str] = Counter()

    def register(self, body: Mapping[str, Any], source: str = "") -> tuple[str, str | None, tuple[Rejection, ...]]:
        """Its name, the fingerprint kept of its capabilities, and the fields that could not be used.

        What the body leaves out is kept as it was, an empty list or object clears. Capabilities are the
        program's that registers now: left out, there are none. Raises BadRequest, InstancesFull.
        """
        given = descriptions.registration(body)
        size = descriptions.size(given.capabilities)
        with self._lock:
            now = self._clock()
            known = self._records.get(given.instance_id)
            self._check_size(size, known.capabilities_bytes if known else 0)
            if known is None:
                self._make_room(now)
                known = self._records[given.instance_id] = _Record(given.onto(Description()), now, self._wall(), source)
            else:
                before = known.description
                known.description = given.onto(before)
                known.seen, known.source = now, source
                if before.host != known.description.host:
                    known.report = None  # another machine's resources
            known.fingerprint, known.refused, known.capabilities_bytes = given.fingerprint, None, size
            self.messages["registered"] += 1
            return given.instance_id, known.fingerprint, given.rejected

    def _make_room(self, now: float) -> None:
        if len(self._records) < self._most:
            return
        name, oldest = min(self._records.items(), key=lambda item: item[1].seen)
        if is_alive(now - oldest.seen, self.ttl_s):
            self.messages["full"] += 1
            raise InstancesFull(f"{self._most} instances are registered and alive; no room for one more")
        del self._records[name]

    def _check_size(self, size: int, before: int) -> None:
        """`size` is to take the place of `before`. Raises InstancesFull."""
        if size <= max(USUAL_BYTES, before):
            return
        if sum(one.bytes for one in self._records.values()) + size - before > self._most_bytes:
            self.messages["full"] += 1
            raise InstancesFull(f"what instances told takes {self._most_bytes} bytes already; no room for {size} more")

    def heartbeat(self, body: Mapping[str, Any]) -> tuple[Rejection, ...]:
        """The fields that could not be used. Raises BadRequest, UnknownInstance, CapabilitiesWanted, InstancesFull.

        A fingerprint that is not that of the capabilities kept here takes nothing in, not even the sign of life.
        """
        beat = descriptions.beat(body)
        with self._lock:
            record = self._record(beat.instance_id)
            if beat.capabilities is not None:
                size = descriptions.size(beat.capabilities)
                self._check_size(size, record.capabilities_bytes)
                record.capabilities_bytes = size
                known_as = beat.fingerprint or record.refused or descriptions.fingerprint(beat.capabilities)
                record.description = replace(record.description, capabilities=beat.capabilities)
                record.fingerprint, record.refused = known_as, None
            elif beat.fingerprint is not None and beat.fingerprint != record.fingerprint:
                record.refused = beat.fingerprint
                self.messages["capabilities_wanted"] += 1
                word = "unknown" if record.fingerprint is None else "mismatch"
                raise CapabilitiesWanted(f"capability_fingerprint_{word}", record.fingerprint, beat.fingerprint)
            record.seen = self._clock()
            if beat.load != Load():
                record.load = beat.load.onto(record.load)
                record.load_at = record.seen
            self.messages["heartbeat"] += 1
        return beat.rejected

    def report(self, body: Mapping[str, Any]) -> tuple[Rejection, ...]:
        """Take in a snapshot; the fields of it that could not be used. Raises BadRequest, UnknownInstance, InstancesFull."""
        instance_id, message, times = descriptions.report(body)
        read, rejected = snapshot.read(message)
        raw = descriptions.strict_text(message)
        with self._lock:
            record = self._record(instance_id)
            self._check_size(len(raw), len(record.report.raw) if record.report else 0)
            record.seen = now = self._clock()
            collected = now - _age_s(read, times, self._wall())
            before = record.report
            if before is not None and message.get("timestamp_ms") is not None and _is_same(read, raw, before):
                collected = min(collected, before.collected)
            record.report = Report(read, raw, times, rejected, collected, now)
            self.messages["report"] += 1
        return rejected

    def unregister(self, body: Mapping[str, Any]) -> bool:
        """False if it was not known. Raises BadRequest."""
        instance_id = descriptions.named(body)
        with self._lock:
            self.messages["unregistered"] += 1
            return self._records.pop(instance_id, None) is not None

    def _record(self, instance_id: str) -> _Record:
        record = self._records.get(instance_id)
        if record is None:
            self.messages["unknown"] += 1
            raise UnknownInstance(instance_id)
        return record

    def expire(self) -> None:
        """Forget who has been silent for too long."""
        with self._lock:
            now = self._clock()
            self._records = {name: one for name, one in self._records.items() if now - one.seen <= self._forget_after}

    def all(self, *, include_dead: bool = True) -> list[Instance]:
        """By name."""
        with self._lock:
            now, wall = self._clock(), self._wall()
            found = [self._seen(name, record, now, wall) for name, record in self._records.items()]
        return sorted((one for one in found if include_dead or one.is_alive), key=lambda one: one.instance_id)

    def get(self, instance_id: str) -> Instance | None:
        with self._lock:
            record = self._records.get(instance_id)
            return self._seen(instance_id, record, self._clock(), self._wall()) if record else None

    def is_empty(self) -> bool:
        return not self._records

    def _seen(self, name: str, record: _Record, now: float, wall: float) -> Instance:
        silent_s = max(0.0, now - record.seen)
        report = record.report
        return Instance(
            instance_id=name,
            description=record.description,
            fingerprint=record.fingerprint,
            load=record.load,
            load_s=None if record.load_at is None else max(0.0, now - record.load_at),
            report=report,
            collected_s=None if report is None else max(0.0, now - report.collected),
            silent_s=silent_s,
            ttl_s=self.ttl_s,
            interval_s=self.interval_s,
            registered_at=record.registered_at,
            last_seen_at=wall - silent_s,
            reported_at=None if report is None else wall - (now - report.received),
            source=record.source,
        )


def _is_same(read: Snapshot, raw: str, before: Report) -> bool:
    """Whether a snapshot that says its time was sent again; one whose time can't be read, if all of it is as before."""
    if read.timestamp_ms is None:
        return raw == before.raw
    return read.timestamp_ms == before.snapshot.timestamp_ms


def _age_s(read: Snapshot, times: ReportTimes, wall: float) -> float:
    """How old a snapshot is when it arrives, in seconds.

    By the clock of the machine that made it, where two of its times are given: its own age, else the time from
    collecting to reporting. Only where neither is, by our clock, which may differ. A clock that is ahead makes
    nothing younger than now.
    """
    if read.age_ms is not None:
        age_ms = read.age_ms
        if times.report_wall_time_ms is not None and read.timestamp_ms is not None:
            age_ms = max(age_ms, times.report_wall_time_ms - read.timestamp_ms)
    elif read.timestamp_ms is None:
        age_ms = 0.0
    else:
        age_ms = (wall * 1000 if times.report_wall_time_ms is None else times.report_wall_time_ms) - read.timestamp_ms
    return max(0.0, age_ms / 1000)
