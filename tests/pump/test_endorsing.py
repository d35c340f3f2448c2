"""Endorsed documents through running servers: over a restart, a crash, a replay and two servers, in both databases."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager, closing

import anyio
import pytest

from agentserver import HandlerResponse
from agentserver.core.messages import Moment
from agentserver.core.state.approvals import Answer, ApprovalAnswer
from agentserver.engines.journal.reader import Reader
from agentserver.engines.journal.records import put_answer
from agentserver.engines.postgres import PostgresEngine, PostgresOptions
from agentserver.engines.sqlite.engine import SqliteEngine
from agentserver.engines.sqlite.file import JournalOptions, open_reading
from agentserver.guards.lineage.guard import LineageGuard, TrustSettings
from agentserver.history.fork import ForkPlan, fork
from agentserver.history.replay import replay
from agentserver.pump.pump import PumpHooks
from tests.core.paper import Ask, Note, listener, rules
from tests.guards.lineage.test_delegation import PAYLOADS, POLICY, Bill
from tests.guards.lineage.test_endorsing import DOCUMENT, FIRST, SECOND, THIRD
from tests.pump.desk import desk, wait_until

pytestmark = pytest.mark.anyio

LISTENERS = (
    listener("agent", "mail", "bank", payloads=(Ask, Note, Bill)),
    listener("mail", payloads=(Ask,)),
    listener("bank", payloads=(type(FIRST),)),
)
MADE = rules(*LISTENERS, payloads=PAYLOADS)
ROWS = {"first": FIRST, "second": SECOND, "third": THIRD}


class Office:
    """An agent that reads the document or pays a row of it, as the principal says, and servers with it."""

    def __init__(self, storage) -> None:
        self.storage = storage
        self.paid, self.shown = [], []
        self.read, self.begun, self.stalls = asyncio.Event(), asyncio.Event(), False

    def show(self, approval) -> None:
        self.shown.append(approval)

    async def agent(self, payload, metadata):
        if isinstance(payload, Bill):
            self.read.set()
        if not isinstance(payload, Ask):
            return None
        word = payload.text.rpartition(" ")[2]
        return HandlerResponse(ROWS[word], "bank") if word in ROWS else HandlerResponse(Ask(word), "mail")

    async def mail(self, payload, metadata):
        return HandlerResponse.respond(DOCUMENT)

    async def bank(self, payload, metadata):
        if self.stalls:
            self.begun.set()
            await asyncio.Event().wait()
        self.paid.append(payload)

    @asynccontextmanager
    async def server(self, name="a"):
        """A server on the storage: the path of a journal, or the address of a database."""
        guards = (LineageGuard(TrustSettings(POLICY), MADE.blueprint.listeners, MADE.codecs),)
        if isinstance(self.storage, str):
            engine = PostgresEngine(PostgresOptions(self.storage, name=name, lease=0.5), guards)
        else:
            engine = SqliteEngine(JournalOptions(self.storage), guards)
        pairs = zip(LISTENERS, (self.agent, self.mail, self.bank), strict=True)
        hooks, self.answers = PumpHooks(None, self, engine.answers), engine.answers
        async with (
            engine,
            desk(*pairs, engine=engine, guards=guards, payloads=PAYLOADS, people=hooks) as one,
        ):
            yield one

    async def endorse(self, d) -> str:
        """Read the document, pay its first row, and endorse it; returns the conversation."""
        handle = await d.open()
        await d.send(handle, Ask("Read bills/march"), "agent")
        await self.read.wait()
        await d.send(handle, Ask("pay first"), "agent")
        await wait_until(lambda: len(self.shown) == 1)
        await self.answer(d, Answer.ALWAYS)
        await wait_until(lambda: self.paid == [FIRST])
        key = handle.id
        handle.detach()
        return key

    async def answer(self, d, answer) -> None:
        asked = self.shown[-1]
        said = ApprovalAnswer(asked.id, asked.digest, answer, "boss")
        assert await d.pump.answer(asked.delivery.conversation, said)

    async def pay(self, d, key, word) -> None:
        """Pay a row, and wait until it is paid or asked about."""
        before = len(self.paid) + len(self.shown)
        await d.pump.entrance.submit("console", key, d.markup(Ask(f"pay {word}")), "agent", None)
        await wait_until(lambda: len(self.paid) + len(self.shown) > before)


@pytest.fixture(params=["sqlite", "postgres"])
def office(request, tmp_path):
    return Office(tmp_path / "j.db" if request.param == "sqlite" else request.getfixturevalue("database"))


async def test_an_endorsement_and_its_sum_survive_a_restart(office):
    of = office
    async with of.server() as d:
        key = await of.endorse(d)
    async with of.server() as d:
        await of.pay(d, key, "second")
        assert (of.paid, len(of.shown)) == ([FIRST, SECOND], 1)
    async with of.server() as d:
        await of.pay(d, key, "second")
        await of.pay(d, key, "third")
        assert (of.paid, len(of.shown)) == ([FIRST, SECOND, THIRD], 2)


async def test_a_call_that_runs_again_after_a_crash_counts_once(office):
    of = office
    async with of.server() as d:
        key = await of.endorse(d)
        of.stalls = True
        await d.pump.entrance.submit("console", key, d.markup(Ask("pay second")), "agent", None)
        await of.begun.wait()
    of.stalls = False
    async with of.server() as d:
        await wait_until(lambda: of.paid == [FIRST, SECOND])
        await of.pay(d, key, "third")
        assert (of.paid, len(of.shown)) == ([FIRST, SECOND, THIRD], 1)


async def test_a_recorded_endorsement_is_decided_the_same_when_it_is_replayed(tmp_path):
    of = Office(tmp_path / "j.db")
    async with of.server() as d:
        key = await of.endorse(d)
        await of.pay(d, key, "second")
        await of.pay(d, key, "second")
        made = d.rules

    def read_recorded():
        with closing(open_reading(of.storage)) as connection:
            return Reader(connection, made.guards).recorded_conversation(key)

    assert replay(await anyio.to_thread.run_sync(read_recorded), made) is None
    assert (of.paid, len(of.shown)) == ([FIRST, SECOND], 2)


async def test_two_servers_pass_a_row_once(database):
    of = Office(database)
    async with of.server("a") as a, of.server("b") as b:
        key = await of.endorse(a)
        async with anyio.create_task_group() as tasks:
            for d in (a, b, a, b):
                tasks.start_soon(
                    d.pump.entrance.submit, "console", key, d.markup(Ask("pay second")), "agent", None
                )
        await wait_until(lambda: len(of.paid) + len(of.shown) == 6)
        assert of.paid == [FIRST, SECOND]


async def test_a_revocation_that_another_process_leaves_counts_while_nothing_waits(office):
    of = office
    async with of.server() as d:
        key = await of.endorse(d)
        (one,) = d.rules.list_lasting(d.pump.conversation(key))
        assert (
            one.subject
            == "to from column 1, amount from column 2 of mail() at step 3: 3 rows, 98.7 of 146.2 spent"
        )
        said = ApprovalAnswer(one.name_in(key), one.id, Answer.DENY, "boss")
        await of.answers._do(lambda connection: put_answer(connection, said, time.time()))
        await wait_until(lambda: not d.rules.list_lasting(d.pump.conversation(key)))
        await of.pay(d, key, "second")
        assert (of.paid, len(of.shown)) == ([FIRST], 2)
        assert not await d.pump.answer(key, said)


async def test_a_fork_repeats_endorsed_calls_and_inherits_no_endorsement(tmp_path):
    of = Office(tmp_path / "j.db")
    async with of.server() as d:
        key = await of.endorse(d)
        await of.pay(d, key, "second")
        made = d.rules

    def read_recorded():
        with closing(open_reading(of.storage)) as connection:
            return Reader(connection, made.guards).recorded_conversation(key)

    recorded = await anyio.to_thread.run_sync(read_recorded)
    seeds = iter(range(1, 1000))
    plan = ForkPlan(recorded.steps[-1].version, dry=None)
    *_, last = fork(recorded, plan, made, lambda: Moment(2000.0, next(seeds).to_bytes(16, "big")))
    endorsed = last.conversation.memory["lineage"].ledger.endorsements
    assert (len(endorsed.known), len(endorsed.counted)) == (0, 2)
