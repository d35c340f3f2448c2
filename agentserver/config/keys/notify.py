"""Keys below ``notify:``, which announce messages that wait for an approval."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import AfterValidator, Field

from agentserver.config.keys.fields import Drain, Name, Strict, Variable

_Word: TypeAlias = Annotated[str, Field(max_length=4096)]


class NotifyEntry(Strict):
    """Way to announce messages that wait for an approval: a command or a webhook."""

    name: Name = Field(description="Part of the ids of its notices, and its name in logs.")
    command: Annotated[list[_Word], Field(min_length=1, max_length=100)] | None = Field(
        default=None,
        description="The program and its arguments, without a shell; it is started in the project directory and gets "
        "the notice as JSON on its standard input.",
        examples=[["/usr/local/bin/page"]],
    )
    env: list[Variable] = Field(
        default_factory=list,
        max_length=100,
        description="Names of the environment variables of the program, besides PATH, HOME, LANG and TZ.",
    )
    webhook: Annotated[str, Field(pattern=r"^https?://|\$\{", max_length=2000)] | None = Field(
        default=None,
        repr=False,
        description="The address that the notice is posted to, instead of a command.",
        examples=["https://desk.example/approvals"],
    )
    secret: Annotated[str, Field(min_length=1, max_length=1000)] | None = Field(
        default=None,
        repr=False,
        description="The secret that signs the requests of a webhook, as Standard Webhooks has it: Base64 of 24 to 64 "
        "bytes after whsec_. ${NAME} of the environment, or ${file:path}.",
        examples=["${NOTIFY_SECRET}"],
    )
    listeners: list[Name] = Field(
        default_factory=list,
        max_length=1000,
        description="The listeners whose messages are announced; all by default.",
    )
    after: Drain = Field(
        default=0.0,
        description="How long a message has waited before it is announced here; for a second approver, who is asked "
        "when the first does not answer.",
    )


def check_way(entry: NotifyEntry) -> NotifyEntry:
    """Check that there is exactly one way to announce. Raises ValueError."""
    if (entry.command is None) == (entry.webhook is None):
        raise ValueError("needs either command or webhook")
    if entry.webhook is None and entry.secret is not None:
        raise ValueError("secret is for a webhook; name an environment variable in env for a command")
    if entry.webhook is not None and entry.secret is None:
        raise ValueError('a webhook needs its secret: "${NAME}"')
    if entry.webhook is not None and entry.env:
        raise ValueError("env is for a command; a webhook has a secret")
    return entry


Notify: TypeAlias = Annotated[NotifyEntry, AfterValidator(check_way)]
