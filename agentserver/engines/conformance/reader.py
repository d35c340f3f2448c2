"""Conformance checks of ``EngineReader``: operators read the committed state.

An engine that records no steps is exempt from the checks that need them.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

from agentserver.core.encoding.history import (
    EVERY_CONVERSATION,
    Condition,
    ConversationFilter,
    UnrecordedError,
)
from agentserver.core.records.audit import Event
from agentserver.core.records.details import ApprovalGiven
from agentserver.core.state.approvals import Answer
from agentserver.core.state.principals import Principal
from agentserver.engines.conformance.sample import (
    AskingGuard,
    BrokenPromiseError,
    SampleConversation,
    Subject,
    hold,
    keep,
)
from agentserver.history.filters import STARTS
from agentserver.history.replay import replay

if TYPE_CHECKING:
    from agentserver.core.encoding.history import ConversationPage, DeadLetter, DecidedApproval, Summary
    from agentserver.core.guard import Rules
    from agentserver.core.records.outcome import Outcome
    from agentserver.ports import Engine, EngineReader


async def an_engine_says_what_it_can_do(subject: Subject) -> None:
    """Check that an engine is as durable as its subject claims, and that a durable one records steps."""
    async with subject.open() as engine:
        hold(engine.durable is subject.durable, "an engine says whether its data outlives the process")
        if subject.durable:
            hold(await _is_recorded(engine), "a durable engine keeps steps")
        if engine.answers is not None:
            hold(not await engine.answers.list_pending(), "no answer was left before a question was asked")
            await engine.answers.drop(["unknown"])


async def a_conversation_is_found_and_listed(subject: Subject) -> None:
    """Check that conversations are found by a prefix of their id, and listed last touched first."""
    sample = SampleConversation()
    async with subject.open() as engine:
        one, other = (sample.receive(sample.start(), "1") for _ in range(2))
        for outcome in (one, other):
            await keep(engine, outcome)
        again = sample.receive(one.conversation, "2")
        await keep(engine, again)
        key = again.conversation.id
        hold(await _find(engine, key) == [key], "a conversation is found by its id")
        hold(key in await _find(engine, key[:20]), "a conversation is found by the beginning of its id")
        hold(await _find(engine, f"{key}x") == [], "an id of no conversation finds none")
        for part in (key[1:], f"%{key[1:]}", f"_{key[1:]}", key[:-1] + "*"):
            hold(await _find(engine, part) == [], "nothing but the beginning of its id finds a conversation")
        listed = [
            each for each in await _list_conversations(engine) if each.id in {key, other.conversation.id}
        ]
        hold([each.id for each in listed] == [key, other.conversation.id], "the last one touched is first")
        first = listed[0]
        hold(
            (first.principal, first.steps, first.waiting, first.touched)
            == ("console", 2, 2, again.conversation.touched),
            "a conversation is listed with its principal, its steps, what waits and when it was touched",
        )
        hold(first.closed is None, "an open conversation is listed as open")
        hold(first.unread == 0, "nothing has left it")
        if await _is_recorded(engine):
            hold(first.opened == one.conversation.touched, "a conversation is listed with when it was opened")
        answered = sample.answer(again.conversation, one.ready[0])
        await keep(engine, answered)
        (first,) = [each for each in await _list_conversations(engine) if each.id == key]
        hold(
            first.unread == len(answered.replies),
            "it is listed with its unacknowledged events",
        )


async def conversations_are_listed_by_page(subject: Subject) -> None:
    """Check that pages join without gap or repetition, also while conversations are opened, and obey a filter."""
    sample = SampleConversation()
    async with subject.open() as engine:
        opened = [sample.receive(sample.start(), str(number)) for number in range(5)]
        for outcome in opened:
            await keep(engine, outcome)
        keys = [one.conversation.id for one in reversed(opened)]
        first = await _list_page(engine, limit=2)
        hold([one.summary.id for one in first.rows] == keys[:2], "the last opened are listed first")
        hold(first.after != "", "a page that is not the last has a cursor")
        await keep(engine, sample.receive(sample.start(), "6"))
        second = await _list_page(engine, after=first.after, limit=2)
        hold([one.summary.id for one in second.rows] == keys[2:4], "the next page begins after the last row")
        last = await _list_page(engine, after=second.after, limit=2)
        hold(
            ([one.summary.id for one in last.rows], last.after) == (keys[4:], ""),
            "the last page has no cursor",
        )
        await keep(engine, sample.answer(opened[1].conversation, opened[1].ready[0]))
        chosen = ConversationFilter((Condition("waiting", "=", Decimal(0)),))
        found = await _list_page(engine, chosen)
        hold(
            [one.summary.id for one in found.rows] == [keys[3]],
            "a filter selects the conversations that meet it",
        )
        await _compare_waiting(engine)
        for condition, promise in (
            (Condition("id", "=", keys[3]), "a conversation is found by its id"),
            (Condition("principal", STARTS, found.rows[0].summary.principal[:2]), "an owner by a beginning"),
        ):
            matching = await _list_page(engine, ConversationFilter((condition, *chosen.conditions)))
            hold([one.summary.id for one in matching.rows] == [keys[3]], promise)
        wrong = ConversationFilter((Condition("principal", STARTS, "nobody/"),))
        hold((await _list_page(engine, wrong)).rows == (), "another beginning is no owner's")


async def _compare_waiting(engine: Engine) -> None:
    """Check the comparisons of a number among six conversations, of which one has no waiting message."""
    for sign, number, count in (
        (">", 0, 5),
        (">=", 1, 5),
        ("=", 1, 5),
        ("!=", 1, 1),
        ("<", 1, 1),
        (">", 1, 0),
    ):
        chosen = ConversationFilter((Condition("waiting", sign, Decimal(number)),))
        rows = (await _list_page(engine, chosen)).rows
        hold(len(rows) == count, f"a filter compares the number of waiting messages by {sign} {number}")


async def conversations_are_found_by_their_content(subject: Subject) -> None:
    """Check that an engine that records steps finds conversations by listener, code, mark, approver and words."""
    sample = SampleConversation(guards=(AskingGuard(),))
    outcomes = _make_outcomes(sample)
    key = outcomes[0].conversation.id
    async with subject.open() as engine:
        if not await _is_recorded(engine):
            return
        for outcome in outcomes:
            await keep(engine, outcome)
        conditions = {
            each: Condition(*each)
            for each in (
                ("listener", "=", "worker"),
                ("listener", "!=", "nobody"),
                ("failed", "=", "no"),
                ("principal", "=", "console"),
                ("code", "=", "denied"),
                ("refused", "=", "yes"),
                ("approver", "=", "somebody"),
                ("text", "=", "PERMITTED, 1"),
                ("text", "!=", "permitted elsewhere"),
            )
        }
        for each, condition in conditions.items():
            found = await _list_page(engine, ConversationFilter((condition,)))
            hold(
                [one.summary.id for one in found.rows] == [key],
                f"a conversation is found by {' '.join(each)}",
            )
            opposite = condition._replace(sign="!=" if condition.sign == "=" else "=")
            found = await _list_page(engine, ConversationFilter((opposite,)))
            hold(found.rows == (), f"a conversation is not found by the opposite of {' '.join(each)}")


async def operators_see_what_is_at_work(subject: Subject) -> None:
    """Check that exactly the open conversations with pending work are active."""
    sample = SampleConversation()
    async with subject.open() as engine:
        received, done, over = (sample.receive(sample.start(), "1") for _ in range(3))
        for outcome in (received, done, over):
            await keep(engine, outcome)
        await keep(engine, sample.answer(done.conversation, done.ready[0]))
        await keep(engine, sample.close(over.conversation))
        active = await engine.read(lambda reader: list(reader.active()))
        known = [each.conversation.id for each in (received, done, over)]
        hold(
            [key for key in active if key in known] == known[:1],
            "a conversation with pending work is active, and no other",
        )
        hold(await _loads_as_committed(engine, received), "a conversation is read as it was committed")
        hold(await engine.read(lambda reader: reader.load(known[2])) is None, "a closed conversation is None")


async def operators_see_what_waits_for_a_person(subject: Subject) -> None:
    """Check that messages are listed while they wait for an approval."""
    sample = SampleConversation(guards=(AskingGuard(),))
    pending = sample.receive(sample.start(), "1")
    key, approvals = pending.conversation.id, pending.conversation.approvals()
    async with subject.open() as engine:
        hold(await engine.read(lambda reader: list(reader.approvals(key))) == [], "nothing unknown waits")
        await keep(engine, pending)
        hold(
            await engine.read(lambda reader: tuple(reader.approvals(key))) == approvals,
            "a message that waits for a person is seen as it was asked about",
        )
        hold(not await engine.read(lambda reader: list(reader.answers())), "it has no answer yet")
        hold(await _list_asking(engine) == [key], "its conversation is found without a look at the others")
        other = sample.receive(sample.start(), "2")
        await keep(engine, other)
        foreign = await engine.read(lambda reader: tuple(reader.approvals(other.conversation.id)))
        hold(
            foreign == other.conversation.approvals(),
            "pending approvals are listed for their own conversation",
        )
        await keep(engine, sample.approve(pending.conversation, approvals[0]))
        to, message = approvals[0].delivery.to, approvals[0].delivery.message
        granted = await engine.read(lambda reader: list(reader.list_granted("console", to, 0.0)))
        hold([one.message for one in granted] == [message], "an approved message is listed, and no other")
        since = await engine.read(lambda reader: list(reader.list_granted("console", to, granted[0].at + 1)))
        hold(since == [], "an approved message is not listed for a later time")
        hold(
            await engine.read(lambda reader: list(reader.approvals(key))) == [],
            "an answered approval is not listed",
        )
        hold(
            await _list_asking(engine) == [other.conversation.id],
            "a conversation that was answered does not ask",
        )
        await keep(engine, sample.close(other.conversation))
        hold(await _list_asking(engine) == [], "a conversation that is closed does not ask")


async def a_recorded_conversation_can_be_decided_again(subject: Subject) -> None:
    """Check that recorded steps are complete, in order, and reproduce the committed decisions."""
    sample = SampleConversation(guards=(AskingGuard(),))
    outcomes = _make_outcomes(sample)
    key = outcomes[0].conversation.id
    async with subject.open() as engine:
        await _expect_no_recording(engine, "unknown", LookupError)
        for outcome in outcomes:
            await keep(engine, outcome)
        if not await _is_recorded(engine):
            await _expect_no_recording(engine, key, UnrecordedError)
            return
        await _expect_recording(engine, outcomes, sample.rules)
    if subject.durable:
        async with subject.open() as engine:
            await _expect_recording(engine, outcomes, sample.rules)


async def what_a_listener_could_not_deal_with_is_listed(subject: Subject) -> None:
    """Check that a failed delivery is listed as a dead letter, with the reason, until it is requeued."""
    sample = SampleConversation()
    async with subject.open() as engine:
        failing, well = (sample.receive(sample.start(), "1") for _ in range(2))
        for outcome in (failing, well):
            await keep(engine, outcome)
        await keep(engine, sample.answer(well.conversation, well.ready[0]))
        failed = sample.fail(failing.conversation, failing.ready[0])
        await keep(engine, failed)
        if not await _is_recorded(engine):
            hold(await _dead(engine) == [], "without steps nothing is listed as dead")
            return
        letters = await _dead(engine)
        hold(len(letters) == 1, "a delivery that failed for good is a dead letter, and no other is")
        (letter,) = letters
        hold(letter.delivery == failing.ready[0], "a dead letter is the delivery that failed")
        hold(bool(letter.reason), "a dead letter says why it was given up")
        hold((letter.principal, letter.open) == ("console", True), "a dead letter says whose it is")
        await keep(engine, sample.requeue(failed.conversation, letter.delivery))
        hold(await _dead(engine) == [], "a requeued delivery is not a dead letter")


async def dead_letters_are_listed_in_their_order(subject: Subject) -> None:
    """Check that dead letters are listed oldest first, and say whether their conversation is open."""
    sample = SampleConversation()
    async with subject.open() as engine:
        if not await _is_recorded(engine):
            return
        outcomes = [sample.receive(sample.start(), "1") for _ in range(3)]
        for outcome in outcomes:
            await keep(engine, outcome)
            failed = sample.fail(outcome.conversation, outcome.ready[0])
            await keep(engine, failed)
        await keep(engine, sample.close(failed.conversation))
        letters = await _dead(engine)
        hold(
            [letter.delivery for letter in letters] == [one.ready[0] for one in outcomes],
            "dead letters are listed oldest first, those of closed conversations among them",
        )
        hold(
            [letter.open for letter in letters] == [True, True, False],
            "a dead letter says whether its conversation is open",
        )
        latest = await engine.read(lambda reader: list(reader.dead(2)))
        hold(
            latest == letters[1:],
            "of more dead letters than are asked for the latest are given, oldest first",
        )
        one = letters[1].delivery.id
        matching = await engine.read(lambda reader: list(reader.dead(prefix=one)))
        hold(matching == letters[1:2], "a dead letter is found by the id of its delivery")
        first, *remaining = letters
        hold(await engine.discard(first.delivery.id, "ops", 99.0), "a dead letter can be discarded")
        hold(await _dead(engine) == remaining, "only the discarded dead letter is removed")
        hold(not await engine.discard(first.delivery.id, "ops", 99.0), "only a dead letter can be discarded")
        await _expect_discarded(engine, first)


async def _expect_discarded(engine: Engine, letter: DeadLetter) -> None:
    """Check that a discarded letter is listed and recorded with the operator and the time."""
    discarded = await engine.read(lambda reader: list(reader.list_discarded(5)))
    expected = letter._replace(at=99.0, discarded_by="ops")
    hold(discarded == [expected], "a discarded letter has the time and the operator of that decision")
    recorded = await engine.read(
        lambda reader: reader.recorded_conversation(letter.delivery.conversation).records()
    )
    hold(
        [(one.at, one.delivery) for one in recorded if one.event is Event.DISMISSED]
        == [(99.0, letter.delivery.id)],
        "the records of a conversation have a discarded letter",
    )


async def operators_see_after_a_restart_what_was_there(subject: Subject) -> None:
    """Check that a durable engine shows operators the same state after a restart."""
    if not subject.durable:
        return
    sample, asking = SampleConversation(), SampleConversation(guards=(AskingGuard(),), since=100)
    received, failing, illegible = (sample.receive(sample.start(), "1") for _ in range(3))
    failed = sample.fail(failing.conversation, failing.ready[0])
    pending = asking.receive(asking.start("ada"), "1")
    outcomes = (received, failing, illegible, failed, pending)
    async with subject.open() as engine:
        for outcome in outcomes:
            await keep(engine, outcome)
        await engine.suspend(illegible.conversation.id, "nothing can be decided", 9.0)
        before = await _read_view(engine, pending)
    async with subject.open() as engine:
        hold(await _read_view(engine, pending) == before, "operators see the same state after a restart")
        for outcome in (received, pending):
            key = outcome.conversation.id
            hold(await _find(engine, key[:20]) == [key], "a conversation is found after a restart")
        found = await engine.read(lambda reader: tuple(reader.approvals(pending.conversation.id)))
        hold(found == pending.conversation.approvals(), "pending approvals are listed after a restart")
        letters = [letter.delivery for letter in await _dead(engine)]
        hold(letters == [failing.ready[0]], "a dead letter is there after a restart")
        suspended = [
            (one.id, one.reason) for one in await engine.read(lambda reader: list(reader.list_suspended()))
        ]
        hold(
            suspended == [(illegible.conversation.id, "nothing can be decided")],
            "a suspended conversation is listed, with the reason",
        )


async def operators_see_what_people_decided(subject: Subject) -> None:
    """Check that decisions are listed latest first, with principal, person, time and message."""
    sample = SampleConversation(guards=(AskingGuard(),))
    pending = [sample.receive(sample.start(name), "1") for name in ("ada", "bob")]
    async with subject.open() as engine:
        for outcome in pending:
            await keep(engine, outcome)
        if await _is_recorded(engine):
            hold(await _list_decisions(engine) == [], "no decision is listed before an answer")
        answers = [
            sample.approve(pending[0].conversation, pending[0].conversation.approvals()[0]),
            sample.deny(pending[1].conversation, pending[1].conversation.approvals()[0]),
        ]
        for outcome in answers:
            await keep(engine, outcome)
        if not await _is_recorded(engine):
            hold(await _list_decisions(engine) == [], "without steps no decision is known")
            return
        found = await _list_decisions(engine)
        seen = [(one.principal, one.granted, one.answer, one.by, one.reason, one.to, one.at) for one in found]
        ats = [outcome.conversation.touched for outcome in answers]
        hold(
            seen
            == [
                ("bob", False, "", "", "late", "worker", ats[1]),
                ("ada", True, "once", "somebody", "", "worker", ats[0]),
            ],
            "a decision says who decided what, when and about what",
        )
        approvals = [outcome.conversation.approvals()[0].id for outcome in reversed(pending)]
        hold([one.approval for one in found] == approvals, "and to which question it was the answer")
        await keep(engine, sample.close(answers[0].conversation))
        hold(
            len(await _list_decisions(engine, "ada")) == 1,
            "decisions are listed for one principal, also after its conversation has ended",
        )
        hold(
            await engine.read(lambda reader: len(reader.list_decisions(1))) == 1, "as many as were asked for"
        )


async def operators_see_what_was_charged(subject: Subject) -> None:
    """Check that charges are summed by listener, model, principal and payers; open reservations count in full."""
    sample = SampleConversation()
    received = sample.receive(sample.start(Principal("ada", payers=("desk",))), "1")
    steps = [received]
    for model, cost in (("small", 5), ("small", 7), ("large", None)):
        steps += sample.charge(steps[-1].conversation, received.ready[0], model, cost)
    async with subject.open() as engine:
        for outcome in steps:
            await keep(engine, outcome)
        found = await engine.read(lambda reader: list(reader.list_charges()))
        if not await _is_recorded(engine):
            hold(found == [], "without steps no charge is known")
            return
        seen = sorted((one.listener, one.model, one.principal, one.calls, one.tokens) for one in found)
        hold(
            seen == [("worker", "large", "ada", 1, 100), ("worker", "small", "ada", 2, 12)],
            "charges are summed by listener, model and principal",
        )
        hold(all(one.payers == ("desk",) for one in found), "charges count for the groups of their principal")
        late = steps[-1].conversation.touched
        recent = await engine.read(lambda reader: list(reader.list_charges(late)))
        hold([one.model for one in recent] == ["large"], "charges can be limited to those since a time")


async def operators_see_what_was_done(subject: Subject) -> None:
    """Check that conversations are summed by interval, principal and listener."""
    sample = SampleConversation()
    received = sample.receive(sample.start("ada"), "1")
    steps = [received]
    steps.append(sample.fail(steps[-1].conversation, received.ready[0]))
    steps.append(sample.receive(sample.start("bob"), "2"))
    async with subject.open() as engine:
        for outcome in steps:
            await keep(engine, outcome)
        opened = await engine.read(
            lambda reader: [one.summary.opened for one in reader.list_conversations().rows]
        )
        sums = await engine.read(lambda reader: list(reader.list_activity(min(opened), max(opened) + 1.0, 2)))
        own = await engine.read(
            lambda reader: list(reader.list_activity(min(opened), max(opened) + 1.0, 1, "bob"))
        )
        times = [one for one in sums if one.kind == "time"]
        hold(
            [one.conversations for one in times] in ([1, 1], [2, 0], [0, 2]),
            "each conversation counts in one interval",
        )
        by_name = {(one.kind, one.name): one for one in sums if one.kind != "time"}
        hold(by_name["principal", "ada"].conversations == 1, "and for its principal")
        if await _is_recorded(engine):
            hold(
                by_name["listener", "worker"].conversations == len(opened),
                "and for each listener that got a message",
            )
            hold(
                sum(one.failed for one in times) == by_name["principal", "ada"].failed == 1
                and by_name["principal", "bob"].failed == 0
                and by_name["listener", "worker"].failed == 1,
                "failed ones are counted everywhere",
            )
        hold(
            {one.name for one in own if one.kind == "principal"} == {"bob"}
            and own[0].conversations == 1
            and own[0].failed == 0,
            "sums can be limited to one owner",
        )


async def operators_see_effects_without_an_answer(subject: Subject) -> None:
    """Check that claimed and unknown effects are listed, oldest first, until the end of the retention."""
    sample = SampleConversation()
    received = sample.receive(sample.start("ada"), "1")
    steps = [received]
    for key in ("done", "unknown", "withdrawn"):
        steps.append(sample.claim(steps[-1].conversation, received.ready[0], key))
    steps.append(sample.conclude(steps[-1].conversation, received.ready[0], "done", '"yes"'))
    steps.append(sample.conclude(steps[-1].conversation, received.ready[0], "withdrawn", None))
    async with subject.open() as engine:
        for outcome in steps:
            await keep(engine, outcome)
        hold(await _list_effects(engine) == [("unknown", "claimed")], "a claim without an answer is listed")
        answered = sample.answer(steps[-1].conversation, received.ready[0])
        await keep(engine, answered)
        hold(
            await _list_effects(engine) == [("unknown", "unknown")], "its invocation has ended: it is unknown"
        )
        await keep(engine, sample.close(answered.conversation))
        if await _is_recorded(engine):
            hold(await _list_effects(engine) == [("unknown", "unknown")], "it outlives its conversation")


async def _list_effects(engine: Engine) -> list[tuple[str, str]]:
    return [
        (one.key, str(one.state)) for one in await engine.read(lambda reader: list(reader.list_effects()))
    ]


READER = (
    operators_see_effects_without_an_answer,
    operators_see_what_people_decided,
    operators_see_what_was_charged,
    operators_see_what_was_done,
    an_engine_says_what_it_can_do,
    a_conversation_is_found_and_listed,
    conversations_are_listed_by_page,
    conversations_are_found_by_their_content,
    operators_see_what_is_at_work,
    operators_see_what_waits_for_a_person,
    a_recorded_conversation_can_be_decided_again,
    what_a_listener_could_not_deal_with_is_listed,
    dead_letters_are_listed_in_their_order,
    operators_see_after_a_restart_what_was_there,
)
"""Every check of this module."""


def _make_outcomes(sample: SampleConversation) -> list[Outcome]:
    """Make the outcomes of a conversation from its first message to its end, with one approval."""
    pending = sample.receive(sample.start(), "1")
    approved = sample.approve(pending.conversation, pending.conversation.approvals()[0])
    answered = sample.answer(approved.conversation, approved.ready[0])
    return [pending, approved, answered, sample.close(answered.conversation)]


async def _expect_recording(engine: Engine, outcomes: list[Outcome], rules: Rules) -> None:
    key = outcomes[0].conversation.id
    found = await engine.read(lambda reader: reader.recorded_conversation(key))
    then = [record for outcome in outcomes for record in outcome.records]
    hold(
        [record.event for record in found.records()] == [record.event for record in then],
        "the records of a conversation are those that were committed, in order",
    )
    hold(list(found.records()) == then, "a record has all its fields: who, when, which message, why")
    answered = [record.detail for record in found.records() if isinstance(record.detail, ApprovalGiven)]
    hold(
        [(each.by, each.answer) for each in answered] == [("somebody", Answer.ONCE)],
        "a record says what a person decided, and which person",
    )
    difference = replay(found, rules)
    hold(difference is None, f"a recorded conversation is decided again as it was: {difference}")
    hold(
        await engine.read(lambda reader: reader.find_altered(reader.recorded_conversation(key))) is None,
        "an unaltered record is not reported as altered",
    )
    ends = [each.closed for each in await _list_conversations(engine) if each.id == key]
    hold(len(ends) == 1 and ends[0] is not None, "a closed conversation with steps is listed as closed")


async def _expect_no_recording(engine: Engine, key: str, expected: type[LookupError]) -> None:
    try:
        await engine.read(lambda reader: reader.recorded_conversation(key))
    except expected:
        return
    raise BrokenPromiseError(f"a conversation without recorded steps raises {expected.__name__}")


async def _loads_as_committed(engine: Engine, outcome: Outcome) -> bool:
    return await engine.read(lambda reader: reader.load(outcome.conversation.id)) == outcome.conversation


async def _is_recorded(engine: Engine) -> bool:
    def read_flag(reader: EngineReader) -> bool:
        return reader.recorded

    return await engine.read(read_flag)


async def _list_asking(engine: Engine) -> list[str]:
    return await engine.read(lambda reader: list(reader.list_asking()))


async def _find(engine: Engine, prefix: str) -> list[str]:
    return await engine.read(lambda reader: list(reader.find(prefix)))


async def _list_conversations(engine: Engine) -> list[Summary]:
    return await engine.read(lambda reader: list(reader.conversations()))


async def _list_page(
    engine: Engine, chosen: ConversationFilter = EVERY_CONVERSATION, after: str = "", limit: int = 50
) -> ConversationPage:
    return await engine.read(lambda reader: reader.list_conversations(chosen, after, limit))


async def _read_view(engine: Engine, pending: Outcome) -> tuple[object, ...]:
    active = await engine.read(lambda reader: list(reader.active()))
    return await _list_conversations(engine), active, await _loads_as_committed(engine, pending)


async def _list_decisions(engine: Engine, principal: str | None = None) -> list[DecidedApproval]:
    return await engine.read(lambda reader: list(reader.list_decisions(100, principal)))


async def _dead(engine: Engine) -> list[DeadLetter]:
    return await engine.read(lambda reader: list(reader.dead()))
