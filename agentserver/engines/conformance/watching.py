"""Conformance checks for gateways: places of events, names, owners, and refusals."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentserver.core.messages import LAST, UNDECIDED, EventPlace
from agentserver.core.receipts import issue_receipt
from agentserver.engines.conformance.sample import SampleConversation, Subject, at_work, hold, keep
from agentserver.ports import ConversationFound, EventsExpiredError

if TYPE_CHECKING:
    from agentserver.core.messages import Done, Reply
    from agentserver.core.records.outcome import Outcome
    from agentserver.ports import Engine

MOST = 2
"""Events that a check reads at once."""


async def what_left_after_a_place_is_there_or_said_to_be_gone(subject: Subject) -> None:
    """Check that events after any place are read in order, or reported as forgotten."""
    sample = SampleConversation()
    async with subject.open() as engine:
        received = sample.receive(sample.start(), "1")
        await keep(engine, received)
        key, events = received.conversation.id, _no_events()
        hold(
            await engine.read_events(key, UNDECIDED, MOST) == [],
            "a conversation without answers has no events",
        )
        for number in range(2, 5):
            answered = sample.answer(received.conversation, received.ready[0])
            await keep(engine, answered)
            events += answered.replies
            received = sample.receive(answered.conversation, str(number))
            await keep(engine, received)
        await _expect_events(engine, key, events)
        engine.acknowledge(key, events[0].place)
        await _expect_events(engine, key, events)
        engine.confirm(key, events[2].place)
        await _expect_events(engine, key, events)
        hold(await _outbox(engine, key) == events[3:], "confirmed events are not in the outbox")
        closed = sample.close(received.conversation)
        await keep(engine, closed)
        events += closed.replies
        await _expect_events(engine, key, events)
    if subject.durable:
        async with subject.open() as engine:
            await _expect_events(engine, key, events)


async def what_was_not_taken_is_given_though_something_before_it_is_not_kept(subject: Subject) -> None:
    """Check that an unacknowledged event is read from its place despite earlier gaps."""
    sample = SampleConversation()
    async with subject.open() as engine:
        received, events = sample.receive(sample.start(), "1"), _no_events()
        await keep(engine, received)
        key = received.conversation.id
        for number in range(2, 6):
            answered = sample.answer(received.conversation, received.ready[0])
            await keep(engine, answered)
            events += answered.replies
            received = sample.receive(answered.conversation, str(number))
            await keep(engine, received)
        for acknowledged in (events[0], events[-1]):
            engine.acknowledge(key, acknowledged.place)
        for event in events[1:-1]:
            before = EventPlace(event.place.version, event.place.position - 1)
            found = await engine.read_events(key, before, MOST, gaps=True)
            hold(found[:1] == [event], "an unacknowledged event is read from its place")


async def events_of_a_suspended_conversation_come_last(subject: Subject) -> None:
    """Check that the final events of a suspended conversation come after all others."""
    sample = SampleConversation()
    async with subject.open() as engine:
        answered, second = await sample.keep_two_requests(engine)
        last = await engine.suspend(second.conversation.id, "it cannot continue", 9.0)
        await _expect_events(engine, second.conversation.id, [*answered.replies, *last])
        found = await engine.find_conversation(second.conversation.id)
        hold(found is not None and found.over, "a suspended conversation has ended")


async def an_engine_knows_whose_a_conversation_is(subject: Subject) -> None:
    """Check that an engine knows the owner of a conversation while it is open, and for a while after."""
    sample = SampleConversation()
    async with subject.open() as engine:
        one = sample.receive(sample.start("ada"), "1")
        key = one.conversation.id
        hold(await engine.find_conversation(key) is None, "an uncommitted conversation is unknown")
        await keep(engine, one)
        hold(
            await engine.find_conversation(key) == ConversationFound(key, "ada", over=False),
            "an open one is known",
        )
        await keep(engine, sample.close(one.conversation))
        hold(
            await engine.find_conversation(key) == ConversationFound(key, "ada", over=True),
            "so is a closed one",
        )
        hold(await engine.find_conversation("unknown") is None, "no other is")


async def a_name_is_given_once(subject: Subject) -> None:
    """Check that a name belongs to the first conversation that claims it."""
    sample = SampleConversation()
    async with subject.open() as engine:
        one = sample.receive(sample.start(), "1")
        key = one.conversation.id
        hold(await engine.find_named("name") is None, "no name is given at first")
        hold(await engine.give_name("name", key, 1.0) == key, "a name is given")
        hold(await engine.give_name("name", "other", 1.0) == key, "and not to another one")
        hold(await engine.give_name("another", "other", 1.0) == "other", "which may have another")
        hold(await engine.give_name("another", key, 2.0, move=True) == key, "a name moves if it has to")
        hold(await engine.find_named("another") == key, "and a conversation may have two")
        hold(await engine.find_named("name") == key, "it is known before the first commit")
        await keep(engine, one)
        await keep(engine, sample.close(one.conversation))
        for name in ("name", "another"):
            hold(await engine.find_named(name) == key, "it is known after the conversation has ended")
    if subject.durable:
        async with subject.open() as engine:
            hold(await engine.find_named("name") == key, "and after a restart")
            hold(await engine.give_name("name", "third", 9.0) == key, "and not given again")


async def a_receipt_says_that_a_message_was_refused(subject: Subject) -> None:
    """Check that a receipt has the code of a refusal, and none if the message was accepted."""
    sample = SampleConversation()
    async with subject.open() as engine:
        refused = sample.receive_keyed(sample.start(), "first", "mine", to="unknown")
        received = sample.receive_keyed(refused.conversation, "second", "another")
        failed = sample.fail(received.conversation, received.ready[0])
        for outcome in (refused, received, failed):
            await keep(engine, outcome)
        for outcome in (refused, received):
            await _receipt(engine, outcome)
    if subject.durable:
        async with subject.open() as engine:
            for outcome in (refused, received):
                await _receipt(engine, outcome)


async def a_cancelled_request_ends_and_no_other(subject: Subject) -> None:
    """Check that a cancelled request ends in the outbox, and that other requests continue."""
    sample = SampleConversation()
    async with subject.open() as engine:
        one = sample.receive(sample.start(), "1")
        two = sample.receive(one.conversation, "2")
        cancelled = sample.cancel(two.conversation, "1")
        for outcome in (one, two, cancelled):
            await keep(engine, outcome)
        key = one.conversation.id
        hold(await engine.load(key) == cancelled.conversation, "it is as the decision left it")
        hold(await _outbox(engine, key) == list(cancelled.replies), "its end is in the outbox")
    if subject.durable:
        async with subject.open() as engine:
            hold(await at_work(engine) == [key], "the other request continues after a restart")
            hold(await engine.load(key) == cancelled.conversation, "and is as it was")


WATCHING = (
    what_left_after_a_place_is_there_or_said_to_be_gone,
    what_was_not_taken_is_given_though_something_before_it_is_not_kept,
    events_of_a_suspended_conversation_come_last,
    an_engine_knows_whose_a_conversation_is,
    a_name_is_given_once,
    a_receipt_says_that_a_message_was_refused,
    a_cancelled_request_ends_and_no_other,
)
"""Every check of this module."""


async def _expect_events(engine: Engine, key: str, events: list[Reply | Done]) -> None:
    """Check that the rest is read from each place, or EventsExpiredError names a later place."""
    places = [UNDECIDED, *[event.place for event in events], EventPlace(events[-1].place.version, LAST)]
    for after in places:
        found, last = _no_events(), after
        try:
            while page := await engine.read_events(key, last, MOST):
                hold(len(page) <= MOST, "a page has at most the requested number of events")
                found += page
                last = page[-1].place
        except EventsExpiredError as error:
            hold(error.since > last, "EventsExpiredError names a later place")
            continue
        expected = [event for event in events if event.place > after]
        plain = [event._replace(redelivered=False) for event in found]
        hold(
            plain == expected or (after == UNDECIDED and plain == expected[-len(plain) :]),
            "the events after a place are read",
        )


def _no_events() -> list[Reply | Done]:
    return []


async def _outbox(engine: Engine, key: str) -> list[Reply | Done]:
    return [event._replace(redelivered=False) async for event in engine.outbox(key)]


async def _receipt(engine: Engine, outcome: Outcome) -> None:
    found = issue_receipt(outcome)
    assert found is not None
    name, receipt = found
    hold(
        await engine.receipt(outcome.conversation.id, name) == receipt,
        "a receipt says whether its message was refused",
    )
