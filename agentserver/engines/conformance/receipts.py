"""Conformance checks of idempotency keys and their receipts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentserver.core.messages import Done, OutsideMessage, Reply
from agentserver.core.receipts import Receipt
from agentserver.engines.conformance.sample import BrokenPromiseError, SampleConversation, Subject, hold, keep
from agentserver.ports import RepeatedError

if TYPE_CHECKING:
    from agentserver.core.records.outcome import Outcome
    from agentserver.core.state.conversation import Conversation
    from agentserver.ports import Engine


async def an_id_of_the_senders_counts_once(subject: Subject) -> None:
    """Check that a repeated key changes nothing and returns the first receipt, in its own conversation only."""
    sample = SampleConversation()
    async with subject.open() as engine:
        first = sample.receive_keyed(sample.start(), "first", "mine")
        await keep(engine, first)
        found = await _repeat(engine, sample.receive_keyed(first.conversation, "second", "mine"))
        hold(found == _make_receipt(first), "a repetition returns the first receipt")
        hold(await engine.load(first.conversation.id) == first.conversation, "a repetition changes nothing")
        other = sample.receive_keyed(sample.start(), "first", "mine")
        await keep(engine, other)
        await keep(engine, sample.receive_keyed(first.conversation, "third", "another"))


async def a_receipt_is_found_by_its_name(subject: Subject) -> None:
    """Check that a receipt is found while its conversation is open; with a durable engine afterwards too."""
    sample = SampleConversation()
    async with subject.open() as engine:
        first = sample.receive_keyed(sample.start(), "first", "mine")
        await keep(engine, first)
        await keep(engine, sample.receive(first.conversation, "2"))
        await _expect_receipt(engine, first)
        hold(await engine.receipt(first.conversation.id, "other") is None, "no other name is known")
        hold(await engine.receipt("nobody", _name(first)) is None, "and none in another conversation")
    if not subject.durable:
        return
    async with subject.open() as engine:
        await _expect_receipt(engine, first)
        conversation = await _load(engine, first)
        found = await _repeat(engine, sample.receive_keyed(conversation, "second", "mine"))
        hold(found == _make_receipt(first), "a repetition after a restart returns the first receipt")
        await keep(engine, sample.close(conversation))
        await _expect_receipt(engine, first)


async def events_of_a_request_can_be_read_again(subject: Subject) -> None:
    """Check that all events of a keyed request can be read, with acknowledged ones marked."""
    sample = SampleConversation()
    async with subject.open() as engine:
        first = sample.receive_keyed(sample.start(), "first", "mine")
        await keep(engine, first)
        answered = sample.answer(first.conversation, first.ready[0])
        await keep(engine, answered)
        key = first.conversation.id
        hold(
            await _read_events(engine, key) == list(answered.replies),
            "the events of a request are read in order",
        )
        engine.acknowledge(key, answered.replies[0].place)
        marks = [event.redelivered for event in await _read_events(engine, key)]
        hold(marks == [True, False], "acknowledged events are read, and marked")
        hold(
            [event async for event in engine.read_request_events(key, "other")] == [],
            "another request has no events",
        )
    if subject.durable:
        async with subject.open() as engine:
            marks = [event.redelivered for event in await _read_events(engine, key)]
            hold(
                marks == [True, True],
                "after a restart all events are marked, as they may have been delivered",
            )


RECEIPTS = (
    an_id_of_the_senders_counts_once,
    a_receipt_is_found_by_its_name,
    events_of_a_request_can_be_read_again,
)
"""Every check of this module."""


async def _repeat(engine: Engine, outcome: Outcome) -> Receipt:
    try:
        await keep(engine, outcome)
    except RepeatedError as repeated:
        return repeated.receipt
    raise BrokenPromiseError("a message with a known key raises RepeatedError")


async def _expect_receipt(engine: Engine, outcome: Outcome) -> None:
    found = await engine.receipt(outcome.conversation.id, _name(outcome))
    hold(found == _make_receipt(outcome), "a receipt is found by its name")


async def _load(engine: Engine, outcome: Outcome) -> Conversation:
    found = await engine.load(outcome.conversation.id)
    if found is None:
        raise BrokenPromiseError("a restart keeps conversations")
    return found


async def _read_events(engine: Engine, conversation: str) -> list[Reply | Done]:
    return [event async for event in engine.read_request_events(conversation, "first")]


def _name(outcome: Outcome) -> str:
    assert isinstance(outcome.cause, OutsideMessage)
    assert outcome.cause.key is not None
    return outcome.cause.key.name


def _make_receipt(outcome: Outcome) -> Receipt:
    assert isinstance(outcome.cause, OutsideMessage)
    assert outcome.cause.key is not None
    return Receipt(outcome.cause.request, outcome.cause.key.content)
