"""An organism that is killed while calls of one turn are under way: run as a script with the path of its journal.

The first run ends in the call that kills it; each later one takes up what there is and tells, a line for each message
of the agent's, what it was given and which call that answers.
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
from agentserver.engines.sqlite.engine import SqliteEngine
from agentserver.engines.sqlite.file import JournalOptions
from agentserver.pump import Callee, Pump
from tests.core.paper import Answer, Ask, Note, listener, rules

respond = HandlerResponse.respond
LISTENERS = (listener("agent", "tool", agent=True), listener("tool", concurrency=4))
SHOP = rules(*LISTENERS, drain=0.05)


def deadly(again):
    async def tool(payload, metadata):
        match payload.text:
            case "note":
                return respond(Note("noted"))
            case "crash":
                raise ValueError("crashed")
            case "kill" if not again:
                await asyncio.sleep(0.3)  # the others are done by then
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
    again = path.exists()
    bound = {one.name: Callee(one, deadly(again) if one.name == "tool" else agent) for one in LISTENERS}
    async with SqliteEngine(JournalOptions(path)) as engine, Pump(SHOP, bound, engine, SystemClock()) as pump:
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
