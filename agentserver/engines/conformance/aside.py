"""The promises of every engine about conversations that are set aside.

Owns the checks. They are part of the suite of ``engines/conformance/suite.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentserver.core.messages import Done, Reply
from agentserver.engines.conformance.sample import (
    BrokenPromiseError,
    SampleConversation,
    Subject,
    at_work,
    hold,
    idle,
    keep,
    list_open,
)
from agentserver.ports import ConflictError

if TYPE_CHECKING:
    from agentserver.core.records.outcome import Outcome
    from agentserver.ports import Engine


async def a_suspended_conversation_stops(subject: Subject) -> None:
    """It is not loaded, not at work, not idle and not committed to; the others are as they were."""
    sample = SampleConversation()
    async with subject.open() as engine:
        one, other = (sample.receive(sample.start(), "1") for _ in range(2))
        for outcome in (one, other):
            await keep(engine, outcome)
        await engine.suspend(one.conversation.id, "nothing can be decided", 1.0)
        await _expect_suspended(engine, one, other)
        try:
            await keep(engine, sample.receive(one.conversation, "2"))
        except ConflictError:
            pass
        else:
            raise BrokenPromiseError("a commit to what is set aside raises ConflictError")
    if subject.durable:
        async with subject.open() as engine:
            await _expect_suspended(engine, one, other)
            await engine.expire(1e12)
            hold(await engine.suspend(one.conversation.id, "again", 2.0) == (), "it is set aside once")


async def _expect_suspended(engine: Engine, one: Outcome, other: Outcome) -> None:
    key, left = one.conversation.id, other.conversation.id
    hold(await engine.load(key) is None, "what is set aside is None")
    hold(await at_work(engine) == [left], "it is not at work")
    hold(await idle(engine, 1e12) == [left], "it is not idle")
    hold([at for at, _ in await list_open(engine)] == [left], "it is not open")
    hold(await engine.load(left) == other.conversation, "the others stay as they were")


async def requests_of_a_suspended_conversation_are_answered(subject: Subject) -> None:
    """Each request that waits gets an error and comes to rest; for a durable engine its gateway finds that later."""
    sample = SampleConversation()
    async with subject.open() as engine:
        first = sample.receive(sample.start(), "1")
        await keep(engine, first)
        answered = sample.answer(first.conversation, first.ready[0])
        await keep(engine, answered)
        second = sample.receive(answered.conversation, "2")
        await keep(engine, second)
        key = first.conversation.id
        for event in answered.replies:
            engine.acknowledge(key, event.place)
        told = await engine.suspend(key, "nothing can be decided", 1.0)
        hold([type(event) for event in told] == [Reply, Done], "one request waited")
        hold({event.request for event in told} == {"2"}, "and it is the one that is told")
        hold(isinstance(told[0], Reply) and told[0].error, "it is told an error")
        waiting = [event async for event in engine.outbox(key)]
        hold(waiting == list(told), "what it tells waits in the outbox, and nothing that was acknowledged")
        hold(await engine.suspend(key, "again", 2.0) == (), "it is set aside once")
        places = [event.place for event in (*answered.replies, *told)]
        hold(places == sorted(set(places)), "at places after all that left before")
    if subject.durable:
        async with subject.open() as engine:
            hold(
                key in [at async for at in engine.conversations_of("console")],
                "it belongs until it is fetched",
            )
            left = [event._replace(redelivered=False) async for event in engine.outbox(key)]
            hold(left == list(told), "what it tells is in the outbox")


async def an_unknown_conversation_cannot_be_suspended(subject: Subject) -> None:
    """A conversation that is unknown or closed stays so."""
    sample = SampleConversation()
    async with subject.open() as engine:
        hold(await engine.suspend("nobody", "why not", 1.0) == (), "what is unknown tells nothing")
        said = sample.receive(sample.start(), "1")
        await keep(engine, said)
        await keep(engine, sample.close(said.conversation))
        hold(await engine.suspend(said.conversation.id, "why not", 1.0) == (), "nor does what is closed")


ASIDE = (
    a_suspended_conversation_stops,
    requests_of_a_suspended_conversation_are_answered,
    an_unknown_conversation_cannot_be_suspended,
)
