"""The table of engine kinds: how their command lines look. `command_line` reads them by it.

A new kind is a new row. Options are those that the programs document; where one can be given under several
names the first one found in the row's order counts.
"""

from __future__ import annotations

from typing import NamedTuple


class EngineKind(NamedTuple):
    """One row."""

    name: str
    #: Words that a command line starts with: program or `-m` module, then sub-commands.
    calls: tuple[tuple[str, ...], ...]
    #: Options that name the model, the name it is served under first.
    model: tuple[str, ...] = ()
    #: The model may follow the sub-command, without an option.
    positional: bool = False
    port: tuple[str, ...] = ("--port",)
    default_port: int | None = None
    #: Environment variables that say the same; options beat them.
    model_variables: tuple[str, ...] = ()
    port_variables: tuple[str, ...] = ()
    #: Starts of the titles that its worker processes give themselves.
    titles: tuple[str, ...] = ()
    #: One of these options (or a variable for the model) must be there...
    needs: tuple[str, ...] = ()
    #: ...and the row is another name for the same program without them.
    otherwise: str = ""
    #: Runs engines as children, one a model: each of them is an engine of its own.
    router: bool = False


_LLAMA_MODEL = ("--alias", "-a", "--hf-repo", "-hf", "-hfr", "--model", "-m", "--model-url", "-mu")

KINDS: tuple[EngineKind, ...] = (
    EngineKind(
        "vllm",
        (
            ("vllm", "serve"),
            ("vllm.entrypoints.cli.main", "serve"),
            ("vllm.entrypoints.openai.api_server",),
            ("vllm.entrypoints.api_server",),
        ),
        model=("--served-model-name", "--model", "--model-tag"),
        positional=True,
        default_port=8000,
        titles=("VLLM::",),
    ),
    EngineKind(
        "sglang",
        (("sglang.launch_server",), ("sglang", "serve")),
        model=("--served-model-name", "--model-path", "--model"),
        default_port=30000,
        titles=("sglang::",),
    ),
    EngineKind(
        "llama.cpp",
        (("llama-server",), ("llama.cpp-server",)),
        model=_LLAMA_MODEL,
        default_port=8080,
        model_variables=("LLAMA_ARG_ALIAS", "LLAMA_ARG_HF_REPO", "LLAMA_ARG_MODEL", "LLAMA_ARG_MODEL_URL"),
        port_variables=("LLAMA_ARG_PORT",),
        needs=_LLAMA_MODEL[2:],
        otherwise="llama.cpp-router",
    ),
    EngineKind("llama.cpp-router", (), default_port=8080, router=True),
    EngineKind("llama-cpp-python", (("llama_cpp.server",),), model=("--model_alias", "--model"), default_port=8000),
    EngineKind(
        "tgi",
        (("text-generation-launcher",),),
        model=("--model-id",),
        port=("--port", "-p"),
        default_port=3000,
        model_variables=("MODEL_ID",),
        port_variables=("PORT",),
    ),
    EngineKind(
        "tei",
        (("text-embeddings-router",),),
        model=("--served-model-name", "--model-id"),
        port=("--port", "-p"),
        default_port=3000,
        model_variables=("SERVED_MODEL_NAME", "MODEL_ID"),
        port_variables=("PORT",),
    ),
    EngineKind(
        "lmdeploy",
        (("lmdeploy", "serve", "api_server"), ("lmdeploy.serve.openai.api_server",)),
        model=("--model-name",),
        positional=True,
        port=("--server-port",),
        default_port=23333,
    ),
    EngineKind(
        "trtllm",
        (("trtllm-serve", "serve"), ("trtllm-serve", "disaggregated"), ("trtllm-serve",)),
        model=("--served_model_name", "--model"),
        positional=True,
        default_port=8000,
    ),
    EngineKind("triton", (("tritonserver",),), port=("--http-port",), default_port=8000),
    EngineKind("ollama", (("ollama", "serve"),), default_port=11434, port_variables=("OLLAMA_HOST",), router=True),
    EngineKind("ollama-runner", (("ollama", "runner"), ("ollama_llama_server",)), model=("--model",)),
)

_BY_NAME = {kind.name: kind for kind in KINDS}


def kind_named(name: str | None) -> EngineKind | None:
    """The row of that name."""
    return _BY_NAME.get(name or "")


def titled(comm: str) -> EngineKind | None:
    """The kind whose workers call themselves so.

    >>> titled("VLLM::EngineCor").name
    'vllm'
    """
    for kind in KINDS:
        if comm.startswith(kind.titles or ("\0",)):
            return kind
    return None
