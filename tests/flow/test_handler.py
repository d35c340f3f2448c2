"""Flows on a server: awaited messages are sent, recorded, and repeated in another run."""

from __future__ import annotations

import asyncio
import threading
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from agentserver import HandlerResponse, SystemError, xmlify
from agentserver.assembly import build
from agentserver.config.keys.models import Journal
from agentserver.core.blueprint import Limits
from agentserver.flow import (
    DivergedError,
    NotDurableError,
    Refused,
    WrongReplyError,
    ask,
    changed,
    gather,
    now,
    once,
    random,
    tell,
    uuid,
)
from agentserver.flow.handler import FlowHandler
from agentserver.flow.lines import KEPT
from agentserver.payload.codec import Codecs
from agentserver.testing import listener, organism, organism_of
from tests.flow.forgetful import Forgetful
from tests.machine import HANGS

pytestmark = pytest.mark.anyio


@xmlify
@dataclass(frozen=True)
class Invoice:
    number: int


@xmlify
@dataclass(frozen=True)
class Find:
    what: str


@xmlify
@dataclass(frozen=True)
class Found:
    what: str


@xmlify
@dataclass(frozen=True)
class Paid:
    text: str


CLASSES = (Invoice, Find, Found, Paid)


async def ledger(payload: Find, metadata):
    if payload.what == "nothing":
        raise LookupError(payload.what)
    return HandlerResponse.respond(Found(payload.what.upper()))


KINDS = pytest.mark.parametrize("kind", [FlowHandler, Forgetful])


def _declare(kind, flow):
    known = (*CLASSES, *KEPT)
    return organism_of(
        listener("desk", kind(flow, Codecs(known)), Invoice, replies=known, peers=["ledger", "stock"]),
        listener("ledger", ledger),
        listener("stock", ledger),
    )


@asynccontextmanager
async def house(kind, flow):
    async with organism(await asyncio.to_thread(_declare, kind, flow)) as o:
        yield o


async def pay(invoice):
    vendor = await ask("ledger", Find(f"vendor {invoice.number}"), reply=Found)
    fraud, stock = await gather(ask("ledger", Find("fraud")), ask("stock", Find("stock")))
    await tell("stock", Find("told"))
    last = await ask("ledger", Find(vendor.what))
    return Paid(f"{last.what} {fraud.what} {stock.what}")


@KINDS
async def test_a_flow_awaits_its_requests(kind):
    async with house(kind, pay) as o:
        for number in (1, 2):
            assert await o.ask(Invoice(number), to="desk") == Paid(f"VENDOR {number} FRAUD STOCK")


@KINDS
async def test_a_difference_between_two_runs_is_recorded(kind):
    calls, seen = [], []

    def count(word):
        calls.append(word)
        return {"word": word, "count": len(calls)}

    async def count_later(word):
        await asyncio.sleep(0)
        return count(word)

    async def flow(invoice):
        told = [
            await now(),
            await uuid(),
            await random(),
            await once(count, "a"),
            await once(count_later, "b"),
        ]
        seen.append(told)
        await ask("ledger", Find("x"))
        await ask("ledger", Find("y"))
        return Paid(str(told[3:]))

    async with house(kind, flow) as o:
        answer = await o.ask(Invoice(1), to="desk")
    assert answer == Paid("[{'word': 'a', 'count': 1}, {'word': 'b', 'count': 2}]")
    assert calls == ["a", "b"]
    assert all(one == seen[0] for one in seen)
    assert len(seen) == (1 if kind is FlowHandler else 3)


@dataclass(frozen=True)
class Receipt:
    amount: Decimal
    at: datetime


@KINDS
async def test_once_gives_back_a_result_of_the_type_that_its_function_declares(kind):
    receipt, seen = Receipt(Decimal("1.50"), datetime(2026, 1, 1, tzinfo=UTC)), []

    def charge() -> Receipt:
        return receipt

    async def charge_all() -> dict[str, tuple[Receipt, ...]]:
        return {"all": (receipt,)}

    def charge_untyped():
        return receipt

    async def flow(invoice):
        seen.append([await once(charge), await once(charge_all), await once(charge_untyped)])
        await ask("ledger", Find("x"))
        return Paid("done")

    async with house(kind, flow) as o:
        assert await o.ask(Invoice(1), to="desk") == Paid("done")
    plain = {"amount": "1.50", "at": "2026-01-01T00:00:00Z"}
    assert all(one == [receipt, {"all": (receipt,)}, plain] for one in seen)


class Connection:
    """Result that nothing can keep."""


async def test_once_refuses_a_type_that_it_cannot_keep_before_it_calls_the_function(caplog):
    calls = []

    def connect() -> Connection:
        calls.append("connected")
        return Connection()

    async def flow(invoice):
        await once(connect)

    async with house(FlowHandler, flow) as o:
        assert (await o.ask(Invoice(1), to="desk")).code == "internal"
    assert calls == []
    assert "connect: a result of its type cannot be kept" in caplog.text
    assert "return a dataclass" in caplog.text


async def test_a_function_of_once_that_waits_does_not_hold_the_event_loop():
    gate = threading.Event()

    def wait() -> str:
        assert gate.wait(HANGS)
        return "waited"

    async def flow(invoice):
        if invoice.number == 1:
            return Paid(await once(wait))
        gate.set()
        return Paid("second")

    async with house(FlowHandler, flow) as o:
        first, second = await asyncio.gather(o.ask(Invoice(1), to="desk"), o.ask(Invoice(2), to="desk"))
    assert (first, second) == (Paid("waited"), Paid("second"))


@KINDS
async def test_a_refusal_is_an_exception_and_may_be_caught(kind):
    async def flow(invoice):
        try:
            await ask("ledger", Find("nothing"))
        except Refused as error:
            return Paid(f"{error.code} {(await ask('ledger', Find('else'))).what}")

    async with house(kind, flow) as o:
        assert await o.ask(Invoice(1), to="desk") == Paid("internal ELSE")


@KINDS
async def test_a_refusal_that_is_not_caught_reaches_the_caller(kind):
    async def flow(invoice):
        await ask("ledger", Find("fine"))
        await ask("ledger", Find("nothing"))

    async with house(kind, flow) as o:
        answer = await o.ask(Invoice(1), to="desk")
    assert isinstance(answer, SystemError)
    assert answer.code == "internal"


@KINDS
async def test_messages_sent_together_are_refused_together(kind):
    async def flow(invoice):
        try:
            await gather(ask("ledger", Find("a")), ask("nobody", Find("b")))
        except Refused as error:
            return Paid(error.code)

    async with house(kind, flow) as o:
        assert await o.ask(Invoice(1), to="desk") == Paid("routing")


@KINDS
async def test_an_answer_of_another_class_is_an_error(kind):
    async def flow(invoice):
        try:
            await ask("ledger", Find("a"), reply=Paid)
        except WrongReplyError as error:
            return Paid(str(error))

    async with house(kind, flow) as o:
        assert await o.ask(Invoice(1), to="desk") == Paid("ledger answered Found, not Paid")


async def ask_back(find: Find) -> Found:
    return await ask("desk", Invoice(1), reply=Found)


async def ask_asker(invoice: Invoice) -> Paid:
    try:
        await ask("clerk", Find("a"), reply=Found)
    except WrongReplyError as error:
        return Paid(str(error))
    return Paid("answered")


ROUND = organism_of(listener("desk", ask_asker, peers=["clerk"]), listener("clerk", ask_back, peers=["desk"]))


async def test_a_peer_that_asks_back_answers_with_its_question():
    async with organism(ROUND) as o:
        assert await o.ask(Invoice(1), to="desk") == Paid("clerk answered Invoice, not Found")


@KINDS
async def test_parts_of_a_gather_are_flows_too(kind):
    async def part(word):
        first = await ask("ledger", Find(word))
        return (await ask("stock", Find(first.what))).what

    async def flow(invoice):
        a, b, (c, nothing) = await gather(part("a"), part("b"), gather(part("c"), tell("stock", Find("d"))))
        return Paid(f"{a} {b} {c} {nothing}")

    async with house(kind, flow) as o:
        assert await o.ask(Invoice(1), to="desk") == Paid("A B C None")


async def test_a_function_that_asks_nothing_may_wait_for_anything():
    async def flow(invoice):
        await asyncio.sleep(0)
        return Paid("done")

    async with house(FlowHandler, flow) as o:
        assert await o.ask(Invoice(1), to="desk") == Paid("done")


@pytest.mark.parametrize("late", [False, True])
async def test_a_flow_waits_for_nothing_else_than_messages(late, caplog):
    async def flow(invoice):
        if late:
            await ask("ledger", Find("a"))
        await asyncio.sleep(0)
        await ask("ledger", Find("a"))

    async with house(FlowHandler, flow) as o:
        answer = await o.ask(Invoice(1), to="desk")
    assert answer.code == "internal"
    assert "pass it to once(...)" in caplog.text
    assert NotDurableError.__name__ in caplog.text


async def ask_in_a_task_group():
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(ask_alone())


async def ask_alone():
    return await ask("ledger", Find("a"))


@pytest.mark.parametrize(
    "elsewhere",
    [
        lambda: once(ask_alone),
        lambda: asyncio.gather(ask_alone(), ask_alone()),
        ask_in_a_task_group,
    ],
    ids=["once", "asyncio.gather", "task group"],
)
async def test_a_message_of_another_task_is_refused_with_a_likely_correction(elsewhere, caplog):
    async def flow(invoice):
        await elsewhere()
        return Paid("no")

    async with house(FlowHandler, flow) as o:
        assert (await o.ask(Invoice(1), to="desk")).code == "internal"
    assert "a message is awaited outside of its flow" in caplog.text
    assert "use gather of agentserver.flow" in caplog.text


async def test_a_failure_after_the_end_of_a_flow_reaches_nobody():
    async def flow(invoice):
        await tell("ledger", Find("nothing"))
        return Paid("told")

    async with house(FlowHandler, flow) as o:
        await o.send(Invoice(1), to="desk")
        assert await o.drain() == [Paid("told")]


@pytest.mark.parametrize("last", [Found("no"), None])
async def test_a_refused_answer_of_a_flow_reaches_its_caller(last):
    async def flow(invoice):
        await ask("ledger", Find("a"))
        if last is None:
            await tell("nobody", Find("a"))
        return Paid("x\0" if last else "done")

    async with house(FlowHandler, flow) as o:
        await o.send(Invoice(1), to="desk")
        (answer,) = await o.drain()
    assert answer.code == ("validation" if last else "routing")


@KINDS
async def test_a_payload_that_cannot_be_written_is_raised_at_its_line(kind):
    async def flow(invoice):
        names = []
        for wrong in ("text", Find(5)):
            try:
                await ask("ledger", wrong)
            except (TypeError, ValueError) as error:
                names.append(type(error).__name__)
        return Paid(f"{names} {(await ask('ledger', Find('a'))).what}")

    async with house(kind, flow) as o:
        assert await o.ask(Invoice(1), to="desk") == Paid("['PayloadError', 'Unencodable'] A")


async def test_a_wait_in_a_library_is_named_by_the_line_of_the_flow(caplog):
    async def helper():
        await asyncio.sleep(0.001)

    async def flow(invoice):
        await ask("ledger", Find("a"))
        await helper()

    async with house(FlowHandler, flow) as o:
        assert (await o.ask(Invoice(1), to="desk")).code == "internal"
    line = helper.__code__.co_firstlineno + 1
    assert f"line {line} of {helper.__qualname__}, in sleep(), waits for something else" in caplog.text


CHANGES = [
    ("to", lambda: ask("stock", Find("b")), "it sends Find to stock, and the record has: ask ledger"),
    ("content", lambda: ask("ledger", Find("c")), "it sends Find to ledger, with another content"),
    ("kind", now, "it wants now, and the record has: ask ledger"),
    ("fewer", None, "it has ended"),
]


@pytest.mark.parametrize(("name", "change", "told"), CHANGES)
async def test_a_flow_that_does_not_repeat_itself_has_diverged(name, change, told, caplog):
    runs = []

    async def flow(invoice):
        runs.append(1)
        await ask("ledger", Find("a"))
        if len(runs) < 3:
            await ask("ledger", Find("b"))
        elif change is not None:
            await change()
        return Paid("done")

    async with house(Forgetful, flow) as o:
        answer = await o.ask(Invoice(1), to="desk")
    assert answer.code == "internal"
    assert DivergedError.__name__ in caplog.text
    assert told in caplog.text


async def test_a_divergence_names_the_recorded_value_as_the_flow_does(caplog):
    runs = []

    async def flow(invoice):
        runs.append(1)
        if len(runs) == 1:
            await changed("screen first")
        await ask("ledger", Find("a"))
        return Paid("done")

    async with house(Forgetful, flow) as o:
        assert (await o.ask(Invoice(1), to="desk")).code == "internal"
    assert "it sends Find to ledger, and the record has: changed screen first" in caplog.text


async def test_a_flow_that_asks_more_than_before_has_diverged(caplog):
    runs = []

    async def flow(invoice):
        runs.append(1)
        if len(runs) > 1:
            await now()
        await ask("ledger", Find("a"))
        return Paid("done")

    async with house(Forgetful, flow) as o:
        assert (await o.ask(Invoice(1), to="desk")).code == "internal"
    assert "step 1 differs from its record: it wants now, and the record has: ask ledger" in caplog.text


async def test_a_flow_continues_in_the_next_process(tmp_path):
    """The first server stops while the ledger works on the second of three messages."""
    gate, reached, calls = asyncio.Event(), asyncio.Event(), []

    async def slow(payload: Find, metadata):
        if payload.what == "b" and not gate.is_set():
            reached.set()
            await asyncio.sleep(HANGS)
        return HandlerResponse.respond(Found(payload.what.upper()))

    def count(word):
        calls.append(word)
        return word

    async def flow(invoice):
        said = [await once(count, "x")]
        for word in "abc":
            said.append((await ask("ledger", Find(word))).what)  # noqa: PERF401 - as people write it
        return Paid(" ".join(said))

    def declare():
        known = (*CLASSES, *KEPT)
        return replace(
            organism_of(
                listener("desk", FlowHandler(flow, Codecs(known)), Invoice, replies=known, peers=["ledger"]),
                listener("ledger", slow, retries=1),
                limits=Limits(drain=0, grace=0.1),
            ),
            project=tmp_path,
            journal=Journal(),
        )

    first = await asyncio.to_thread(build, await asyncio.to_thread(declare), durable=True)
    async with first:
        handle = await first.open("ada")
        await handle.send(first.rules.codecs.of(Invoice).encode(Invoice(1)).encode(), "desk")
        await reached.wait()
    gate.set()
    second = await asyncio.to_thread(build, await asyncio.to_thread(declare), durable=True)
    async with second, aclosing((await second.resume("ada", handle.id)).events()) as events:
        reply = await anext(events)
    assert b"x A B C" in reply.message
    assert calls == ["x"]
