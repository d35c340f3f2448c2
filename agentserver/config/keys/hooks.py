"""Keys below ``hooks:``, for events of other services."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import Field

from agentserver.config.keys.fields import Deadline, Dotted, Name, Strict, TextPattern
from agentserver.ports.hooks import HookSignature  # noqa: TC001 - pydantic reads it

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
