"""Conformance checks of suspended conversations."""

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
    """Check that a suspended conversation is not loaded, active, idle or writable, and that others are unaffected."""
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
            raise BrokenPromiseError("a commit to a suspended conversation raises ConflictError")
    if subject.durable:
        async with subject.open() as engine:
            await _expect_suspended(engine, one, other)
            await engine.expire(1e12)
            hold(
                await engine.suspend(one.conversation.id, "again", 2.0) == (),
                "a conversation is suspended once",
            )


async def _expect_suspended(engine: Engine, one: Outcome, other: Outcome) -> None:
    key, left = one.conversation.id, other.conversation.id
    hold(await engine.load(key) is None, "a suspended conversation is not loaded")
    hold(await at_work(engine) == [left], "it is not active")
    hold(await idle(engine, 1e12) == [left], "it is not idle")
    hold([at for at, _ in await list_open(engine)] == [left], "it is not open")
    hold(await engine.load(left) == other.conversation, "the others stay as they were")


async def requests_of_a_suspended_conversation_are_answered(subject: Subject) -> None:
    """Check that each pending request ends with an error, which a durable engine keeps for its gateway."""
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
        last = await engine.suspend(key, "nothing can be decided", 1.0)
        hold([type(event) for event in last] == [Reply, Done], "one request waited")
        hold({event.request for event in last} == {"2"}, "the events belong to the pending request")
        hold(isinstance(last[0], Reply) and last[0].error, "the request gets an error")
        waiting = [event async for event in engine.outbox(key)]
        hold(waiting == list(last), "the outbox has these events, and no acknowledged one")
        hold(await engine.suspend(key, "again", 2.0) == (), "a conversation is suspended once")
        places = [event.place for event in (*answered.replies, *last)]
        hold(places == sorted(set(places)), "their places are after all earlier events")
    if subject.durable:
        async with subject.open() as engine:
            hold(
                key in [at async for at in engine.conversations_of("console")],
                "the principal keeps the conversation until its events are fetched",
            )
            left = [event._replace(redelivered=False) async for event in engine.outbox(key)]
            hold(left == list(last), "its events are in the outbox after a restart")


async def an_unknown_conversation_cannot_be_suspended(subject: Subject) -> None:
    """Check that suspending an unknown or closed conversation does nothing."""
    sample = SampleConversation()
    async with subject.open() as engine:
        hold(await engine.suspend("nobody", "why not", 1.0) == (), "an unknown conversation has no events")
        said = sample.receive(sample.start(), "1")
        await keep(engine, said)
        await keep(engine, sample.close(said.conversation))
        hold(
            await engine.suspend(said.conversation.id, "why not", 1.0) == (), "nor does a closed conversation"
        )


ASIDE = (
    a_suspended_conversation_stops,
    requests_of_a_suspended_conversation_are_answered,
    an_unknown_conversation_cannot_be_suspended,
)
