"""Keys below ``hooks:``, ``inbox:`` and ``schedules:``: events of other services, files, and set times."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field

from agentserver.config.keys.fields import (
    Body,
    Deadline,
    Dotted,
    Line,
    Name,
    RelativePath,
    Retention,
    Strict,
    TextPattern,
)
from agentserver.ports.hooks import HookSignature, InboxFormat  # noqa: TC001 - pydantic reads it
from agentserver.ports.schedules import CatchUp, Overlap  # noqa: TC001 - pydantic reads it

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


class ScheduleEntry(Strict):
    """Message that the server sends at each due time, once over all servers."""

    name: Name = Field(description="Part of the ids of its messages; their principal is schedule-NAME.")
    listener: Name = Field(description="The listener that gets the messages.")
    payload: Dotted | None = Field(
        default=None,
        description="Dotted path of the @xmlify class of its message. Optional if the listener takes only one.",
    )
    fields: dict[Name, Any] = Field(
        default_factory=dict, max_length=1000, description="The values of the payload's fields."
    )
    every: Retention | None = Field(
        default=None,
        description="Interval between due times in whole seconds, such as 15m. They are multiples of it from the start "
        "of 1970 in UTC.",
        examples=["15m", "1h"],
    )
    cron: Line | None = Field(
        default=None,
        description="Minute, hour, day of the month, month and day of the week, as cron has them. Needs the extra "
        "schedules.",
        examples=["0 7 * * 1-5"],
    )
    zone: Line | None = Field(
        default=None,
        description="Time zone of cron, such as Europe/Berlin; UTC by default.",
        examples=["Europe/Berlin"],
    )
    principal: Name | None = Field(
        default=None, description="Owner of its conversations; schedule-NAME by default."
    )
    trust: Literal["orders", "relay", "stranger"] = Field(
        default="orders",
        description="The trust in its values: orders, since the file is the operator's; relay; or stranger.",
    )
    overlap: Overlap = Field(
        default="skip",
        description="A due time while the message of the previous one is in progress: skip drops it, queue"
        " lets it wait.",
    )
    catch_up: CatchUp = Field(
        default="last",
        description="Due times that passed while no server ran: last sends the latest, all sends each (at most 1000), "
        "none sends none that is more than a minute late.",
    )
