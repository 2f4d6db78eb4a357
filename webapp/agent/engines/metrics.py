"""What the engines on this node say about themselves: requests, KV cache, tokens a second.

Asked in the background, so that an engine that hangs delays nothing.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Callable, NamedTuple

from webapp.agent.engines.exposition import Page, fullest, total
from webapp.agent.engines.metric_names import ENGINE_METRIC_NAMES, UNASKED, Endpoint, EngineNames
from webapp.agent.engines.scrape import ScrapeFailed, scrape
from webapp.agent.engines.token_rates import TokenRates
from webapp.agent.patience import started
from webapp.measurement import FRESH_FOR_SECONDS, Engine, Requests

#: An engine that has not answered in full by then is given up until the next round. Long, because a busy engine is
#: slow to answer, and nothing waits for it.
TIMEOUT_SECONDS = 5.0

#: Rounds for which a reading is shown, though for at least FRESH_AT_LEAST_SECONDS.
FRESH_FOR_ROUNDS = 2
FRESH_AT_LEAST_SECONDS = 5.0

#: Engines that are asked at the same time.
_MOST_AT_ONCE = 8

#: Fetches one page, see `scrape`.
Scrape = Callable[[EngineNames, Endpoint, int, float], tuple[Page, float]]


class EngineReading(NamedTuple):
    """What one engine said. Unknown is None; `metrics_error` says why."""

    requests: Requests = Requests()
    kv_cache_usage_ratio: float | None = None
    prompt_tokens_per_second: float | None = None
    generation_tokens_per_second: float | None = None
    metrics_error: str | None = None
    #: Lines of wanted metrics that could not be used.
    unusable_lines: int = 0


@dataclass
class _Watched:
    """One engine, as long as it is the same one."""

    id: str
    names: EngineNames
    identity: tuple[object, ...]
    rates: TokenRates
    candidates: tuple[tuple[Endpoint, int], ...] = ()
    reading: EngineReading | None = None
    at: float = 0.0
    is_asked: bool = False


class EngineMetrics:
    """Asks engines for their metrics, several at a time, each at most once at a time."""

    def __init__(
        self, timeout_s: float = TIMEOUT_SECONDS, clock: Callable[[], float] = time.monotonic, scrape: Scrape = scrape
    ) -> None:
        self._timeout_s = timeout_s
        self._clock = clock
        self._scrape = scrape
        self._began: float | None = None
        self._fresh_for_s = FRESH_FOR_SECONDS
        self._watched: dict[str, _Watched] = {}
        self._waiting: deque[_Watched] = deque()
        self._threads = 0
        self._changed = threading.Condition()

    def refresh(self, engines: Sequence[Engine]) -> None:
        """Begins a round: asks each of `engines` that is not being asked already. Returns at once.

        Engines that are not among them are forgotten.
        """
        own_ports = Counter(engine.port for engine in engines if _answers(engine))
        with self._changed:
            self._begin_round()
            watched = {}
            for engine in engines:
                if engine.id is not None:
                    watched[engine.id] = self._renewed(engine, engines, own_ports)
            self._watched = watched
            for one in watched.values():
                if one.candidates and not one.is_asked:
                    one.is_asked = True
                    self._waiting.append(one)
            self._start_threads()

    def latest(self, engine_id: str) -> EngineReading | None:
        """The engine's last answer, or why there is none; None while nothing is known, or if it is too old."""
        with self._changed:
            one = self._watched.get(engine_id)
            if one is None or one.reading is None:
                return None
            return one.reading if self._clock() - one.at <= self._fresh_for_s else None

    def wait(self, seconds: float) -> bool:
        """Waits until no engine is being asked, for `seconds` at most; whether none is."""
        with self._changed:
            return self._changed.wait_for(lambda: self._threads == 0, seconds)

    def _begin_round(self) -> None:
        now = self._clock()
        if self._began is not None:
            rounds_s = FRESH_FOR_ROUNDS * (now - self._began)
            self._fresh_for_s = min(max(FRESH_AT_LEAST_SECONDS, rounds_s), FRESH_FOR_SECONDS)
        self._began = now

    def _start_threads(self) -> None:
        for _ in range(min(_MOST_AT_ONCE - self._threads, len(self._waiting))):
            if not started(threading.Thread(target=self._ask_all, name="engine-metrics", daemon=True)):
                return  # those who wait are asked in a later round
            self._threads += 1

    def _renewed(self, engine: Engine, engines: Sequence[Engine], own_ports: Counter[int | None]) -> _Watched:
        names = ENGINE_METRIC_NAMES.get(engine.kind or "", _NOTHING)
        identity = (engine.kind, engine.port, engine.pid)
        id = engine.id or ""
        one = self._watched.get(id)
        if one is None or one.identity != identity:
            one = _Watched(id, names, identity, TokenRates(over_a_minute=names.counts_at_end))
        reason = _reason_not_to_ask(engine)
        one.candidates = () if reason else _candidates(engine, names, engines, own_ports)
        if not one.candidates:
            reason = reason or f"more than one engine names port {names.endpoints[0].port or engine.port}"
            self._put(one, EngineReading(metrics_error="metrics: " + reason))
        return one

    def _put(self, one: _Watched, reading: EngineReading) -> None:
        one.reading, one.at = reading, self._clock()

    def _ask_all(self) -> None:
        while True:
            with self._changed:
                if not self._waiting:
                    self._threads -= 1
                    self._changed.notify_all()
                    return
                one = self._waiting.popleft()
                if self._watched.get(one.id) is not one:
                    continue
            try:
                page, at = self._ask(one)
                reading = _reading(page, at, one)
            except ScrapeFailed as error:
                reading = EngineReading(metrics_error=f"metrics: {error}")
            except Exception as error:  # a worker must outlive whatever an engine sends
                reading = EngineReading(metrics_error=f"metrics: {type(error).__name__} while reading them")
            with self._changed:
                one.is_asked = False
                self._put(one, reading)

    def _ask(self, one: _Watched) -> tuple[Page, float]:
        """The first page that there is. Raises ScrapeFailed with the first reason why there is none."""
        first: ScrapeFailed | None = None
        for endpoint, port in one.candidates:
            try:
                return self._scrape(one.names, endpoint, port, self._timeout_s)
            except ScrapeFailed as error:
                first = first or error
                if not error.elsewhere:
                    break
        raise first or ScrapeFailed("there is nowhere to ask")


_NOTHING = EngineNames(endpoints=())


def _answers(engine: Engine) -> bool:
    return engine.state in (None, "running")


def _reason_not_to_ask(engine: Engine) -> str | None:
    kind = engine.kind or ""
    if kind in UNASKED:
        return UNASKED[kind]
    if kind not in ENGINE_METRIC_NAMES:
        return f"not known for the kind {kind[:40]!r}" if kind else "the kind of engine is not known"
    if not _answers(engine):
        return f"the engine is {engine.state}"
    if engine.port is None and all(endpoint.port is None for endpoint in ENGINE_METRIC_NAMES[kind].endpoints):
        return "the engine's port is not known"
    return None


def _candidates(
    engine: Engine, names: EngineNames, engines: Sequence[Engine], own_ports: Counter[int | None]
) -> tuple[tuple[Endpoint, int], ...]:
    """Where this engine, and no other one of the node, can be asked.

    Two engines may name one port: in containers with networks of their own. Only one of them answers on this host.
    """
    alike = sum(1 for other in engines if other.kind == engine.kind and _answers(other))
    found = []
    for endpoint in names.endpoints:
        if endpoint.port is None:
            if engine.port is not None and own_ports[engine.port] == 1:
                found.append((endpoint, engine.port))
        elif alike == 1 and own_ports[endpoint.port] - (engine.port == endpoint.port) == 0:
            found.append((endpoint, endpoint.port))
    return tuple(found)


def _reading(page: Page, at: float, one: _Watched) -> EngineReading:
    names = one.names
    waiting = total(page.values(names.waiting), names.copies)
    running = total(page.values(names.running), names.copies)
    prompt_rate, generation_rate = one.rates.add(at, page.values(names.prompt_tokens), page.values(names.generation_tokens))
    if names.counts_at_end and running:  # none has ended yet: that is not "no tokens"
        prompt_rate, generation_rate = prompt_rate or None, generation_rate or None
    error = None
    if page.unusable:
        lines = f"{page.unusable} line{'s' if page.unusable > 1 else ''} could not be used: {'; '.join(page.quoted)}"
        error = ("metrics: " + lines)[:300]
    return EngineReading(
        requests=Requests(waiting=waiting, running=running),
        kv_cache_usage_ratio=fullest(page.values(names.kv_cache)),
        prompt_tokens_per_second=prompt_rate,
        generation_tokens_per_second=generation_rate,
        metrics_error=error,
        unusable_lines=page.unusable,
    )
