"""PromQL as text: every value from outside is quoted here and nowhere else.

https://prometheus.io/docs/prometheus/latest/querying/basics/
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from webapp.fields import printable
from webapp.metrics import Labels

#: The label by which the terms of a joined query are told apart.
MARK = "row"

#: VictoriaMetrics takes 16,384 bytes by default.
LONGEST_QUERY = 12_000


def quoted(text: str) -> str:
    """A text as a PromQL string.

    >>> print(quoted('n1"} or vector(1) or x{y="'))
    "n1\\"} or vector(1) or x{y=\\""
    >>> print(quoted("a\\\\b"))
    "a\\\\b"
    """
    escaped = printable(text).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def regex_quoted(text: str) -> str:
    """A text as a part of a regular expression (RE2) that matches that text alone; not yet quoted as a string.

    >>> print(regex_quoted("h.1+"))
    h\\.1\\+
    """
    return re.sub(r"([\\.+*?()|\[\]{}^$])", r"\\\1", printable(text))


def selector(name: str, labels: Labels = (), extra: str = "") -> str:
    """A metric by its name, with the series whose labels have these values; `extra` holds further matchers.

    >>> selector("up", (("job", "a"),), 'env=~"p.*"')
    'up{job="a",env=~"p.*"}'
    """
    matchers = [f"{label}={quoted(value)}" for label, value in labels]
    if extra:
        matchers.append(extra)
    return f"{name}{{{','.join(matchers)}}}" if matchers else name


def duration(seconds: float) -> str:
    """Whole seconds, which every server reads.

    >>> duration(90.0)
    '90s'
    """
    return f"{max(1, round(seconds))}s"


def joined(terms: Iterable[tuple[str, str]], longest: int = LONGEST_QUERY) -> Iterator[str]:
    """Few queries for many expressions, each given with its mark, which its series then carry as the label MARK.

    `or` compares labels without the metric's name and drops what it has seen, so that the terms must differ in
    a label; a regular expression on `__name__` would do as well, but some managed servers refuse it.
    A query is at most `longest` characters long, unless one term alone is longer.

    >>> list(joined([("0", "a"), ("1", "b")]))
    ['(label_replace(a, "row", "0", "", "") or label_replace(b, "row", "1", "", ""))']
    >>> len(list(joined([("0", "a"), ("1", "b")], longest=50)))
    2
    """
    batch: list[str] = []
    length = 0
    for mark, promql in terms:
        term = f'label_replace({promql}, "{MARK}", {quoted(mark)}, "", "")'
        if batch and length + len(term) > longest:
            yield _either(batch)
            batch, length = [], 0
        batch.append(term)
        length += len(term) + len("( or )")
    if batch:
        yield _either(batch)


def _either(terms: Sequence[str]) -> str:
    # In halves of halves: a chain would copy what it has found once for each further term.
    if len(terms) == 1:
        return terms[0]
    middle = len(terms) // 2
    return f"({_either(terms[:middle])} or {_either(terms[middle:])})"
