"""Keys below ``hooks:`` and ``inbox:``, for events of other services and for files."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import Field

from agentserver.config.keys.fields import (
    Body,
    Deadline,
    Dotted,
    Line,
    Name,
    RelativePath,
    Strict,
    TextPattern,
)
from agentserver.ports.hooks import HookSignature, InboxFormat  # noqa: TC001 - pydantic reads it

_Path: TypeAlias = Annotated[
    str,
    Field(max_length=300),
    TextPattern(
        r"^\$$|^[^.\s]+(\.[^.\s]+)*$", "is a path of keys such as issue.title, or $ for the whole body"
    ),
]
_Header: TypeAlias = Annotated[
    str,
    Field(max_length=100),
    TextPattern(r"^[a-z0-9\-]+$", "is the name of a header in lower case, such as x-github-event"),
]


class HookEntry(Strict):
    """Events of another service, at ``POST /hooks/NAME`` of the door."""

    name: Name = Field(description="The last part of the path; the principal of its messages is hook-NAME.")
    listener: Name = Field(description="The listener that gets the events.")
    payload: Dotted | None = Field(
        default=None,
        description="Dotted path of the @xmlify class of an event. Optional if the listener takes only one.",
    )
    signature: HookSignature = Field(
        description="How the sender signs: github, slack, stripe, or standard (Standard Webhooks)."
    )
    secret: str = Field(
        min_length=1,
        repr=False,
        description="The secret shared with the sender: ${NAME} of the environment, or ${file:path}; never the secret "
        "itself.",
        examples=["${GITHUB_WEBHOOK_SECRET}"],
    )
    fields: dict[Name, _Path] = Field(
        default_factory=dict,
        max_length=1000,
        description="For each field of the payload, the path of its value in the JSON body; defaults to the field's "
        "own name.",
    )
    only: dict[_Header, str] = Field(
        default_factory=dict,
        max_length=10,
        description="Headers and values of the events to take, such as {x-github-event: issues}. Others are answered "
        "with 204 and dropped.",
    )
    tolerance: Deadline = Field(
        default=300.0, description="How far the sender's time, where it signs one, may be from the server's."
    )


class InboxEntry(Strict):
    """Folder whose files are sent to a listener, each once."""

    name: Name = Field(description="Part of the principal of its messages, inbox-NAME.")
    folder: RelativePath = Field(
        description="The folder: relative to the project directory and inside it, or an absolute path. Files that were "
        "sent are moved to done/ in it, and refused ones to failed/.",
        examples=["inbox/orders"],
    )
    listener: Name = Field(description="The listener that gets the files.")
    payload: Dotted | None = Field(
        default=None,
        description="Dotted path of the @xmlify class of a file. Optional if the listener takes only one.",
    )
    format: InboxFormat = Field(
        default="json",
        description="json, or text for any file in UTF-8, whose values are name and text.",
    )
    fields: dict[Name, _Path] = Field(
        default_factory=dict,
        max_length=1000,
        description="For each field of the payload, the path of its value in the file; defaults to the field's "
        "own name.",
    )
    match: Line = Field(
        default="*",
        description="Pattern of the names to take. Names that begin with a dot, or end with .part or .tmp, are never "
        "taken.",
        examples=["*.json"],
    )
    largest: Body = Field(
        default=1_000_000, description="Largest size of a file; a larger one is refused unread."
    )
    settle: Deadline = Field(
        default=2.0, description="How long a file must have kept its size and its time before it is read."
    )
