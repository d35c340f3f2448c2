"""Conformance suite: the checks that every engine must pass.

Engines promise *effectively once for each delivery*. An outcome is committed whole or not at all; a decision on a stale
version changes nothing; committed deliveries are handed out until they are consumed, and never afterwards.
``Subject.durable`` says whether these promises must hold across restarts. See ``docs/engines.md`` for an example.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import wraps
from typing import TYPE_CHECKING, TypeAlias

from agentserver.core.messages import Done, Reply
from agentserver.core.state.elapsed_time import Calendar, Jump
from agentserver.engines.conformance.claiming import CLAIMING
from agentserver.engines.conformance.notes import NOTES
from agentserver.engines.conformance.outbox import LEFT, RECEIPTS
from agentserver.engines.conformance.reader import READER
from agentserver.engines.conformance.sample import (
    AskingGuard,
    BrokenPromiseError,
    Promise,
    SampleConversation,
    Subject,
    at_work,
    hold,
    idle,
    keep,
    list_open,
)
from agentserver.engines.conformance.watching import WATCHING
from agentserver.engines.conformance.whole import WHOLE
from agentserver.ports import ConflictError, ConversationFound

if TYPE_CHECKING:
    from agentserver.core.messages import Delivery
    from agentserver.core.records.outcome import Outcome
    from agentserver.ports import Engine

__all__ = ["CHECKS", "BrokenPromiseError", "Check", "Subject", "broken_promises"]


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
    key, active = one.conversation.id, other.conversation.id
    hold(await engine.load(key) is None, "a suspended conversation is not loaded")
    hold(await at_work(engine) == [active], "it is not active")
    hold(await idle(engine, 1e12) == [active], "it is not idle")
    hold([at for at, _ in await list_open(engine)] == [active], "it is not open")
    hold(await engine.load(active) == other.conversation, "the others stay as they were")


async def requests_of_a_suspended_conversation_are_answered(subject: Subject) -> None:
    """Check that each pending request ends with an error, which a durable engine keeps for its gateway."""
    sample = SampleConversation()
    async with subject.open() as engine:
        answered, _ = await sample.keep_two_requests(engine)
        key = answered.conversation.id
        for event in answered.replies:
            engine.acknowledge(key, event.place)
        last = await engine.suspend(key, "nothing can be decided", 1.0)
        hold([type(event) for event in last] == [Reply, Done], "one request waited")
        hold({event.request for event in last} == {"2"}, "the events belong to the pending request")
        hold(isinstance(last[0], Reply) and last[0].error, "the request gets an error")
        queued = [event async for event in engine.outbox(key)]
        hold(queued == list(last), "the outbox has these events, and no acknowledged one")
        hold(await engine.suspend(key, "again", 2.0) == (), "a conversation is suspended once")
        places = [event.place for event in (*answered.replies, *last)]
        hold(places == sorted(set(places)), "their places are after all earlier events")
    if subject.durable:
        async with subject.open() as engine:
            hold(
                key in [at async for at in engine.conversations_of("console")],
                "the principal keeps the conversation until its events are fetched",
            )
            after_restart = [event._replace(redelivered=False) async for event in engine.outbox(key)]
            hold(after_restart == list(last), "its events are in the outbox after a restart")


async def an_unknown_conversation_cannot_be_suspended(subject: Subject) -> None:
    """Check that suspending an unknown or closed conversation does nothing."""
    sample = SampleConversation()
    async with subject.open() as engine:
        hold(await engine.suspend("nobody", "why not", 1.0) == (), "an unknown conversation has no events")
        received = sample.receive(sample.start(), "1")
        await keep(engine, received)
        await keep(engine, sample.close(received.conversation))
        hold(
            await engine.suspend(received.conversation.id, "why not", 1.0) == (),
            "nor does a closed conversation",
        )


SUSPENSION = (
    a_suspended_conversation_stops,
    requests_of_a_suspended_conversation_are_answered,
    an_unknown_conversation_cannot_be_suspended,
)


PATIENCE = 60.0
"""Seconds after which an unfinished check counts as failed."""

Check: TypeAlias = Callable[[Subject], Awaitable[None]]


async def _open(engine: Engine) -> list[tuple[str, str]]:
    return await list_open(engine)


async def _runnable(engine: Engine) -> list[str]:
    return [delivery.id for delivery in await _heads(engine)]


async def _heads(engine: Engine) -> list[Delivery]:
    """List the deliveries that a restart would run: the first of each inbox of an active conversation."""
    found = [await engine.load(key) for key in await at_work(engine)]
    threads = [thread for one in found if one is not None for thread in one.tree.nodes.values()]
    return [thread.inbox[0] for thread in threads if thread.inbox]


async def a_committed_conversation_is_there(subject: Subject) -> None:
    """Check that the latest commit of a conversation is loaded, or None if it has no commit."""
    sample = SampleConversation()
    async with subject.open() as engine:
        hold(await engine.load("nobody") is None, "an unknown conversation is None")
        first = sample.receive(sample.start(), "1")
        await keep(engine, first)
        hold(await engine.load(first.conversation.id) == first.conversation, "a commit can be loaded")
        second = sample.receive(first.conversation, "2")
        await keep(engine, second)
        hold(await engine.load(first.conversation.id) == second.conversation, "the last commit counts")


async def an_opening_is_kept_before_anything_is_said(subject: Subject) -> None:
    """Check that a conversation without messages is open but not active, after a restart as well."""
    sample = SampleConversation()
    async with subject.open() as engine:
        opened = sample.open(sample.start("ada"))
        key = opened.conversation.id
        await keep(engine, opened)
        if not subject.durable:
            await _is_open(engine, opened)
    if subject.durable:
        async with subject.open() as engine:
            await _is_open(engine, opened)
            await keep(engine, sample.receive(opened.conversation, "1"))
            hold(await _runnable(engine) != [], f"{key} takes a message")


async def _is_open(engine: Engine, opened: Outcome) -> None:
    key = opened.conversation.id
    hold(await engine.load(key) == opened.conversation, "an opening can be loaded")
    hold(
        await engine.find_conversation(key) == ConversationFound(key, "ada", over=False), "its owner is known"
    )
    hold((key, "ada") in await _open(engine), "it is open")
    hold(await _runnable(engine) == [], "it has no runnable delivery")


async def a_stale_decision_changes_nothing(subject: Subject) -> None:
    """Check that a commit based on another version than the stored one is refused whole."""
    sample = SampleConversation()
    async with subject.open() as engine:
        opened = sample.start()
        loser, winner = sample.receive(opened, "mine"), sample.receive(opened, "theirs")
        await keep(engine, winner)
        for stale in (loser, sample.receive(sample.receive(winner.conversation, "3").conversation, "4")):
            try:
                await keep(engine, stale)
            except ConflictError:
                pass
            else:
                raise BrokenPromiseError("a stale commit raises ConflictError")
        hold(await engine.load(opened.id) == winner.conversation, "a stale commit leaves the conversation")
        hold(await _runnable(engine) == [winner.ready[0].id], "a stale commit leaves the deliveries")


async def what_is_not_consumed_is_runnable(subject: Subject) -> None:
    """Check that the first delivery of each inbox is runnable until it is consumed."""
    sample = SampleConversation()
    async with subject.open() as engine:
        received = sample.receive(sample.start(), "1")
        await keep(engine, received)
        hold(await _runnable(engine) == [received.ready[0].id], "a committed delivery is runnable")
        answered = sample.answer(received.conversation, received.ready[0])
        await keep(engine, answered)
        hold(await _runnable(engine) == [], "a consumed delivery is not")


async def a_closed_conversation_is_gone(subject: Subject) -> None:
    """Check that a closed conversation is not loaded, and its deliveries do not run."""
    sample = SampleConversation()
    async with subject.open() as engine:
        received = sample.receive(sample.start(), "1")
        await keep(engine, received)
        await keep(engine, sample.close(received.conversation))
        hold(await engine.load(received.conversation.id) is None, "a closed conversation is None")
        hold(await _runnable(engine) == [], "its deliveries are not runnable")


async def conversations_do_not_touch_each_other(subject: Subject) -> None:
    """Check that each conversation has its own versions."""
    sample = SampleConversation()
    async with subject.open() as engine:
        ones = [sample.receive(sample.start(), "1") for _ in range(3)]
        for one in ones:
            await keep(engine, one)
        await keep(engine, sample.receive(ones[1].conversation, "2"))
        await keep(engine, sample.close(ones[2].conversation))
        hold(await engine.load(ones[0].conversation.id) == ones[0].conversation, "others stay as they were")
        untouched = [ones[0].ready[0].id, ones[1].ready[0].id]
        hold(set(untouched) <= set(await _runnable(engine)), "others' deliveries stay runnable")


async def a_restart_takes_up_what_was_committed(subject: Subject) -> None:
    """Check that a new instance of a durable engine continues from the stored state."""
    if not subject.durable:
        return
    sample = SampleConversation()
    async with subject.open() as engine:
        received = sample.receive(sample.start(), "1")
        await keep(engine, received)
    async with subject.open() as engine:
        hold(
            await engine.load(received.conversation.id) == received.conversation,
            "a restart keeps conversations",
        )
        hold(await _runnable(engine) == [received.ready[0].id], "a restart keeps deliveries")
        await keep(engine, sample.answer(received.conversation, received.ready[0]))
    async with subject.open() as engine:
        hold(await _runnable(engine) == [], "a restart repeats nothing that was consumed")


async def a_restart_keeps_versions(subject: Subject) -> None:
    """Check that decisions on old versions or closed conversations are stale after a restart too."""
    if not subject.durable:
        return
    sample = SampleConversation()
    async with subject.open() as engine:
        first = sample.receive(sample.start(), "1")
        second = sample.receive(first.conversation, "2")
        over = sample.receive(sample.start(), "1")
        closed = sample.close(over.conversation)
        for outcome in (first, second, over, closed):
            await keep(engine, outcome)
    late = sample.receive(over.conversation, "late")
    async with subject.open() as engine:
        for stale in (first, sample.receive(first.conversation, "other"), late, closed):
            try:
                await keep(engine, stale)
            except ConflictError:
                pass
            else:
                raise BrokenPromiseError("a stale commit raises ConflictError after a restart")
        found = await engine.load(first.conversation.id)
        hold(found == second.conversation, "a stale commit leaves the conversation")
        hold(await engine.load(over.conversation.id) is None, "a closed conversation stays closed")


async def conversations_are_found_by_who_opened_them_and_by_age(subject: Subject) -> None:
    """Check that open conversations are found by principal and by the time of their last step."""
    sample = SampleConversation()
    async with subject.open() as engine:
        received = sample.receive(sample.start(), "1")
        await keep(engine, received)
        key, touched = received.conversation.id, received.conversation.touched
        hold(
            key in [one async for one in engine.conversations_of("console")],
            "an open conversation is its principal's",
        )
        hold(key not in [one async for one in engine.conversations_of("other")], "and no other principal's")
        hold((key, "console") in await _open(engine), "it is listed with its principal")
        hold(key in await idle(engine, touched + 1), "an untouched conversation is idle")
        hold(key not in await idle(engine, touched), "one that was touched since is not")
        await keep(engine, sample.close(received.conversation))
        hold(key not in await idle(engine, touched + 9), "a closed conversation is not idle")
        hold((key, "console") not in await _open(engine), "a closed conversation is not listed as open")


async def many_at_once_are_each_kept_or_refused(subject: Subject) -> None:
    """Check that of many concurrent commits only the stale one is refused."""
    sample = SampleConversation()
    async with subject.open() as engine:
        opened = [sample.start() for _ in range(20)]
        outcomes = [sample.receive(one, "1") for one in opened]
        stale = sample.receive(opened[7], "stale")
        found = await asyncio.gather(
            *(keep(engine, outcome) for outcome in (*outcomes, stale)), return_exceptions=True
        )
        hold([bool(one) for one in found] == [False] * 20 + [True], "only the stale one is refused")
        hold(isinstance(found[-1], ConflictError), "a stale commit raises ConflictError")
        for outcome in outcomes:
            hold(await engine.load(outcome.conversation.id) == outcome.conversation, "the others are there")


async def commits_end_in_the_order_in_which_they_begin(subject: Subject) -> None:
    """Check that commits of several conversations end in order, also around one that is refused."""
    sample = SampleConversation()
    async with subject.open() as engine:
        opened = [sample.receive(sample.start(), "1") for _ in range(12)]
        for outcome in opened:
            await keep(engine, outcome)
        outcomes = [sample.receive(outcome.conversation, "2") for outcome in opened]
        outcomes[5] = sample.receive(outcomes[5].conversation, "stale")
        commits = [asyncio.ensure_future(keep(engine, outcome)) for outcome in outcomes]
        ended: list[asyncio.Future[None]] = []
        for commit in commits:
            commit.add_done_callback(ended.append)
        found = await asyncio.gather(*commits, return_exceptions=True)
        kept = [commit for commit, error in zip(commits, found, strict=True) if error is None]
        hold(kept == commits[:5] + commits[6:], "only the stale one is refused")
        hold(
            [commit for commit in ended if commit in kept] == kept,
            "commits end in the order in which they began",
        )


async def a_repetition_outlives_a_restart(subject: Subject) -> None:
    """Check that a durable engine keeps pending retries and their attempts across a restart."""
    if not subject.durable:
        return
    sample = SampleConversation(retries=2)
    async with subject.open() as engine:
        received = sample.receive(sample.start(), "1")
        await keep(engine, received)
        await keep(engine, sample.fail(received.conversation, received.ready[0]))
    async with subject.open() as engine:
        found = await _heads(engine)
        hold(
            [one.id for one in found] == [received.ready[0].id], "a repetition is runnable under the same id"
        )
        hold(found[0].attempt == 1, "its attempts are counted")


async def a_question_waits_for_its_answer(subject: Subject) -> None:
    """Check that a message that waits for a person is kept but not runnable, also across a restart."""
    sample = SampleConversation(guards=(AskingGuard(),))
    pending = sample.receive(sample.start(), "1")
    key, (approval,) = pending.conversation.id, pending.conversation.approvals()
    async with subject.open() as engine:
        await keep(engine, pending)
        await _still_asked(engine, pending)
        if not subject.durable:
            await keep(engine, sample.approve(pending.conversation, approval))
            hold(await _runnable(engine) == [approval.delivery.id], "an approved message is runnable")
            return
    async with subject.open() as engine:
        await _still_asked(engine, pending)
        await keep(engine, sample.approve(pending.conversation, approval))
    async with subject.open() as engine:
        hold(await _runnable(engine) == [approval.delivery.id], "an approved message is runnable")
        found = await engine.load(key)
        hold(found is not None and not found.approvals(), "an answered question is not pending")


async def _still_asked(engine: Engine, pending: Outcome) -> None:
    key = pending.conversation.id
    hold(await _runnable(engine) == [], "what waits for a person is not runnable")
    hold(key in await at_work(engine), "a conversation in which something waits is at work")
    hold(await engine.load(key) == pending.conversation, "a question is kept as it was asked")


async def a_sleeping_conversation_is_listed_by_its_time(subject: Subject) -> None:
    """Check that what waits for its time is kept, is listed in order, and is neither runnable nor idle meanwhile."""
    sample = SampleConversation()
    slept = []
    async with subject.open() as engine:
        for seconds in ((30.0,), (50.0, 10.0), (20.0,)):
            received = sample.receive(sample.start(), "1")
            await keep(engine, received)
            slept.append(sample.sleep(received.conversation, received.ready[0], *seconds))
            await keep(engine, slept[-1])
        await _still_sleeping(engine, slept)
    async with subject.open() as engine:
        if subject.durable:
            await _still_sleeping(engine, slept)
        else:
            for outcome in slept:
                await keep(engine, outcome._replace(before=0, since=None))
        woken = sample.wake(slept[1].conversation)
        await keep(engine, woken)
        key = woken.conversation.id
        hold(await _runnable(engine) == [woken.ready[0].id], "what is released is runnable")
        hold(key not in [one.id for one in await engine.list_sleeping(9)], "what works does not sleep")
        handled = sample.sleep(woken.conversation, woken.ready[0])
        await keep(engine, handled)
        due_times = {one.id: one.due_at for one in await engine.list_sleeping(9)}
        hold(due_times[key] == handled.conversation.sleeps_until, "it sleeps until its next time")
        canceled = sample.cancel(handled.conversation, "1")
        await keep(engine, canceled)
        hold(len(await engine.list_sleeping(9)) == len(slept) - 1, "a dropped timer is not listed")


async def _still_sleeping(engine: Engine, slept: Sequence[Outcome]) -> None:
    expected = sorted((one.conversation.sleeps_until or 0.0, one.conversation.id) for one in slept)
    hold(
        [*map(tuple, await engine.list_sleeping(9))] == expected,
        "sleeping ones are listed, the earliest first",
    )
    hold([*map(tuple, await engine.list_sleeping(1))] == expected[:1], "no more are listed than wanted")
    hold(await _runnable(engine) == [], "what waits for its time is not runnable")
    hold(await at_work(engine) == [], "a sleeping conversation is not at work")
    hold(await idle(engine, 1e12) == [], "a sleeping conversation is not idle")
    for one in slept:
        found = await engine.load(one.conversation.id)
        hold(found == one.conversation, "a timer is kept as it was set")
    summaries = await engine.read(lambda reader: {one.id: one.due for one in reader.conversations()})
    hold(all(summaries[key] == due for due, key in expected), "operators see until when it sleeps")


async def what_left_is_there_until_it_is_acknowledged(subject: Subject) -> None:
    """Check that a durable engine keeps unacknowledged events, marked as redelivered after a restart."""
    if not subject.durable:
        return
    sample = SampleConversation()
    async with subject.open() as engine:
        received = sample.receive(sample.start(), "1")
        await keep(engine, received)
        answered = sample.answer(received.conversation, received.ready[0])
        await keep(engine, answered)
    key = received.conversation.id
    async with subject.open() as engine:
        stored = [event async for event in engine.outbox(key)]
        marked = [event._replace(redelivered=True) for event in answered.replies]
        hold(
            stored == marked,
            "unacknowledged events are kept in order, at their places, marked as redelivered",
        )
        engine.acknowledge(key, stored[0].place)
    async with subject.open() as engine:
        hold([event async for event in engine.outbox(key)] == stored[1:], "acknowledged events are removed")
        await keep(engine, sample.close(answered.conversation))
        hold(
            key in [one async for one in engine.conversations_of("console")],
            "the principal keeps a closed conversation until its events are fetched",
        )
        engine.abandon(key)
    async with subject.open() as engine:
        hold(key not in [one async for one in engine.conversations_of("console")], "and not any longer")


async def a_commit_is_there_when_it_returns(subject: Subject) -> None:
    """Check that a durable engine can load each commit as soon as it returns."""
    if not subject.durable:
        return
    sample = SampleConversation()
    async with subject.open() as engine:
        conversation = sample.start()
        for number in range(5):
            outcome = sample.receive(conversation, str(number))
            await keep(engine, outcome)
            conversation = outcome.conversation
            hold(await engine.load(conversation.id) == conversation, "a commit is there when it returns")


async def the_calendar_outlives_a_restart(subject: Subject) -> None:
    """Check that a durable engine keeps the calendar for the next server."""
    calendar = Calendar((Jump(5.0, 9.0),), 11.0)
    async with subject.open() as engine:
        hold(not (await engine.calendar()).jumps, "no jump is known at first")
        await engine.keep_calendar(Calendar((), 4.0))
        await engine.keep_calendar(calendar)
    if subject.durable:
        async with subject.open() as engine:
            hold(await engine.calendar() == calendar, "the last calendar is kept")


def _wrap_check(check: Check) -> Check:
    @wraps(check)
    async def run_check(subject: Subject) -> None:
        with Promise(check.__name__):
            async with asyncio.timeout(PATIENCE):
                await check(subject)

    return run_check


_CHECKS: tuple[Check, ...] = (
    a_committed_conversation_is_there,
    an_opening_is_kept_before_anything_is_said,
    a_stale_decision_changes_nothing,
    what_is_not_consumed_is_runnable,
    a_closed_conversation_is_gone,
    conversations_do_not_touch_each_other,
    a_restart_takes_up_what_was_committed,
    a_restart_keeps_versions,
    conversations_are_found_by_who_opened_them_and_by_age,
    many_at_once_are_each_kept_or_refused,
    commits_end_in_the_order_in_which_they_begin,
    a_repetition_outlives_a_restart,
    a_question_waits_for_its_answer,
    a_sleeping_conversation_is_listed_by_its_time,
    what_left_is_there_until_it_is_acknowledged,
    a_commit_is_there_when_it_returns,
    *CLAIMING,
    *WHOLE,
    *LEFT,
    *RECEIPTS,
    *WATCHING,
    the_calendar_outlives_a_restart,
    *SUSPENSION,
    *NOTES,
    *READER,
)

CHECKS: tuple[Check, ...] = tuple(map(_wrap_check, _CHECKS))
"""All checks. Each opens its own engine, and raises BrokenPromiseError with the name of the promise."""


async def broken_promises(subject: Subject) -> list[str]:
    """List the promises that an engine breaks, one sentence for each; empty if it conforms."""
    found = []
    for check in CHECKS:
        try:
            await check(subject)
        except BrokenPromiseError as error:
            found.append(str(error))
    return found
