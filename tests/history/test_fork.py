"""Forks of recorded conversations: the initial state of a new conversation, and its behaviour."""

from __future__ import annotations

from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from decimal import Decimal

import anyio
import pytest

from agentserver import HandlerResponse, SystemError, xmlify
from agentserver.assembly import SystemClock, build
from agentserver.core.state.approvals import Answer, ApprovalAnswer
from agentserver.engines.journal.reader import Reader
from agentserver.engines.journal.rows import Acknowledgement
from agentserver.engines.sqlite.engine import SqliteEngine
from agentserver.engines.sqlite.file import JournalOptions, open_writing
from agentserver.engines.sqlite.writer import Writer
from agentserver.flow import Refused, ask, once, random
from agentserver.history.fork import ForkError, ForkPlan, fork, list_steps
from agentserver.history.replay import decide_again, replay
from agentserver.payload.codec import Codecs
from agentserver.payload.functions import payload_of
from agentserver.testing import listener, organism_of
from tests.core.paper import Answer as Said
from tests.core.paper import Ask
from tests.machine import HANGS
from tests.pump.desk import wait_until

pytestmark = pytest.mark.anyio

CALLS: list[str] = []


@xmlify
@dataclass(frozen=True)
class Invoice:
    vendor: str
    amount: Decimal


@dataclass(frozen=True)
class Paid:
    text: str


async def find_vendor(name: str) -> str:
    CALLS.append(f"find {name}")
    return f"IBAN of {name}"


async def transfer(iban: str, amount: Decimal) -> str:
    CALLS.append(f"transfer {amount} to {iban}")
    return "receipt"


FindVendor, Transfer = payload_of(find_vendor), payload_of(transfer)


async def pay(invoice: Invoice) -> Paid:
    await random()
    vendor = await ask("ledger", FindVendor(invoice.vendor))
    try:
        receipt = await ask("bank", Transfer(vendor.value, invoice.amount))
        await once(CALLS.append, "once")
    except Refused as error:
        return Paid(str(error.code))
    return Paid(receipt.value)


async def clerk(payload: Ask | Said | SystemError, metadata):
    CALLS.append(f"clerk {type(payload).__name__}")
    if isinstance(payload, Ask):
        return HandlerResponse(payload, "sink")
    return HandlerResponse.respond(Said(getattr(payload, "text", None) or str(payload.code)))


async def sink(payload: Ask, metadata):
    CALLS.append(f"sink {payload.text}")
    return HandlerResponse.respond(Said(f"sunk {payload.text}"))


async def look(invoice: Invoice) -> Paid:
    await once(CALLS.append, "looked")
    await ask("ledger", FindVendor(invoice.vendor))
    return Paid("done")


LOOK = organism_of(listener("desk", look, peers=["ledger"]), listener("ledger", find_vendor))
DESK = organism_of(
    listener("desk", pay, peers=["ledger", "bank"]),
    listener("ledger", find_vendor),
    listener("bank", transfer),
)
SHOP = organism_of(listener("clerk", clerk, peers=["sink"]), listener("sink", sink, approval=True))
CODECS = Codecs([Invoice, Ask])


class Person:
    """Approves each message for the rest of its conversation."""

    def __init__(self):
        self.shown = []

    def show(self, approval):
        self.shown.append(approval)


@pytest.fixture(autouse=True)
def calls():
    CALLS.clear()


@asynccontextmanager
async def run_server(path, organism, person=None):
    with anyio.fail_after(HANGS):
        engine = SqliteEngine(JournalOptions(path), build(organism).rules.guards)
        async with build(organism, engine=engine, approver=person) as server:
            yield server


async def send(server, payload, to):
    """Send a message, wait for its answer, and return its conversation."""
    handle = await server.open("ann")
    reply = await handle.ask(CODECS.of(type(payload)).encode(payload).encode(), to)
    return handle.id, reply.message.decode()


def steps_of(path, organism, conversation):
    rules = build(organism).rules
    with closing(open_writing(JournalOptions(path))) as connection:
        return list(list_steps(Reader(connection, rules.guards).recorded_conversation(conversation), rules))


def make_fork(path, organism, conversation, at, dry=(), change=None):
    """Fork a conversation in a journal. Returns the id of the new one."""
    rules = build(organism).rules
    with closing(open_writing(JournalOptions(path))) as connection:
        recorded = Reader(connection, rules.guards).recorded_conversation(conversation)
        outcomes = list(fork(recorded, ForkPlan(at, dry, change), rules, SystemClock().moment))
        new = outcomes[0].conversation.id
        writer = Writer(connection, path, rules.guards)
        assert not any(writer.commit(outcomes, [Acknowledgement(new)]))
        again = Reader(connection, rules.guards).recorded_conversation(new)
        assert replay(again, rules) is None
        assert not any(b.decode() in str(again.steps) for b in [conversation.encode()])
    return new


async def in_thread(work, *arguments, **more):
    return await anyio.to_thread.run_sync(lambda: work(*arguments, **more))


async def answers_of(server, conversation):
    """Wait for the end of the conversation's request. Returns its replies."""
    found = []
    async for event in server.watch("ann", conversation):
        if hasattr(event, "message"):
            found.append(event.message.decode())
        else:
            return found
    return found


async def test_a_flow_continues_from_a_step_and_repeats_no_earlier_call(tmp_path):
    path = tmp_path / "journal.sqlite"
    async with run_server(path, DESK) as server:
        old, answer = await send(server, Invoice("Ada", Decimal(30)), "desk")
    assert ("receipt" in answer, CALLS) == (True, ["find Ada", "transfer 30 to IBAN of Ada", "once"])
    found = next(
        version for version, what in await in_thread(steps_of, path, DESK, old) if "ledger finished" in what
    )
    live = await in_thread(make_fork, path, DESK, old, found, dry=None)
    dry = await in_thread(make_fork, path, DESK, old, found, dry=("bank",))
    CALLS.clear()
    async with run_server(path, DESK) as server:
        assert ["receipt" in each for each in await answers_of(server, live)] == [True]
        assert ["denied" in each for each in await answers_of(server, dry)] == [True]
    assert CALLS == ["transfer 30 to IBAN of Ada", "once"]


async def test_a_dry_fork_does_no_external_effect(tmp_path):
    path = tmp_path / "journal.sqlite"
    async with run_server(path, DESK) as server:
        old, _ = await send(server, Invoice("Ada", Decimal(30)), "desk")
    found = next(
        version for version, what in await in_thread(steps_of, path, DESK, old) if "bank finished" in what
    )
    await in_thread(make_fork, path, DESK, old, found, dry=())
    CALLS.clear()
    async with run_server(path, DESK) as server:
        await wait_until(lambda: server._pump._accounts.idle.is_set())
        await anyio.sleep(0.05)
    assert CALLS == []


@pytest.mark.parametrize("dry", [None, ()])
async def test_a_fork_knows_the_label_of_an_effect_but_not_the_effect(tmp_path, dry):
    path = tmp_path / "journal.sqlite"
    async with run_server(path, LOOK) as server:
        old, _ = await send(server, Invoice("Ada", Decimal(30)), "desk")
    found = next(
        version for version, what in await in_thread(steps_of, path, LOOK, old) if "ledger finished" in what
    )
    new = await in_thread(make_fork, path, LOOK, old, found, dry=dry)
    labels, left = await in_thread(effects_in, path, LOOK, new)
    assert (labels, left) == (["untrusted"], {})
    async with run_server(path, LOOK) as server:
        assert "done" in (await answers_of(server, new))[0]
    assert CALLS.count("looked") == 1


def effects_in(path, organism, conversation):
    """The labels of the answers that a conversation got, and its ledger at last."""
    rules = build(organism).rules
    with closing(open_writing(JournalOptions(path))) as connection:
        recorded = Reader(connection, rules.guards).recorded_conversation(conversation)
        now, labels = recorded.beginning.conversation(), []
        for step in recorded.steps:
            now = decide_again(recorded, step, now, rules).conversation
            labels += [one.label for one in now.ledger.values() if one.label]
        return labels, dict(now.ledger)


async def test_a_changed_value_is_the_principals_text(tmp_path):
    path = tmp_path / "journal.sqlite"

    def change(outside):
        return outside._replace(data=outside.data.replace(b"Ada", b"Bob"))

    async with run_server(path, DESK) as server:
        old, _ = await send(server, Invoice("Ada", Decimal(30)), "desk")
    (first, *_) = [v for v, what in await in_thread(steps_of, path, DESK, old) if "from outside" in what]
    new = await in_thread(make_fork, path, DESK, old, first, dry=None, change=change)
    async with run_server(path, DESK) as server:
        await answers_of(server, new)
    assert CALLS[-2:] == ["transfer 30 to IBAN of Bob", "once"]
    with pytest.raises(ForkError, match="a value can be changed in a message from outside"):
        await in_thread(make_fork, path, DESK, old, first + 1, change=change)


async def test_a_fork_inherits_no_approval(tmp_path):
    path, person = tmp_path / "journal.sqlite", Person()
    async with run_server(path, SHOP, person) as server:
        handle = await server.open("ann")
        await handle.send(CODECS.of(Ask).encode(Ask("x")).encode(), "clerk")
        await wait_until(lambda: person.shown)
        (asked,) = person.shown
        said = ApprovalAnswer(asked.id, asked.digest, Answer.ALWAYS, "eve")
        assert await server.answer(asked.delivery.conversation, said)
        await wait_until(lambda: "sink x" in CALLS)
        await wait_until(lambda: server._pump._accounts.idle.is_set())
        old = handle.id
    steps = await in_thread(steps_of, path, SHOP, old)
    approved = next(version for version, what in steps if what.startswith("the answer"))
    new = await in_thread(make_fork, path, SHOP, old, approved, dry=None)
    async with run_server(path, SHOP, person) as server:
        await wait_until(lambda: len(person.shown) == 2)
        again = person.shown[1]
        assert (again.delivery.conversation, again.id != asked.id) == (new, True)
        assert again.digest != asked.digest
        assert CALLS.count("sink x") == 1


async def test_a_fork_of_a_step_that_is_not_there_is_refused(tmp_path):
    path = tmp_path / "journal.sqlite"
    async with run_server(path, DESK) as server:
        old, _ = await send(server, Invoice("Ada", Decimal(30)), "desk")
    with pytest.raises(ForkError, match="it has no step 99"):
        await in_thread(make_fork, path, DESK, old, 99)
