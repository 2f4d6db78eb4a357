"""The fleet now: which nodes there are, what each reported last, and how long it has been silent.

Liveness is judged by this machine's own clock since receipt, never by a node's clock. A heartbeat is
accepted in one locked step, so that no older message, no replay and no message that was in flight while
its node was forgotten can change anything.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from operator import attrgetter
from typing import Literal

from webapp.fleet import refusals
from webapp.fleet.listening import Listening, boottime
from webapp.fleet.nodes import GONE_AFTER_SECONDS, Conflict, Node, state
from webapp.fleet.notes import Note, Notes
from webapp.fleet.record import LARGEST_FLEET_BYTES, Record, Records, Rival, generic
from webapp.fleet.transit import Transit
from webapp.fleet.verdict import Verdict, echo, judge
from webapp.heartbeat import Reading
from webapp.measurement import FRESH_FOR_SECONDS, Measurement

Outcome = Literal["accepted", "replayed"]


class Registry:
    """Every node that was heard and not forgotten. Safe to use from many threads."""

    def __init__(
        self,
        *,
        clock: Callable[[], float] = boottime,
        wall: Callable[[], float] = time.time,
        record: Callable[[Measurement, float, bytes | None], None] = lambda measurement, measured_at, message: None,
        drop: Callable[[str], None] = lambda name: None,
        listening: Listening | None = None,
        notes: Notes | None = None,
        most_nodes: int = 20_000,
        most_bytes: int = LARGEST_FLEET_BYTES,
        forget_after_seconds: float = 168 * 3600.0,
    ) -> None:
        """`record` keeps the measurement of a heartbeat, whose message it gets where that is without fault.

        `drop` removes what was kept of a node that is forgotten.

        Time in which `listening` says that nobody listened makes no node silent; none: all time was listened to.
        """
        self._clock = clock
        self._wall = wall
        self._record = record
        self._drop = drop
        self._listening = listening
        self._notes = notes or Notes()
        self._most_nodes = most_nodes
        self._forget_after = forget_after_seconds
        self._lock = threading.Lock()
        self._records = Records(most_bytes)
        self._forgotten: dict[str, float] = {}
        self._none_gone_before = float("-inf")
        #: Heartbeats by outcome, and fields left out by path.
        self.heartbeats: Counter[str] = Counter()
        self.rejections: Counter[str] = Counter()

    def now(self) -> float:
        """This registry's clock; pass it to `accept` as `arrived`."""
        return self._clock()

    def accept(self, reading: Reading, *, source: str = "", arrived: float | None = None) -> Outcome:
        """Take in one heartbeat that arrived at `arrived` (see `now`).

        "replayed" means that it was seen before or came late, and changed nothing.
        Raises HeartbeatConflict, HeartbeatForgotten, FleetFull.
        """
        arrived = self._clock() if arrived is None else arrived
        measurement = reading.measurement
        name = measurement.node
        with self._lock:
            known = self._records.get(name)
            verdict = judge(measurement, arrived, known, self._forgotten.get(name), self._silence)
            if verdict != "accepted":
                return self._turn_away(verdict, measurement, known, source, arrived)
            self._check_size(name, reading.size)
            if known is None:
                self._make_room(arrived)
            record = self._records[name] = self._updated(known, reading, source, arrived)
            self.heartbeats["accepted"] += 1
            self.rejections.update(generic(rejection.path) for rejection in reading.rejected)
        if record.heard - record.measured <= FRESH_FOR_SECONDS:
            self._record(measurement, record.heard_at - (record.heard - record.measured), reading.message)
        return "accepted"

    def _turn_away(
        self, verdict: Verdict, measurement: Measurement, known: Record | None, source: str, arrived: float
    ) -> Literal["replayed"]:
        """Count a heartbeat that is not taken in, and note on its node what it reveals. Raises like `accept`."""
        if verdict == "forgotten" or known is None:
            self.heartbeats["forgotten"] += 1
            raise refusals.forgotten(measurement.node)
        if verdict == "replayed":
            self.heartbeats["replayed"] += 1
            known.echo = echo(known, measurement, arrived)
            return "replayed"
        self.heartbeats["conflict"] += 1
        known.rival = Rival(measurement.agent.id or "", source, arrived)
        raise refusals.conflict(known, is_twin=verdict == "twin")

    def _missed(self, now: float) -> float:
        return self._listening.missed_s(now) if self._listening else 0.0

    def _missed_at(self, moment: float, now: float) -> float:
        self._missed(now)  # sees a gap that nobody has seen yet
        return self._listening.missed_at(moment) if self._listening else 0.0

    def _silence(self, record: Record, now: float) -> float:
        """Seconds in which it was listened for and not heard."""
        return max(0.0, now - record.heard - (self._missed(now) - record.missed))

    def _make_room(self, now: float) -> None:
        if len(self._records) < self._most_nodes:
            return
        oldest = None
        if now >= self._none_gone_before:  # else a flood of new names would have it searched each time
            oldest = min(self._records.values(), key=lambda record: record.heard)
            self._none_gone_before = now + GONE_AFTER_SECONDS - self._silence(oldest, now)
        if oldest is None or self._silence(oldest, now) <= GONE_AFTER_SECONDS:
            self.heartbeats["full"] += 1
            raise refusals.FleetFull(f"{self._most_nodes} nodes are known and none is gone; no room for one more")
        del self._records[oldest.name]
        self._drop(oldest.name)

    def _check_size(self, name: str, size: int) -> None:
        if self._records.lack_room(name, size):
            self.heartbeats["full"] += 1
            raise refusals.FleetFull(f"the heartbeats of all nodes take {self._records.bytes} bytes; no room for one of {size}")

    def _updated(self, known: Record | None, reading: Reading, source: str, arrived: float) -> Record:
        measurement = reading.measurement
        transit = known.transit if known is not None and known.measurement.agent.id == measurement.agent.id else Transit()
        uptime = measurement.host.uptime_s
        delay = 0.0 if uptime is None else transit.delay(uptime + (measurement.load.age_s or 0.0), arrived)
        heard_at = self._wall() - (self._clock() - arrived) - delay
        sent_at = measurement.agent.sent_at
        record = Record(
            name=measurement.node,
            measurement=measurement,
            heard=arrived - delay,
            measured=arrived - delay - (measurement.load.age_s or 0.0),
            heard_at=heard_at,
            first_heard_at=known.first_heard_at if known else heard_at,
            source=source,
            rejected=reading.rejected,
            size=reading.size,
            clock_offset_s=None if sent_at is None else sent_at - heard_at,
            missed=self._missed_at(arrived - delay, arrived),
            transit=transit,
        )
        if known is not None:
            if known.heir != (measurement.agent.id or ""):
                record.rival, record.heir = known.rival, known.heir
            record.past_boots, record.echo = known.past_boots, known.echo
            before = known.measurement.agent.boot
            if before and before != measurement.agent.boot:
                record.past_boots.append(before)
        return record

    def restore(
        self,
        measurement: Measurement,
        *,
        silent_s: float,
        heard_at: float,
        first_heard_at: float,
        unheard_s: float = 0.0,
        size: int = 0,
    ) -> None:
        """Put back a node that was known before a restart: last heard `silent_s` seconds ago; for `unheard_s` nobody listened."""
        now = self._clock()
        with self._lock:
            if measurement.node in self._records:
                return
            self._records[measurement.node] = Record(
                name=measurement.node,
                measurement=measurement,
                heard=now - silent_s,
                measured=now - silent_s - (measurement.load.age_s or 0.0),
                heard_at=heard_at,
                first_heard_at=first_heard_at,
                source="",
                rejected=(),
                clock_offset_s=None,
                size=size,
                missed=self._missed(now) - unheard_s,
            )

    def forget(self, name: str) -> bool:
        """Drop a node; heartbeats of it that are under way now are refused. False if it was not known."""
        now = self._clock()
        with self._lock:
            self._forgotten = {other: at for other, at in self._forgotten.items() if now - at <= FRESH_FOR_SECONDS}
            self._forgotten[name] = now
            known = self._records.discard(name)
        self._notes.set(name, None)
        self._drop(name)
        return known

    def annotate(self, name: str, text: str, by: str = "") -> bool:
        """Note why a node drains; "" takes the note off. False if it is not known."""
        if name not in self._records:
            return False
        self._notes.set(name, Note(text, by, self._wall()) if text else None)
        return True

    def hand_over(self, name: str) -> bool:
        """Give the name to the other agent that uses it; it takes it with its next heartbeat. False if there is none."""
        with self._lock:
            record = self._records.get(name)
            if record is None or record.rival is None or not record.rival.agent_id:
                return False
            record.heir = record.rival.agent_id
            return True

    def expire(self) -> list[str]:
        """Drop the nodes that were silent for longer than the retention setting; their names."""
        now = self._clock()
        with self._lock:
            records = list(self._records.values())
        silent = [record for record in records if self._silence(record, now) > self._forget_after]
        with self._lock:
            names = [record.name for record in silent if self._records.get(record.name) is record]
            for name in names:
                del self._records[name]
        for name in names:
            self._notes.set(name, None)
            self._drop(name)
        return names

    @property
    def count(self) -> int:
        return len(self._records)

    def nodes(self) -> list[Node]:
        now = self._clock()
        with self._lock:
            records = list(self._records.values())
            missed = self._missed(now)
        # Without the lock, so that no heartbeat waits: each has a record of its own, which hardly changes after it.
        return [self._seen(record, now, missed) for record in sorted(records, key=attrgetter("name"))]

    def node(self, name: str) -> Node | None:
        now = self._clock()
        with self._lock:
            record = self._records.get(name)
            return self._seen(record, now, self._missed(now)) if record else None

    def _seen(self, record: Record, now: float, missed: float) -> Node:
        conflict, rival = None, record.rival
        if rival is not None and now - rival.refused <= FRESH_FOR_SECONDS:
            is_heir = bool(rival.agent_id) and rival.agent_id == record.heir
            conflict = Conflict(rival.agent_id or "without an identity", rival.source, now - rival.refused, is_heir)
        interval, heard_s, measured_s = record.interval, now - record.heard, now - record.measured
        return Node(  # by place: by name, a fleet takes half as long again
            record.name,
            record.measurement,
            state(heard_s - (missed - record.missed), interval),
            heard_s if heard_s > 0 else 0.0,
            measured_s if measured_s > 0 else 0.0,
            record.heard_at,
            record.first_heard_at,
            interval,
            record.clock_offset_s,
            record.source,
            record.rejected,
            conflict,
            self._notes.get(record.name),
        )
