"""Questions that hang."""

from __future__ import annotations

import threading

from webapp.agent.patience import Patience


def join(name: str) -> None:
    for thread in threading.enumerate():
        if thread.name == name:
            thread.join()


def test_a_question_that_hangs_is_asked_once_and_the_others_each_time(fake_clock):
    release, asked = threading.Event(), []

    def ask(question: str) -> str:
        asked.append(question)
        if question == "stuck":
            release.wait(60)
        return question.upper()

    patience = Patience(ask, fake_clock, 0.1, "test-patience")
    for _ in range(3):
        patience.ask_all(["a", "stuck", "b"])
        fake_clock.advance(10)
    assert (asked.count("a"), asked.count("b"), asked.count("stuck")) == (3, 3, 1)
    assert {question: answer.value for question, answer in patience.answers.items()} == {"a": "A", "b": "B"}
    assert patience.waiting_s("stuck") == 30
    assert patience.waiting_s("a") is None
    release.set()
    join("test-patience")
    assert patience.answers["stuck"].value == "STUCK"
    patience.ask_all(["stuck"])
    assert asked.count("stuck") == 2
    patience.forget(but=["b"])
    assert list(patience.answers) == ["b"]


def test_threads_do_not_pile_up_without_end(fake_clock):
    release = threading.Event()
    patience = Patience(lambda question: release.wait(60), fake_clock, 0.001, "test-pile")
    patience.ask_all(range(100))
    patience.ask_all(range(200))
    assert sum(thread.name == "test-pile" for thread in threading.enumerate()) == 64
    release.set()
    join("test-pile")


def test_a_process_whose_command_line_can_not_be_read_hides_no_other_engine(machine, monkeypatch):
    """`ps` hangs on a process whose memory is locked."""
    from webapp.agent.engines import command_lines as module

    release, real = threading.Event(), module.read_or_empty

    def read(path: str, *more: int) -> bytes:
        if path.endswith("/10/cmdline"):
            release.wait(60)
        return real(path, *more)

    monkeypatch.setattr(module, "read_or_empty", read)
    machine.process(10, command="vllm serve stuck")
    machine.process(20, command="vllm serve well --port 8001")
    sampler = machine.sampler()
    assert [engine.id for engine in sampler.measure().measurement.engines] == ["vllm-well-8001"]
    release.set()
    join("command-lines")
    assert {engine.id for engine in sampler.measure().measurement.engines} == {"vllm-well-8001", "vllm-stuck-8000"}
