"""One instance as the list, the pages and /metrics see it, and the one rule that says whether it lives."""

from __future__ import annotations

from dataclasses import dataclass

from webapp.fields import Rejection
from webapp.fleet.descriptions import Description, Load, ReportTimes
from webapp.fleet.nodes import GONE_AFTER_SECONDS, State
from webapp.fleet.nodes import state as node_state
from webapp.measurement import FRESH_FOR_SECONDS
from webapp.snapshot import Snapshot


@dataclass(frozen=True)
class Report:
    """A snapshot with its three times: collected by the agent, sent by the reporter, received here."""

    snapshot: Snapshot
    #: The snapshot as it came, as strict JSON.
    raw: str
    times: ReportTimes
    rejected: tuple[Rejection, ...]
    #: Collected and received, on this machine's boot clock.
    collected: float
    received: float


@dataclass(frozen=True)
class Instance:
    """What is known of one instance at one moment."""

    instance_id: str
    description: Description
    fingerprint: str | None
    load: Load
    #: Seconds since its load was reported; None if it never was.
    load_s: float | None
    report: Report | None
    #: Seconds since its resources were collected; None without a report.
    collected_s: float | None
    #: Seconds since it was heard.
    silent_s: float
    ttl_s: float
    interval_s: float
    #: Unix times on this machine's clock.
    registered_at: float
    last_seen_at: float
    #: When its last report was received; None without one.
    reported_at: float | None
    #: The address that it registers from.
    source: str

    @property
    def is_alive(self) -> bool:
        return is_alive(self.silent_s, self.ttl_s)

    @property
    def state(self) -> State:
        return state(self.silent_s, self.ttl_s, self.interval_s)

    @property
    def resources(self) -> Snapshot | None:
        """Its snapshot while that is young enough to be shown as true."""
        if self.report is None or self.collected_s is None or self.collected_s > FRESH_FOR_SECONDS:
            return None
        return self.report.snapshot

    @property
    def current_load(self) -> Load:
        """Its load while that is young enough."""
        return self.load if self.load_s is not None and self.load_s <= FRESH_FOR_SECONDS else Load()


def is_alive(silent_s: float, ttl_s: float) -> bool:
    """The one rule; the bound belongs to life.

    >>> [is_alive(silence, 30.0) for silence in (29.9, 30.0, 30.1, 31.0)]
    [True, True, False, False]
    """
    return silent_s <= ttl_s


def state(silent_s: float, ttl_s: float, interval_s: float) -> State:
    """The state of a node's kind: who is alive is fresh or late, who isn't is stale or gone.

    >>> [state(silence, 30.0, 10.0) for silence in (22.0, 30.0, 30.1, 900.1)]
    ['fresh', 'late', 'stale', 'gone']
    """
    if is_alive(silent_s, ttl_s):
        return "fresh" if node_state(silent_s, interval_s) == "fresh" else "late"
    return "gone" if silent_s > GONE_AFTER_SECONDS else "stale"
