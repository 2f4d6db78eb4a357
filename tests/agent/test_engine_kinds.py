"""Command lines of real engines, and of programs that only mention them."""

from __future__ import annotations

import pytest

from webapp.agent.engines.command_line import model_name, recognise
from webapp.agent.engines.kinds import KINDS, titled


@pytest.mark.parametrize(
    ("command", "kind", "model", "port"),
    [
        ("vllm serve meta-llama/Llama-3.1-8B", "vllm", "meta-llama/Llama-3.1-8B", 8000),
        (
            "/srv/venv/bin/python3 /srv/venv/bin/vllm serve models/tiny --served-model-name tiny-a b --port 18000",
            "vllm",
            "tiny-a",
            18000,
        ),
        ("python3 -m vllm.entrypoints.openai.api_server --model=Qwen/Qwen3-8B --port=8001", "vllm", "Qwen/Qwen3-8B", 8001),
        ("vllm serve --served_model_name x --model y", "vllm", "x", 8000),
        ("vllm serve --port 9 Qwen/Qwen3-8B", "vllm", "Qwen/Qwen3-8B", 9),
        ("vllm serve --port 8000 --port 8002 m", "vllm", "m", 8002),
        ("vllm serve --config file.yaml", "vllm", None, 8000),
        ("python -m sglang.launch_server --model-path Qwen/Qwen3-8B --tp 2", "sglang", "Qwen/Qwen3-8B", 30000),
        ("python3.12 -X dev -um sglang.launch_server --model-path a --served-model-name b --port 3", "sglang", "b", 3),
        ("sglang serve --model-path a", "sglang", "a", 30000),
        ("/usr/local/bin/llama-server -m /models/SmolLM2.Q4_1.gguf --port 8081 --metrics", "llama.cpp", "SmolLM2.Q4_1", 8081),
        ("llama-server -hf ggml-org/gemma-3-1b-it-GGUF:Q4_K_M", "llama.cpp", "ggml-org/gemma-3-1b-it-GGUF:Q4_K_M", 8080),
        ("llama-server --port 41000 --alias qwen --model /m/q.gguf", "llama.cpp", "qwen", 41000),
        ("llama-server --models-dir /models --port 9000", "llama.cpp-router", None, 9000),
        ("llama-server", "llama.cpp-router", None, 8080),
        ("python -m llama_cpp.server --model /m/a.gguf --model_alias a", "llama-cpp-python", "a", 8000),
        ("text-generation-launcher --model-id bigscience/bloom -p 80", "tgi", "bigscience/bloom", 80),
        ("text-embeddings-router --model-id BAAI/bge-m3", "tei", "BAAI/bge-m3", 3000),
        ("lmdeploy serve api_server internlm/internlm3 --server-port 23334", "lmdeploy", "internlm/internlm3", 23334),
        ("python /opt/bin/trtllm-serve serve TinyLlama/TinyLlama-1.1B", "trtllm", "TinyLlama/TinyLlama-1.1B", 8000),
        ("trtllm-serve TinyLlama/TinyLlama-1.1B --port 8005", "trtllm", "TinyLlama/TinyLlama-1.1B", 8005),
        ("tritonserver --model-repository=/models --http-port=9000", "triton", None, 9000),
        ("/usr/local/bin/ollama serve", "ollama", None, 11434),
        (
            "/usr/local/bin/ollama runner --model /b/sha256-0123456789abcdef --port 40001",
            "ollama-runner",
            "sha256-0123456789ab",
            40001,
        ),
        ("vllm serve m --port 70000", "vllm", "m", None),
        ("vllm serve m --port ٣", "vllm", "m", None),
    ],
)
def test_an_engine_is_recognised_by_its_command_line(command, kind, model, port):
    assert recognise(command.split(" "))[:3] == (kind, model, port)


@pytest.mark.parametrize(
    "command",
    [
        "vllm bench serve",
        "vim vllm serve",
        "docker run vllm/vllm-openai --model x",
        "sh -c vllm_serve",
        "grep llama-server",
        "python -c from_multiprocessing",
        "python script.py vllm serve",
        "ollama run llama3",
        "sudo vllm serve x",
        "python -m",
        "python -",
        "VLLM::EngineCore",
    ],
)
def test_a_program_that_only_mentions_an_engine_is_none(command):
    assert recognise(command.split(" ")) is None
    assert recognise([]) is None


def test_workers_are_recognised_by_their_titles():
    """T05: the kernel keeps 15 bytes of a name"""
    assert titled("VLLM::EngineCor").name == "vllm"
    assert titled("sglang::schedul").name == "sglang"
    assert titled("python3") is None
    assert titled("") is None


def test_a_models_name_is_as_short_as_it_can_be():
    assert model_name("/models/a/") == "a"
    assert model_name("/") == "/"
    assert len(model_name("x" * 9000)) == 253


def test_each_kind_is_there_once():
    names = [kind.name for kind in KINDS]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("command", "environment", "expected"),
    [
        ("text-generation-launcher", {"MODEL_ID": "a/b", "PORT": "80"}, ("tgi", "a/b", 80)),
        ("text-generation-launcher --model-id c --port 81", {"MODEL_ID": "a/b", "PORT": "80"}, ("tgi", "c", 81)),
        ("llama-server", {"LLAMA_ARG_MODEL": "/m/x.gguf", "LLAMA_ARG_PORT": "8001"}, ("llama.cpp", "x", 8001)),
        ("llama-server", {}, ("llama.cpp-router", None, 8080)),
        ("ollama serve", {"OLLAMA_HOST": "0.0.0.0:11500"}, ("ollama", None, 11500)),
        ("ollama serve", {"OLLAMA_HOST": "127.0.0.1"}, ("ollama", None, 11434)),
    ],
)
def test_containers_set_model_and_port_by_environment(command, environment, expected):
    assert recognise(command.split(" "), lambda names: environment)[:3] == expected


def test_only_named_variables_are_asked_for():
    asked = []
    recognise(["vllm", "serve", "m"], lambda names: asked.extend(names) or {})
    recognise(["tritonserver"], lambda names: asked.extend(names) or {})
    assert asked == []
