"""A server on a journal that is killed while a handler runs, or takes up what another one left: see test_crash.py."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import anyio

from agentserver import HandlerResponse
from agentserver.assembly import build
from agentserver.config.organism import Otel
from agentserver.engines.sqlite.engine import SqliteEngine
from agentserver.engines.sqlite.file import JournalOptions
from agentserver.testing import listener, organism_of
from tests.core.paper import Answer, Ask, Note

HOLDING = []


def say(line):
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


async def first(payload: Ask | Answer | Note, metadata) -> HandlerResponse:
    if isinstance(payload, Ask):
        return HandlerResponse(Note(payload.text), to="b")
    if isinstance(payload, Note):
        return HandlerResponse(Ask("again"), to="b")
    return HandlerResponse.respond(payload)


async def second(payload: Ask | Note, metadata) -> HandlerResponse:
    if isinstance(payload, Note):
        return HandlerResponse.respond(payload)
    if HOLDING:
        say("held")
        await anyio.sleep_forever()
    return HandlerResponse.respond(Answer(payload.text))


async def run(endpoint: str, journal: Path) -> None:
    shop = organism_of(
        listener("a", first, Ask, Answer, Note, peers=["b"]), listener("b", second, Ask, Note), name="shop"
    )
    server = build(replace(shop, otel=Otel(endpoint)), engine=SqliteEngine(JournalOptions(journal)))
    async with server:
        if HOLDING:
            handle = await server.open("ada")
            sent = await handle.send(server.rules.codecs.of(Ask).encode(Ask("hi")).encode(), "a")
            say(sent.request)
            await anyio.sleep_forever()
        (left,) = await server.left_over("ada")
        handle = await server.resume("ada", left)
        async for event in handle.events():
            say(type(event).__name__)
            if type(event).__name__ == "Done":
                break


if __name__ == "__main__":
    HOLDING += sys.argv[3:]
    anyio.run(run, sys.argv[1], Path(sys.argv[2]))
