"""The table of engine kinds: from a command line to kind, model and port.

A new kind is a new row. Options are those that the programs document; where one can be given under several
names the first one found in the row's order counts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True)
class EngineKind:
    """One row."""

    name: str
    #: Words that a command line starts with: program or `-m` module, then sub-commands.
    calls: tuple[tuple[str, ...], ...]
    #: Options that name the model, the name it is served under first.
    model: tuple[str, ...] = ()
    #: The model may stand after the sub-command, without an option.
    positional: bool = False
    port: tuple[str, ...] = ("--port",)
    default_port: int | None = None
    #: Starts of the titles that its worker processes give themselves.
    titles: tuple[str, ...] = ()
    #: One of these options must be there...
    needs: tuple[str, ...] = ()
    #: ...and the row is another name for the same program without them.
    otherwise: str = ""
    #: Runs engines as children, one a model: each of them is an engine of its own.
    router: bool = False


_LLAMA_MODEL = ("--alias", "-a", "--hf-repo", "-hf", "-hfr", "--model", "-m", "--model-url", "-mu")

KINDS: tuple[EngineKind, ...] = (
    EngineKind(
        "vllm",
        (("vllm", "serve"), ("vllm.entrypoints.openai.api_server",), ("vllm.entrypoints.api_server",)),
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
        needs=_LLAMA_MODEL[2:],
        otherwise="llama.cpp-router",
    ),
    EngineKind("llama.cpp-router", (), default_port=8080, router=True),
    EngineKind("llama-cpp-python", (("llama_cpp.server",),), model=("--model_alias", "--model"), default_port=8000),
    EngineKind("tgi", (("text-generation-launcher",),), model=("--model-id",), port=("--port", "-p"), default_port=3000),
    EngineKind(
        "tei",
        (("text-embeddings-router",),),
        model=("--served-model-name", "--model-id"),
        port=("--port", "-p"),
        default_port=3000,
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
    EngineKind("ollama", (("ollama", "serve"),), default_port=11434, router=True),
    EngineKind("ollama-runner", (("ollama", "runner"), ("ollama_llama_server",)), model=("--model",)),
)

_BY_NAME = {kind.name: kind for kind in KINDS}
_BY_FIRST_WORD: dict[str, list[tuple[tuple[str, ...], EngineKind]]] = {}
for _kind in KINDS:
    for _call in _kind.calls:
        _BY_FIRST_WORD.setdefault(_call[0], []).append((_call, _kind))


class Recognised(NamedTuple):
    """What a command line tells about an engine."""

    kind: str
    model: str | None
    port: int | None
    #: The model's file or directory as it was given, if it looks like a path.
    path: str | None = None


def kind_named(name: str | None) -> EngineKind | None:
    """The row of that name."""
    return _BY_NAME.get(name or "")


def recognise(arguments: Sequence[str]) -> Recognised | None:
    """The engine that a command line starts, or None.

    >>> recognise(["/opt/venv/bin/python3", "/opt/venv/bin/vllm", "serve", "meta-llama/Llama-3.1-8B", "--port=8001"])
    Recognised(kind='vllm', model='meta-llama/Llama-3.1-8B', port=8001, path=None)
    >>> recognise(["python", "-u", "-m", "sglang.launch_server", "--model-path", "/models/qwen3-8b/"])
    Recognised(kind='sglang', model='qwen3-8b', port=30000, path='/models/qwen3-8b/')
    >>> recognise(["llama-server", "--models-dir", "/models", "--port", "9000"])
    Recognised(kind='llama.cpp-router', model=None, port=9000, path=None)
    >>> recognise(["vllm", "bench", "serve"])
    """
    words = _called(arguments)
    for call, kind in _BY_FIRST_WORD.get(words[0], ()) if words else ():
        if tuple(words[: len(call)]) == call:
            return _read(kind, words[len(call) :])
    return None


def titled(comm: str) -> EngineKind | None:
    """The kind whose workers call themselves so.

    >>> titled("VLLM::EngineCor").name
    'vllm'
    """
    for kind in KINDS:
        if comm.startswith(kind.titles or ("\0",)):
            return kind
    return None


_PYTHON = re.compile(r"(python|pypy)[0-9.]*[a-z]?\Z")

#: Options of the interpreter that take a word of their own.
_PYTHON_VALUES = ("-W", "-X", "--check-hash-based-pycs")


def _called(arguments: Sequence[str]) -> list[str]:
    """The command line from the program's own name on: without path, interpreter and the interpreter's options."""
    words = list(arguments)
    if not words:
        return []
    if _PYTHON.match(_basename(words[0])):
        del words[0]
        while words and words[0].startswith("-"):
            option = words.pop(0)
            if option == "-m" or (option.endswith("m") and re.match(r"-[A-Za-z]+\Z", option)):
                return words
            if option == "-c" or not words:
                return []
            if option in _PYTHON_VALUES:
                del words[0]
    if words:
        words[0] = _basename(words[0])
    return words


def _basename(path: str) -> str:
    return path.rpartition("/")[2]


def _read(kind: EngineKind, words: Sequence[str]) -> Recognised:
    options = _options(words)
    if kind.needs and not any(_plain(name) in options for name in kind.needs):
        kind = _BY_NAME[kind.otherwise]
    model = _first(options, kind.model)
    positional = _positional(words) if kind.positional else None
    port = _first(options, kind.port)
    path = _first(options, [name for name in kind.model if name not in _SERVED_NAMES]) or positional
    return Recognised(
        kind.name,
        model_name(model or positional or "") or None,
        _port(port) if port else kind.default_port,
        path if path and _is_path(path) else None,
    )


#: Options that name what the model is called, not where it lies.
_SERVED_NAMES = (
    "--served-model-name",
    "--served_model_name",
    "--alias",
    "-a",
    "--model_alias",
    "--model-name",
    "--model-url",
    "-mu",
)


def _is_path(model: str) -> bool:
    return model.startswith(("/", "./", "../")) or model.endswith(".gguf")


def _plain(option: str) -> str:
    return option.replace("_", "-") if option.startswith("--") else option


def _options(words: Sequence[str]) -> dict[str, str]:
    """Value by option; the last one given counts, as in argparse. A flag's value is "".

    >>> _options(["--port", "1", "--served_model_name=a", "-m", "f", "--flag", "--port", "2"])
    {'--port': '2', '--served-model-name': 'a', '-m': 'f', '--flag': ''}
    """
    found = {}
    for index, word in enumerate(words):
        if word.startswith("-") and len(word) > 1:
            name, equals, value = word.partition("=")
            following = words[index + 1] if index + 1 < len(words) else ""
            found[_plain(name)] = value if equals else "" if following.startswith("-") else following
    return found


def _first(options: dict[str, str], names: Sequence[str]) -> str | None:
    for name in names:
        if options.get(_plain(name)):
            return options[_plain(name)]
    return None


def _positional(words: Sequence[str]) -> str | None:
    """The first word that is neither an option nor follows one.

    >>> _positional(["--port", "1", "m"]), _positional(["--enforce-eager", "m"]), _positional(["--port=1", "m"])
    ('m', None, 'm')
    """
    before = ""
    for word in words:
        if not word.startswith("-") and (not before.startswith("-") or "=" in before):
            return word
        before = word
    return None


def _port(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 6 and 0 < int(text) < 65536 else None


_HUB = re.compile(r"models--(.+?)--(.+?)/snapshots/")


def model_name(given: str) -> str:
    """What to call a model that is named by a path.

    >>> model_name("meta-llama/Llama-3.1-8B"), model_name("/models/SmolLM2-135M.Q4_1.gguf"), model_name("models/tiny-llama")
    ('meta-llama/Llama-3.1-8B', 'SmolLM2-135M.Q4_1', 'models/tiny-llama')
    >>> model_name("/root/.cache/huggingface/hub/models--Qwen--Qwen3-8B/snapshots/0a1b2c/")
    'Qwen/Qwen3-8B'
    >>> model_name("/var/lib/ollama/blobs/sha256-6a0746a1ec1aef3e7ec53868f220ff6e389f6f8ef87a01d77c96807de94ca2aa")
    'sha256-6a0746a1ec1a'
    """
    hub = _HUB.search(given)
    if hub:
        return f"{hub.group(1)}/{hub.group(2)}"[:253]
    name = given
    if given.startswith(("/", "./", "../", "~")) or given.endswith(".gguf"):
        name = _basename(given.rstrip("/")) or given
    if name.startswith("sha256-"):
        return name[:19]
    return (name[:-5] if name.endswith(".gguf") else name)[:253]
