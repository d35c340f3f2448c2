"""The promises of an engine that shares its storage with others: two processes, one organism.

The promise, in words: *one owner at a time, whatever happens to it*. What the owner before has committed is what the
next one goes on from; what it had not committed never was. What is handed in anywhere is decided once by the
process that owns the conversation by then, and what leaves is read anywhere, in order.

Owns the checks, and the sentence that names the promise that an engine breaks. Refuses to know any storage: it is given
ways to open an engine on it, to stop one, and to take the storage away.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import wraps
from typing import TYPE_CHECKING, TypeAlias

from agentserver.core.messages import UNDECIDED
from agentserver.core.records.audit import Event
from agentserver.core.state.approvals import Answer, ApprovalAnswer
from agentserver.engines.conformance.claiming import the_next_owner_knows_what_ended_the_one_before
from agentserver.engines.conformance.process import Process, SharedSubject, make_arrival
from agentserver.engines.conformance.sample import (
    AskingGuard,
    BrokenPromiseError,
    Promise,
    SampleConversation,
    hold,
)
from agentserver.ports import ConflictError, Engine, EngineError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from agentserver.core.messages import Done, Reply
    from agentserver.core.records.outcome import Outcome
    from agentserver.ports import Arrival, Fate

__all__ = ["TOGETHER", "SharedSubject", "broken_together"]

PATIENCE = 60.0
"""Seconds after which a check that has not come to its end counts as failed."""

HOUR = 3600
"""Seconds between two clocks."""


Check: TypeAlias = Callable[[SharedSubject], Awaitable[None]]


async def a_conversation_has_one_owner_at_a_time(subject: SharedSubject) -> None:
    """The process in which it began; no other one can claim it, or begin it as well."""
    sample = SampleConversation()
    async with _two(subject) as (a, b):
        for one, other in ((a, b), (b, a)):
            outcome = sample.receive(one.begin(sample), "1")
            key = outcome.conversation.id
            await one.commit(outcome)
            await other.sees(outcome)
            hold(one.engine.shared and other.engine.shared, "engines on one storage say so")
            hold(other.engine.current_claim(key) is None, "it is elsewhere for the other")
            hold(await other.engine.claim(key) is None, "and cannot be claimed there")
            hold(await one.engine.claim(key) == one.current_claim(key), "its owner has it")
            other.engine.begin_claim(key)
            await other.expect_fenced(other.current_claim(key), outcome)
            answered = sample.answer(outcome.conversation, outcome.ready[0])
            await one.commit(answered)
            hold(await other.engine.claim(key) is None, "not just after its last step either")


async def an_owner_stopped_past_its_lease_cannot_commit(subject: SharedSubject) -> None:
    """It is told so by FencedError, and what it decided is nowhere; the next owner goes on from its last commit."""
    sample = SampleConversation()
    async with Process(subject.open("a")) as a:
        first, resting = await _begin_conversation(sample, a), await _begin_quiet_conversation(sample, a)
        key, claim, at_rest = (
            first.conversation.id,
            a.current_claim(first.conversation.id),
            resting.conversation.id,
        )
        before = a.current_claim(at_rest)
        async with Process(subject.open("b")) as b:
            await subject.still("a")
            await b.wait_for_ownership(key)
            hold(b.gained[key] != 0, "the lease before is known")
            hold(
                await b.engine.load(key) == first.conversation,
                "what was committed is what the next one loads",
            )
            second = sample.answer(first.conversation, first.ready[0])
            await b.commit(second)
            hold(b.current_claim(key).epoch > claim.epoch, "the next owner's epoch is greater")
            hold((await b.claim(at_rest)).epoch > before.epoch, "what rests can be claimed")
            await subject.moving("a")
            await a.expect_fenced(claim, sample.answer(first.conversation, first.ready[0]))
            await a.expect_fenced(before, sample.receive(resting.conversation, "late"))
            hold(await b.engine.load(key) == second.conversation, "a fenced commit changes nothing")
            await a.wait_until(
                lambda: a.engine.current_claim(key) is None and a.engine.current_claim(at_rest) is None
            )
            await a.sees(second)
            hold(await _read_all_events(b.engine, key) == list(second.replies), "nothing of it has left")


async def what_rests_can_be_taken_from_a_living_owner(subject: SharedSubject) -> None:
    """Its copy is stale then: it is told so, and cannot commit. What is queued is not taken."""
    sample = SampleConversation()
    async with _two(subject) as (a, b):
        busy, resting = await _begin_conversation(sample, a, b), await _begin_quiet_conversation(sample, a)
        key, claim = resting.conversation.id, a.current_claim(resting.conversation.id)
        await b.sees(resting)
        hold(await b.engine.claim(key) is None, "what has not rested is not taken")
        await subject.rest()
        hold((await b.claim(key)).epoch > claim.epoch, "what has rested is taken")
        hold(await b.engine.claim(busy.conversation.id) is None, "what is queued is not")
        await a.expect_fenced(claim, sample.receive(resting.conversation, "2"))
        await a.wait_until(lambda: a.engine.current_claim(key) is None)
        said = sample.receive(resting.conversation, "3")
        await b.commit(said)
        await a.sees(said)


async def what_is_released_can_be_claimed_by_any(subject: SharedSubject) -> None:
    """At once; but for what was handed in for it and is not decided, which its owner decides first."""
    sample = SampleConversation()
    async with _two(subject) as (a, b):
        first = await _begin_quiet_conversation(sample, a)
        key = first.conversation.id
        await b.sees(first)
        await a.engine.release([key])
        hold(a.engine.current_claim(key) is None, "what is released is not held")
        hold(await a.engine.idle(first.conversation.touched + 1.0).__anext__() == key, "it is idle for any")
        claim = await b.claim(key)
        hold(await a.engine.claim(key) is None, "and claimed by one")
        fate = await a.engine.hand_in(make_arrival(first.conversation, sample.make_message("2")))
        await b.engine.release([key])
        hold(b.engine.current_claim(key) == claim, "what was handed in and is not decided keeps it held")
        async with b.decide_arrivals(sample):
            hold(not (await fate).word, "and is decided")
        now = await a.engine.load(key)
        hold(now is not None and list(now.requests) == ["2"], "where it is held")


async def what_is_handed_in_for_a_conversation_of_nobody_is_decided(subject: SharedSubject) -> None:
    """By one of the processes, which claims it."""
    sample = SampleConversation()
    async with _two(subject) as (a, b):
        first = await _begin_quiet_conversation(sample, a)
        key = first.conversation.id
        await b.sees(first)
        await a.engine.release([key])
        async with a.decide_arrivals(sample), b.decide_arrivals(sample):
            fates = [
                await b.engine.hand_in(make_arrival(first.conversation, sample.make_message(str(number))))
                for number in range(2, 5)
            ]
            hold([(await fate).word for fate in fates] == ["", "", ""], "each is decided")
        now = await b.engine.load(key)
        hold(now is not None and list(now.requests) == ["2", "3", "4"], "once, in order")


async def what_is_handed_in_for_a_conversation_that_ends_is_told_so(subject: SharedSubject) -> None:
    """It was open when the message was handed in, and is over before it is decided."""
    sample = SampleConversation()
    async with _two(subject) as (a, b):
        first = await _begin_quiet_conversation(sample, a)
        await b.sees(first)
        waiting = await b.engine.hand_in(make_arrival(first.conversation, sample.make_message("2")))
        await a.commit(sample.close(first.conversation))
        async with a.decide_arrivals(sample), b.decide_arrivals(sample):
            hold((await waiting).word == "over", "it is said to be over")


async def quotas_and_names_are_the_same_everywhere(subject: SharedSubject) -> None:
    """A principal's open conversations are counted over all processes; a name is given once."""
    sample = SampleConversation()
    async with _two(subject) as (a, b):
        one, other = await _begin_quiet_conversation(sample, a), await _begin_quiet_conversation(sample, b)
        await a.sees(other)
        await b.sees(one)
        for process in (a, b):
            hold(
                await process.engine.open_count("console") == len([one, other]),
                "those of all processes are counted",
            )
            hold(await process.engine.open_count("ada") == 0, "for each principal")
        await b.commit(sample.close(other.conversation))
        hold(await a.engine.open_count("console") == 1, "while they are open")
        mine = [key async for key in a.engine.idle(one.conversation.touched + 1.0)]
        theirs = [key async for key in b.engine.idle(one.conversation.touched + 1.0)]
        hold((mine, theirs) == ([one.conversation.id], []), "what another process has is not idle here")
        given = await asyncio.gather(
            a.engine.give_name("name", "first", 1.0), b.engine.give_name("name", "second", 1.0)
        )
        hold(given[0] == given[1] == await a.engine.find_named("name"), "a name is given once")


async def one_process_at_a_time_is_inside(subject: SharedSubject) -> None:
    """Under each name; one that is taken for dead is inside no more."""
    order: list[str] = []
    async with _two(subject) as (a, b):
        inside, leave = asyncio.Event(), asyncio.Event()

        async def enters(process: Process, name: str) -> None:
            async with process.engine.exclusive("token"):
                order.append(name)
                inside.set()
                await leave.wait()
                order.append(f"not {name}")

        first = asyncio.create_task(enters(a, "a"))
        await inside.wait()
        second = asyncio.create_task(enters(b, "b"))
        async with b.engine.exclusive("another"):
            hold(order == ["a"], "one waits while another is inside, under the same name")
        leave.set()
        await asyncio.gather(first, second)
        hold(order == ["a", "not a", "b", "not b"], "and enters after it")
        inside.clear()
        leave.clear()
        first = asyncio.create_task(enters(a, "a"))
        await inside.wait()
        await subject.still("a")
        async with b.engine.exclusive("token"):
            first.cancel()
        with suppress(asyncio.CancelledError):
            await first


async def what_is_handed_in_is_decided_once(subject: SharedSubject) -> None:
    """By the owner, in the order in which it came; who has handed it in hears what became of it."""
    sample = SampleConversation()
    async with _two(subject) as (a, b):
        first = await _begin_conversation(sample, a, b)
        arrivals = [
            make_arrival(first.conversation, sample.make_message(str(number))) for number in range(2, 6)
        ]
        fates = [await b.engine.hand_in(arrival) for arrival in arrivals]
        again = await b.engine.hand_in(arrivals[0])
        async with a.decide_arrivals(sample):
            found = [await fate for fate in fates]
            hold(
                [fate.word for fate in found] == [""] * 4,
                "who has handed something in hears what became of it",
            )
            hold(await again == found[0], "what is handed in twice under one id is one")
            hold(await (await b.engine.hand_in(arrivals[1])) == found[1], "also once it was decided about")
        now = await a.engine.load(first.conversation.id)
        assert now is not None
        hold(list(now.requests) == ["1", "2", "3", "4", "5"], "each is decided once, in order")


async def what_is_handed_in_outlives_the_owner(subject: SharedSubject) -> None:
    """Handed in while no process decides, it is the next owner's; one that was decided is decided once."""
    sample = SampleConversation()
    async with _two(subject) as (a, b):
        first = await _begin_conversation(sample, a, b)
        key = first.conversation.id
        async with a.decide_arrivals(sample):
            fate = await (await b.engine.hand_in(make_arrival(first.conversation, sample.make_message("2"))))
            hold(not fate.word, "what is handed in is decided")
        waiting = await b.engine.hand_in(make_arrival(first.conversation, sample.make_message("3")))
        await subject.still("a")
        await b.wait_for_ownership(key)
        async with b.decide_arrivals(sample):
            fate = await waiting
        hold((fate.word, fate.request) == ("", "3"), "what was handed in before a move is decided after it")
        await _has(b, key, ["1", "2", "3"])
        await subject.moving("a")
        async with a.decide_arrivals(sample), b.decide_arrivals(sample):
            fate = await (await b.engine.hand_in(make_arrival(first.conversation, sample.make_message("4"))))
            hold(not fate.word, "what is handed in is decided")
        await _has(b, key, ["1", "2", "3", "4"])


async def one_request_id_at_two_processes_is_one_message(subject: SharedSubject) -> None:
    """The first has it; who sends it again hears so, and under which of the server's ids it goes."""
    sample = SampleConversation()
    async with _two(subject) as (a, b):
        opened = await _begin_conversation(sample, a, b)
        one = sample.make_keyed_message(opened.conversation, "2", "mine")
        other = sample.make_keyed_message(opened.conversation, "3", "mine")
        async with a.decide_arrivals(sample):
            fates = [
                await (await process.engine.hand_in(make_arrival(opened.conversation, outside)))
                for process, outside in ((a, one), (b, other))
            ]
        hold([fate.request for fate in fates] == ["2", "2"], "both are the first's request")
        hold([fate.again for fate in fates] == [False, True], "and the second is said to be a repetition")
        now = await a.engine.load(opened.conversation.id)
        assert now is not None
        hold(list(now.requests) == ["1", "2"], "one message was admitted")


async def events_of_another_process_are_read_in_order(subject: SharedSubject) -> None:
    """A gateway of another process gets each event once, by reading after the last place whenever it hears of one."""
    sample = SampleConversation()
    async with _two(subject) as (a, b):
        told = sample.receive(a.begin(sample), "1")
        key = told.conversation.id
        async with b.listen_to(key) as heard:
            await a.commit(told)
            events: list[Reply | Done] = []
            for number in range(2, 6):
                answered = sample.answer(told.conversation, told.ready[0])
                await a.commit(answered)
                events += answered.replies
                told = sample.receive(answered.conversation, str(number))
                await a.commit(told)
            await heard.wait_until(events)
            closed = sample.close(told.conversation)
            await a.commit(closed)
            events += closed.replies
            await heard.wait_until(events, over=True)
        hold(await _read_all_events(b.engine, key) == events, "all of it can be read again")


async def an_approval_is_spent_once(subject: SharedSubject) -> None:
    """Of two different answers at once the first counts, wherever they were given."""
    sample = SampleConversation(guards=(AskingGuard(),))
    async with _two(subject) as (a, b):
        for answers in ((Answer.ONCE, Answer.DENY), (Answer.DENY, Answer.ONCE)):
            asked = await _begin_conversation(sample, a, b)
            (approval,) = asked.conversation.approvals()
            said = [ApprovalAnswer(approval.id, approval.digest, answer, "ada") for answer in answers]
            ways = zip((a, b), said, strict=True)
            waiting = [
                await process.engine.hand_in(make_arrival(asked.conversation, answered))
                for process, answered in ways
            ]
            async with a.decide_arrivals(sample) as decided:
                words = [(await fate).word for fate in waiting]
            hold(words == ["", "no"], "the first answer counts, and the other is said not to")
            events = [record.event for outcome in decided for record in outcome.records]
            approved = Event.APPROVED in events
            hold(approved == (answers[0] is Answer.ONCE), "what the first says is done")
            now = await a.engine.load(asked.conversation.id)
            hold(now is not None and not now.approvals(), "nothing waits for an answer any more")


async def what_waits_for_a_person_is_known_everywhere(subject: SharedSubject) -> None:
    """Before news come, and by news when it begins and when it ends; it is taken over with what is queued."""
    sample = SampleConversation(guards=(AskingGuard(),))
    async with _two(subject) as (a, b):
        asked = await _begin_conversation(sample, a, b)
        key = asked.conversation.id
        hold(
            list(await b.engine.read(lambda reader: reader.list_asking())) == [key], "what asks can be found"
        )
        async with b.follow_questions() as heard:
            other = await _begin_conversation(sample, a, b)
            await b.wait_until(lambda: other.conversation.id in heard)
            heard.clear()
            (approval,) = asked.conversation.approvals()
            await a.commit(sample.deny(asked.conversation, approval))
            await b.wait_until(lambda: key in heard)
        still = other.conversation.id
        await subject.rest()
        hold(await b.engine.claim(still) is None, "what waits for a person is not taken from a living owner")
        await subject.still("a")
        await b.wait_for_ownership(still)


async def what_is_given_up_on_purpose_is_taken_without_waiting(subject: SharedSubject) -> None:
    """The next owner has it before a lease could be over, and the one before cannot commit."""
    sample = SampleConversation()
    async with Process(subject.open("a")) as a:
        first = await _begin_conversation(sample, a)
        key, claim = first.conversation.id, a.current_claim(first.conversation.id)
        async with Process(subject.open("b")) as b:
            await a.engine.give_up()
            async with asyncio.timeout(subject.prompt):
                await b.wait_for_ownership(key)
            hold(await b.engine.load(key) == first.conversation, "it goes on from there")
            with suppress(EngineError):
                await a.engine.commit(claim, sample.answer(first.conversation, first.ready[0]))
                raise BrokenPromiseError("a process that has given up cannot commit")
            await b.commit(sample.answer(first.conversation, first.ready[0]))


async def clocks_an_hour_apart_change_nothing(subject: SharedSubject) -> None:
    """Versions go on, what leaves is in order, and no time of a conversation is before an earlier one of it."""
    fast, slow = SampleConversation(since=2 * HOUR), SampleConversation(since=HOUR)
    async with Process(subject.open("a")) as a:
        answered = await _begin_quiet_conversation(fast, a)
        key = answered.conversation.id
        async with Process(subject.open("b")) as b:
            await a.engine.give_up()
            await b.claim(key)
            now = await b.engine.load(key)
            assert now is not None
            second = slow.receive(now, "2")
            await b.commit(second)
            last = slow.answer(second.conversation, second.ready[0])
            await b.commit(last)
            hold(last.conversation.version == answered.conversation.version + 2, "versions go on")
            hold(last.conversation.touched >= answered.conversation.touched, "time does not run backwards")
            left = await _read_all_events(b.engine, key)
            hold(left == [*answered.replies, *last.replies], "what leaves is in order")


async def storage_away_for_ten_seconds_loses_nothing(subject: SharedSubject) -> None:
    """A commit waits or is refused, and then it was not made; what was kept before is there, and nothing twice."""
    sample = SampleConversation()
    async with _two(subject) as (a, b):
        first = await _begin_conversation(sample, a, b)
        key = first.conversation.id
        second = sample.answer(first.conversation, first.ready[0])
        arrival = make_arrival(first.conversation, sample.make_message("2"))
        async with subject.away():
            committing = asyncio.create_task(_insist(second, (a, b)))
            handing = asyncio.create_task(_hand_in(b, arrival))
            await asyncio.sleep(0)
        await committing
        fate = await handing
        async with a.decide_arrivals(sample), b.decide_arrivals(sample):
            hold(not (await fate).word, "what is handed in when the storage is back is decided")
        # A process that has lost it may not know it yet: the one with the later state has decided about it.
        reads = [(now.version, one, now) for one in (a, b) if (now := await one.engine.load(key)) is not None]
        _, owner, now = max(reads, key=lambda read: read[0])
        hold((now.version, list(now.requests)) == (3, ["2"]), "each step is there, once")
        hold(await _read_all_events(owner.engine, key) == list(second.replies), "and so is what has left")


@asynccontextmanager
async def _two(subject: SharedSubject) -> AsyncIterator[tuple[Process, Process]]:
    """Two processes."""
    async with Process(subject.open("a")) as a, Process(subject.open("b")) as b:
        yield a, b


async def _begin_conversation(sample: SampleConversation, owner: Process, *others: Process) -> Outcome:
    """The first commit of a new conversation of the owner's, which the others have seen."""
    outcome = sample.receive(owner.begin(sample), "1")
    await owner.commit(outcome)
    for other in others:
        await other.sees(outcome)
    return outcome


async def _begin_quiet_conversation(sample: SampleConversation, owner: Process) -> Outcome:
    """The second commit of a new conversation of the owner's, after which nothing is queued."""
    first = await _begin_conversation(sample, owner)
    outcome = sample.answer(first.conversation, first.ready[0])
    await owner.commit(outcome)
    return outcome


async def _has(process: Process, key: str, requests: list[str]) -> None:
    now = await process.engine.load(key)
    hold(now is not None and list(now.requests) == requests, "each is decided once, in order")


async def _insist(outcome: Outcome, processes: tuple[Process, ...]) -> None:
    """Commit as the owner of the conversation, until that is done."""
    key = outcome.conversation.id
    while True:
        for process in processes:
            claim = process.engine.current_claim(key)
            if claim is None:
                continue
            try:
                now = await process.engine.load(key)
                hold(
                    now is not None and now.version == outcome.before, "what raised EngineError was not kept"
                )
                await process.engine.commit(claim, outcome)
            except ConflictError as error:
                raise BrokenPromiseError("what raised EngineError was not kept") from error
            except EngineError:
                continue
            return
        await asyncio.sleep(0.02)


async def _hand_in(process: Process, arrival: Arrival) -> Awaitable[Fate]:
    while True:
        try:
            return await process.engine.hand_in(arrival)
        except EngineError:
            await asyncio.sleep(0.02)


async def _read_all_events(engine: Engine, key: str) -> list[Reply | Done]:
    found: list[Reply | Done] = []
    last = UNDECIDED
    while page := await engine.read_events(key, last, 2):
        found += page
        last = page[-1].place
    return [event._replace(redelivered=False) for event in found]


_CHECKS: tuple[Check, ...] = (
    a_conversation_has_one_owner_at_a_time,
    an_owner_stopped_past_its_lease_cannot_commit,
    what_rests_can_be_taken_from_a_living_owner,
    what_is_released_can_be_claimed_by_any,
    what_is_handed_in_for_a_conversation_of_nobody_is_decided,
    what_is_handed_in_for_a_conversation_that_ends_is_told_so,
    quotas_and_names_are_the_same_everywhere,
    one_process_at_a_time_is_inside,
    what_is_handed_in_is_decided_once,
    what_is_handed_in_outlives_the_owner,
    one_request_id_at_two_processes_is_one_message,
    events_of_another_process_are_read_in_order,
    an_approval_is_spent_once,
    what_waits_for_a_person_is_known_everywhere,
    what_is_given_up_on_purpose_is_taken_without_waiting,
    clocks_an_hour_apart_change_nothing,
    storage_away_for_ten_seconds_loses_nothing,
    the_next_owner_knows_what_ended_the_one_before,
)


def _wrap_check(check: Check) -> Check:
    @wraps(check)
    async def run_check(subject: SharedSubject) -> None:
        with Promise(check.__name__):
            async with asyncio.timeout(PATIENCE):
                await check(subject)

    return run_check


TOGETHER: tuple[Check, ...] = tuple(map(_wrap_check, _CHECKS))
"""Every check. Each opens its own engines; what it raises is a BrokenPromiseError, which names the promise."""


async def broken_together(subject: SharedSubject) -> list[str]:
    """The promises that engines on one storage break, a sentence for each."""
    found = []
    for check in TOGETHER:
        try:
            await check(subject)
        except BrokenPromiseError as error:
            found.append(str(error))
    return found
