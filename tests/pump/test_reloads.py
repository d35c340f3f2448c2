"""A pump under a reload: running handlers finish in the old edition of its organism, the rest meets the new."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import anyio
import pytest

from agentserver import HandlerResponse, xmlify
from agentserver.contract import SystemError
from agentserver.core.records.audit import Event
from agentserver.core.state.approvals import Answer as Said
from agentserver.core.state.approvals import ApprovalAnswer
from agentserver.engines.memory import MemoryEngine
from agentserver.engines.sqlite.engine import SqliteEngine
from agentserver.engines.sqlite.file import JournalOptions
from agentserver.guards.builtin import ApprovalGuard, PeersGuard
from agentserver.pump.editions import Callee, Edition
from agentserver.pump.pump import PumpHooks
from tests.core.paper import Answer, Ask, Note, listener, rules
from tests.pump.desk import Person, desk, pass_to_sink, wait_until

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["memory", "journal"])
def engine(request, tmp_path):
    return (
        MemoryEngine() if request.param == "memory" else SqliteEngine(JournalOptions(tmp_path / "j.sqlite"))
    )


def edition(*pairs, payloads=(Answer, Note), guards=None, **limits):
    shop = rules(*(one for one, _ in pairs), payloads=payloads, guards=guards, **{"drain": 1.0, **limits})
    return Edition(shop, {one.name: Callee(one, handler) for one, handler in pairs})


def say_word(word):
    async def say(payload, metadata):
        return HandlerResponse.respond(Answer(f"{word}: {payload.text}"))

    return say


class Slow:
    """A handler that answers once the test releases it."""

    def __init__(self, word):
        self.word, self.began, self.go = word, 0, asyncio.Event()

    async def __call__(self, payload, metadata):
        self.began += 1
        await self.go.wait()
        return HandlerResponse.respond(Answer(f"{self.word}: {payload.text}"))


async def test_the_next_message_meets_the_new_code(engine):
    async with engine, desk((listener("a"), say_word("old")), engine=engine) as d:
        handle = await d.open()
        assert (await d.ask(Ask("1"), handle=handle)).text == "old: 1"
        d.pump.reloads.swap(edition((listener("a"), say_word("new"))))
        assert (await d.ask(Ask("2"), handle=handle)).text == "new: 2"
        assert (await d.ask(Ask("3"))).text == "new: 3"
        await d.pump.reloads.wait_moved()


async def test_running_work_finishes_in_the_old_code_and_waiting_work_of_its_conversation_meets_the_new(
    engine,
):
    slow = Slow("old")
    one = listener("a", concurrency=1)
    async with engine, desk((one, slow), engine=engine) as d:
        first, other = await d.open(), await d.open()
        asked = [asyncio.create_task(d.ask(Ask(text), handle=first)) for text in ("1", "2")]
        await wait_until(lambda: slow.began)
        remote = asyncio.create_task(d.ask(Ask("3"), handle=other))
        d.pump.reloads.swap(edition((listener("a", concurrency=2), say_word("new"))))
        assert (await remote).text == "new: 3"  # nobody else waits for the handler
        assert not any(task.done() for task in asked)
        slow.go.set()
        assert [(await task).text for task in asked] == ["old: 1", "new: 2"]
        await d.pump.reloads.wait_moved()
        assert slow.began == 1


async def test_a_delivery_for_a_listener_that_is_gone_fails_as_after_a_restart(engine):
    slow = Slow("old")
    async with engine, desk((listener("a", concurrency=1), slow), engine=engine) as d:
        handle = await d.open()
        running, parked = [asyncio.create_task(d.ask(Ask(text))) for text in ("1", "2")]
        await wait_until(lambda: slow.began)
        behind = asyncio.create_task(d.ask(Ask("3"), handle=handle))
        await wait_until(lambda: d.pump._accounts.pending == 3)
        d.pump.reloads.swap(edition((listener("b"), say_word("new"))))
        assert isinstance(await parked, SystemError)
        assert isinstance(await behind, SystemError)
        slow.go.set()
        assert (await running).text == "old: 1"
        assert isinstance(await d.ask(Ask("4"), handle=handle), SystemError)
        assert (await d.ask(Ask("5"), "b", handle=handle)).text == "new: 5"


def other_ask():
    @xmlify
    @dataclass
    class Ask:
        number: int

    return Ask


OtherAsk = other_ask()


async def test_a_message_that_waits_and_is_no_longer_valid_fails_as_after_a_restart(engine):
    slow, told = Slow("old"), []

    async def other(payload, metadata):
        told.append(payload)
        return HandlerResponse.respond(Answer(str(payload.number)))

    one = listener("a", concurrency=1)
    async with engine, desk((one, slow), engine=engine) as d:
        handle = await d.open()
        asked = [asyncio.create_task(d.ask(Ask(text), handle=handle)) for text in ("1", "2")]
        await wait_until(lambda: slow.began and d.pump._accounts.pending == 2)
        later = edition((listener("a", payloads=(OtherAsk,)), other))
        d.pump.reloads.swap(later)
        slow.go.set()
        assert (await asked[0]).text == "old: 1"
        assert isinstance(await asked[1], SystemError)
        d.rules = later.rules
        assert (await d.ask(OtherAsk(7), handle=handle)).text == "7"
        assert told == [OtherAsk(7)]


@pytest.mark.parametrize(
    ("said", "later", "told"),
    [
        (
            "once",
            ((listener("a", "sink"), pass_to_sink), (listener("sink"), say_word("new"))),
            "told: new: hi",
        ),
        (
            "deny",
            ((listener("a", "sink"), pass_to_sink), (listener("sink"), say_word("new"))),
            "told: denied",
        ),
        ("once", ((listener("a"), pass_to_sink),), "told: internal"),
        ("once", ((listener("sink"), say_word("new")),), None),
    ],
    ids=["granted", "denied", "receiver gone", "sender gone"],
)
async def test_a_message_waiting_for_a_person_during_a_reload_is_answered_once_by_the_new_rules(
    engine, said, later, told
):
    before = ((listener("a", "sink"), pass_to_sink), (listener("sink"), say_word("old")))
    guards, people = [PeersGuard(), ApprovalGuard({"sink": {}})], PumpHooks(None, Person(), None)
    async with engine, desk(*before, guards=guards, people=people, engine=engine) as d:
        asked = asyncio.create_task(d.ask(Ask("hi"), "a"))
        await wait_until(d.pump.approvals)
        d.pump.reloads.swap(edition(*later, guards=guards))
        await d.pump.reloads.wait_moved()
        (one,) = d.pump.approvals()
        answered = ApprovalAnswer(one.id, one.digest, Said(said), "somebody")
        both = [d.pump.answer(one.delivery.conversation, answered) for _ in range(2)]
        assert sorted(await asyncio.gather(*both)) == [False, True]
        found = await asked
        assert isinstance(found, SystemError) if told is None else found.text == told
        assert not d.pump.approvals()


@pytest.mark.parametrize("later", ["a", "b"])
async def test_a_repetition_whose_delay_ends_after_a_reload_runs_once_in_the_new_code(engine, later):
    tried = []

    async def fail_load(payload, metadata):
        tried.append("old")
        raise ValueError("not yet")

    async with engine, desk((listener("a", retries=3), fail_load), engine=engine) as d:
        asked = asyncio.create_task(d.ask(Ask("hi")))
        await wait_until(lambda: tried and not d.pump.queues()["a"][1])
        d.pump.reloads.swap(edition((listener(later, retries=3), say_word("new"))))
        found = await asked
        assert tried == ["old"]
        assert found.text == "new: hi" if later == "a" else isinstance(found, SystemError)


async def test_two_reloads_while_a_handler_runs(engine):
    slow = Slow("old")
    async with engine, desk((listener("a", concurrency=1), slow), engine=engine) as d:
        handle = await d.open()
        asked = [asyncio.create_task(d.ask(Ask(text), handle=handle)) for text in ("1", "2")]
        await wait_until(lambda: slow.began)
        d.pump.reloads.swap(edition((listener("a"), say_word("second"))))
        await anyio.lowlevel.checkpoint()
        d.pump.reloads.swap(edition((listener("a"), say_word("third"))))
        slow.go.set()
        assert [(await task).text for task in asked] == ["old: 1", "third: 2"]
        await d.pump.reloads.wait_moved()


async def test_a_conversation_that_ends_meanwhile_keeps_nobody_waiting(engine):
    slow = Slow("old")
    async with engine, desk((listener("a", concurrency=1), slow), engine=engine) as d:
        handle = await d.open()
        asked = asyncio.create_task(d.ask(Ask("1"), handle=handle))
        await wait_until(lambda: slow.began)
        d.pump.reloads.swap(edition((listener("a"), say_word("new"))))
        await handle.close()
        await d.pump.reloads.wait_moved()
        await asyncio.wait([asked])
        assert (await d.ask(Ask("2"))).text == "new: 2"


async def test_a_lower_limit_of_a_listener_applies_to_later_work(engine):
    slow, later = Slow("old"), Slow("new")
    async with engine, desk((listener("a", concurrency=3), slow), engine=engine) as d:
        asked = [asyncio.create_task(d.ask(Ask(str(n)))) for n in range(5)]
        await wait_until(lambda: slow.began == 3)
        d.pump.reloads.swap(edition((listener("a", concurrency=1), later)))
        slow.go.set()
        await wait_until(lambda: later.began == 1)
        await anyio.lowlevel.checkpoint()
        later.go.set()
        answers = sorted([(await task).text.split(":")[0] for task in asked])
        assert answers == ["new", "new", "old", "old", "old"]


async def test_the_principals_whose_name_becomes_a_listeners(engine):
    async with engine, desk((listener("a"), say_word("old")), engine=engine) as d:
        handle = await d.open()
        await d.ask(Ask("1"), handle=handle)
        assert d.pump.reloads.list_unfit(edition((listener("console"), say_word("new")))) == ("console",)
        assert d.pump.reloads.list_unfit(edition((listener("b"), say_word("new")))) == ()


async def test_records_tell_of_each_message_once(engine):
    slow = Slow("old")
    async with engine, desk((listener("a", concurrency=1), slow), engine=engine) as d:
        handle = await d.open()
        asked = [asyncio.create_task(d.ask(Ask(str(n)), handle=handle)) for n in range(6)]
        await wait_until(lambda: slow.began)
        d.pump.reloads.swap(edition((listener("a", concurrency=1), say_word("new"))))
        slow.go.set()
        for task in asked:
            await task
        done = [record.delivery for record in d.records if record.event is Event.HANDLED]
        assert len(done) == len(set(done)) == 6
