"""docs/engines.md, from the agent's two tables: how engines are found, and which of their metrics are read."""

from __future__ import annotations

from webapp.agent.engines.kinds import KINDS, EngineKind
from webapp.agent.engines.metric_names import ENGINE_METRIC_NAMES, UNASKED, EngineNames, Sum


def engines_page() -> str:
    """Two tables and what is true of all kinds."""
    found = "\n".join(_found(kind) for kind in KINDS)
    metrics = "\n".join(_metrics(name, names) for name, names in ENGINE_METRIC_NAMES.items())
    silent = "\n".join(f"- `{kind}`: {why}." for kind, why in UNASKED.items())
    return f"""# Engines

Generated from `webapp/agent/engines/kinds.py` and `webapp/agent/engines/metric_names.py` by `make docs`.

## Engines that are recognised

The agent reads the command lines of all processes. It ignores a leading `python`, its options, and paths; a shell or wrapper that starts the
program is not an engine. The model is the value of the first of the listed options or variables; if none is given, it is unknown.

| kind | command lines | model | port |
|---|---|---|---|
{found}

A **router** starts a child for each model; each child is an engine of its own.

Cores and memory need nothing from the engine. An engine's processes are those in its cgroup, if it has one to itself; otherwise its leader's process
group, descendants and session, less those of other engines. If the leader is gone while its processes live on, the engine is *orphaned*: it still
holds memory.

## Engines' own metrics

The agent scrapes `127.0.0.1` on the engine's port, and never an endpoint where that would load or wake a model.

| kind | waiting | running | KV cache | tokens | scraped at | needs |
|---|---|---|---|---|---|---|
{metrics}

Of several names, the first that is present counts. ¹ Tokens are counted when a request ends, so their rate is taken over the last minute.
Names with the prefix `ray_`, or with `_` in place of `:`, count too.

Never scraped:

{silent}

## Declaring an engine that is not recognised

In the TOML file that the agent is given with `--config`. A declaration takes precedence: no process is shown twice.

```toml
[[engine]]
id = "chat"                          # stays the same whatever happens to the process
model = "smollm2-135m"
kind = "llama.cpp"                   # a kind from above; without it, cores and memory only
port = 8080                          # whichever process listens there

[[engine]]
id = "rerank"
command = "rerank_server .*--large"  # a regular expression; or pid, pidfile, unit or container
```

| key | finds |
|---|---|
| `port` | the process that listens there, if none of the other keys is given |
| `pid`, `pidfile` | that process |
| `command` | the oldest process whose command line matches |
| `unit` | the processes of a systemd unit |
| `container` | the processes of a container, by name or id |

Or start it with `enginehouse run --port 8000 --model NAME -- COMMAND`, which registers the engine with a control plane, reports the machine's
resources, and passes on signals and the exit code.

To add a kind, add a row to each of the two tables: see [contributing.md](contributing.md).
"""


def _found(kind: EngineKind) -> str:
    calls = ", ".join(f"`{_call(call)}`" for call in kind.calls) or "its server without a model"
    model = [f"`{option}`" for option in kind.model] + [f"`${name}`" for name in kind.model_variables]
    if kind.positional:
        model.append("the first argument")
    port = [f"`{option}`" for option in kind.port] + [f"`${name}`" for name in kind.port_variables]
    default = f"{kind.default_port}, " if kind.default_port else ""
    name = f"`{kind.name}`" + (", a router" if kind.router else "")
    return f"| {name} | {calls} | {', '.join(model) or 'unknown'} | {default}{', '.join(port)} |"


def _call(call: tuple[str, ...]) -> str:
    """As it is typed: a first word with dots that is a name in Python is a module."""
    is_module = "." in call[0] and all(part.isidentifier() for part in call[0].split("."))
    return " ".join((("python -m",) if is_module else ()) + call)


def _metrics(kind: str, names: EngineNames) -> str:
    asked = ", ".join(f"port {point.port} `{point.path}`" if point.port else f"`{point.path}`" for point in names.endpoints)
    tokens = "<br>".join(_sums(sums) for sums in (names.prompt_tokens, names.generation_tokens) if sums)
    mark = "¹" if names.counts_at_end and tokens else ""
    cells = (_sums(names.waiting), _sums(names.running), _sums(names.kv_cache), tokens + mark)
    return f"| `{kind}` | {' | '.join(cell or '–' for cell in cells)} | {asked} | {names.switch or 'nothing'} |"


def _sums(sums: tuple[Sum, ...]) -> str:
    return ", else ".join(" + ".join(f"`{one.name}{_where(one.where)}`" for one in added) for added in sums)


def _where(labels: tuple[tuple[str, str], ...]) -> str:
    return "{" + ",".join(f'{name}="{value}"' for name, value in labels) + "}" if labels else ""
