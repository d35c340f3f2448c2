"""Messages that wait for a person are seen, and answered, at every process; each answer counts once."""

from __future__ import annotations

import asyncio

import pytest

from agentserver.core.messages import Reply
from agentserver.core.state.approvals import Answer as Said
from agentserver.core.state.approvals import ApprovalAnswer
from agentserver.guards.builtin import ApprovalGuard, PeersGuard
from agentserver.ports import NoOutcomeError
from agentserver.pump import approvals as waiting
from agentserver.pump.pump import PumpHooks
from tests.core.paper import Ask, listener
from tests.pump.desk import Person, answer, pass_to_sink, wait_until
from tests.pump.pair import pair, watch_events

pytestmark = pytest.mark.anyio


class LeftHere:
    """Answers that the command line stores while a process runs."""

    def __init__(self):
        self.said = []

    async def list_pending(self):
        return tuple(self.said)

    async def list_verdicts(self):
        return ()

    async def drop(self, approvals):
        self.said = [one for one in self.said if one[0].approval not in approvals]


def shop(**settings):
    guards = [PeersGuard(), ApprovalGuard({"sink": {}})]
    people = settings.pop("people", PumpHooks(None, Person()))
    return pair(
        (listener("a", "sink"), pass_to_sink),
        (listener("sink"), answer),
        guards=guards,
        people=people,
        **settings,
    )


async def ask_a(two):
    """Something of a's that waits for a person, as b sees it."""
    handle = await two.a.open()
    await handle.send(two.a.markup(Ask("hi")), "a")
    handle.detach()
    await wait_until(lambda: two.a.pump.approvals() and two.b.pump.approvals() == two.a.pump.approvals())
    (approval,) = two.b.pump.approvals()
    assert two.b.pump.conversation(handle.id).approvals() == (approval,)
    return handle.id, approval


def says(approval, said, by="ada"):
    return ApprovalAnswer(approval.id, approval.digest, said, by)


async def test_an_answer_given_at_another_process_counts_there_and_once():
    async with shop() as two:
        key, approval = await ask_a(two)
        assert await two.b.pump.answer(key, says(approval, Said.ONCE))
        assert not await two.b.pump.answer(key, says(approval, Said.ONCE))
        found, _ = await watch_events(two.b.pump, key, enough=1)
        assert two.b.decode(found[0]).text == "told: re: hi"
        await wait_until(lambda: not two.b.pump.approvals() and not two.a.pump.approvals())


async def test_a_late_answer_is_not_reported_as_one_to_an_unknown_question():
    async with shop() as two:
        key, approval = await ask_a(two)
        two.b.pump.entrance.handles.owners.patience = 0.001
        two.engines["a"].still = True
        with pytest.raises(NoOutcomeError):
            await two.b.pump.answer(key, says(approval, Said.ONCE))
        request = approval.delivery.request
        with pytest.raises(NoOutcomeError):
            await two.b.pump.entrance.cancel(None, key, request, "ada")
        two.go_on("a")
        await wait_until(lambda: not two.a.pump.approvals())


async def test_of_two_different_answers_at_once_one_counts():
    async with shop() as two:
        key, approval = await ask_a(two)
        answers = [
            two.a.pump.answer(key, says(approval, Said.ONCE)), two.b.pump.answer(key, says(approval, Said.DENY)),
        ]  # fmt: skip
        assert sorted(await asyncio.gather(*answers)) == [False, True]
        found, _ = await watch_events(two.b.pump, key, enough=1)
        assert len([event for event in found if isinstance(event, Reply)]) == 1


async def test_an_approval_of_another_message_counts_nowhere():
    async with shop() as two:
        key, approval = await ask_a(two)
        assert not await two.b.pump.answer(key, says(approval, Said.ONCE)._replace(digest="0" * 64))
        assert not await two.b.pump.answer(key, says(approval, Said.ONCE)._replace(approval="another"))
        assert two.b.pump.approvals() == (approval,)


async def test_who_asked_may_not_approve_at_another_process_either():
    async with shop(approvers="others") as two:
        key, approval = await ask_a(two)
        assert not await two.b.pump.answer(key, says(approval, Said.ONCE, by="console"))
        assert two.b.pump.approvals() == (approval,)


async def test_an_answer_left_at_another_process_is_passed_on(monkeypatch):
    monkeypatch.setattr(waiting, "ANSWERS_NAP", 0.002)
    here = LeftHere()
    people = {"a": PumpHooks(None, Person()), "b": PumpHooks(None, None, here)}
    async with shop(people=people) as two:
        key, approval = await ask_a(two)
        here.said.append((says(approval, Said.DENY), approval.at + 1))
        await wait_until(lambda: not here.said)
        found, _ = await watch_events(two.b.pump, key, enough=1)
        assert "denied" in two.b.decode(found[0]).text


async def test_a_reader_of_records_at_another_process_learns_of_a_missed_question():
    async with shop() as two:
        reading = asyncio.ensure_future(anext(two.b.pump.entrance.stream.read("console")))
        await ask_a(two)
        assert (await reading).missed == 1
