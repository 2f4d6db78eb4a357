"""Print what follows from the tables: `python docs/generate.py` writes the reference pages and the Grafana dashboard."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

from webapp.api import ROUTES, Route
from webapp.config import COMMANDS, SETTINGS
from webapp.metrics import CHARTS, HEARTBEAT_AGE, METRICS, UP, Metric
from webapp.overview import records

ROOT = Path(__file__).parent.parent


def beside(path: str) -> ModuleType:
    """A module of this repository that is in no package."""
    spec = importlib.util.spec_from_file_location(Path(path).stem, ROOT / path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def metrics_page() -> str:
    """One row a metric, from `webapp/metrics.py` and `webapp/measurement.py`."""
    rows = "\n".join(
        f"| `{metric.name}{_labels(metric)}` | {metric.unit or '0 or 1'} | {metric.help} | {metric.source.replace('|', chr(92) + '|')} |"
        for metric in METRICS
    )
    charts = "\n".join(f"| {chart.title} | {', '.join(f'`{name}`' for name in chart.families)} |" for chart in CHARTS)
    return f"""# Metrics

Generated from `webapp/metrics.py` by `make docs`. All are gauges without timestamps, labelled with `node`. A measurement more than a minute
old is left out. Metric names call an engine by its historical name, shard.

| metric | unit | what | source |
|---|---|---|---|
| `{UP.name}` | 0 or 1 | {UP.help} | the control plane's clock |
| `{HEARTBEAT_AGE.name}` | {HEARTBEAT_AGE.unit} | {HEARTBEAT_AGE.help} | the control plane's clock |
{rows}

## Charts

| chart | metrics |
|---|---|
{charts}

## The control plane itself

`enginehouse_heartbeats_total{{outcome}}` counts heartbeats by outcome, `enginehouse_rejected_fields_total{{field}}` the fields that could not be
used, and `enginehouse_instance_messages_total{{outcome}}` the messages of engines that register themselves. Its other metrics are listed in
[operations.md](operations.md). `llmgw_instance_up{{instance_id,node}}` is 1 if such an engine was heard within `--instance-ttl-s`, else 0.
"""


def _labels(metric: Metric) -> str:
    written = [f'{label}="{value}"' for label, value in metric.fixed] + [label for label, _ in metric.labels]
    return "{" + ", ".join(written) + "}" if written else ""


def configuration_page() -> str:
    """One row a setting, from `webapp/config.py`."""
    rows = "\n".join(
        f"| {f'`{s.flag}`' if not s.file_only else 'file only'} | `{s.name}` | {s.kind.wanted} | {s.default_text} | {s.help} | {', '.join(s.commands)} |"
        for s in SETTINGS
    ).replace("|off", "\\|off")
    commands = "\n".join(f"| `enginehouse {name}` | {help} |" for name, help in COMMANDS.items())
    return f"""# Configuration

Generated from `webapp/config.py` by `make docs`. A flag overrides the environment variable (`ENGINEHOUSE_` and the name in capitals), which
overrides the TOML file named by `--config`, which overrides the default. A value that can't be used stops the command with exit code 2 and
one line that says what was given and what was expected.

| command | what it does |
|---|---|
{commands}

| flag | name in the file | value | default | what | commands |
|---|---|---|---|---|---|
{rows}
"""


_FIELDS = {"node": records.NODE_FIELDS, "engine": records.ENGINE_FIELDS, "model": records.MODEL_FIELDS}


def http_api_page() -> str:
    """A section a route, from `webapp/api.py`; a table of fields a record, from `webapp/overview/records.py`."""
    routes = "\n".join(_route(route) for route in ROUTES)
    fields = "\n".join(
        f"## A{'n' if name == 'engine' else ''} {name}\n\n| field | unit | what |\n|---|---|---|\n"
        + "\n".join(f"| `{field.key}` | {field.unit} | {field.help} |" for field in table)
        + "\n"
        for name, table in _FIELDS.items()
    )
    return f"""# HTTP API

Generated from `webapp/api.py` and `webapp/overview/records.py` by `make docs`. The API is read-only, gives the same numbers as the pages, and
answers strict JSON in UTF-8:

- An unknown value is absent, never 0; in `values` it is null. Numbers of a measurement more than a minute old are left out as on the pages;
  `state` and the ages say so.
- A total is `{{"value", "counted", "of", "left_out"}}`: how many of how many reported it, and why the others are left out. Where none reported
  it, there is no `value`.
- `at` in an answer is the time that it is about. With `?at=` in the address that is a past moment, rebuilt from the history with seven
  significant digits; what the history does not keep, such as process lists, is absent.
- Names in paths are percent-encoded and may contain slashes. Field names include their units.
- An error is `{{"ok": false, "error", "message"}}`, with `field` where one parameter is at fault: 400 for a parameter that can't be used, 404
  for an unknown node or a moment before the history begins, 503 if the history does not answer.
- CSV has each column's unit in its header. An unknown value is an empty cell; text that a spreadsheet would take for a formula is prefixed
  with an apostrophe.

{routes}
{fields}"""


def _route(route: Route) -> str:
    rows = "\n".join(f"| `{one.name}` | {one.help} | {one.default} |" for one in route.parameters)
    held = ", ".join(f"[{name}](#a{'n' if name == 'engine' else ''}-{name})" for name in route.fields)
    path = route.path.replace("<name:name>", "{name}")
    return f"""## `GET {path}`

{route.help}

| parameter | what | default |
|---|---|---|
{rows}

{route.answer}{f" Fields: {held}." if held else ""}
"""


#: What is written, by its place in the repository.
PAGES: dict[str, Callable[[], str]] = {
    "docs/metrics.md": metrics_page,
    "docs/configuration.md": configuration_page,
    "docs/http-api.md": http_api_page,
    "docs/engines.md": beside("docs/engines_page.py").engines_page,
    "deploy/grafana/enginehouse.json": beside("deploy/grafana/dashboard.py").text,
}

if __name__ == "__main__":
    for name, page in PAGES.items():
        (ROOT / name).write_text(page(), "utf-8")
