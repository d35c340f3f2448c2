"""One call of a worker on another machine, without a door."""

from __future__ import annotations

import asyncio

import pytest

from agentserver.completion import Usage
from agentserver.worker import frames, remote_desk
from agentserver.worker.frames import HeartbeatFrame, ReceiptFrame
from agentserver.worker.pool import QUESTIONS, WorkerError
from agentserver.worker.remote_desk import HeldCall, SilenceLimits, UnexpectedFrameError

pytestmark = pytest.mark.anyio


class AskedCounterpart:
    """A counterpart that counts questions, and answers once it may."""

    def __init__(self):
        self.numbers, self.lines, self.may = [], [], asyncio.Event()

    def tell(self, text):
        self.lines.append(text)

    async def complete(self, asked):
        self.numbers.append(asked.number)
        await self.may.wait()
        return frames.CompletionFrame(asked.call, asked.number, "yes", (), Usage(), "m", None, None, "")


def question(number):
    return frames.CompletionRequestFrame(1, number, "m", (), "a", (), None, 0)


def call(counterpart, silences=None):
    return HeldCall("calculator", 1, lambda: None, counterpart, silences or SilenceLimits())


async def test_a_question_that_is_asked_again_is_put_to_the_model_once():
    counterpart = AskedCounterpart()
    held = call(counterpart)
    assert held.handle_frame(question(7)) is None
    await asyncio.sleep(0)
    assert held.handle_frame(question(7)) is None
    counterpart.may.set()
    await asyncio.wait(held.list_futures(question(7)), return_when=asyncio.FIRST_COMPLETED)
    assert held.handle_frame(question(7)).content == "yes"
    assert held.handle_frame(question(7)).content == "yes", "the answer was lost on the way"
    assert counterpart.numbers == [7]
    held.close()


async def test_too_many_open_questions_end_the_call():
    held = call(AskedCounterpart())
    for number in range(QUESTIONS):
        assert held.handle_frame(question(number)) is None
    with pytest.raises(UnexpectedFrameError):
        held.handle_frame(question(QUESTIONS))
    with pytest.raises(WorkerError, match="it asked out of turn"):
        await held.over
    held.close()


async def test_only_the_first_sign_of_life_is_answered_at_once_and_progress_is_passed_on():
    counterpart = AskedCounterpart()
    held = call(counterpart)
    assert held.handle_frame(HeartbeatFrame(1)) == ReceiptFrame(1)
    assert held.handle_frame(HeartbeatFrame(1)) is None
    assert held.handle_frame(frames.ProgressFrame(1, "half")) == ReceiptFrame(1)
    assert counterpart.lines == ["half"]
    held.close()


async def test_a_server_that_was_held_up_itself_takes_no_worker_for_dead(monkeypatch):
    """Timers that are late by more than a second say that the process did not run, so that it could hear nobody."""
    held = call(AskedCounterpart(), SilenceLimits(100.0, 100.0))
    held.handle_frame(HeartbeatFrame(1))
    held._miss(asyncio.get_running_loop().time() - remote_desk.HELD_UP - 0.1, 100.0, held._lose)
    assert not held.over.done()
    held._miss(asyncio.get_running_loop().time(), 100.0, held._lose)
    with pytest.raises(WorkerError, match="it was silent for 100 s"):
        await held.over
    held.close()
