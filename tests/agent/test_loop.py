"""When heartbeats go out, with clocks that the tests move."""

from __future__ import annotations

import json
import logging
import statistics
import threading
from collections import Counter

import pytest

from webapp.agent.answers import NotDelivered
from webapp.agent.loop import Heartbeats, Reporter, next_beat, phase, report_forever, report_once
from webapp.agent.sampler import Sample
from webapp.measurement import Measurement


class FakeSender:
    """Takes heartbeats, or fails with `reason`."""

    server = "http://user:secret@house:8765"

    def __init__(self) -> None:
        self.sent: list[dict] = []
        self.reason = ""
        self.interval_s: float | None = 5.0

    def send(self, body):
        if self.reason:
            raise NotDelivered(self.reason)
        self.sent.append(json.loads(body("10.0.0.7")))
        return self.interval_s


@pytest.fixture
def sender():
    return FakeSender()


@pytest.fixture
def heartbeats(fake_clock):
    return Heartbeats("id-1", fake_clock)


@pytest.fixture
def reporter(sender, heartbeats, fake_clock):
    return Reporter(sender, heartbeats, fake_clock)


@pytest.fixture
def sample(heartbeats, fake_clock):
    """sample() -> a numbered sample, taken now."""
    return lambda: heartbeats.number(Sample(Measurement("cpu-07"), fake_clock.boottime()), 10.0)


def test_a_heartbeat_says_who_measured_when_and_how_long_ago(reporter, sender, sample, fake_clock):
    taken = sample()
    fake_clock.advance(0.25)
    assert reporter.report(taken)
    (message,) = sender.sent
    assert message["agent"]["id"] == "id-1"
    assert (message["agent"]["sequence"], message["agent"]["interval_s"], message["agent"]["sent_at"]) == (
        1,
        10.0,
        fake_clock.wall(),
    )
    assert message["load"]["age_s"] == 0.25
    assert message["host"]["address"] == "10.0.0.7"
    assert reporter.interval_s == 5.0


def test_a_heartbeat_says_when_the_control_plane_last_took_one(reporter, sender, sample, fake_clock):
    reporter.report(sample())
    assert "answered_s_ago" not in sender.sent[-1]["agent"]
    fake_clock.advance(10)
    reporter.report(sample())
    assert sender.sent[-1]["agent"]["answered_s_ago"] == 10
    sender.reason = "the answer was lost"
    fake_clock.advance(10)
    reporter.report(sample())
    sender.reason = ""
    fake_clock.advance(10)
    reporter.report(sample())
    assert sender.sent[-1]["agent"]["answered_s_ago"] == 20


def test_a_clock_that_is_set_back_changes_no_age(reporter, sender, sample, fake_clock):
    """T64, T71"""
    taken = sample()
    fake_clock.wall_now -= 3600
    fake_clock.advance(1.0)
    reporter.report(taken)
    assert sender.sent[0]["load"]["age_s"] == 1.0


def test_a_sample_from_before_a_suspend_is_dropped(reporter, sender, sample, fake_clock):
    """T71"""
    taken = sample()
    fake_clock.advance(10, asleep=6690)
    assert not reporter.report(taken)
    assert sender.sent == []
    assert reporter.report(sample())


def test_after_failures_only_some_of_the_own_beats_are_tried(reporter, sender, sample):
    sender.reason = "Connection refused"
    tried = []
    real = sender.send
    sender.send = lambda body: tried.append(numbered.measurement.agent.sequence - 1) or real(body)
    for _ in range(12):
        reporter.report(numbered := sample())
    assert tried == [0, 1, 3, 6, 9]
    sender.reason = ""
    for _ in range(3):
        reporter.report(numbered := sample())
    assert tried[5:] == [12, 13, 14]


def test_a_run_of_failures_is_logged_when_it_starts_changes_and_ends(reporter, sender, sample, fake_clock, caplog):
    caplog.set_level(logging.INFO)
    for reason in ["401 the token is missing or wrong"] * 20 + ["Connection refused"] * 20 + [""] * 3:
        sender.reason = reason
        reporter.report(sample())
        fake_clock.advance(10)
    lines = [record.getMessage() for record in caplog.records]
    assert lines[:2] == [
        "heartbeat to http://house:8765 failed: 401 the token is missing or wrong",
        "heartbeat to http://house:8765 failed: Connection refused",
    ]
    assert len(lines) == 3
    assert lines[2].startswith("heartbeat to http://house:8765 delivered again after ")


def test_whatever_breaks_in_one_heartbeat_the_next_is_sent(reporter, sender, sample, caplog):
    real = sender.send
    sender.send = lambda body: 1 / 0
    assert not reporter.report(sample())
    sender.send = real
    assert reporter.report(sample())
    assert "heartbeat to http://house:8765 failed: ZeroDivisionError" in caplog.text


def test_a_late_sample_is_replaced_by_a_new_one(reporter, sender, sample):
    """Nothing queues behind a slow control plane."""
    entered, release = threading.Event(), threading.Event()
    real = sender.send

    def slow(body):
        entered.set()
        assert release.wait(10)
        return real(body)

    sender.send = slow
    thread = threading.Thread(target=reporter.run, daemon=True)
    thread.start()
    reporter.offer(sample())
    assert entered.wait(10)
    sender.send = real
    for _ in range(3):
        reporter.offer(sample())
    delivered = threading.Event()
    sender.send = lambda body: (real(body), delivered.set())[0]
    release.set()
    assert delivered.wait(10)
    reporter.stop()
    thread.join(10)
    assert [message["agent"]["sequence"] for message in sender.sent] == [1, 4]


def test_a_fleet_is_spread_over_the_interval_after_an_outage(sender, heartbeats, sample, fake_clock):
    """T73: 1,000 agents, the control plane away for 5 s; arrivals in 100 ms over the next 60 s"""
    arrivals: Counter[int] = Counter()
    for number in range(1000):
        reporter = Reporter(sender, heartbeats, fake_clock)
        place = phase(f"node-{number:04}", 10.0)
        now = 0.0
        while (now := next_beat(now, place, 10.0)) < 80:
            sender.reason = "away" if 10 <= now < 15 else ""
            if reporter.report(sample()) and now >= 15:
                arrivals[int((now - 15) * 10)] += 1
    counts = [arrivals[slot] for slot in range(600)]
    assert max(counts) / statistics.mean(counts) < 3
    assert statistics.mean(counts) == pytest.approx(10, rel=0.05)


def test_a_node_beats_at_its_own_place_however_late_the_last_beat_was():
    for now in (100.0, 104.9, 105.1, 133.3):
        after = next_beat(now, 5.0, 10.0)
        assert after % 10 == pytest.approx(5.0)
        assert 5.0 <= after - now < 15.0


class FakeSampler:
    def __init__(self, clock) -> None:
        self.clock = clock
        self.measured = 0

    def measure(self) -> Sample:
        self.measured += 1
        if self.measured == 3:
            raise OSError("no /proc")
        return Sample(Measurement("cpu-07"), self.clock.boottime())


class FakeStop:
    """Waiting lets the fake clock pass; stops after some beats."""

    def __init__(self, clock, waits: int) -> None:
        self.clock, self.left, self.waited = clock, waits, []

    def is_set(self) -> bool:
        return self.left <= 0

    def wait(self, seconds: float) -> None:
        self.left -= 1
        self.waited.append(seconds)
        self.clock.advance(seconds)


class RecordingReporter:
    def __init__(self, interval_s: float | None) -> None:
        self.interval_s = interval_s
        self.offered: list[Sample] = []

    def run(self) -> None:
        pass

    def stop(self) -> None:
        pass

    def offer(self, sample: Sample) -> None:
        self.offered.append(sample)


def beats(fake_clock, heartbeats, reporters, **more) -> FakeStop:
    stop = FakeStop(fake_clock, 8)
    report_forever("cpu-07", FakeSampler(fake_clock), reporters, heartbeats, stop, clock=fake_clock, **more)
    return stop


def test_the_first_heartbeat_follows_the_first_reading_by_a_second(fake_clock, heartbeats):
    reporter = RecordingReporter(None)
    stop = beats(fake_clock, heartbeats, [reporter])
    assert stop.waited[0] == 1.0
    assert 5 <= stop.waited[1] < 15
    assert stop.waited[2:] == pytest.approx([10.0] * 6)


def test_a_reading_that_fails_costs_one_beat(fake_clock, heartbeats, caplog):
    reporter = RecordingReporter(None)
    beats(fake_clock, heartbeats, [reporter])
    assert len(reporter.offered) == 6
    assert "this machine could not be measured" in caplog.text


@pytest.mark.parametrize(
    ("asked", "interval_s", "every"),
    [
        ((None, None), None, 10.0),
        ((15.0, 5.0), None, 5.0),
        ((15.0, None), 2.0, 2.0),
        ((0.001, None), None, 1.0),
        ((3600.0, None), None, 20.0),
    ],
)
def test_the_interval_is_the_operators_else_the_shortest_that_is_asked_for(fake_clock, heartbeats, asked, interval_s, every):
    reporters = [RecordingReporter(one) for one in asked]
    stop = beats(fake_clock, heartbeats, reporters, interval_s=interval_s)
    assert stop.waited[3] == pytest.approx(every)
    assert reporters[0].offered[-1].measurement.agent.interval_s == every


def test_once_reports_to_everybody_and_says_whether_all_took_it(fake_clock, heartbeats, sample):
    good, bad = FakeSender(), FakeSender()
    bad.reason = "503 not ready"
    reporters = [Reporter(bad, heartbeats, fake_clock), Reporter(good, heartbeats, fake_clock)]
    waited = []
    assert not report_once(FakeSampler(fake_clock), reporters, heartbeats, waited.append)
    assert (len(good.sent), waited) == (1, [1.0])
    assert report_once(FakeSampler(fake_clock), reporters[1:], heartbeats, waited.append)
