"""Tests that say how a person answers."""

from __future__ import annotations

from dataclasses import replace

import anyio
import pytest

from agentserver import HandlerResponse, SystemError
from agentserver.assembly import build
from agentserver.config.keys.models import Journal
from agentserver.contract import Code
from agentserver.core.blueprint import Limits
from agentserver.testing import Answer, ShownApproval, listener, organism, organism_of
from tests.machine import HANGS
from tests.pump.desk import wait_until
from tests.testing.test_kit import Ask, Told, library

pytestmark = pytest.mark.anyio


async def desk(payload: Ask | Told | SystemError, metadata):
    """Asks the library, and passes on its answer."""
    if isinstance(payload, Ask):
        return HandlerResponse(payload, "library")
    return HandlerResponse.respond(Told(payload.what if isinstance(payload, Told) else str(payload.code)))


DESK = organism_of(
    listener("desk", desk, Ask, peers=["library"]),
    listener("library", library, approval=True),
    limits=Limits(drain=1),
)


CAREFUL = organism_of(
    listener("desk", desk, Ask, peers=["library"]),
    listener("library", library, Ask, approval={"when": {"what": {"in": ["owls"]}}}),
)


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (Answer.ONCE, "all about owls"),
        (Answer.ALWAYS, "all about owls"),
        (Answer.DENY, "denied"),
        (None, "denied"),
    ],
)
async def test_a_fixed_answer(answer, told):
    async with organism(DESK, approve=answer) as o:
        assert await o.ask(Ask("owls"), to="desk") == Told(told)
        assert len(o.approvals) == (answer is not None)


async def test_a_function_sees_the_question_and_answers():
    def approve(asked: ShownApproval):
        return Answer.ONCE if asked.payload == Ask("owls") else Answer.DENY

    async with organism(DESK, approve=approve) as o:
        assert await o.ask(Ask("owls"), to="desk") == Told("all about owls")
        assert await o.ask(Ask("bats"), to="desk") == Told("denied")
        first, second = o.approvals
        assert (first.sender, first.to, second.payload) == ("desk", "library", Ask("bats"))
        assert first.questions == ("desk wants to send this to library, which needs an approval.",)


async def test_only_messages_that_meet_a_condition_are_asked_about():
    async with organism(CAREFUL, approve=Answer.DENY) as o:
        assert await o.ask(Ask("bats"), to="desk") == Told("all about bats")
        assert await o.ask(Ask("OWLS"), to="desk") == Told("denied")
        (asked,) = o.approvals
        told = "desk wants to send this to library, which needs an approval: what is one of owls."
        assert asked.questions == (told,)


async def test_a_permanent_approval_is_not_asked_again():
    async with organism(DESK, approve=Answer.ALWAYS) as o:
        for _ in range(2):
            await o.ask(Ask("owls"), to="desk")
        assert len(o.approvals) == 1


async def test_an_unanswered_question_is_answered_later():
    async with organism(DESK, approve=lambda asked: None) as o:
        await o.send(Ask("owls"), to="desk")
        asked = await o.approval()
        assert [thread.state for thread in o.threads() if thread.owner == "library"] == ["waiting"]
        await o.answer(asked, Answer.ONCE)
        assert await o.drain() == [Told("all about owls")]
        with pytest.raises(ValueError, match="desk -> library no longer waits"):
            await o.answer(asked, Answer.ONCE)


async def test_a_failing_function_fails_the_test():
    def approve(asked):
        raise AssertionError("not this")

    with pytest.raises(AssertionError, match="not this"):
        async with organism(DESK, approve=approve, timeout=HANGS) as o:
            await o.ask(Ask("owls"), to="desk")


async def test_strict_reports_a_denial_of_the_tests_own_message():
    async with organism(DESK) as o:
        assert (await o.ask(Ask("x"), to="library")).code is Code.DENIED


@pytest.mark.parametrize("durable", [True, False])
async def test_a_server_with_a_journal_waits_for_an_answer_and_one_without_refuses(tmp_path, durable):
    """An answer may be left in the journal, though this process asks nobody."""
    server = build(replace(DESK, project=tmp_path, journal=Journal()), durable=durable)
    async with server:
        handle = await server.open("somebody")
        codec = server.rules.codecs.of(Ask)
        replies = []

        async def ask():
            replies.append(await handle.ask(codec.encode(Ask("owls")).encode(), "library"))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await wait_until(lambda: server.approvals() if durable else replies)
            assert len(server.approvals()) == durable
            assert [reply.error for reply in replies] == [True] * (not durable)
            tasks.cancel_scope.cancel()
