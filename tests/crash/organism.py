"""The organism that is killed: run as a script it accepts messages as fast as it can until it dies.

It tells what it did on standard output, line by line, each line written by one system call: ``accepted REQUEST`` once
``send`` has returned, ``reply REQUEST FLAG`` for each reply that a gateway got, ``ran DELIVERY`` for each call of a
handler. What is on the pipe when the process dies is true.
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
from agentserver.core.messages import Reply
from agentserver.engines.journal_file import Place, Sync
from agentserver.engines.sqlite import SqliteEngine
from agentserver.pump import Bound, Pump
from tests.core.paper import Answer, Ask, Note, listener, rules

respond = HandlerResponse.respond

SHOP = rules(
    listener("agent", "tool", "flaky", "system.todo", agent=True),
    listener("tool", "flaky"),
    listener("flaky", retries=2),
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
        return [watch, HandlerResponse(Ask("one"), "tool"), HandlerResponse(Ask("two"), "flaky")]
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


HANDLERS = {"agent": agent, "tool": tool, "flaky": flaky}


def pump(engine):
    bound = {name: Bound(one, HANDLERS[name]) for name, one in SHOP.blueprint.listeners.items()}
    return Pump(SHOP, bound, engine, SystemClock())


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
            async for reply in exchange.replies(data, random.choice(["agent", "agent", "tool", "nobody"])):
                tell("accepted", reply.request)
                tell("reply", reply.request, int(reply.redelivered))
        if random.random() < 0.3:
            await exchange.close()
            tell("closed", exchange.id)


async def main(path, load, seed):
    random = Random(seed)
    async with SqliteEngine(Place(path, Sync.FULL)) as engine, pump(engine) as server:
        tell("open")
        await fetch(server)
        if not load:
            with anyio.fail_after(60):
                await server._rest.wait()
            await fetch(server)
            tell("rest")
            return
        async with anyio.create_task_group() as tasks:
            for number in range(24):
                tasks.start_soon(talk, server, random, number)


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2] == "load", sys.argv[3]))
