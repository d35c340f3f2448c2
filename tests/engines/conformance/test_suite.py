"""The suite against the engines, and the suite against engines that break one promise each: a check must be able to fail."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import ClassVar

import pytest

from agentserver.core.encoding import history
from agentserver.core.messages import FinishedInvocation, RequeuedLetter
from agentserver.core.state.principals import FULL
from agentserver.core.state.todos import TodoBook
from agentserver.engines.conformance import suite
from agentserver.engines.conformance.reader import an_engine_says_what_it_can_do
from agentserver.engines.conformance.sample import keep
from agentserver.engines.conformance.suite import (
    CHECKS,
    BrokenPromiseError,
    SampleConversation,
    Subject,
    a_restart_takes_up_what_was_committed,
    broken_promises,
)
from agentserver.engines.memory import MemoryEngine
from agentserver.engines.memory.record import MemoryReader
from agentserver.ports import ConflictError, RepeatedError, UnstorableError

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("recorded", [False, True], ids=["plain", "recorded"])
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_the_memory_engine_keeps_every_promise(check, recorded):
    await check(Subject(partial(MemoryEngine, recorded=recorded), durable=False))


async def test_the_memory_engine_drops_finished_conversations():
    async with MemoryEngine() as engine:
        assert await engine.expire(1e12) == 0
        assert [event async for event in engine.outbox("nobody")] == []


async def test_the_memory_engine_drops_a_conversation_whose_messages_were_all_taken():
    story = SampleConversation()
    one = story.receive(story.start(), "1")
    answered = story.answer(one.conversation, one.ready[0])
    async with MemoryEngine() as engine:
        await keep(engine, one)
        await keep(engine, answered)
        for event in answered.replies:
            assert engine.reader().outbox
            engine.acknowledge(one.conversation.id, event.place)
            engine.acknowledge(one.conversation.id, event.place)
        assert engine.reader().outbox == {}


class Forgetful(MemoryEngine):
    async def load(self, conversation):
        return None


class Careless(MemoryEngine):
    async def commit(self, claim, outcome):
        self._conversations[outcome.conversation.id] = outcome.conversation


class LateEngine(MemoryEngine):
    """Refuses a stale commit after having made it."""

    async def commit(self, claim, outcome):
        try:
            await super().commit(claim, outcome)
        except ConflictError:
            self._conversations[outcome.conversation.id] = outcome.conversation
            raise


class Impatient(MemoryEngine):
    """Takes what only waits for a person for finished."""

    async def active(self):
        async for key in super().active():
            if any(thread.inbox for thread in self._conversations[key].tree.nodes.values()):
                yield key


class Idle(MemoryEngine):
    async def active(self):
        return
        yield


class Global(MemoryEngine):
    """Counts versions for all conversations together."""

    version = 0

    async def commit(self, claim, outcome):
        if outcome.before != self.version:
            raise ConflictError
        self.version += 1
        self._conversations[outcome.conversation.id] = outcome.conversation


class Credulous(MemoryEngine):
    """Takes a message that was sent before for another one."""

    def _keep_receipt(self, outcome):
        with suppress(RepeatedError):
            super()._keep_receipt(outcome)


class Discreet(MemoryEngine):
    """Does not mark repeated deliveries."""

    async def read_request_events(self, conversation, request):
        async for event in super().read_request_events(conversation, request):
            yield event._replace(redelivered=False)


async def finds_out(subject):
    """Whether a check fails; the first that does ends the search."""
    for check in CHECKS:
        try:
            await check(subject)
        except BrokenPromiseError:
            return True
    return False


async def fails(promise, subject):
    """What the check of one promise says of an engine that breaks it."""
    (check,) = [each for each in CHECKS if each.__name__ == promise.replace(" ", "_")]
    with pytest.raises(BrokenPromiseError, match=f"breaks the promise that {promise}: ") as raised:
        await check(subject)
    return str(raised.value)


@pytest.mark.parametrize(
    "broken", [Forgetful, Careless, LateEngine, Impatient, Idle, Global, Credulous, Discreet]
)
async def test_a_broken_engine_is_found_out(broken):
    assert await finds_out(Subject(broken, durable=False))


# Engines that are nearly right


def lose_field(change):
    """An engine that loses something of a conversation."""

    class LossyEngine(MemoryEngine):
        async def load(self, conversation):
            found = await super().load(conversation)
            return None if found is None else change(found)

    return LossyEngine


def threads(conversation, **changes):
    nodes = {key: thread._replace(**changes) for key, thread in conversation.tree.nodes.items()}
    return conversation._replace(tree=conversation.tree._replace(nodes=nodes))


def reverse_mapping(mapping):
    return dict(reversed(list(mapping.items())))


LOSSES = {
    "what it stores": lambda one: threads(one, storage={}),
    "what a todo keeps back": lambda one: threads(one, held_deliveries=()),
    "its refused attempts": lambda one: threads(one, refusals=0),
    "the only peers in force": lambda one: threads(one, allowed=None),
    "what guards remember": lambda one: one._replace(memory={}),
    "the rights of its principal": lambda one: one._replace(rights=FULL),
    "todos, with": lambda one: one._replace(todos=TodoBook()),
    "requests that have not": lambda one: one._replace(
        requests={key: request._replace(answered=False) for key, request in one.requests.items()}
    ),
    "fraction of a second": lambda one: one._replace(touched=float(int(one.touched))),
    "threads are there in their order": lambda one: one._replace(
        tree=one.tree._replace(nodes=reverse_mapping(one.tree.nodes))
    ),
    "requests are there in their order": lambda one: one._replace(requests=reverse_mapping(one.requests)),
}


@pytest.mark.parametrize("lost", LOSSES)
async def test_an_engine_that_loses_one_field_gets_its_name(lost):
    subject = Subject(lose_field(LOSSES[lost]), durable=False)
    assert lost in await fails("a conversation is kept whole", subject)


class ReversedEngine(MemoryEngine):
    async def outbox(self, conversation):
        for event in reversed([event async for event in super().outbox(conversation)]):
            yield event


class OneOutboxEngine(MemoryEngine):
    """Has one outbox."""

    async def outbox(self, conversation):
        for events in self._events.queued.values():
            for event in events:
                yield event


class Deaf(MemoryEngine):
    def abandon(self, conversation):
        pass


class Rash(MemoryEngine):
    def abandon(self, conversation):
        self._events.queued.clear()


class LeakyEngine(MemoryEngine):
    """Drops the rows that a refused commit would have dropped."""

    async def commit(self, claim, outcome):
        try:
            await super().commit(claim, outcome)
        except ConflictError:
            left = {event.place: event for event in outcome.replies}
            self._events.queued.setdefault(outcome.conversation.id, {}).update(left)
            raise


class ReceiptEngine(MemoryEngine):
    """Gives a receipt for a commit that it refuses."""

    async def commit(self, claim, outcome):
        try:
            await super().commit(claim, outcome)
        except ConflictError:
            if not isinstance(outcome.cause, FinishedInvocation):
                self._keep_receipt(outcome)
            raise


class UniformEngine(MemoryEngine):
    async def conversations_of(self, principal):
        for one in self._conversations.values():
            if one.principal.lower() == principal.lower():
                yield one.id


class Newest(MemoryEngine):
    async def conversations_of(self, principal):
        for key in reversed([key async for key in super().conversations_of(principal)]):
            yield key


class CleaningEngine(MemoryEngine):
    async def expire(self, now, calendar=None):
        self._conversations.clear()
        return 0


class Silent(MemoryEngine):
    """Reports no suspension to anybody."""

    async def suspend(self, conversation, reason, at):
        events = await super().suspend(conversation, reason, at)
        self._events.queued.pop(conversation, None)
        return events


NEARLY = {
    ReversedEngine: "what leaves a conversation waits in its order",
    OneOutboxEngine: "what leaves a conversation waits in its order",
    Deaf: "what leaves a conversation waits in its order",
    Rash: "what leaves a conversation waits in its order",
    LeakyEngine: "a refused commit leaves nothing",
    ReceiptEngine: "a refused commit leaves nothing",
    UniformEngine: "a principal has its own conversations",
    Newest: "a principal has its own conversations",
    CleaningEngine: "what is open does not expire",
    Silent: "requests of a suspended conversation are answered",
}


@pytest.mark.parametrize("broken", NEARLY)
async def test_a_nearly_correct_engine_gets_its_mistake(broken):
    await fails(NEARLY[broken], Subject(broken, durable=False))


# Engines that mislead operators


class OtherReader(MemoryEngine):
    """Gives operators a reader of another class."""

    reads = MemoryReader

    def __init__(self):
        super().__init__(recorded=True)

    def reader(self):
        return self.reads(*super().reader())


class Blind(MemoryReader):
    def approvals(self, conversation):
        return ()


class Stubborn(MemoryReader):
    """Lists requeued deliveries."""

    seen: ClassVar[list] = []

    def dead(self, limit=None, prefix=""):
        self.seen.extend(super().dead(limit, prefix))
        return self.seen


class JumbledReader(MemoryReader):
    def recorded_conversation(self, conversation):
        found = super().recorded_conversation(conversation)
        return replace(found, steps=found.steps[::-1])


class UnsignedReader(history.RecordedConversation):
    """Its records do not tell why."""

    def records(self):
        return tuple(record._replace(detail=None) for record in super().records())


class Anonymous(MemoryReader):
    def recorded_conversation(self, conversation):
        found = super().recorded_conversation(conversation)
        return UnsignedReader(found.beginning, found.steps, found.deliveries)


class AlarmReader(MemoryReader):
    def find_altered(self, story):
        return 1


class Backwards(MemoryReader):
    def conversations(self):
        return reversed(list(super().conversations()))


class Loose(MemoryReader):
    def find(self, prefix):
        return [key for key in self._list_known() if prefix in key]


class Read(MemoryReader):
    """Counts nothing that waits for a gateway."""

    def conversations(self):
        return [each._replace(unread=0) for each in super().conversations()]


class Young(MemoryReader):
    def conversations(self):
        return [each._replace(opened=each.touched) for each in super().conversations()]


class OpenReader(MemoryReader):
    """Takes every conversation for open."""

    def dead(self, limit=None, prefix=""):
        return [each._replace(open=True) for each in super().dead(limit, prefix)]


class Latest(MemoryReader):
    def dead(self, limit=None, prefix=""):
        return super().dead(limit, prefix)[::-1]


class Earliest(MemoryReader):
    """Gives the first of many dead letters."""

    def dead(self, limit=None, prefix=""):
        return super().dead(None, prefix)[:limit]


class Nameless(MemoryReader):
    def dead(self, limit=None, prefix=""):
        return super().dead(limit)


class MixedReader(MemoryReader):
    def approvals(self, conversation):
        return tuple(one for each in self.kept.values() for one in each.approvals())


@pytest.mark.parametrize(
    "reads",
    [
        Blind,
        Stubborn,
        JumbledReader,
        Anonymous,
        AlarmReader,
        Backwards,
        Loose,
        Read,
        Young,
        OpenReader,
        Latest,
        Earliest,
        Nameless,
        MixedReader,
    ],
)
async def test_a_misleading_reader_is_found_out(reads):
    assert await finds_out(Subject(type("Misled", (OtherReader,), {"reads": reads}), durable=False))


# Description


class Boastful(MemoryEngine):
    durable = True


async def test_a_broken_promise_is_named():
    found = await broken_promises(Subject(Forgetful, durable=False))
    assert (
        "the engine breaks the promise that a committed conversation is there:"
        " it does not hold that a commit can be loaded" in found
    )


async def test_an_error_of_the_engine_names_the_promise_too():
    (found,) = await broken_promises(Subject(Spiteful, durable=False))
    assert found == (
        "the engine breaks the promise that the calendar outlives a restart: it raised RuntimeError: no calendars here"
    )


class Spiteful(MemoryEngine):
    async def calendar(self):
        raise RuntimeError("no calendars here")


async def test_a_check_that_hangs_is_a_broken_promise(monkeypatch):
    class StuckEngine(MemoryEngine):
        async def calendar(self):
            await asyncio.Event().wait()

    monkeypatch.setattr(suite, "PATIENCE", 0.0)
    found = await broken_promises(Subject(StuckEngine, durable=False))
    assert any("TimeoutError" in each and "the calendar outlives a restart" in each for each in found)


async def test_an_engines_claims_are_checked_against_its_subject():
    with pytest.raises(BrokenPromiseError, match="outlives the process"):
        await an_engine_says_what_it_can_do(Subject(Boastful, durable=False))


async def test_steps_are_recorded_only_when_asked_for():
    story = SampleConversation()
    async with MemoryEngine() as engine:
        await keep(engine, story.receive(story.start(), "1"))
        assert not await engine.read(lambda reader: reader.recorded)


async def test_unrecordable_steps_are_not_stored():
    story = SampleConversation()
    said = story.receive(story.start(), "1")
    async with MemoryEngine(recorded=True) as engine:
        for outcome in (said._replace(moment=None), said._replace(cause=None)):
            with pytest.raises(UnstorableError):
                await keep(engine, outcome)
        await keep(engine, said)
        with pytest.raises(UnstorableError, match="only a dead letter"):
            await keep(
                engine,
                said._replace(
                    before=1, cause=RequeuedLetter(said.ready[0], "ops"), conversation=said.conversation
                ),
            )


async def test_an_engine_that_only_claims_to_be_durable_is_found_out():
    with pytest.raises(BrokenPromiseError, match="restart"):
        await a_restart_takes_up_what_was_committed(Subject(MemoryEngine, durable=True))
