"""The table of the HTTP API: one row a route. The views answer them, `docs/http-api.md` is printed from here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from webapp.history.ranges import RANGES

#: Entries of a list that one answer holds.
USUAL_LIMIT = 100
LARGEST_LIMIT = 1_000


class BadParameter(ValueError):
    """A parameter that can't be used; the message says what came and what was expected."""

    def __init__(self, name: str, came: str, expected: str) -> None:
        super().__init__(f"{name}={came[:60]}: expected {expected}")
        self.field = name


@dataclass(frozen=True)
class Parameter:
    """A parameter of a query."""

    name: str
    help: str
    default: str = ""


@dataclass(frozen=True)
class Route:
    """One route; `name` is also the name of the view that answers it."""

    name: str
    path: str
    help: str
    parameters: tuple[Parameter, ...]
    #: What the answer's fields are, as Markdown.
    answer: str
    #: Names of the tables in `records` whose fields the answer holds.
    fields: tuple[str, ...] = ()


_AT = Parameter("at", "a past moment, such as `2026-11-30T03:00Z`; the answer is as of then", "now")
_FORMAT = Parameter("format", "`json`, or `csv` for all entries as one table", "`json`")
_PAGED = (
    Parameter("limit", f"entries per answer, at most {LARGEST_LIMIT:,}", str(USUAL_LIMIT)),
    Parameter("offset", "entries to skip before them", "0"),
)
_PAGES = "`count` is the total number of entries; `next` is the address of the next page, absent on the last."

ROUTES: tuple[Route, ...] = (
    Route(
        "nodes",
        "/api/v1/nodes",
        "The nodes, selected and ordered as on the cluster page.",
        (
            Parameter("q", "words that must each occur in the name, a label, a model or an engine"),
            Parameter("state", "`fresh`, `late`, `stale` or `gone`; may be given more than once"),
            Parameter("model", "name of a model that the node must serve"),
            Parameter("label", "`name=value`; may be given more than once; a node must have them all"),
            Parameter("sort", "`name`, `state`, `age`, `cpu`, `memory`, `load`, `disk`, `engines` or `queue`", "`name`"),
            Parameter("order", "`asc` or `desc`"),
            *_PAGED,
            _FORMAT,
            _AT,
        ),
        f"`nodes`: a list of nodes. {_PAGES} `totals` are for the whole fleet, whatever is selected.",
        ("node",),
    ),
    Route(
        "node",
        "/api/v1/nodes/<name:name>",
        "One node with everything that it last reported. A segment of its name that is `.` or `..` is written `~.` or `~..`.",
        (_AT,),
        "The node's fields; `labels`; `engines`, a list; `rejected`, the fields of its last heartbeat that could not be used. "
        "`host`, `load`, `limits`, `disks`, `networks`, `gpus` and `pressure` are as in its heartbeat. "
        "If its numbers are too old, they and those of its engines are absent.",
        ("node", "engine"),
    ),
    Route(
        "engines",
        "/api/v1/engines",
        "The engines of all nodes, of one node or of one model.",
        (
            Parameter("node", "name of a node"),
            Parameter("model", "name of a model"),
            *_PAGED,
            _FORMAT,
            _AT,
        ),
        f"`engines`: a list of engines, by node. {_PAGES}",
        ("engine",),
    ),
    Route(
        "models",
        "/api/v1/models",
        "The models, with the resources that each uses.",
        (
            Parameter("q", "words that must each occur in the name"),
            Parameter(
                "sort",
                "`name`, `engines`, `nodes`, `cores`, `memory`, `waiting`, `running`, `kv` or `tokens`",
                "`name`",
            ),
            Parameter("order", "`asc` or `desc`"),
            *_PAGED,
            _FORMAT,
            _AT,
        ),
        f"`models`: a list of models, each with `totals`. {_PAGES} `totals` are for all engines of the fleet.",
        ("model",),
    ),
    Route(
        "series",
        "/api/v1/series",
        "The numbers behind a chart, or one metric.",
        (
            Parameter("node", "name of a node; this or `model` is needed"),
            Parameter("model", "name of a model; this or `node` is needed"),
            Parameter("chart", "key of a chart, such as `cpu` or `engine_cpu`; this or `metric` is needed"),
            Parameter("metric", "name of a metric, such as `llmgw_node_cpu_utilization_percent`; see [metrics.md](metrics.md)"),
            Parameter("by", "for a model's chart: `node` for one line per node", "one line, summed"),
            *_PAGED,
            Parameter(
                "range", ", ".join(f"`{name}`" for name in RANGES) + " or a length such as `3h`, up to now or to `at`", "`1h`"
            ),
            Parameter("format", "`json`, or `csv` for the lines of the chart", "`json`"),
            _AT,
        ),
        "`times`, with `start`, `end` and `step_seconds`. For a chart its `unit` and its `lines` as they are drawn, each with "
        "`name`, `role` (`line`, `others`, `rest` or `limit`) and `values`; for a metric its `series`, each with `metric`, "
        "`unit`, `labels` and `values`, paged like a list. There is one value per time, null where nothing was measured. "
        "`as_of` is when the data was current, `warnings` say why it may be incomplete, `unheard` are spans in which nobody was "
        "listening. "
        "503 `history_unavailable` if the history does not answer.",
    ),
)


def limits(query: Mapping[str, str]) -> tuple[int, int]:
    """Limit and offset that a query asks for. Raises BadParameter."""
    return (
        _whole("limit", query.get("limit", str(USUAL_LIMIT)), 1, LARGEST_LIMIT),
        _whole("offset", query.get("offset", "0"), 0, 10**9),
    )


def _whole(name: str, text: str, low: int, high: int) -> int:
    if text.isascii() and text.isdigit() and len(text) <= 10 and low <= int(text) <= high:
        return int(text)
    raise BadParameter(name, text, f"{low:,} to {high:,}")
