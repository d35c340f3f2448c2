"""What goes wrong with one message of a conversation is the end of that message alone."""

from __future__ import annotations

from contextlib import closing

import anyio
import pytest

from agentserver import HandlerResponse, SystemError
from agentserver.core.decide import decisions
from agentserver.core.records.audit import Event
from agentserver.engines.conformance.sample import at_work
from agentserver.engines.journal.reader import Reader
from agentserver.engines.memory import MemoryEngine
from agentserver.engines.sqlite.engine import SqliteEngine
from agentserver.engines.sqlite.file import JournalOptions, open_reading
from agentserver.guards.builtin import PeersGuard
from agentserver.history.replay import replay
from agentserver.ports import UnstorableError
from agentserver.pump.boundary import STREAK
from tests.core.paper import Answer, Ask, listener
from tests.pump.desk import answer, desk

pytestmark = pytest.mark.anyio
respond = HandlerResponse.respond


class Fragile:
    """A guard that raises where the test says, for messages that say ``poison``.

    Its memory counts observed and missed messages.
    """

    name = "fragile"

    def __init__(self, *where):
        self.where = set(where)

    def _at(self, where, element):
        if where in self.where and "poison" in "".join(element.itertext()):
            raise LookupError("a bug of ours")

    def begin(self, trust):
        return 0, 0

    def observe(self, memory, delivery, element, at):
        self._at("observe", element)
        observed, missed = memory or (0, 0)
        return observed + 1, missed

    def judge(self, memory, proposal, at):
        self._at("judge", proposal.element)

    def approve(self, memory, about):
        return memory

    def miss(self, memory):
        if "miss" in self.where:
            raise LookupError("a bug of ours")
        observed, missed = memory or (0, 0)
        return observed, missed + 1

    def dump(self, memory):
        if "dump" in self.where and memory == (1, 0):
            raise ArithmeticError("a bug of ours")
        return {"counts": bytes(memory)}

    def load(self, parts):
        observed, missed = parts["counts"]
        return observed, missed


def guard_with(guard):
    return (PeersGuard(), guard)


async def echo(payload, metadata):
    return respond(Answer(payload.text))


async def poison(payload, metadata):
    return respond(Answer("poison"))


@pytest.mark.parametrize("where", ["judge", "observe", "accept", "receive"])
async def test_a_message_that_cannot_be_dealt_with_is_given_up_alone(where, monkeypatch, caplog):
    for name in {"accept", "receive"} & {where}:
        real = getattr(decisions, name)

        def break_observe(conversation, about, *more, real=real):
            if b"poison" in (about.message if hasattr(about, "message") else about.data):
                raise LookupError("a bug of ours")
            return real(conversation, about, *more)

        monkeypatch.setattr(decisions, name, break_observe)

    guard = Fragile(where)
    async with desk((listener("a"), echo), guards=guard_with(guard), concurrency=1) as d:
        handle = await d.open()
        for _ in range(3 * STREAK):  # all in one conversation: that is its own trouble
            reply = await d.ask(Ask("poison"), handle=handle)
            assert (type(reply), reply.code) == (SystemError, "internal")
        assert await d.ask(Ask("x"), handle=handle) == Answer("x")
        assert await d.ask(Ask("y")) == Answer("y")
        assert d.pump._accounts.pending == 0
    assert caplog.text.count("a bug of ours") >= 3 * STREAK
    assert "Traceback" in caplog.text


async def test_guards_learn_of_messages_that_they_could_not_observe():
    guard = Fragile("observe")
    async with desk((listener("a"), echo), guards=guard_with(guard)) as d:
        handle = await d.open()
        await d.ask(Ask("poison"), handle=handle)
        assert d.pump.conversation(handle.id).memory["fragile"] == (0, 1)


async def test_guards_observe_inputs_of_a_listener_though_they_cannot_judge_its_output():
    async with desk((listener("a"), poison), guards=guard_with(Fragile("judge"))) as d:
        handle = await d.open()
        await d.ask(Ask("x"), handle=handle)
        assert d.pump.conversation(handle.id).memory["fragile"] == (1, 0)


async def test_guards_miss_no_message_that_reached_no_listener(monkeypatch):
    def break_observe(*_):
        raise LookupError("a bug of ours")

    monkeypatch.setattr(decisions, "accept", break_observe)
    async with desk((listener("a"), answer), guards=guard_with(Fragile())) as d:
        handle = await d.open()
        assert (await d.ask(Ask("x"), handle=handle)).code == "internal"
        assert d.pump.conversation(handle.id).memory["fragile"] == (0, 0)


class Choosy(MemoryEngine):
    """Cannot keep what says ``poison``."""

    async def commit(self, claim, outcome):
        if any(b"poison" in event.message for event in outcome.replies if hasattr(event, "message")):
            raise UnstorableError("it does not fit")
        await super().commit(claim, outcome)


async def test_an_outcome_that_cannot_be_kept_is_given_up():
    async with desk((listener("a"), echo), engine=Choosy()) as d:
        assert (await d.ask(Ask("poison"))).code == "internal"
        assert await d.ask(Ask("x")) == Answer("x")


async def test_failures_in_a_row_in_different_conversations_stop_the_server_and_its_queue_is_kept():
    engine = MemoryEngine()

    async def one(d):
        told.append(await d.ask(Ask("poison")))

    told = []
    with pytest.raises(ExceptionGroup) as caught:
        async with (
            anyio.create_task_group() as tasks,
            desk((listener("a"), echo), engine=engine, guards=guard_with(Fragile("observe"))) as d,
        ):
            for _ in range(5 * STREAK):
                tasks.start_soon(one, d)
            await anyio.sleep_forever()
    assert caught.group_contains(LookupError)
    dead = [record for record in d.records if record.event is Event.FAILED]
    kept = await at_work(engine)
    received = [record for record in d.records if record.event is Event.RECEIVED]
    assert kept
    assert (len(dead), len(kept)) == (STREAK - 1, len(received) - len(dead))


async def test_a_success_between_failures_keeps_the_server_up():
    async with desk((listener("a"), echo), guards=guard_with(Fragile("observe"))) as d:
        for number in range(3 * STREAK):
            text = "x" if number % STREAK == 0 else "poison"
            assert (await d.ask(Ask(text)) == Answer("x")) is (text == "x")


@pytest.mark.parametrize("where", [("judge",), ("observe",), ("dump",)])
async def test_an_abandoned_message_is_replayed_alike(tmp_path, where):
    guard = Fragile(*where)

    place = JournalOptions(tmp_path / "j.db")
    engine = SqliteEngine(place, guard_with(guard))
    async with engine, desk((listener("a"), poison), engine=engine, guards=guard_with(guard)) as d:
        handle = await d.open()
        assert (await d.ask(Ask("x" if "judge" in where else "poison"), handle=handle)).code == "internal"
        live = d.pump.conversation(handle.id)

    def look():
        with closing(open_reading(place.path)) as connection:
            reader = Reader(connection, guard_with(guard))
            return reader.recorded_conversation(handle.id), reader.load(handle.id), reader.dead()

    story, kept, (dead,) = await anyio.to_thread.run_sync(look)
    assert kept.memory == live.memory
    guard.where.clear()  # a mended server decides as the one before it did
    assert replay(story, d.rules) is None
    assert dead.reason.startswith("internal: ")
