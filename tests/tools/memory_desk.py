"""An organism with notes: an agent that a test scripts, a stranger's pages, a directory, and a bank that pays."""

from __future__ import annotations

import sys
from contextlib import asynccontextmanager
from pathlib import Path

import anyio.to_thread

from agentserver.assembly import build
from agentserver.config import forget, load
from agentserver.wire.envelope import read_envelope

CODE = """
from __future__ import annotations
from dataclasses import dataclass
from typing import Annotated
from agentserver import HandlerMetadata, HandlerResponse, SystemError, xmlify
from agentserver.provenance.evidence.labels import Role, Standing
from agentserver.provenance.confidentiality.readers import Readers
from agentserver.tools.memory import ForgottenNotes, Recall, RecalledNotes, Remember, NoteResult

@xmlify
@dataclass(frozen=True)
class Wish:
    text: str

@xmlify
@dataclass(frozen=True)
class Done:
    text: str

@xmlify
@dataclass(frozen=True)
class GetPage:
    url: str

@xmlify
@dataclass(frozen=True)
class Page:
    text: Annotated[str, Standing.PROSE]

@xmlify
@dataclass(frozen=True)
class Lookup:
    name: str

@xmlify
@dataclass(frozen=True)
class Contact:
    name: str
    iban: str

@xmlify
@dataclass(frozen=True)
class GetFile:
    name: str

@xmlify
@dataclass(frozen=True)
class Secret:
    text: Annotated[str, Standing.RECORD, Readers("*@corp.example")]

@xmlify
@dataclass(frozen=True)
class Pay:
    to: Annotated[str, Role.DESTINATION]
    amount: Annotated[str, Role.QUANTITY]
    memo: Annotated[str, Role.PAYLOAD] = ""

@xmlify
@dataclass(frozen=True)
class Paid:
    to: str

PAGES, BOOK, PAID, SEEN = {}, {}, [], []
SCRIPT = {}

ALL = Wish | Page | Contact | Secret | Paid | RecalledNotes | NoteResult | ForgottenNotes | SystemError | Done

async def desk(payload: ALL, metadata: HandlerMetadata) -> HandlerResponse:
    SEEN.append(payload)
    if isinstance(payload, SystemError):
        return HandlerResponse.respond(Done(str(payload.code)))
    answer = SCRIPT["desk"](payload)
    return answer if isinstance(answer, HandlerResponse) else HandlerResponse.respond(Done(str(answer)))

async def aide(payload: ALL, metadata: HandlerMetadata) -> HandlerResponse:
    if isinstance(payload, SystemError):
        return HandlerResponse.respond(Done(str(payload.code)))
    answer = SCRIPT["aide"](payload)
    return answer if isinstance(answer, HandlerResponse) else HandlerResponse.respond(Done(str(answer)))

async def web(payload: GetPage, metadata: HandlerMetadata) -> HandlerResponse:
    return HandlerResponse.respond(Page(PAGES[payload.url]))

async def book(payload: Lookup, metadata: HandlerMetadata) -> HandlerResponse:
    return HandlerResponse.respond(Contact(payload.name, BOOK[payload.name]))

async def vault(payload: GetFile, metadata: HandlerMetadata) -> HandlerResponse:
    return HandlerResponse.respond(Secret(PAGES[payload.name]))

async def bank(payload: Pay, metadata: HandlerMetadata) -> HandlerResponse:
    PAID.append(payload)
    return HandlerResponse.respond(Paid(payload.to))
"""

YAML = """
name: memory-desk
ENGINE
provenance: {mode: enforce, fields: {book: {iban: directory}}}
listeners:
  - {name: desk, description: Works., payload_class: memory_desk_code.Wish, handler: memory_desk_code.desk,
     agent: true, trust: relay, peers: [web, book, vault, bank, note, notes, eraser, aide]}
  - {name: aide, description: Helps., payload_class: memory_desk_code.Wish, handler: memory_desk_code.aide,
     agent: true, trust: relay, peers: [note, notes, bank], memory: thread}
  - {name: web, description: Fetches., payload_class: memory_desk_code.GetPage, handler: memory_desk_code.web,
     trust: source}
  - {name: book, description: Knows people., payload_class: memory_desk_code.Lookup, handler: memory_desk_code.book,
     trust: trusted}
  - {name: vault, description: Has files., payload_class: memory_desk_code.GetFile, handler: memory_desk_code.vault,
     trust: trusted}
  - {name: bank, description: Pays., payload_class: memory_desk_code.Pay, handler: memory_desk_code.bank, trust: sink}
  - {name: note, description: Keeps notes., handler: agentserver.tools.memory.remember, trust: trusted,
     settings_class: agentserver.tools.memory.MemorySettings, settings: SETTINGS}
  - {name: notes, description: Finds notes., handler: agentserver.tools.memory.recall, trust: trusted,
     settings_class: agentserver.tools.memory.MemorySettings, settings: SETTINGS}
  - {name: eraser, description: Erases notes., handler: agentserver.tools.memory.forget, trust: trusted}
"""
SETTINGS = '{scopes: [principal, project, agent], projects: {atlas: ["ann", "bob"]}}'


class Desk:
    """A server in a folder, started as often as a test wants."""

    def __init__(
        self,
        folder,
        engine="journal: {path: notes.sqlite}",
        settings=SETTINGS,
        code=CODE,
        organism=YAML,
    ):
        self.folder = folder
        (folder / "memory_desk_code.py").write_text(code)
        text = organism.replace("SETTINGS", settings).replace("ENGINE", engine)
        (folder / "organism.yaml").write_text(text)

    @asynccontextmanager
    async def start(self, file="organism.yaml"):
        """Reload the code and run a server."""
        sys.modules.pop("memory_desk_code", None)
        organism = await anyio.to_thread.run_sync(lambda: load(Path(self.folder / file), environ={}))
        server = await anyio.to_thread.run_sync(lambda: build(organism, durable=True))
        try:
            async with server:
                yield RunningDesk(server, sys.modules["memory_desk_code"])
        finally:
            forget(organism)


class RunningDesk:
    def __init__(self, server, code):
        self.server, self.code = server, code

    async def converse(self, *words, desk, aide=None, who="ann", pages=(), to="desk"):
        """Hold one new conversation; returns the last answer and the payments that were made in it."""
        self.code.SCRIPT.update(desk=desk, aide=aide)
        self.code.PAGES.update(pages)
        self.code.PAID.clear()
        handle = await self.server.open(who)
        said = ""
        for each in words:
            data = f'<Wish xmlns="urn:agentserver:payload:Wish:v1"><text>{each}</text></Wish>'
            reply = await handle.ask(data.encode(), to)
            said = "".join(read_envelope(reply.message).payload.itertext())
        return said, [*self.code.PAID]
