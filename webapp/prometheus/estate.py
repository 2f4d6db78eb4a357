"""The words of an existing estate: node_exporter, GPU exporters, process-exporter or cAdvisor, and the engines themselves.

No agent is needed: each row of the table is said in the names that these programs export. Their nodes and
engines are identified by `instance`; the rule that makes `host:9100` and `host:8000` one node, and every row, can be
changed by the operator (see docs/prometheus.md).
"""

from __future__ import annotations

import re
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from webapp.metrics import METRICS, Labels, Metric
from webapp.prometheus.engine_words import ENGINE_WORDS
from webapp.prometheus.promql import duration, quoted, regex_quoted
from webapp.prometheus.vocabulary import Scope, Term, Window
from webapp.prometheus.words import WORDS, Word

#: What `instance` is made of: the node's name, and a port perhaps.
NODE_RULE = "{node}(:[0-9]+)?"

#: What can be filled in in a word's PromQL; see `words`.
_PLACES = ("match", "node", "model", "engine", "over", "window", "rate")


class EstateRefused(ValueError):
    """The operator's rules can't be used. The message is one line."""


@dataclass(frozen=True)
class Estate:
    """A `vocabulary.Vocabulary` made of `words`."""

    words: tuple[Word, ...] = WORDS + ENGINE_WORDS
    extra: str = ""
    #: The label that names the node, and the pattern of its values, with {node} in place of the name.
    node_label: str = "instance"
    node_rule: str = NODE_RULE
    #: The label of a target that names the model of an engine whose own metrics don't.
    model_label: str = "model"
    #: A series that each node has.
    presence: str = "node_load1"
    #: Group of process-exporter, or container, -> the engine and model that it is.
    groups: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    def terms(self, metric: Metric, scope: Scope, window: Window) -> Sequence[Term]:
        if scope.model and metric.each != "engines":
            return ()
        words = [word for word in self.words if word.metric == metric.key and (not word.group or self.groups)]
        return [self._term(word, metric, scope, window) for word in words]

    def _term(self, word: Word, metric: Metric, scope: Scope, window: Window) -> Term:
        function, time = window.over(metric.over_time)
        promql = string.Template(word.promql).substitute(
            match=", ".join(self._matchers(word, scope)) or f'{self.node_label}!=""',
            node=self.node_label,
            model=word.model or self.model_label,
            engine=self.node_label if self.node_label == "instance" else f"{self.node_label}, instance",
            over=function,
            window=time,
            # The lookback is two scrapes or more, and a rate needs four samples to be steady.
            rate=duration(max(2 * window.lookback, 0 if window.latest else window.step)),
        )
        return Term(
            promql,
            lambda labels: self._labels(word, metric, labels),
            lambda labels: self._fields(word, labels),
        )

    def _matchers(self, word: Word, scope: Scope) -> list[str]:
        found = [self.extra] if self.extra else []
        if scope.node:
            pattern = self.node_rule.replace("{node}", regex_quoted(scope.node))
            found.append(f"{self.node_label}=~{quoted(pattern)}")
        if word.group:
            named = [name for name, (_, model) in self.groups.items() if not scope.model or model == scope.model]
            found.append(f"{word.group}=~{quoted('|'.join(map(regex_quoted, named)))}")
        elif scope.model:
            found.append(f"{word.model or self.model_label}={quoted(scope.model)}")
        return found

    def _labels(self, word: Word, metric: Metric, labels: Mapping[str, str]) -> Labels | None:
        node = self.node(labels)
        known = {name: labels.get(source, "") for name, source in word.labels}
        if metric.each == "engines":
            known["shard"], known["model"] = self._engine(word, labels)
        if not node or (metric.each == "engines" and not known["shard"]):
            return None
        own = tuple((name, known.get(name, "")) for name, _ in metric.labels)
        return (("node", node), *metric.fixed, *own)

    def _engine(self, word: Word, labels: Mapping[str, str]) -> tuple[str, str]:
        """Its id, made as an agent would make it, and its model."""
        if word.group:
            return self.groups.get(labels.get(word.group, ""), ("", ""))
        model = labels.get(word.model or self.model_label, "")
        port = _port(labels)
        id = f"{word.kind}-{port}" if port else word.kind
        return (f"{id}-{model}" if word.many else id), model

    def _fields(self, word: Word, labels: Mapping[str, str]) -> Mapping[str, Any]:
        port = _port(labels)
        if not word.kind:
            return {}
        return {"kind": word.kind, "port": int(port)} if port else {"kind": word.kind}

    def heard(self, scope: Scope) -> str:
        return f"max by ({self.node_label}) (timestamp({self._present(scope)}))"

    def scraped(self, scope: Scope) -> str:
        # `up` is there whether its target answers or not.
        return f"max(timestamp({self._named('up', scope)}))"

    def node(self, labels: Mapping[str, str]) -> str:
        found = re.fullmatch(self._pattern, labels.get(self.node_label, ""))
        return found["node"] if found else ""

    @property
    def _pattern(self) -> str:
        return self.node_rule.replace("{node}", "(?P<node>.+?)")

    def probe(self, scope: Scope) -> str:
        return self._present(scope)

    def _present(self, scope: Scope) -> str:
        return self._named(self.presence, scope)

    def _named(self, name: str, scope: Scope) -> str:
        matchers = self._matchers(Word(("", ()), ""), Scope(node=scope.node))
        return f"{name}{{{', '.join(matchers)}}}" if matchers else name


def _port(labels: Mapping[str, str]) -> str:
    port = labels.get("instance", "").rpartition(":")[2]
    return port if port.isdecimal() and len(port) <= 5 and int(port) <= 65535 else ""


def estate(given: Mapping[str, Any], *, extra: str = "") -> Estate:
    """An estate with the operator's changes: the TOML table `estate`. Raises EstateRefused.

    >>> estate({"node_label": "nodename", "node_rule": "{node}"}).node({"nodename": "gpu-1"})
    'gpu-1'
    """
    known = {"node_label", "node_rule", "model_label", "presence", "groups", "rows"}
    for name in given:
        if name not in known:
            raise EstateRefused(f"estate: {name} is none of {', '.join(sorted(known))}")
    changes: dict[str, Any] = {}
    for name in ("node_label", "node_rule", "model_label", "presence"):
        if name in given:
            changes[name] = _text(given[name], f"estate.{name}")
    rule = changes.get("node_rule", NODE_RULE)
    try:
        re.compile(rule.replace("{node}", "(?P<node>.+?)", 1))
    except re.error as error:
        raise EstateRefused(f"estate.node_rule={rule}: not a regular expression: {error}") from error
    if rule.count("{node}") != 1:
        raise EstateRefused(f"estate.node_rule={rule}: expected {{node}} once, in place of the node's name")
    groups = {}
    for name, engine in _table(given.get("groups", {}), "estate.groups").items():
        row = _table(engine, f"estate.groups.{name}")
        groups[name] = _text(row.get("engine", name), "engine"), _text(row.get("model", name), "model")
    words = list(WORDS + ENGINE_WORDS)
    for name, row in _table(given.get("rows", {}), "estate.rows").items():
        own = _own_words(name, row)
        words = [word for word in words if word.metric != own[0].metric] + own
    return Estate(tuple(words), extra, groups=groups, **changes)


def _own_words(name: str, row: Any) -> list[Word]:
    """The operator's words for one row: a text, a table, or a list of tables; `name` may fix labels: `load{window=1m}`."""
    metric = _metric(name)
    found = []
    for item in row if isinstance(row, list) else [row]:
        entry = {"promql": item} if isinstance(item, str) else _table(item, f"estate.rows.{name}")
        promql = _text(entry.get("promql"), f"estate.rows.{name}.promql")
        try:
            string.Template(promql).substitute(dict.fromkeys(_PLACES, ""))
        except (KeyError, ValueError) as error:
            places = ", ".join(f"${place}" for place in _PLACES)
            raise EstateRefused(f"estate.rows.{name}: only {places} can be filled in") from error
        labels = tuple((label, _text(source, label)) for label, source in _table(entry.get("labels", {}), name).items())
        found.append(
            Word(
                metric.key,
                promql,
                labels,
                entry.get("kind", "engine" if metric.each == "engines" else ""),
                entry.get("model", ""),
            )
        )
    if not found:
        raise EstateRefused(f"estate.rows.{name}: expected PromQL")
    return found


def _metric(name: str) -> Metric:
    """
    >>> _metric("llmgw_node_load{window=5m}").path
    'load.load5'
    """
    family, _, rest = name.partition("{")
    fixed = tuple(tuple(part.strip().split("=", 1)) for part in rest.rstrip("}").split(",") if part.strip())
    for metric in METRICS:
        if metric.name == family and metric.fixed == fixed:
            return metric
    raise EstateRefused(f"estate.rows.{name}: no such row; see docs/metrics.md")


def _text(value: Any, place: str) -> str:
    if not isinstance(value, str) or not value:
        raise EstateRefused(f"{place}: expected a text")
    return value


def _table(value: Any, place: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise EstateRefused(f"{place}: expected a table")
    return value
