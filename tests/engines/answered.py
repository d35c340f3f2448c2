"""An organism that is killed while calls of one turn are under way: run as a script with the path of its journal.

The first run ends in the call that kills it; each later one takes up what there is and tells, a line for each message
of the agent's, its input and the call that the input answers.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

from agentserver import HandlerResponse, TodoUntil, invocation
from agentserver.assembly import SystemClock
from agentserver.core.messages import Done
from agentserver.core.records.audit import Event
from agentserver.engines.sqlite.engine import SqliteEngine
from agentserver.engines.sqlite.file import JournalOptions
from agentserver.pump.editions import Callee
from agentserver.pump.pump import Pump, PumpHooks
from agentserver.pump.records import RecordStream
from tests.core.paper import Answer, Ask, Note, listener, rules

respond = HandlerResponse.respond
LISTENERS = (listener("agent", "tool", agent=True), listener("tool", concurrency=4))
SHOP = rules(*LISTENERS, drain=0.05)


class Others:
    """Wait for the state before the kill: the agent got its todo and the ends of the other calls."""

    def __init__(self):
        self.left = {
            (Event.HANDLED, "agent", "TodoRegistered"),
            (Event.FAILED, "tool", "Ask"),
            (Event.HANDLED, "tool", "Ask"),
        }
        self.kept = asyncio.Event()

    def observe(self, records):
        self.left -= {(one.event, one.to, one.root) for one in records}
        if not self.left:
            self.kept.set()


def deadly(again, others):
    async def tool(payload, metadata):
        match payload.text:
            case "note":
                return respond(Note("noted"))
            case "crash":
                raise ValueError("crashed")
            case "kill" if not again:
                await others.kept.wait()
                os.kill(os.getpid(), signal.SIGKILL)
        return respond(Answer("answered"))

    return tool


async def agent(payload, metadata):
    call = invocation()
    if isinstance(payload, Ask):
        watch = HandlerResponse(TodoUntil("*", "tool", count=3, hold=True), "system.todo")
        return [*(HandlerResponse(Ask(text), "tool") for text in ("kill", "crash", "note")), watch]
    told = call.answering
    os.write(1, f"{type(payload).__name__} {told.place} {told.refused} {told.key}\n".encode())
    return respond(Answer("done")) if told.place == 2 else None


async def main(path):
    again, others = path.exists(), Others()
    bound = {
        one.name: Callee(one, deadly(again, others) if one.name == "tool" else agent) for one in LISTENERS
    }
    async with (
        SqliteEngine(JournalOptions(path)) as engine,
        Pump(SHOP, bound, engine, SystemClock(), (), PumpHooks(RecordStream(others.observe))) as pump,
    ):
        if not again:
            handle = await pump.open("console")
            await handle.send(SHOP.codecs.of(Ask).encode(Ask("go")).encode(), "agent")
            await asyncio.sleep(60)
        (key,) = await pump.conversations_of("console")
        handle = await pump.resume("console", key)
        async for event in handle.events():
            if isinstance(event, Done):
                break


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
