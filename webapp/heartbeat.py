"""The wire between agent and control plane: heartbeat_v1 JSON <-> `Measurement`.

Reading is tolerant (rolling upgrades run both ways): every field but the node's name is optional, one bad
field costs that field, an unknown field is passed over. What was passed over as bad is reported, never hidden.

Runs on nodes: standard library only, CPython 3.9 and later.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from itertools import accumulate
from typing import Any, NamedTuple

from webapp.fields import Rejection, Rejections, kind_of, printable, shown, values
from webapp.measurement import Measurement

SCHEMA = "heartbeat_v1"

#: A body larger than this, as sent or once expanded, is refused.
LARGEST_BODY_BYTES = 1024 * 1024

#: A JSON value nested deeper than this is refused.
DEEPEST_NESTING = 32

#: Longest name of a node, in characters.
LONGEST_NAME = 253

#: Brackets as steps down and up: +1 and -1 in one byte.
_STEPS = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
_NEITHER_BRACKET_NOR_QUOTE = bytes(set(range(256)) - set(b'[]{}"'))


class Limits(NamedTuple):
    """What one control plane takes of a message."""

    body_bytes: int = LARGEST_BODY_BYTES
    engines: int = 256


LIMITS = Limits()


class Reading(NamedTuple):
    """A measurement, and the fields of its message that could not be used."""

    measurement: Measurement
    rejected: tuple[Rejection, ...]
    #: The message itself, where nothing in it was bad.
    message: bytes | None = None
    #: Bytes of the message, expanded.
    size: int = 0


class HeartbeatRefused(ValueError):
    """The whole message can't be used. `field` is the field to blame, or "" for the body as such."""

    def __init__(self, reason: str, field: str = "") -> None:
        super().__init__(reason)
        self.field = field


def read(body: bytes, limits: Limits = LIMITS) -> Reading:
    """The measurement in a message. Raises HeartbeatRefused."""
    if len(body) > limits.body_bytes:
        raise HeartbeatRefused(f"the body has {len(body)} bytes; at most {limits.body_bytes} are taken")
    reading = from_mapping(parse_object(body))._replace(size=len(body))
    engines = reading.measurement.engines
    if len(engines) <= limits.engines:
        return reading
    left_out = Rejection("engines", f"{len(engines)} entries; the first {limits.engines} are kept")
    fewer = dataclasses.replace(reading.measurement, engines=engines[: limits.engines])
    return reading._replace(measurement=fewer, rejected=(*reading.rejected, left_out))


def parse_object(body: bytes) -> dict[str, Any]:
    """The JSON object in `body`. Raises HeartbeatRefused, which says what came instead.

    >>> parse_object(b'{"node": "cpu-07"}')
    {'node': 'cpu-07'}
    >>> parse_object(b"[]")
    Traceback (most recent call last):
    webapp.heartbeat.HeartbeatRefused: expected a JSON object, got an array
    """
    if nesting(body) > DEEPEST_NESTING:
        raise HeartbeatRefused(f"the JSON is nested deeper than {DEEPEST_NESTING} levels")
    try:
        value = json.loads(body.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise HeartbeatRefused(f"the body is not UTF-8: byte {error.start} is {error.object[error.start]:#04x}") from error
    except json.JSONDecodeError as error:
        raise HeartbeatRefused(f"the body is not JSON: {error.msg} at character {error.pos}") from error
    except RecursionError as error:
        raise HeartbeatRefused("the JSON is nested too deeply") from error
    except ValueError as error:  # CPython refuses to read integers of more than 4,300 digits
        raise HeartbeatRefused("the body holds a number with too many digits") from error
    if not isinstance(value, dict):
        raise HeartbeatRefused(f"expected a JSON object, got {kind_of(value)}")
    return value


def nesting(body: bytes) -> int:
    """How deep the brackets outside strings are nested; of a body that is no JSON, nothing follows.

    A body may hold a million brackets, and is read before others are answered: no step here is taken per byte in Python.

    >>> nesting(b'{"a": [{"b": "[[[[", "\\\\\\\\": "\\\\"["}]}')
    3
    """
    if b"\\" in body:
        body = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    brackets = b"".join(body.translate(_STEPS, _NEITHER_BRACKET_NOR_QUOTE).split(b'"')[::2])
    return max(accumulate(memoryview(brackets).cast("b")), default=0)


def from_mapping(message: Mapping[str, Any]) -> Reading:
    """The measurement in a message that is already parsed. Raises HeartbeatRefused if it names no node."""
    rejected = Rejections()
    name = _name(message.get("node"))
    fields = values(Measurement, message, "", rejected)
    return Reading(Measurement(name, **fields), rejected.reported())


def shows_nothing(name: str) -> bool:
    """Whether a name has nothing in it that a page could show.

    >>> shows_nothing(" \\u200b"), shows_nothing("cpu 07")
    (True, False)
    """
    return not any(character.isprintable() and character != " " for character in name)


def _name(value: Any) -> str:
    if isinstance(value, str) and len(value) > LONGEST_NAME:
        raise HeartbeatRefused(f"node: the name has {len(value)} characters; at most {LONGEST_NAME} are taken", "node")
    if not isinstance(value, str) or shows_nothing(value):
        raise HeartbeatRefused(f"node: expected the node's name, got {shown(value)}", "node")
    return printable(value)


def to_mapping(measurement: Measurement) -> dict[str, Any]:
    """The message that carries a measurement; unknown values and empty parts are absent."""
    message: dict[str, Any] = {"schema": SCHEMA}
    message.update(_known(measurement))
    return message


def _known(value: Any) -> dict[str, Any]:
    known: dict[str, Any] = {}
    for item in dataclasses.fields(value):
        content = getattr(value, item.name)
        if dataclasses.is_dataclass(content):
            content = _known(content)
        elif isinstance(content, tuple):
            content = [_known(entry) for entry in content]
        elif isinstance(content, float) and not math.isfinite(content):
            raise ValueError(f"{type(value).__name__}.{item.name} is {content}; unknown is None")
        if content is None or content == {} or content == []:
            continue
        known[item.name] = dict(content) if isinstance(content, Mapping) else content
    return known


def write(measurement: Measurement) -> bytes:
    """A measurement as the body of a message: strict JSON, UTF-8."""
    return json.dumps(to_mapping(measurement), separators=(",", ":"), allow_nan=False).encode()
