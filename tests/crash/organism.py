"""The organism that is killed: run as a script it accepts messages as fast as it can until it dies.

It tells what it did on standard output, line by line, each line written by one system call: ``accepted REQUEST`` once
``send`` has returned, ``reply REQUEST FLAG`` for each reply that a gateway got, ``ran DELIVERY`` for each call of a
handler, ``decided DELIVERY`` once a person's answer is committed. What is on the pipe when the process dies is true.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from random import Random

import anyio

from agentserver import HandlerResponse, TodoUntil, get_todo_registry, invocation
from agentserver.assembly import SystemClock
from agentserver.core.approvals import Answer as Said
from agentserver.core.approvals import Decided
from agentserver.core.messages import Reply
from agentserver.core.payload.codec import Codecs
from agentserver.engines.journal_file import Place, Sync
from agentserver.engines.sqlite import SqliteEngine
from agentserver.guards.approval import ApprovalGuard
from agentserver.guards.lineage import LineageGuard, Trusted
from agentserver.guards.peers import PeersGuard
from agentserver.provenance.labels import Mode
from agentserver.provenance.policy import Policy, SinkRule
from agentserver.pump import Bound, Onlookers, Pump
from tests.core.paper import Answer, Ask, Note, listener, rules

respond = HandlerResponse.respond

LISTENERS = (
    listener("agent", "tool", "flaky", "vault", "system.todo", agent=True),
    listener("tool", "flaky"),
    listener("flaky", retries=2),
    listener("vault"),
)
POLICY = Policy(
    mode=Mode.AUDIT, sources=("tool",), sinks=(SinkRule("vault"),), infer_fields=False, closed=True
)
SHOP = rules(
    *LISTENERS,
    guards=(
        PeersGuard(),
        ApprovalGuard({"vault"}),
        LineageGuard(Trusted(POLICY), [one.name for one in LISTENERS], Codecs([Ask, Answer, Note])),
    ),
    messages=10**6,
    hops=10**6,
    queue=10**6,
    storage=4096,
    drain=0.05,
)


def tell(*words):
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


async def agent(payload, metadata):
    call = invocation()
    tell("ran", call.idempotency_key)
    if isinstance(payload, Ask):
        call.storage.set(Note(payload.text))
        await asyncio.sleep(0)
        watch = HandlerResponse(TodoUntil("Answer", count=2, hold=True), "system.todo")
        second = "vault" if payload.text.endswith("7") else "flaky"
        return [watch, HandlerResponse(Ask("one"), "tool"), HandlerResponse(Ask("two"), second)]
    raised = get_todo_registry().get_raised_for(metadata.thread_id, metadata.own_name)
    for watcher in raised:
        get_todo_registry().close(watcher.watcher_id)
    return respond(Answer("done")) if raised else None


async def tool(payload, metadata):
    tell("ran", invocation().idempotency_key)
    if payload.text == "one":
        await asyncio.sleep(0.001)
    return respond(Answer(payload.text * 20))


async def flaky(payload, metadata):
    tell("ran", invocation().idempotency_key)
    if Random(invocation().idempotency_key + str(invocation().attempt)).random() < 0.3:
        raise ValueError("now and then")
    return respond(Answer("maybe"))


HANDLERS = {"agent": agent, "tool": tool, "flaky": flaky, "vault": tool}


class Person:
    """Answers at once: most of the time yes, sometimes for good, sometimes no."""

    def __init__(self):
        self.asked_for = asyncio.Queue()

    def asked(self, approval):
        self.asked_for.put_nowait(approval)

    async def answer(self, server):
        while True:
            approval = await self.asked_for.get()
            said = Random(approval.id).choice([Said.ONCE, Said.ONCE, Said.ALWAYS, Said.DENY])
            decided = Decided(approval.id, approval.digest, said, "person")
            if await server.decide(approval.delivery.conversation, decided):
                tell("decided", approval.delivery.id)


def pump(engine, person):
    bound = {name: Bound(one, HANDLERS[name]) for name, one in SHOP.blueprint.listeners.items()}
    return Pump(SHOP, bound, engine, SystemClock(), onlookers=Onlookers(approver=person))


async def fetch(server):
    """What a gateway that comes back does: take what waits in the conversations of before."""
    for key in await server.belongings("crash"):
        exchange = await server.resume("crash", key)
        for event in exchange.waiting():
            if isinstance(event, Reply):
                tell("reply", event.request, int(event.redelivered))
        exchange.leave()


async def talk(server, random, number):
    data = SHOP.codecs.of(Ask).encode(Ask(f"go {number}")).encode()
    while True:
        exchange = await server.open("crash")
        for _ in range(random.randint(1, 4)):
            if random.random() < 0.3:
                tell("accepted", await exchange.send(data, random.choice(["agent", "tool"])))
                continue
            async for reply in exchange.replies(
                data, random.choice(["agent", "agent", "tool", "vault", "nobody"])
            ):
                tell("accepted", reply.request)
                tell("reply", reply.request, int(reply.redelivered))
        if random.random() < 0.3:
            await exchange.close()
            tell("closed", exchange.id)


async def main(path, load, seed):
    random, person = Random(seed), Person()
    engine = SqliteEngine(Place(path, Sync.FULL), SHOP.guards)
    async with engine, pump(engine, person) as server, anyio.create_task_group() as tasks:
        tasks.start_soon(person.answer, server)
        tell("open")
        await fetch(server)
        if not load:
            with anyio.fail_after(60):
                await server._accounts.rest.wait()
                while server.approvals() or server._accounts.pending:  # noqa: ASYNC110 - two things to wait for
                    await asyncio.sleep(0.01)
            await fetch(server)
            tell("rest")
            tasks.cancel_scope.cancel()
            return
        for number in range(24):
            tasks.start_soon(talk, server, random, number)


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2] == "load", sys.argv[3]))
