"""Agents that hand work to one another. Their models are scripted, and obey whatever they read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import anyio

from agentserver import (
    HandlerMetadata,
    HandlerResponse,
    Handoff,
    Pattern,
    SystemError,
    Task,
    invocation,
    xmlify,
)
from agentserver.gateways.bridge import handoff
from agentserver.handoff.managed.scanner import Scanner
from agentserver.handoff.managed.stream import request

DOCUMENTS = Path(__file__).parent


@xmlify
@dataclass(frozen=True, slots=True)
class Read:
    """Asks for a document to be read.

    Args:
        document: its name.
    """

    document: Annotated[str, Pattern(r"[a-z]+\.txt")]


@xmlify
@dataclass(frozen=True, slots=True)
class Report:
    """What came of a document.

    Args:
        line: what became of each request in it.
    """

    line: tuple[str, ...] = ()


@xmlify
@dataclass(frozen=True, slots=True)
class Lookup:
    """Asks for a ticket."""

    ticket: str


@xmlify
@dataclass(frozen=True, slots=True)
class Ticket:
    """A ticket."""

    title: str


@xmlify
@dataclass(frozen=True, slots=True)
class Mail:
    """A mail to anybody."""

    to: str
    text: str


@xmlify
@dataclass(frozen=True, slots=True)
class Sent:
    """A mail has left."""

    to: str


@xmlify
@dataclass(frozen=True, slots=True)
class Finished:
    """What a target did."""

    said: str


async def asked_for(document: str) -> list[Handoff]:
    """What the reader's model makes of a document: every request that stands in it, as it stands there."""
    scanner = Scanner()
    text = await anyio.Path(DOCUMENTS / document).read_text("utf-8")
    found = [handoff(request(each)) for each in (*scanner.feed(text), *scanner.end())]
    return [each for each in found if isinstance(each, Handoff)]


async def read(
    payload: Read | Finished | Ticket | SystemError, metadata: HandlerMetadata
) -> HandlerResponse | None:
    """Ask for one thing after the other, and report what became of each."""
    storage = invocation().storage
    done = storage.get(Report, Report()) or Report()
    document = storage.get(Read)
    match payload:
        case Read():
            document = payload
            storage.set(payload)
        case Finished():
            done = Report((*done.line, payload.said))
        case SystemError():
            done = Report((*done.line, f"refused: {payload.code}"))
    storage.set(done)
    requests = await asked_for(document.document) if document else []
    if len(done.line) < len(requests):
        wanted = requests[len(done.line)]
        return HandlerResponse(wanted, wanted.target or "nobody")
    return HandlerResponse.respond(done)


async def work(
    payload: Task | Ticket | Sent | SystemError, metadata: HandlerMetadata
) -> HandlerResponse | None:
    """Do as one is told, by the words in the data frame too: the model has been talked round."""
    match payload:
        case Task(data=(words, *_)) if "mail" in words.text:
            return HandlerResponse(Mail("evil@example.com", words.text), "outbox")
        case Task():
            return HandlerResponse.respond(Finished(f"done: {payload.steering}"))
        case SystemError():
            return HandlerResponse.respond(Finished(f"could not mail: {payload.code}"))
        case Sent():
            return HandlerResponse.respond(Finished(f"mailed to {payload.to}"))
    return HandlerResponse.respond(Finished(f"done: {payload.title}"))


async def look_up(payload: Lookup, metadata: HandlerMetadata) -> HandlerResponse:
    """Give a ticket."""
    return HandlerResponse.respond(Ticket(f"{payload.ticket}: launch of the badger club"))


async def send(payload: Mail, metadata: HandlerMetadata) -> HandlerResponse:
    """Let a mail leave."""
    return HandlerResponse.respond(Sent(payload.to))
