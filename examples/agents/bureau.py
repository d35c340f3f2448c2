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
    """Request of the principal."""

    text: str


@xmlify
@dataclass(frozen=True, slots=True)
class Report:
    """Report with one line for each action."""

    line: tuple[str, ...] = ()


@xmlify
@dataclass(frozen=True, slots=True)
class Words:
    """Request of the principal, verbatim, for the planner."""

    text: str


@xmlify
@dataclass(frozen=True, slots=True)
class Read:
    """Request for a mail by its number, in order of arrival; the first is 1."""

    id: Annotated[str, Pattern("[1-9][0-9]{0,5}")]


@xmlify
@dataclass(frozen=True, slots=True)
class Mail:
    """Mail whose number comes from the mailbox; the rest comes from its author."""

    id: Annotated[str, Standing.RECORD]
    subject: str
    text: str


@xmlify
@dataclass(frozen=True, slots=True)
class Search:
    """Request for all contacts."""


@dataclass(frozen=True, slots=True)
class Entry:
    """Contact with name and mail address."""

    name: Annotated[str, Standing.DIRECTORY]
    email: Annotated[str, Standing.DIRECTORY]


@xmlify
@dataclass(frozen=True, slots=True)
class Contacts:
    """All contacts."""

    entry: tuple[Entry, ...] = ()


@xmlify
@dataclass(frozen=True, slots=True)
class Letter:
    """Mail to any address."""

    to: Annotated[str, Role.DESTINATION]
    text: Annotated[str, Role.PAYLOAD]


@xmlify
@dataclass(frozen=True, slots=True)
class Done:
    """Description of what a tool did."""

    what: str


@xmlify
@dataclass(frozen=True, slots=True)
class Question:
    """Text to classify: does it ask for an answer?"""

    text: str


@xmlify
@dataclass(frozen=True, slots=True)
class Verdict:
    """Classification of a text, one bit."""

    asks: bool


@dataclass(frozen=True, slots=True)
class MailboxSettings:
    """Path of a Maildir, which any mail server can fill, relative to this file."""

    path: str


async def read(payload: Read, metadata: HandlerMetadata) -> HandlerResponse:
    """Return a mail."""
    subject, text = await anyio.to_thread.run_sync(_mail, invocation().settings.path, int(payload.id))
    return HandlerResponse.respond(Mail(payload.id, subject, text))


def _mail(path: str, number: int) -> tuple[str, str]:
    """Read subject and text of a mail."""
    box = mailbox.Maildir(Path(__file__).parent / path, create=False)
    names = sorted(
        box.keys(), key=lambda name: [int(part) for part in re.findall("[0-9]+", name)]
    )  # times first
    message = email.message_from_bytes(box.get_bytes(names[number - 1]), policy=default)
    body = message.get_body(("plain",))
    return str(message["Subject"]), "" if body is None else body.get_content().rstrip()


async def search(payload: Search, metadata: HandlerMetadata) -> HandlerResponse:
    """Return the contacts."""
    return HandlerResponse.respond(Contacts(tuple(Entry(*person) for person in PEOPLE.items())))


async def send(payload: Letter, metadata: HandlerMetadata) -> HandlerResponse:
    """Send a letter."""
    return HandlerResponse.respond(Done(f"wrote to {payload.to}: {payload.text}"))
