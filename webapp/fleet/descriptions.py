"""What the messages of the instance protocol hold, read tolerantly: one bad field costs that field.

Only what names the instance must be right. Whatever else a message brings is kept as strict JSON within limits.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from webapp.fields import Rejection, number, printable, shown, text, values, whole
from webapp.heartbeat import shows_nothing

#: Largest `meta` and `capabilities` that are kept, as bytes of JSON, and the largest snapshot.
LARGEST_META = 16 * 1024
LARGEST_CAPABILITIES = 64 * 1024
LARGEST_SNAPSHOT = 256 * 1024

LONGEST_ID = 253
_MOST_TEXTS = 64


class BadRequest(ValueError):
    """The message can't be used. `field` is the field to blame."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}")
        self.field = field
        self.reason = reason


@dataclass(frozen=True)
class Description:
    """What an instance says of itself when it registers."""

    host: str = ""
    port: int = 0
    endpoints: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    weight: float = 1.0
    meta: Mapping[str, Any] = field(default_factory=dict)
    capabilities: Mapping[str, Any] | None = None

    @property
    def model(self) -> str | None:
        """The model that it serves, as `meta` or the capabilities name it."""
        named = self.meta.get("model")
        if named is None and self.capabilities:
            part = self.capabilities.get("model")
            named = part.get("identifier") if isinstance(part, dict) else part
        return named[:253] if isinstance(named, str) and named.strip() else None

    @property
    def kind(self) -> str | None:
        """The engine's kind, where `meta` names it."""
        named = self.meta.get("kind", self.meta.get("engine"))
        return named[:64] if isinstance(named, str) and named.strip() else None


@dataclass(frozen=True)
class Load:
    """What heartbeats say."""

    inflight: int | None = whole("requests", "heartbeat", 0)
    qps_1m: float | None = number("requests/s", "heartbeat", 0, 1e9)
    gpu_util: float | None = number("percent", "heartbeat", 0, 100)

    def onto(self, before: Load) -> Load:
        """The load after this message: what it leaves out stays as it was."""
        return Load(*(getattr(before if getattr(self, one.name) is None else self, one.name) for one in fields(Load)))


@dataclass(frozen=True)
class ReportTimes:
    """The reporter's metadata; its clocks are shown, and compared with the agent's on the same machine only."""

    reported_instance_id: str | None = text("metadata", LONGEST_ID)
    report_monotonic_ms: int | None = whole("ms", "metadata")
    report_wall_time_ms: int | None = whole("ms", "metadata", 0, 10**14)
    agent_snapshot_timestamp_ms: int | None = whole("ms", "metadata", 0, 10**14)


@dataclass(frozen=True)
class Registration:
    """A registration; None is what it leaves out."""

    instance_id: str
    host: str
    port: int
    endpoints: tuple[str, ...] | None
    tags: tuple[str, ...] | None
    weight: float | None
    meta: Mapping[str, Any] | None
    capabilities: Mapping[str, Any] | None
    fingerprint: str | None
    rejected: tuple[Rejection, ...]

    def onto(self, before: Description) -> Description:
        """The description after this registration."""
        return Description(
            self.host,
            self.port,
            before.endpoints if self.endpoints is None else self.endpoints,
            before.tags if self.tags is None else self.tags,
            before.weight if self.weight is None else self.weight,
            before.meta if self.meta is None else self.meta,
            self.capabilities,
        )


@dataclass(frozen=True)
class Beat:
    """A heartbeat."""

    instance_id: str
    load: Load
    capabilities: Mapping[str, Any] | None
    fingerprint: str | None
    rejected: tuple[Rejection, ...]


@dataclass(frozen=True)
class _Weight:
    weight: float | None = number("", "register", 0, 1e9)


def registration(body: Mapping[str, Any]) -> Registration:
    """Raises BadRequest."""
    rejected: list[Rejection] = []
    host, port = _host(body.get("host")), _port(body.get("port"))
    given = body.get("instance_id")
    instance_id = f"hp_{host}:{port}"[:LONGEST_ID] if given is None or given == "" else _id(given)
    capabilities = _object(body, "capabilities", LARGEST_CAPABILITIES, rejected)
    stated = _stated_fingerprint(body, rejected)
    return Registration(
        instance_id,
        host,
        port,
        _texts(body, "endpoints", rejected),
        _texts(body, "tags", rejected),
        values(_Weight, body, "", rejected).get("weight"),
        _object(body, "meta", LARGEST_META, rejected),
        capabilities,
        None if capabilities is None else stated or fingerprint(capabilities),
        tuple(rejected),
    )


def beat(body: Mapping[str, Any]) -> Beat:
    """Raises BadRequest."""
    rejected: list[Rejection] = []
    return Beat(
        named(body),
        Load(**values(Load, body, "", rejected)),
        _object(body, "capabilities", LARGEST_CAPABILITIES, rejected),
        _stated_fingerprint(body, rejected),
        tuple(rejected),
    )


def report(body: Mapping[str, Any]) -> tuple[str, Mapping[str, Any], ReportTimes]:
    """The instance, its snapshot, and the reporter's times. Raises BadRequest."""
    instance_id = named(body)
    snapshot = body.get("snapshot")
    if not isinstance(snapshot, dict):
        raise BadRequest("snapshot", f"expected an object, got {shown(snapshot)}")
    metadata = body.get("metadata")
    times = ReportTimes(**values(ReportTimes, metadata, "", [])) if isinstance(metadata, dict) else ReportTimes()
    return instance_id, snapshot, times


def named(body: Mapping[str, Any]) -> str:
    """The instance that a message is about. Raises BadRequest."""
    return _id(body.get("instance_id"))


def size(capabilities: Mapping[str, Any] | None) -> int:
    """Bytes of capabilities, as JSON."""
    return len(json.dumps(capabilities)) if capabilities else 0


def fingerprint(capabilities: Mapping[str, Any]) -> str:
    """Our name for capabilities, where the instance states none.

    >>> fingerprint({"b": 1, "a": 2}) == fingerprint({"a": 2, "b": 1})
    True
    """
    canonical = json.dumps(capabilities, sort_keys=True, separators=(",", ":"))
    return "sha256:" + hashlib.sha256(canonical.encode()).hexdigest()


def strict_text(value: Any) -> str:
    """JSON that every reader takes: no NaN, no lone surrogates. Raises BadRequest if a snapshot is too large.

    >>> strict_text({"a": float("nan"), "b": "x\\ud800"})
    '{"a":null,"b":"x\\\\ufffd"}'
    """
    try:
        written = json.dumps(value, separators=(",", ":"), allow_nan=False)
    except ValueError:
        written = json.dumps(strict(value), separators=(",", ":"), allow_nan=False)
    if "\\ud" in written:
        written = json.dumps(strict(value), separators=(",", ":"), allow_nan=False)
    if len(written) > LARGEST_SNAPSHOT:
        raise BadRequest("snapshot", f"it has {len(written)} bytes; at most {LARGEST_SNAPSHOT} are taken")
    return written


def strict(value: Any) -> Any:
    """A parsed JSON value without what is not JSON: numbers that are none become null, surrogates U+FFFD."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {printable(name): strict(item) for name, item in value.items()}
    return [strict(item) for item in value] if isinstance(value, list) else value


def _id(value: Any) -> str:
    if not isinstance(value, str) or shows_nothing(value):
        raise BadRequest("instance_id", f"expected the instance's name, got {shown(value)}")
    if len(value) > LONGEST_ID:
        raise BadRequest("instance_id", f"it has {len(value)} characters; at most {LONGEST_ID} are taken")
    return printable(value)


def _host(value: Any) -> str:
    # Where no agent reports, a node is named after it.
    if not isinstance(value, str) or shows_nothing(value) or value in (".", "..") or len(value) > LONGEST_ID:
        raise BadRequest("host", f"expected a host name or an address, got {shown(value)}")
    return printable(value)


def _port(value: Any) -> int:
    if isinstance(value, str) and value.isdecimal() and len(value) <= 5:
        value = int(value)
    if type(value) is not int or not 0 < value <= 65535:
        raise BadRequest("port", f"expected a port from 1 to 65535, got {shown(value)}")
    return value


def _stated_fingerprint(body: Mapping[str, Any], rejected: list[Rejection]) -> str | None:
    value = body.get("capability_fingerprint")
    if value is None or (isinstance(value, str) and value and len(value) <= LONGEST_ID):
        return None if value is None else printable(value)
    rejected.append(Rejection("capability_fingerprint", f"expected a text of 1 to {LONGEST_ID} characters, got {shown(value)}"))
    return None


def _texts(body: Mapping[str, Any], name: str, rejected: list[Rejection]) -> tuple[str, ...] | None:
    value = body.get(name)
    if value is None:
        return None
    if not isinstance(value, list):
        rejected.append(Rejection(name, f"expected a list of texts, got {shown(value)}"))
        return None
    found = []
    for place, item in enumerate(value[:_MOST_TEXTS]):
        if isinstance(item, str) and len(item) <= LONGEST_ID:
            found.append(printable(item))
        else:
            rejected.append(
                Rejection(f"{name}[{place}]", f"expected a text of at most {LONGEST_ID} characters, got {shown(item)}")
            )
    if len(value) > _MOST_TEXTS:
        rejected.append(Rejection(name, f"{len(value)} entries; the first {_MOST_TEXTS} are kept"))
    return tuple(found)


def _object(body: Mapping[str, Any], name: str, largest: int, rejected: list[Rejection]) -> Mapping[str, Any] | None:
    value = body.get(name)
    if value is None:
        return None
    if not isinstance(value, dict):
        rejected.append(Rejection(name, f"expected an object, got {shown(value)}"))
        return None
    kept: dict[str, Any] = strict(value)
    size = len(json.dumps(kept))
    if size > largest:
        rejected.append(Rejection(name, f"it has {size} bytes; at most {largest} are kept"))
        return None
    return kept
