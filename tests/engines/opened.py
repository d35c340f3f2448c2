"""A server that opens a conversation under a key, pays in it, and is killed before the client gets an answer."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import anyio

from agentserver import HandlerResponse
from agentserver.engines.sqlite.engine import SqliteEngine
from agentserver.engines.sqlite.file import JournalOptions
from tests.core.paper import Answer, Ask, listener
from tests.pump.desk import desk


async def main(path, when):
    paid = Path(f"{path}.paid")

    async def pay(payload, metadata):
        with paid.open("a") as file:  # noqa: ASYNC230 - on the disk before the process can end
            file.write("paid\n")
        return HandlerResponse.respond(Answer("paid"))

    async with SqliteEngine(JournalOptions(path)) as engine, desk((listener("a"), pay), engine=engine) as d:
        handle = await d.pump.open("console", "order 7")
        if when == "opened":
            os.kill(os.getpid(), signal.SIGKILL)
        reply = await handle.ask(d.markup(Ask("pay")), "a", request="invoice")
        if when == "answered":
            os.kill(os.getpid(), signal.SIGKILL)
        sys.stdout.write(f"{handle.id} {reply.redelivered}\n")


if __name__ == "__main__":
    anyio.run(main, Path(sys.argv[1]), sys.argv[2])
