"""Asks the kernel questions that it may leave unanswered for hours: a dead mount, a process whose memory is locked.

A question that hangs takes its thread along. That thread is left behind, one for each question at most, and the
other questions are asked in another one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from webapp.agent.clock import Clock

Question = TypeVar("Question", bound=Hashable)
Value = TypeVar("Value")

#: Threads that may hang at the same time.
_MOST_HANGING = 64


def started(thread: threading.Thread) -> bool:
    """Starts a thread; False where there is no room for one, as in the process limit of a user whose engines leak threads."""
    try:
        thread.start()
    except RuntimeError:
        return False
    return True


@dataclass(frozen=True)
class Answer(Generic[Value]):  # a generic NamedTuple needs Python 3.11
    """The last answer to a question."""

    value: Value
    #: Seconds on the boot clock.
    taken: float


class Patience(Generic[Question, Value]):
    """Keeps the last answer to each question, whenever it came."""

    def __init__(self, ask: Callable[[Question], Value], clock: Clock, wait_s: float, name: str) -> None:
        """`ask` must not raise. `wait_s`: how long `ask_all` waits for all answers, in about; `name`: of the threads."""
        self._ask = ask
        self._clock = clock
        self._wait_s = wait_s
        self._name = name
        self._rounds: list[_Round[Question, Value]] = []
        #: By question; the owner takes out what is no longer asked.
        self.answers: dict[Question, Answer[Value]] = {}

    def ask_all(self, questions: Iterable[Question]) -> None:
        """Asks those that do not hang, in this order. Some answers may come after the return, or never."""
        self._rounds = [round for round in self._rounds if round.at]
        hanging = {round.at[0] for round in self._rounds if round.at}
        left = [question for question in questions if question not in hanging]
        wait_s = self._wait_s
        while left and len(self._rounds) < _MOST_HANGING:
            round: _Round[Question, Value] = _Round(left, self._answer, self._clock, self._name)
            if not started(round):
                return  # the answers before stand until they are too old
            round.join(wait_s)
            if not round.at:
                return
            wait_s /= 2  # however many questions hang, the sum stays below twice the first
            self._rounds.append(round)
            left, round.left = round.left, []

    def _answer(self, question: Question) -> None:
        self.answers[question] = Answer(self._ask(question), self._clock.boottime())

    def waiting_s(self, question: Question) -> float | None:
        """For how long a question has hung; None if it does not."""
        for round in self._rounds:
            if round.at and round.at[0] == question:
                return self._clock.boottime() - round.at[1]
        return None

    def forget(self, but: Iterable[Question]) -> None:
        """Drops the answers to all other questions."""
        for gone in set(self.answers) - set(but):
            del self.answers[gone]


class _Round(threading.Thread, Generic[Question, Value]):
    """Asks one question after the other."""

    def __init__(self, questions: list[Question], answer: Callable[[Question], None], clock: Clock, name: str) -> None:
        super().__init__(name=name, daemon=True)
        #: What is still to ask; whoever gives the round up takes it away.
        self.left = questions
        self._answer = answer
        self._clock = clock
        #: The question that is being asked, and since when on the boot clock.
        self.at: tuple[Question, float] | None = None

    def run(self) -> None:
        while self.left:
            question = self.left.pop(0)
            self.at = (question, self._clock.boottime())
            self._answer(question)
        self.at = None
