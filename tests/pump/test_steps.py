"""A commit runs by itself, and later work waits for it."""

from __future__ import annotations

import asyncio

import pytest

from agentserver.engines.conformance.suite import SampleConversation
from agentserver.ports import Claim, ConflictError, EngineError, UnstorableError
from agentserver.pump.steps import Steps, UndecidedError
from tests.pump.desk import wait_until

pytestmark = pytest.mark.anyio


class Slow:
    """An engine whose commits are done when a test says so."""

    prompt = False

    def __init__(self):
        self.commits = []

    def commit(self, claim, outcome):
        self.commits.append((outcome, asyncio.get_running_loop().create_future()))
        return self.commits[-1][1]

    def done(self, error=None):
        for _, commit in self.commits:
            if commit.done():
                continue
            if error is None:
                commit.set_result(None)
            else:
                commit.set_exception(error)


class Desk:
    """Steps of one conversation, and released effects."""

    def __init__(self):
        self.story, self.engine = SampleConversation(), Slow()
        self.conversation = self.story.receive(self.story.start(), "0").conversation
        self.live = {self.conversation.id: self.conversation}
        self.released, self.told = [], []
        self.steps = Steps(
            self.engine,
            {self.conversation.id: Claim(1, 1)},
            self.live,
            self.find,
            self.release,
            self.told.append,
        )

    async def find(self, conversation):
        return self.live.get(conversation)

    def release(self, outcome):
        self.released.append(outcome)
        self.live[outcome.conversation.id] = outcome.conversation

    def decide(self, now):
        return self.story.receive(now, str(now.version))

    def add(self, since, principal="console"):
        """Add a conversation, whose ids begin at a number of their own."""
        added = SampleConversation(since=since)
        conversation = added.receive(added.start(principal), "0").conversation
        self.live[conversation.id] = conversation
        self.steps._claims[conversation.id] = Claim(1, 1)
        return conversation

    async def hand_over(self, conversation=None):
        key = (conversation or self.conversation).id
        return await self.steps.hand_over(key, self.decide, self.told.append)


async def test_a_step_is_handed_over_at_once_and_the_next_follows_its_commit():
    desk = Desk()
    letting = asyncio.create_task(desk.steps.let_go())
    assert await desk.hand_over()
    assert (desk.released, desk.told, len(desk.engine.commits)) == ([], [], 1)
    assert not await desk.hand_over(), "one step at a time"
    after = asyncio.create_task(desk.steps.take(desk.conversation.id, desk.decide))
    await wait_until(lambda: desk.steps.lock.inside[desk.conversation.id])
    assert len(desk.engine.commits) == 1
    desk.engine.done()
    await wait_until(lambda: len(desk.engine.commits) == 2)
    assert [one.conversation.version for one in desk.released] == [2]
    assert desk.told == [True]
    desk.engine.done()
    assert await after
    assert [one.before for one, _ in desk.engine.commits] == [1, 2]
    assert desk.steps.lock.inside == {}
    letting.cancel()


async def test_each_commit_of_a_transaction_is_released_and_the_next_transaction_as_well():
    desk = Desk()
    letting = asyncio.create_task(desk.steps.let_go())
    for conversation in (None, desk.add(100), desk.add(200)):
        assert await desk.hand_over(conversation)
    for _, commit in desk.engine.commits[:2]:
        commit.set_result(None)
    await wait_until(lambda: len(desk.released) == 2)
    desk.engine.done()
    await wait_until(lambda: len(desk.released) == 3)
    assert (desk.told, desk.steps.lock.inside) == ([True] * 3, {})
    letting.cancel()


async def test_a_commit_that_is_refused_at_once_does_not_wait_for_an_earlier_one():
    desk = Desk()
    letting = asyncio.create_task(desk.steps.let_go())
    assert await desk.hand_over()
    commit = desk.engine.commit

    def refuse(claim, outcome):
        refused = commit(claim, outcome)
        refused.set_exception(EngineError("full"))
        return refused

    desk.engine.commit = refuse
    assert await desk.hand_over(desk.add(100))
    await wait_until(lambda: desk.told)
    assert (desk.told, desk.released) == ([False], [])
    desk.engine.done()
    await wait_until(lambda: desk.released)
    letting.cancel()


async def test_a_commit_behind_one_that_is_refused_at_once_is_released():
    desk = Desk()
    letting = asyncio.create_task(desk.steps.let_go())
    commit = desk.engine.commit

    def refuse(claim, outcome):
        desk.engine.commit = commit
        refused = commit(claim, outcome)
        refused.set_exception(EngineError("full"))
        return refused

    desk.engine.commit = refuse
    assert await desk.hand_over()
    assert await desk.hand_over(desk.add(100))
    await wait_until(lambda: desk.told)
    desk.engine.done()
    await wait_until(lambda: desk.released)
    assert desk.told == [False, True]
    letting.cancel()


async def test_a_commit_of_another_principal_that_ends_first_is_released_first():
    desk = Desk()
    letting = asyncio.create_task(desk.steps.let_go())
    for conversation in (None, desk.add(100), desk.add(200, "stranger"), desk.add(300, "stranger")):
        assert await desk.hand_over(conversation)
    for number in (2, 3):
        _, commit = desk.engine.commits[number]
        commit.set_result(None)
        await wait_until(lambda number=number: len(desk.released) == number - 1)
    assert {one.conversation.principal for one in desk.released} == {"stranger"}
    desk.engine.done()
    await wait_until(lambda: len(desk.released) == 4)
    letting.cancel()


@pytest.mark.parametrize("error", [ConflictError("c"), UnstorableError("no"), EngineError("full")], ids=repr)
async def test_a_failed_commit_is_reported_and_releases_nothing(error):
    desk = Desk()
    letting = asyncio.create_task(desk.steps.let_go())
    assert await desk.hand_over()
    desk.engine.done(error)
    await wait_until(lambda: desk.told)
    assert (desk.told, desk.released, desk.steps.lock.inside) == ([False], [], {})
    letting.cancel()


async def test_workers_wait_while_the_storage_is_down():
    desk = Desk()
    letting = asyncio.create_task(desk.steps.let_go())
    assert await desk.hand_over()
    desk.engine.done(EngineError("full"))
    await wait_until(lambda: desk.told)
    assert not await desk.hand_over()
    worker = asyncio.create_task(desk.steps.take(desk.conversation.id, desk.decide))
    await wait_until(lambda: len(desk.engine.commits) == 2)
    assert not worker.done()
    desk.engine.done()
    assert await worker
    assert await desk.hand_over(), "and then no more"
    letting.cancel()


async def test_an_impossible_decision_leaves_nothing_behind():
    desk = Desk()
    with pytest.raises(UndecidedError):
        await desk.steps.hand_over(desk.conversation.id, lambda now: 1 // 0, desk.told.append)
    assert await desk.steps.hand_over(desk.conversation.id, lambda now: None, desk.told.append)
    assert (desk.engine.commits, desk.told, desk.steps.lock.inside) == ([], [], {})


async def test_pending_effects_are_released_before_the_end():
    desk = Desk()
    assert await desk.hand_over()
    ending = asyncio.create_task(desk.steps.stop())
    await asyncio.sleep(0)
    assert not ending.done()
    desk.engine.done()
    await ending
    assert (len(desk.released), desk.told) == (1, [True])
    late = asyncio.create_task(desk.hand_over())
    await wait_until(lambda: len(desk.engine.commits) == 2)
    assert not late.done(), "now it is waited for"
    desk.engine.done()
    assert await late
    assert len(desk.released) == 2


async def test_a_fault_in_releasing_is_raised_and_blocks_no_one():
    desk = Desk()

    def raise_zero_division(outcome):
        raise ZeroDivisionError

    desk.steps._release = raise_zero_division
    letting = asyncio.create_task(desk.steps.let_go())
    assert await desk.hand_over()
    desk.engine.done()
    with pytest.raises(ZeroDivisionError):
        await letting
    assert desk.steps.lock.inside == {}


async def test_a_patient_step_waits_until_its_conversation_can_be_read():
    """It was abandoned, and its effects were missing until the next start."""
    desk = Desk()
    failures = [EngineError("away"), EngineError("away")]

    async def find(conversation):
        if failures:
            raise failures.pop()
        desk.live[conversation] = desk.conversation
        return desk.conversation

    desk.steps._find = find
    desk.live.clear()
    taking = asyncio.create_task(desk.steps.take(desk.conversation.id, desk.decide))
    await wait_until(lambda: desk.engine.commits or taking.done())
    desk.engine.done()
    assert await taking
    failures.append(EngineError("away"))
    desk.live.clear()
    with pytest.raises(EngineError):
        await desk.steps.take(desk.conversation.id, desk.decide, patient=False)
