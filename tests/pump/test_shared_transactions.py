"""A stranger's question beside 64 busy conversations of one principal, on a journal."""

from __future__ import annotations

import pytest

from agentserver import HandlerResponse
from agentserver.assembly import build
from agentserver.core.blueprint import Limits
from agentserver.engines.sqlite.engine import SqliteEngine
from agentserver.engines.sqlite.file import JournalOptions
from agentserver.payload.codec import Codecs
from agentserver.testing import listener, organism_of
from tests.core.paper import Ask

pytestmark = pytest.mark.anyio
BUSY = 64
"""Conversations that never rest: without shares, each of a question's two commits waits for a step of each of them."""


class Busy:
    """An organism whose listeners ``left`` and ``right`` never rest, and count their steps."""

    def __init__(self):
        self.steps = 0
        self.organism = organism_of(
            listener("left", self.pass_on("right"), Ask, peers=["right"]),
            listener("right", self.pass_on("left"), Ask, peers=["left"]),
            listener("answer", answer, Ask),
            limits=Limits(hops=10_000, messages=100_000, drain=0.1),
        )

    def pass_on(self, to):
        async def handle(payload: Ask, metadata):
            self.steps += 1
            return HandlerResponse(payload, to)

        return handle


async def answer(payload: Ask, metadata):
    return HandlerResponse.respond(payload)


@pytest.fixture(name="busy")
def make_busy():
    return Busy()


async def test_few_steps_of_others_lie_between_a_question_and_its_answer(busy, tmp_path):
    data = Codecs([Ask]).of(Ask).encode(Ask("again")).encode()
    engine = SqliteEngine(JournalOptions(tmp_path / "j"))
    async with build(busy.organism, engine=engine) as server:
        for _ in range(BUSY):
            await (await server.open("busy")).send(data, "left")
        stranger, between = await server.open("stranger"), []
        for _ in range(8):
            before = busy.steps
            reply = await stranger.ask(data, "answer")
            assert reply is not None
            assert not reply.error
            between.append(busy.steps - before)
    assert 0 < min(between) < BUSY
