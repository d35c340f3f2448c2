"""Flows in a process that kills itself: at a chosen one of the points that its flows and listeners pass.

Run as a script it sends orders until each is answered, or until it dies. Each line on standard output is written by one
system call: ``open`` once the server runs, ``answered NUMBER RECEIPT NOTE`` for each answer. The bank is a file that
outlives the process: ``paid NUMBER``, ``noted NUMBER``.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import signal
import sys
from pathlib import Path
from random import Random

import anyio

from agentserver import xmlify
from agentserver.assembly import build, build_rules
from agentserver.engines.sqlite.engine import SqliteEngine
from agentserver.engines.sqlite.file import JournalOptions
from agentserver.flow import NOT_DONE, EffectUnknown, ask, gather, handler, now, once, random, uuid
from agentserver.payload.functions import payload_of
from agentserver.testing import listener, organism_of
from agentserver.wire.envelope import read_envelope

PRINCIPAL = "crash"


@xmlify
@dataclasses.dataclass(frozen=True)
class Order:
    number: int


@xmlify
@dataclasses.dataclass(frozen=True)
class Paid:
    number: int
    receipt: str
    note: str


class Fate:
    """The point at which this process dies, counted from its start; zero for never."""

    left = 0

    @classmethod
    def passes(cls):
        cls.left -= 1
        if not cls.left:
            os.kill(os.getpid(), signal.SIGKILL)


class Bank:
    """A file of payments."""

    path = Path()

    @classmethod
    def write(cls, *words):
        Fate.passes()
        with cls.path.open("ab", buffering=0) as file:
            file.write((" ".join(map(str, words)) + "\n").encode())
        Fate.passes()


def transfer(number):
    Bank.write("paid", number)
    return f"receipt-{number}"


def find_receipt(number):
    """Ask the bank about an order whose outcome is unknown."""
    Fate.passes()
    found = f"paid {number}" in Bank.path.read_text().splitlines()
    return f"receipt-{number}" if found else NOT_DONE


async def note(number):
    Bank.write("noted", number)
    return "noted"


async def find(word: str) -> str:
    Fate.passes()
    return word.upper()


Find = payload_of(find)


async def part(word):
    first = await ask("ledger", Find(word))
    Fate.passes()
    return (await ask("stock", Find(first.value))).value


async def pay(order: Order) -> Paid:
    """Pass a point at each await."""
    number = order.number
    drawn = (await uuid(), await random(), await now())
    vendor = await ask("ledger", Find(f"vendor {number}"))
    Fate.passes()
    receipt = await once(transfer, number, reconcile=find_receipt)
    Fate.passes()
    found = await gather(part("a"), part("b"), ask("stock", Find("c")))
    assert [each if isinstance(each, str) else each.value for each in found] == ["A", "B", "C"]
    try:
        said = await once(note, number)
    except EffectUnknown:
        said = "unknown"
    Fate.passes()
    last = await ask("ledger", Find(f"{drawn} {said}"))
    assert last.value == f"{drawn} {said}".upper()
    assert vendor.value == f"VENDOR {number}"
    return Paid(number, receipt, said)


def declare():
    return organism_of(
        listener("desk", pay, peers=["ledger", "stock"]), listener("ledger", find), listener("stock", find)
    )


def tell(*words):
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


class Diary:
    """The conversations of the orders, in a file that outlives the process."""

    def __init__(self, path):
        self.path = path
        lines = path.read_text().splitlines() if path.exists() else ()
        self.known = {int(number): key for number, key in map(str.split, lines)}

    async def enter(self, server, number):
        if number in self.known:
            return await server.resume(PRINCIPAL, self.known[number])
        handle = await server.open(PRINCIPAL)
        with self.path.open("ab", buffering=0) as file:
            file.write(f"{number} {handle.id}\n".encode())
        return handle


async def order(server, diary, number):
    """Send an order under its number, so that it is one request however often it is sent."""
    codecs = server.rules.codecs
    try:
        handle = await diary.enter(server, number)
    except LookupError:  # the conversation was never committed
        diary.known.pop(number)
        handle = await diary.enter(server, number)
    data = codecs.of(Order).encode(Order(number)).encode()
    async for reply in handle.replies(data, "desk", request=f"order-{number}"):
        payload = read_envelope(reply.message).payload
        answer = codecs.for_root(payload.tag).decode(payload)
        tell("answered", number, answer.receipt, answer.note) if isinstance(answer, Paid) else tell(
            "refused", number, json.dumps(str(answer))
        )
    await handle.close()


async def reload(server, seed):
    """Reload the organism now and then: waiting flows keep their code."""
    draw = Random(seed)
    while True:
        await asyncio.sleep(draw.random() * 0.1)
        await server.reload(declare())


def make_engine(storage, organism):
    if not storage.startswith("postgresql:"):
        return SqliteEngine(JournalOptions(Path(storage)), build_rules(organism).guards)
    from agentserver.engines.postgres import PostgresEngine
    from agentserver.engines.postgres.connection import PostgresOptions

    return PostgresEngine(
        PostgresOptions(storage, name=str(os.getpid()), lease=2.0), build_rules(organism).guards
    )


async def main(home, storage, facts):
    Bank.path, Fate.left = home / "bank", facts["dies"]
    Bank.path.touch()
    handler.IN_MEMORY = 1 if facts["evicts"] else 1000
    house, diary = declare(), Diary(home / "diary")
    async with build(house, engine=make_engine(storage, house)) as server, anyio.create_task_group() as tasks:
        tell("open")
        if facts["reloads"]:
            tasks.start_soon(reload, server, facts["seed"])
        async with anyio.create_task_group() as orders:
            for number in facts["orders"]:
                orders.start_soon(order, server, diary, number)
        tell("rest")
        await asyncio.sleep(facts["lingers"])
        tasks.cancel_scope.cancel()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3])))
