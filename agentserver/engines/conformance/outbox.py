"""Conformance checks of outboxes, of refused commits, of owners, and of retention."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentserver.core.messages import Done, OutsideMessage, Reply
from agentserver.core.receipts import Receipt
from agentserver.engines.conformance.sample import BrokenPromiseError, SampleConversation, Subject, hold, keep
from agentserver.ports import ConflictError, RepeatedError

if TYPE_CHECKING:
    from agentserver.core.messages import Done, Reply
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


async def what_leaves_a_conversation_waits_in_its_order(subject: Subject) -> None:
    """Check that an outbox keeps each event in order until it is acknowledged or abandoned."""
    sample = SampleConversation()
    async with subject.open() as engine:
        one, other = await _commit_answer(engine, sample), await _commit_answer(engine, sample)
        expected = [
            *one.replies,
            *(next_step := await _commit_answer(engine, sample, one.conversation)).replies,
        ]
        hold(
            await _outbox(engine, one) == expected, "the outbox has the events of the conversation, in order"
        )
        hold(
            await _outbox(engine, other) == list(other.replies),
            "events of another conversation are in its own outbox",
        )
        engine.acknowledge(one.conversation.id, expected[1].place)
        del expected[1]
        hold(await _outbox(engine, one) == expected, "only acknowledged events are removed")
        engine.abandon(one.conversation.id)
        hold(await _outbox(engine, one) == [], "no abandoned event is in the outbox")
        hold(await _outbox(engine, other) == list(other.replies), "events of another conversation stay")
        last = await _commit_answer(engine, sample, next_step.conversation)
        hold(await _outbox(engine, one) == list(last.replies), "later events are in the outbox")


async def a_refused_commit_leaves_nothing(subject: Subject) -> None:
    """Check that a stale decision or a repeated message leaves no event and no receipt."""
    sample = SampleConversation()
    async with subject.open() as engine:
        first = sample.receive_keyed(sample.start(), "first", "mine")
        await keep(engine, first)
        stale = sample.answer(first.conversation, first.ready[0])
        now = sample.receive(first.conversation, "2")
        await keep(engine, now)
        keyed = sample.receive_keyed(first.conversation, "third", "another")
        for outcome in (stale, keyed):
            await _expect_refusal(engine, outcome, ConflictError)
        await _expect_refusal(engine, sample.receive_keyed(now.conversation, "fourth", "mine"), RepeatedError)
        hold(await _outbox(engine, first) == [], "the outbox has no event of a refused commit")
        hold(
            [event async for event in engine.read_request_events(first.conversation.id, "first")] == [],
            "a request has no event of a refused commit",
        )
        assert isinstance(keyed.cause, OutsideMessage)
        assert keyed.cause.key is not None
        found = await engine.receipt(first.conversation.id, keyed.cause.key.name)
        hold(found is None, "a refused commit leaves no receipt")
        hold(
            await engine.load(first.conversation.id) == now.conversation,
            "a refused commit leaves the conversation unchanged",
        )


async def a_principal_has_its_own_conversations(subject: Subject) -> None:
    """Check that a principal's conversations are listed oldest first, and no other principal's."""
    sample = SampleConversation()
    names = ("ada", "Ada", "ada", "adam", "ad", "ada%", "a_a")
    async with subject.open() as engine:
        outcomes = [sample.receive(sample.start(name), "1") for name in names]
        for outcome in outcomes:
            await keep(engine, outcome)
        await keep(engine, sample.receive(outcomes[0].conversation, "2"))
        for name in set(names):
            own = [one.conversation.id for one in outcomes if one.conversation.principal == name]
            found = [key async for key in engine.conversations_of(name)]
            hold(found == own, f"the conversations of {name} are listed, oldest first")


async def what_is_open_does_not_expire(subject: Subject) -> None:
    """Check that an open conversation and its outbox never expire."""
    sample = SampleConversation()
    async with subject.open() as engine:
        answered = await _commit_answer(engine, sample)
        await engine.expire(1e12)
        key = answered.conversation.id
        hold(await engine.load(key) == answered.conversation, "an open conversation does not expire")
        hold(await _outbox(engine, answered) == list(answered.replies), "nor do the events in its outbox")


async def a_closed_conversation_expires_after_its_retention(subject: Subject) -> None:
    """Check that an expired conversation is unknown to readers, and that newer and open ones stay."""
    if subject.retaining is None:
        return
    sample = SampleConversation()
    async with subject.retaining(100.0) as engine:
        early, late, still_open = [await _commit_answer(engine, sample) for _ in range(3)]
        expired = sample.close(early.conversation)
        await keep(engine, expired)
        recent = sample.close(late.conversation)
        recent = recent._replace(
            conversation=recent.conversation._replace(touched=early.conversation.touched + 200)
        )
        await keep(engine, recent)
        now = expired.conversation.touched + 150
        hold(await engine.expire(now) == 1, "one conversation expires")
        hold(await engine.expire(now) == 0, "it expires once")
        early_id, remaining = early.conversation.id, {late.conversation.id, still_open.conversation.id}
        found = await engine.read(lambda reader: {one.id for one in reader.conversations()})
        hold(found == remaining, "only conversations that have not expired are listed")
        hold(await engine.find_conversation(early_id) is None, "an expired conversation is unknown")
        hold(
            await engine.read(lambda reader: list(reader.find(early_id))) == [],
            "its record is not found either",
        )
        again = sample.receive(still_open.conversation, "again")
        await keep(engine, again)
        hold(await engine.load(again.conversation.id) == again.conversation, "an open conversation continues")


LEFT = (
    what_leaves_a_conversation_waits_in_its_order,
    a_refused_commit_leaves_nothing,
    a_principal_has_its_own_conversations,
    what_is_open_does_not_expire,
    a_closed_conversation_expires_after_its_retention,
)
"""Every check of this module."""


async def _commit_answer(
    engine: Engine, sample: SampleConversation, conversation: Conversation | None = None
) -> Outcome:
    """Commit a message and its answer, and return the outcome of the answer."""
    number = 0 if conversation is None else conversation.version
    received = sample.receive(conversation or sample.start(), str(number))
    await keep(engine, received)
    answered = sample.answer(received.conversation, received.ready[0])
    await keep(engine, answered)
    return answered


async def _outbox(engine: Engine, outcome: Outcome) -> list[Reply | Done]:
    return [event async for event in engine.outbox(outcome.conversation.id)]


async def _expect_refusal(engine: Engine, outcome: Outcome, error: type[Exception]) -> None:
    try:
        await keep(engine, outcome)
    except error:
        return
    raise BrokenPromiseError(f"it is refused with {error.__name__}")
