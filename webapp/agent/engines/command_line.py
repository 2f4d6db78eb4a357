"""What a command line says about the engine that it starts, by the table in `kinds`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from webapp.agent.engines.kinds import KINDS, EngineKind, kind_named

_BY_FIRST_WORD: dict[str, list[tuple[tuple[str, ...], EngineKind]]] = {}
for _kind in KINDS:
    for _call in _kind.calls:
        _BY_FIRST_WORD.setdefault(_call[0], []).append((_call, _kind))

#: Given names of environment variables, the values of those that are set.
Environment = Callable[[Sequence[str]], Mapping[str, str]]


class Recognised(NamedTuple):
    """What a command line says about an engine."""

    kind: str
    model: str | None
    port: int | None
    #: The model's file or directory as it was given, if it looks like a path.
    path: str | None = None


def recognise(arguments: Sequence[str], environment: Environment = lambda names: {}) -> Recognised | None:
    """The engine that a command line starts, or None. The environment is asked only for what a row names.

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
            return _read(kind, words[len(call) :], environment)
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


def _read(kind: EngineKind, words: Sequence[str], environment: Environment) -> Recognised:
    options = _options(words)
    names = kind.model_variables + kind.port_variables
    variables = environment(names) if names else {}
    from_environment = next((variables[name] for name in kind.model_variables if variables.get(name)), None)
    if kind.needs and not from_environment and not any(_plain(name) in options for name in kind.needs):
        kind = kind_named(kind.otherwise) or kind
    given = _positional(words) if kind.positional else from_environment
    path = _first(options, [name for name in kind.model if name not in _SERVED_NAMES]) or given
    return Recognised(
        kind.name,
        model_name(_first(options, kind.model) or given or "") or None,
        _port_of(kind, options, variables),
        path if path and _is_path(path) else None,
    )


def _port_of(kind: EngineKind, options: Mapping[str, str], variables: Mapping[str, str]) -> int | None:
    given = _first(options, kind.port)
    if given:
        return _port(given)
    for name in kind.port_variables:  # OLLAMA_HOST is host:port, or a host alone
        port = _port(variables.get(name, "").rpartition(":")[2])
        if port:
            return port
    return kind.default_port


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


def _first(options: Mapping[str, str], names: Sequence[str]) -> str | None:
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
    >>> model_name("https://me:secret@models.example/small.gguf?X-Amz-Signature=secret")
    'small'
    """
    if "://" in given:  # it may hold a user, a password or a signed query
        given = given.partition("://")[2].partition("?")[0].partition("#")[0].rstrip("/").rpartition("/")[2]
    hub = _HUB.search(given)
    if hub:
        return f"{hub.group(1)}/{hub.group(2)}"[:253]
    name = given
    if given.startswith(("/", "./", "../", "~")) or given.endswith(".gguf"):
        name = _basename(given.rstrip("/")) or given
    if name.startswith("sha256-"):
        return name[:19]
    return (name[:-5] if name.endswith(".gguf") else name)[:253]
