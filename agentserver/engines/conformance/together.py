"""Conformance checks of engines that share storage: two processes, one organism.

Engines promise *one owner at a time*, also after crashes. The next owner continues from the last commit, and
uncommitted work has no effect. A message may arrive at any process and is decided once, by the owner; events can be
read at any process, in order.
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
    from agentserver.ports import Arrival, ArrivalOutcome

__all__ = ["TOGETHER", "SharedSubject", "broken_together"]

PATIENCE = 60.0
"""Seconds after which an unfinished check counts as failed."""

HOUR = 3600
"""Seconds between two clocks."""


Check: TypeAlias = Callable[[SharedSubject], Awaitable[None]]


async def a_conversation_has_one_owner_at_a_time(subject: SharedSubject) -> None:
    """Check that only the process that began a conversation can claim it."""
    sample = SampleConversation()
    async with _two(subject) as (a, b):
        for one, other in ((a, b), (b, a)):
            outcome = sample.receive(one.begin(sample), "1")
            key = outcome.conversation.id
            await one.commit(outcome)
            await other.sees(outcome)
            hold(one.engine.shared and other.engine.shared, "engines on one storage say so")
            hold(other.engine.current_claim(key) is None, "the other process has no claim")
            hold(await other.engine.claim(key) is None, "the other process cannot claim it")
            hold(await one.engine.claim(key) == one.current_claim(key), "its owner keeps the claim")
            other.engine.begin_claim(key)
            await other.expect_fenced(other.current_claim(key), outcome)
            answered = sample.answer(outcome.conversation, outcome.ready[0])
            await one.commit(answered)
            hold(
                await other.engine.claim(key) is None,
                "the other process cannot claim it right after its last step",
            )


async def an_owner_stopped_past_its_lease_cannot_commit(subject: SharedSubject) -> None:
    """Check that a stale owner gets FencedError, and that the next one continues from the last commit."""
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
            hold(b.gained[key] != 0, "the previous lease is known")
            hold(
                await b.engine.load(key) == first.conversation,
                "the next owner loads the last commit",
            )
            second = sample.answer(first.conversation, first.ready[0])
            await b.commit(second)
            hold(b.current_claim(key).epoch > claim.epoch, "the next owner's epoch is greater")
            hold((await b.claim(at_rest)).epoch > before.epoch, "an idle conversation can be claimed")
            await subject.moving("a")
            await a.expect_fenced(claim, sample.answer(first.conversation, first.ready[0]))
            await a.expect_fenced(before, sample.receive(resting.conversation, "late"))
            hold(await b.engine.load(key) == second.conversation, "a fenced commit changes nothing")
            await a.wait_until(
                lambda: a.engine.current_claim(key) is None and a.engine.current_claim(at_rest) is None
            )
            await a.sees(second)
            hold(
                await _read_all_events(b.engine, key) == list(second.replies), "a fenced commit has no events"
            )


async def what_rests_can_be_taken_from_a_living_owner(subject: SharedSubject) -> None:
    """Check that an idle conversation can be claimed from its owner, and one with queued work cannot."""
    sample = SampleConversation()
    async with _two(subject) as (a, b):
        busy, resting = await _begin_conversation(sample, a, b), await _begin_quiet_conversation(sample, a)
        key, claim = resting.conversation.id, a.current_claim(resting.conversation.id)
        await b.sees(resting)
        hold(await b.engine.claim(key) is None, "a conversation that was just active cannot be claimed")
        await subject.wait_until_claimable()
        hold((await b.claim(key)).epoch > claim.epoch, "an idle conversation can be claimed")
        hold(
            await b.engine.claim(busy.conversation.id) is None,
            "a conversation with queued work cannot be claimed",
        )
        await a.expect_fenced(claim, sample.receive(resting.conversation, "2"))
        await a.wait_until(lambda: a.engine.current_claim(key) is None)
        received = sample.receive(resting.conversation, "3")
        await b.commit(received)
        await a.sees(received)


async def what_is_released_can_be_claimed_by_any(subject: SharedSubject) -> None:
    """Check that a released conversation can be claimed at once, unless it has undecided arrivals."""
    sample = SampleConversation()
    async with _two(subject) as (a, b):
        first = await _begin_quiet_conversation(sample, a)
        key = first.conversation.id
        await b.sees(first)
        await a.engine.release([key])
        hold(a.engine.current_claim(key) is None, "a released conversation is not held")
        hold(
            await a.engine.idle(first.conversation.touched + 1.0).__anext__() == key,
            "it is idle for every process",
        )
        claim = await b.claim(key)
        hold(await a.engine.claim(key) is None, "only one process can claim it")
        fate = await a.engine.hand_in(make_arrival(first.conversation, sample.make_message("2")))
        await b.engine.release([key])
        hold(b.engine.current_claim(key) == claim, "an undecided arrival prevents the release")
        async with b.decide_arrivals(sample):
            hold(not (await fate).word, "the arrival is decided")
        now = await a.engine.load(key)
        hold(now is not None and list(now.requests) == ["2"], "by its owner")


async def an_arrival_for_an_unowned_conversation_is_decided(subject: SharedSubject) -> None:
    """Check that a process claims an unowned conversation to decide its arrivals."""
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
        hold(
            now is not None and list(now.requests) == ["2", "3", "4"],
            "each arrival is decided once, in order",
        )


async def an_arrival_for_an_ended_conversation_is_refused(subject: SharedSubject) -> None:
    """Check that an arrival is refused if its conversation closes before it is decided."""
    sample = SampleConversation()
    async with _two(subject) as (a, b):
        first = await _begin_quiet_conversation(sample, a)
        await b.sees(first)
        answer = await b.engine.hand_in(make_arrival(first.conversation, sample.make_message("2")))
        await a.commit(sample.close(first.conversation))
        async with a.decide_arrivals(sample), b.decide_arrivals(sample):
            hold((await answer).word == "over", "the refusal says that the conversation has ended")


async def quotas_and_names_are_the_same_everywhere(subject: SharedSubject) -> None:
    """Check that open conversations are counted over all processes, and that names are unique."""
    sample = SampleConversation()
    async with _two(subject) as (a, b):
        one, other = await _begin_quiet_conversation(sample, a), await _begin_quiet_conversation(sample, b)
        await a.sees(other)
        await b.sees(one)
        for process in (a, b):
            hold(
                await process.engine.open_count("console") == len([one, other]),
                "conversations of all processes are counted",
            )
            hold(await process.engine.open_count("ada") == 0, "for each principal")
        await b.commit(sample.close(other.conversation))
        hold(await a.engine.open_count("console") == 1, "while they are open")
        idle_at_a = [key async for key in a.engine.idle(one.conversation.touched + 1.0)]
        idle_at_b = [key async for key in b.engine.idle(one.conversation.touched + 1.0)]
        hold(
            (idle_at_a, idle_at_b) == ([one.conversation.id], []),
            "a conversation of another process is not idle here",
        )
        bound = await asyncio.gather(
            a.engine.give_name("name", "first", 1.0), b.engine.give_name("name", "second", 1.0)
        )
        hold(bound[0] == bound[1] == await a.engine.find_named("name"), "a name is given once")


async def an_exclusive_section_has_one_process_at_a_time(subject: SharedSubject) -> None:
    """Check that each name admits one process at a time, and that a dead process loses its place."""
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
            hold(order == ["a"], "a process waits while another is in the section of the same name")
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
    """Check that the owner decides arrivals in order, and that their sender gets the result."""
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
                "the sender of an arrival gets its result",
            )
            hold(await again == found[0], "an arrival with a known id is not decided again")
            hold(await (await b.engine.hand_in(arrivals[1])) == found[1], "nor after the first was decided")
        now = await a.engine.load(first.conversation.id)
        assert now is not None
        hold(list(now.requests) == ["1", "2", "3", "4", "5"], "each is decided once, in order")


async def what_is_handed_in_outlives_the_owner(subject: SharedSubject) -> None:
    """Check that the next owner decides pending arrivals, and no decided one again."""
    sample = SampleConversation()
    async with _two(subject) as (a, b):
        first = await _begin_conversation(sample, a, b)
        key = first.conversation.id
        async with a.decide_arrivals(sample):
            fate = await (await b.engine.hand_in(make_arrival(first.conversation, sample.make_message("2"))))
            hold(not fate.word, "an arrival is decided")
        answer = await b.engine.hand_in(make_arrival(first.conversation, sample.make_message("3")))
        await subject.still("a")
        await b.wait_for_ownership(key)
        async with b.decide_arrivals(sample):
            fate = await answer
        hold((fate.word, fate.request) == ("", "3"), "an arrival from before a move is decided after it")
        await _has(b, key, ["1", "2", "3"])
        await subject.moving("a")
        async with a.decide_arrivals(sample), b.decide_arrivals(sample):
            fate = await (await b.engine.hand_in(make_arrival(first.conversation, sample.make_message("4"))))
            hold(not fate.word, "an arrival is decided")
        await _has(b, key, ["1", "2", "3", "4"])


async def one_request_id_at_two_processes_is_one_message(subject: SharedSubject) -> None:
    """Check that a repeated request gets the id of the first."""
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
        hold([fate.again for fate in fates] == [False, True], "the second is reported as a repetition")
        now = await a.engine.load(opened.conversation.id)
        assert now is not None
        hold(list(now.requests) == ["1", "2"], "one message was admitted")


async def events_of_another_process_are_read_in_order(subject: SharedSubject) -> None:
    """Check that a gateway of another process reads each event once, on news."""
    sample = SampleConversation()
    async with _two(subject) as (a, b):
        received = sample.receive(a.begin(sample), "1")
        key = received.conversation.id
        async with b.listen_to(key) as listener:
            await a.commit(received)
            events: list[Reply | Done] = []
            for number in range(2, 6):
                answered = sample.answer(received.conversation, received.ready[0])
                await a.commit(answered)
                events += answered.replies
                received = sample.receive(answered.conversation, str(number))
                await a.commit(received)
            await listener.wait_until(events)
            closed = sample.close(received.conversation)
            await a.commit(closed)
            events += closed.replies
            await listener.wait_until(events, over=True)
        hold(await _read_all_events(b.engine, key) == events, "all events can be read again")


async def an_approval_is_spent_once(subject: SharedSubject) -> None:
    """Check that of two concurrent answers only the first counts, at whichever process."""
    sample = SampleConversation(guards=(AskingGuard(),))
    async with _two(subject) as (a, b):
        for answers in ((Answer.ONCE, Answer.DENY), (Answer.DENY, Answer.ONCE)):
            pending = await _begin_conversation(sample, a, b)
            (approval,) = pending.conversation.approvals()
            verdicts = [ApprovalAnswer(approval.id, approval.digest, answer, "ada") for answer in answers]
            ways = zip((a, b), verdicts, strict=True)
            fates = [
                await process.engine.hand_in(make_arrival(pending.conversation, answered))
                for process, answered in ways
            ]
            async with a.decide_arrivals(sample) as decided:
                words = [(await fate).word for fate in fates]
            hold(words == ["", "no"], "the first answer counts, and the other is refused")
            events = [record.event for outcome in decided for record in outcome.records]
            approved = Event.APPROVED in events
            hold(approved == (answers[0] is Answer.ONCE), "the first answer is executed")
            now = await a.engine.load(pending.conversation.id)
            hold(now is not None and not now.approvals(), "no approval is pending")


async def what_waits_for_a_person_is_known_everywhere(subject: SharedSubject) -> None:
    """Check that pending approvals are known to all processes, and are taken over after a crash."""
    sample = SampleConversation(guards=(AskingGuard(),))
    async with _two(subject) as (a, b):
        pending = await _begin_conversation(sample, a, b)
        key = pending.conversation.id
        hold(
            list(await b.engine.read(lambda reader: reader.list_asking())) == [key],
            "a conversation with a pending approval can be found",
        )
        async with b.follow_questions() as noticed:
            other = await _begin_conversation(sample, a, b)
            await b.wait_until(lambda: other.conversation.id in noticed)
            noticed.clear()
            (approval,) = pending.conversation.approvals()
            await a.commit(sample.deny(pending.conversation, approval))
            await b.wait_until(lambda: key in noticed)
        still = other.conversation.id
        await subject.wait_until_claimable()
        hold(
            await b.engine.claim(still) is None,
            "a conversation with a pending approval stays with a live owner",
        )
        await subject.still("a")
        await b.wait_for_ownership(still)


async def a_sleeping_conversation_wakes_at_any_process(subject: SharedSubject) -> None:
    """Check that a released or orphaned sleeping conversation is listed by the others, and by no other before."""
    sample = SampleConversation()
    async with _two(subject) as (a, b):
        sleeping = []
        for _ in range(2):
            received = await _begin_conversation(sample, a, b)
            sleeping.append(sample.sleep(received.conversation, received.ready[0], 10.0))
            await a.commit(sleeping[-1])
        first, second = (one.conversation.id for one in sleeping)

        async def listed(process: Process) -> list[str]:
            return sorted(one.id for one in await process.engine.list_sleeping(9))

        hold(await listed(a) == sorted([first, second]), "an owner lists its own")
        hold(await listed(b) == [], "no other process lists them")
        await a.engine.release([first])
        await b.wait_until_listed(first)
        hold(await b.engine.claim(first) is not None, "a released sleeping conversation can be claimed")
        await b.commit(sample.wake(sleeping[0].conversation))
        await subject.still("a")
        await b.wait_until_listed(second)


async def what_is_given_up_on_purpose_is_taken_without_waiting(subject: SharedSubject) -> None:
    """Check that released conversations are taken over at once, and that the old owner cannot commit."""
    sample = SampleConversation()
    async with Process(subject.open("a")) as a:
        first = await _begin_conversation(sample, a)
        key, claim = first.conversation.id, a.current_claim(first.conversation.id)
        async with Process(subject.open("b")) as b:
            await a.engine.give_up()
            async with asyncio.timeout(subject.prompt):
                await b.wait_for_ownership(key)
            hold(await b.engine.load(key) == first.conversation, "the next owner loads the last commit")
            with suppress(EngineError):
                await a.engine.commit(claim, sample.answer(first.conversation, first.ready[0]))
                raise BrokenPromiseError("a process that has given up cannot commit")
            await b.commit(sample.answer(first.conversation, first.ready[0]))


async def clocks_an_hour_apart_change_nothing(subject: SharedSubject) -> None:
    """Check that versions, events and times stay in order under clocks that differ by an hour."""
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
            hold(last.conversation.version == answered.conversation.version + 2, "versions continue")
            hold(last.conversation.touched >= answered.conversation.touched, "time does not run backwards")
            events = await _read_all_events(b.engine, key)
            hold(events == [*answered.replies, *last.replies], "events are in order")


async def storage_away_for_ten_seconds_loses_nothing(subject: SharedSubject) -> None:
    """Check that an outage loses no commit and repeats none."""
    sample = SampleConversation()
    async with _two(subject) as (a, b):
        first = await _begin_conversation(sample, a, b)
        key = first.conversation.id
        second = sample.answer(first.conversation, first.ready[0])
        arrival = make_arrival(first.conversation, sample.make_message("2"))
        async with subject.outage():
            committing = asyncio.create_task(_insist(second, (a, b)))
            handing = asyncio.create_task(_hand_in(b, arrival))
            await asyncio.sleep(0)
        await committing
        fate = await handing
        async with a.decide_arrivals(sample), b.decide_arrivals(sample):
            hold(not (await fate).word, "an arrival is decided after the outage")
        # A process that lost the conversation may not know it yet: the one with the later state made the decision.
        reads = [(now.version, one, now) for one in (a, b) if (now := await one.engine.load(key)) is not None]
        _, owner, now = max(reads, key=lambda read: read[0])
        hold((now.version, list(now.requests)) == (3, ["2"]), "each step is there, once")
        hold(await _read_all_events(owner.engine, key) == list(second.replies), "each event is there, once")


@asynccontextmanager
async def _two(subject: SharedSubject) -> AsyncIterator[tuple[Process, Process]]:
    """Open two processes."""
    async with Process(subject.open("a")) as a, Process(subject.open("b")) as b:
        yield a, b


async def _begin_conversation(sample: SampleConversation, owner: Process, *others: Process) -> Outcome:
    """Commit the first message of a new conversation, and wait until the others see it."""
    outcome = sample.receive(owner.begin(sample), "1")
    await owner.commit(outcome)
    for other in others:
        await other.sees(outcome)
    return outcome


async def _begin_quiet_conversation(sample: SampleConversation, owner: Process) -> Outcome:
    """Commit a message and its answer, after which nothing is queued."""
    first = await _begin_conversation(sample, owner)
    outcome = sample.answer(first.conversation, first.ready[0])
    await owner.commit(outcome)
    return outcome


async def _has(process: Process, key: str, requests: list[str]) -> None:
    now = await process.engine.load(key)
    hold(now is not None and list(now.requests) == requests, "each is decided once, in order")


async def _insist(outcome: Outcome, processes: tuple[Process, ...]) -> None:
    """Retry a commit as the owner until it succeeds."""
    key = outcome.conversation.id
    while True:
        for process in processes:
            claim = process.engine.current_claim(key)
            if claim is None:
                continue
            try:
                now = await process.engine.load(key)
                hold(
                    now is not None and now.version == outcome.before,
                    "a commit that raised EngineError was not stored",
                )
                await process.engine.commit(claim, outcome)
            except ConflictError as error:
                raise BrokenPromiseError("a commit that raised EngineError was not stored") from error
            except EngineError:
                continue
            return
        await asyncio.sleep(0.02)


async def _hand_in(process: Process, arrival: Arrival) -> Awaitable[ArrivalOutcome]:
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
    an_arrival_for_an_unowned_conversation_is_decided,
    an_arrival_for_an_ended_conversation_is_refused,
    quotas_and_names_are_the_same_everywhere,
    an_exclusive_section_has_one_process_at_a_time,
    what_is_handed_in_is_decided_once,
    what_is_handed_in_outlives_the_owner,
    one_request_id_at_two_processes_is_one_message,
    events_of_another_process_are_read_in_order,
    an_approval_is_spent_once,
    what_waits_for_a_person_is_known_everywhere,
    a_sleeping_conversation_wakes_at_any_process,
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
"""All checks. Each opens its own engines, and raises BrokenPromiseError with the name of the promise."""


async def broken_together(subject: SharedSubject) -> list[str]:
    """List the promises that engines on shared storage break, one sentence for each."""
    found = []
    for check in TOGETHER:
        try:
            await check(subject)
        except BrokenPromiseError as error:
            found.append(str(error))
    return found
