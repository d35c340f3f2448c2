"""An office: a mailbox, contacts and letters, for agents that are made of models."""

from __future__ import annotations

import email
import mailbox
import re
from dataclasses import dataclass
from email.policy import default
from pathlib import Path
from typing import Annotated

import anyio.to_thread

from agentserver import HandlerMetadata, HandlerResponse, Pattern, invocation, xmlify
from agentserver.provenance import Role, Standing

PEOPLE = {"Kim": "kim@office.example", "Press": "press@office.example"}


@xmlify
@dataclass(frozen=True, slots=True)
class Wish:
    """The words of the principal."""

    text: str


@xmlify
@dataclass(frozen=True, slots=True)
class Report:
    """What was done, a line for each thing."""

    line: tuple[str, ...] = ()


@xmlify
@dataclass(frozen=True, slots=True)
class Words:
    """The principal's words, as they are, for the planner."""

    text: str


@xmlify
@dataclass(frozen=True, slots=True)
class Read:
    """Asks for a mail by its number, in the order in which they came; the first is 1."""

    id: Annotated[str, Pattern("[1-9][0-9]{0,5}")]


@xmlify
@dataclass(frozen=True, slots=True)
class Mail:
    """A mail. Its number is the mailbox's own; the rest is its author's."""

    id: Annotated[str, Standing.RECORD]
    subject: str
    text: str


@xmlify
@dataclass(frozen=True, slots=True)
class Search:
    """Asks for everybody in the contacts."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A person whom the contacts list."""

    name: Annotated[str, Standing.DIRECTORY]
    email: Annotated[str, Standing.DIRECTORY]


@xmlify
@dataclass(frozen=True, slots=True)
class Contacts:
    """Everybody in the contacts."""

    entry: tuple[Entry, ...] = ()


@xmlify
@dataclass(frozen=True, slots=True)
class Letter:
    """A mail to anybody."""

    to: Annotated[str, Role.DESTINATION]
    text: Annotated[str, Role.PAYLOAD]


@xmlify
@dataclass(frozen=True, slots=True)
class Done:
    """What a tool did."""

    what: str


@xmlify
@dataclass(frozen=True, slots=True)
class Question:
    """A text, about which one thing is to be said: whether it asks for an answer."""

    text: str


@xmlify
@dataclass(frozen=True, slots=True)
class Verdict:
    """One bit about a text."""

    asks: bool


@dataclass(frozen=True, slots=True)
class MailboxSettings:
    """The mailbox: a Maildir, which any mail server can fill. A relative path is below this file."""

    path: str


async def read(payload: Read, metadata: HandlerMetadata) -> HandlerResponse:
    """Give a mail."""
    subject, text = await anyio.to_thread.run_sync(_mail, invocation().settings.path, int(payload.id))
    return HandlerResponse.respond(Mail(payload.id, subject, text))


def _mail(path: str, number: int) -> tuple[str, str]:
    """Subject and text of a mail."""
    box = mailbox.Maildir(Path(__file__).parent / path, create=False)
    names = sorted(
        box.keys(), key=lambda name: [int(part) for part in re.findall("[0-9]+", name)]
    )  # times first
    message = email.message_from_bytes(box.get_bytes(names[number - 1]), policy=default)
    body = message.get_body(("plain",))
    return str(message["Subject"]), "" if body is None else body.get_content().rstrip()


async def search(payload: Search, metadata: HandlerMetadata) -> HandlerResponse:
    """Give the contacts."""
    return HandlerResponse.respond(Contacts(tuple(Entry(*person) for person in PEOPLE.items())))


async def send(payload: Letter, metadata: HandlerMetadata) -> HandlerResponse:
    """Let a letter leave."""
    return HandlerResponse.respond(Done(f"wrote to {payload.to}: {payload.text}"))
