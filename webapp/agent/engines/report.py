"""From a pass over all processes to what is reported about each engine."""

from __future__ import annotations

import dataclasses
import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from webapp.agent.clock import Clock
from webapp.agent.engines import usage
from webapp.agent.engines.cgroups import Cgroup, Cgroups
from webapp.agent.engines.declared import Declared
from webapp.agent.engines.discovery import Engines, Tracked
from webapp.agent.engines.membership import Claim, Membership
from webapp.agent.engines.metrics import EngineMetrics
from webapp.agent.engines.own_cgroups import OwnCgroups
from webapp.agent.engines.pidstat import Resident, Stat, parse_status
from webapp.agent.engines.processes import Scan
from webapp.agent.engines.proportional import Proportional
from webapp.agent.lines import one_line
from webapp.agent.machine.cpu import Busy
from webapp.agent.machine.gpu import GpuReading
from webapp.agent.machine.proc import read_or_empty
from webapp.measurement import Engine, Process

log = logging.getLogger("enginehouse.agent")

#: Most engines in one heartbeat, most processes of one engine, and of all.
_MOST_ENGINES = 256
_MOST_MEMBERS = 64
_MOST_MEMBERS_IN_ALL = 1024

#: Threads that are asked for the memory of a process whose first thread has ended.
_MOST_THREADS_ASKED = 8

#: Seconds that a measurement waits for engines to answer.
_METRICS_PATIENCE_S = 0.2


class EngineReports:
    """Finds engines and their processes, and adds up what they use."""

    def __init__(
        self,
        proc: Path,
        sys: Path,
        *,
        declared: Sequence[Declared],
        discover: bool,
        metrics: EngineMetrics | None,
        clock: Clock,
        page_size: int,
        ticks: int,
        own_pid: int,
    ) -> None:
        self._proc = proc
        self._clock = clock
        self._page_size = page_size
        self._ticks = ticks
        self._metrics = metrics
        self._cgroups = OwnCgroups(Cgroups(proc, sys), own_pid)
        self._engines = Engines(proc, declared, discover, self._cgroups.named, clock, own_pid)
        self._membership = Membership(own_pid)
        self._proportional = Proportional(proc, clock)
        self._before: Scan | None = None
        self._states: dict[str, str | None] = {}

    def measure(
        self, scan: Scan, busy: Busy | None, uptime_s: float, gpus: GpuReading | None
    ) -> tuple[tuple[Engine, ...], list[str]]:
        """What is known of each engine, and the model files that engines name.

        `busy`: the whole machine since the pass before. `uptime_s`: the boot clock at this pass.
        """
        before, self._before = self._before, scan
        passed = usage.interval(before, scan) if before else None
        tracked = self._engines.find(scan)
        own, members = self._assign(tracked, scan)
        orphans = self._engines.orphans(scan.processes, (stat.pid for stats in members.values() for stat in stats))
        if orphans:
            tracked = tracked + orphans
            own, members = self._assign(tracked, scan)
        counted = self._cgroups.cores(own, self._clock.monotonic())
        everybody = [stat for stats in members.values() for stat in stats]
        with_ended = passed is not None and usage.trusted(passed, busy.ticks if busy else None, everybody)
        most = max(1, min(_MOST_MEMBERS, _MOST_MEMBERS_IN_ALL // max(1, len(tracked))))
        reports, resident_by_engine = [], {}
        for engine in tracked[:_MOST_ENGINES]:
            stats = members[engine.id]
            if not stats and not engine.declared:
                continue
            residents = {stat.pid: self._resident(stat) for stat in stats}
            cores = counted.get(engine.id)
            if cores is None and passed:
                cores = usage.cores(passed, stats, self._ticks, with_ended)
            processes = [self._process(stat, passed, residents[stat.pid], uptime_s) for stat in stats]
            resident_by_engine[engine.id] = [(process.pid or 0, process.memory_bytes or 0) for process in processes]
            report = self._report(engine, stats, scan.processes, uptime_s)
            report = dataclasses.replace(
                report,
                cpu_cores=cores,
                unit=self._cgroups.units.get(engine.id),
                membership=("cgroup" if engine.id in own else "group") if stats else None,
                memory_proportional_bytes=self._proportional.latest(engine.id),
                gpu_memory_bytes=_gpu_memory(stats, gpus.memory_by_pid) if gpus else None,
                members=tuple(sorted(processes, key=_rank)[:most]),
                **_memory(processes, list(residents.values())),
            )
            reports.append(report)
        self._engines.keep(members)
        self._log_changes(reports)
        self._proportional.refresh(resident_by_engine)
        model_files = sorted({engine.model_file for engine in tracked if engine.model_file and members[engine.id]})
        return self._with_metrics(reports), model_files

    def _assign(
        self, tracked: Sequence[Tracked], scan: Scan
    ) -> tuple[Mapping[str, tuple[Cgroup, frozenset[int]]], dict[str, list[Stat]]]:
        own = self._cgroups.find(tracked, scan.taken)
        claims = [
            Claim(
                engine.id, engine.pid, engine.start, engine.pgrp, engine.session, own[engine.id][1] if engine.id in own else None
            )
            if engine.pid
            else Claim(engine.id, 0, None, 0, 0)
            for engine in tracked
        ]
        return own, self._membership.assign(scan.processes, claims)

    def _report(self, engine: Tracked, stats: Sequence[Stat], processes: Mapping[int, Stat], uptime_s: float) -> Engine:
        leader = processes.get(engine.pid or 0)
        if leader is None or leader.start != engine.start:
            leader = None
        state = "running" if leader and not leader.dead else "orphaned"
        if all(stat.dead for stat in stats):
            state = "dead"
        oldest = leader or min(stats, key=lambda stat: stat.start, default=None)
        return Engine(
            id=engine.id,
            model=engine.model,
            kind=engine.kind,
            state=state,
            declared=engine.declared,
            pid=engine.pid if stats else None,
            port=engine.port,
            processes=len(stats),
            started_s_ago=self._age(oldest, uptime_s) if oldest else None,
        )

    def _log_changes(self, reports: Sequence[Engine]) -> None:
        """Logs what changed since the pass before: engines that came, went, lost or found their leader."""
        states = {report.id or "": (report.state, report) for report in reports}
        for id, (state, report) in states.items():
            if self._states.get(id) != state:
                log.info(
                    "engine %s is %s, pid %s, model %s", one_line(id), state, report.pid, one_line(report.model or "unknown")
                )
        for id in self._states.keys() - states.keys():
            log.info("engine %s ended", one_line(id))
        self._states = {id: state for id, (state, _) in states.items()}

    def _age(self, stat: Stat, uptime_s: float) -> float | None:
        age = uptime_s - stat.start / self._ticks
        return age if age >= 0 else None

    def _resident(self, stat: Stat) -> Resident | None:
        directory = f"{self._proc}/{stat.pid}"
        found = parse_status(read_or_empty(f"{directory}/status", 8192))
        if found is None and stat.outlived:
            try:
                threads = os.listdir(f"{directory}/task")[:_MOST_THREADS_ASKED]
            except OSError:  # it has ended meanwhile
                return None
            resident = (parse_status(read_or_empty(f"{directory}/task/{thread}/status", 8192)) for thread in threads)
            return next(filter(None, resident), None)
        return found

    def _process(self, stat: Stat, passed: usage.Interval | None, resident: Resident | None, uptime_s: float) -> Process:
        before = passed.before.get(stat.pid) if passed else None
        if before and before.start != stat.start:
            before = None
        cores = None
        if passed and stat.pid not in passed.unknown:
            cores = passed.ticks.get(stat.pid, 0) / (self._ticks * passed.elapsed_s)
        memory = resident.total if resident else None
        if resident is None and stat.rss is not None and not stat.outlived:
            memory = stat.rss * self._page_size
        return Process(
            pid=stat.pid,
            started_s_ago=self._age(stat, uptime_s),
            command=stat.comm.decode("utf-8", "replace"),
            state=stat.state,
            ticks_before=before.cpu if before else None,
            ticks_now=stat.cpu,
            cpu_cores=cores,
            memory_bytes=memory,
        )

    def _with_metrics(self, reports: Sequence[Engine]) -> tuple[Engine, ...]:
        """Adds what the engines' own metrics say now; the answer of a slow engine is used at the next pass."""
        if self._metrics is None:
            return tuple(reports)
        self._metrics.refresh(tuple(reports))
        self._metrics.wait(_METRICS_PATIENCE_S)
        found = []
        for report in reports:
            reading = self._metrics.latest(report.id or "")
            if reading is not None:
                report = dataclasses.replace(
                    report,
                    requests=reading.requests,
                    kv_cache_usage_ratio=reading.kv_cache_usage_ratio,
                    prompt_tokens_per_second=reading.prompt_tokens_per_second,
                    generation_tokens_per_second=reading.generation_tokens_per_second,
                    metrics_error=reading.metrics_error,
                )
            found.append(report)
        return tuple(found)


def _rank(process: Process) -> tuple[float, int]:
    """Busiest first."""
    return (-(process.cpu_cores or 0.0), process.pid or 0)


def _memory(processes: Sequence[Process], residents: Sequence[Resident | None]) -> dict[str, Any]:
    """Sums over an engine's processes; members whose memory was misread are left out.

    The split is reported where every member's can be read, and then the total is its sum.
    """
    known = [process.memory_bytes for process in processes if process.memory_bytes is not None]
    found: dict[str, Any] = {"memory_bytes": sum(known) if known else None}
    split = [resident for resident in residents if resident]
    alive = [process for process in processes if process.state not in ("Z", "X") and process.memory_bytes]
    if split and len(split) >= len(alive):
        found["memory_anonymous_bytes"] = sum(resident.anonymous for resident in split)
        found["memory_file_bytes"] = sum(resident.file for resident in split)
        found["memory_shared_bytes"] = sum(resident.shared for resident in split)
    return found


def _gpu_memory(stats: Sequence[Stat], by_pid: Mapping[int, int]) -> int | None:
    """Bytes of GPU memory that the processes hold; None if none of them holds any."""
    held = [by_pid[stat.pid] for stat in stats if stat.pid in by_pid]
    return sum(held) if held else None
