"""The tool that sends mail by SMTP. Needs the extra ``tools``.

Headers are built from parsed addresses and one-line texts, so no field can inject a header or a recipient. Recipients
are not restricted here: declare the tool as ``trust: sink``. Each recipient has the role of a ``Destination``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from enum import StrEnum
from importlib import import_module
from typing import Annotated, Any, Literal

import anyio.to_thread
from annotated_types import Gt, MaxLen, MinLen

from agentserver.contract import HandlerMetadata, HandlerResponse, Pattern, invocation
from agentserver.extras import require
from agentserver.payload.xmlify import xmlify
from agentserver.provenance.evidence.labels import Role
from agentserver.tools import require_settings

__all__ = ["MailProblem", "MailResult", "MailSettings", "SendMail", "send"]

ADDRESS = r"[A-Za-z0-9_%+\-]+(\.[A-Za-z0-9_%+\-]+)*@[A-Za-z0-9\-]+(\.[A-Za-z0-9\-]+)+"
"""A plain address: no name, quotes or comment, ASCII only."""

SUBJECT = r"[^=\p{C}\p{Zl}\p{Zp}]*(=([^=?\p{C}\p{Zl}\p{Zp}][^=\p{C}\p{Zl}\p{Zp}]*)?)*"
"""One line without ``=?``, which begins an encoded word (RFC 2047) that could contain further header lines."""


class MailProblem(StrEnum):
    """Reason for not sending a mail, or not to everybody."""

    REFUSED = "refused"  # accepted for none of the recipients, or not for all
    UNREACHABLE = "unreachable"
    SIZE = "size"


@xmlify(namespace="urn:agentserver-tools:mail")
@dataclass(frozen=True, slots=True)
class SendMail:
    """A mail that is to be sent.

    Args:
        to: who gets it; each sees the others.
        subject: one line, without ``=?``.
        body: plain text.
    """

    to: Annotated[
        list[Annotated[str, Role.DESTINATION, MaxLen(254), Pattern(ADDRESS)]], MinLen(1), MaxLen(50)
    ]
    subject: Annotated[str, Role.PAYLOAD, MaxLen(200), Pattern(SUBJECT)]
    body: Annotated[str, Role.PAYLOAD]


@xmlify(namespace="urn:agentserver-tools:mail")
@dataclass(frozen=True, slots=True)
class MailResult:
    """The outcome of sending a mail.

    Args:
        accepted: how many recipients the server accepted.
        problem: the reason if it did not accept all.
    """

    accepted: int
    problem: MailProblem | None = None


@dataclass(frozen=True, slots=True)
class MailSettings:
    """The SMTP server to use.

    Args:
        host: its name.
        sender: the From address.
        port: default 587 for ``start`` and 465 for ``implicit``.
        tls: ``start`` requires STARTTLS, ``implicit`` encrypts from the first byte, ``none`` is for a server on this
            machine.
        user: the login; empty to send without one.
        password: of that user, as ``${NAME}`` or ``${file:PATH}``.
        authorities: a PEM file of certificate authorities that replaces the system's.
        seconds: timeout for one mail.
        size: maximum bytes of one mail.
    """

    host: str
    sender: Annotated[str, Pattern(ADDRESS)]
    port: int | None = None
    tls: Literal["start", "implicit", "none"] = "start"
    user: str = ""
    password: str = field(default="", repr=False)
    authorities: str | None = None
    seconds: Annotated[float, Gt(0)] = 30.0
    size: Annotated[int, Gt(0)] = 1_000_000

    def __post_init__(self) -> None:
        """Refuse an invalid sender, and a password over an unencrypted connection."""
        _make_address(self.sender)
        if self.user and self.tls == "none":
            raise ValueError("a password is not sent unencrypted: say tls: start or implicit")


async def send(payload: SendMail, metadata: HandlerMetadata) -> HandlerResponse:  # noqa: ARG001 - a handler's signature
    """Hand the mail to the server and answer with the outcome."""
    require("the tool that sends mail", "tools")
    settings, key = require_settings(MailSettings), invocation().idempotency_key
    smtp: Any = await anyio.to_thread.run_sync(import_module, "aiosmtplib")
    origin = _make_address(settings.sender)
    data = build_message(payload, origin, key, datetime.now(UTC)).as_bytes(policy=SMTP)
    if len(data) > settings.size:
        return HandlerResponse.respond(MailResult(0, MailProblem.SIZE))
    try:
        refused, _ = await smtp.send(
            data,
            sender=settings.sender,
            recipients=list(payload.to),
            hostname=settings.host,
            local_hostname=origin.domain,
            port=settings.port,
            username=settings.user or None,
            password=settings.password or None,
            use_tls=settings.tls == "implicit",
            start_tls=settings.tls == "start",
            cert_bundle=settings.authorities,
            timeout=settings.seconds,
        )
    except smtp.SMTPResponseException:
        return HandlerResponse.respond(MailResult(0, MailProblem.REFUSED))
    except smtp.SMTPRecipientsRefused:
        return HandlerResponse.respond(MailResult(0, MailProblem.REFUSED))
    except (smtp.SMTPException, OSError):
        return HandlerResponse.respond(MailResult(0, MailProblem.UNREACHABLE))
    accepted = len(payload.to) - len(refused)
    return HandlerResponse.respond(MailResult(accepted, MailProblem.REFUSED if refused else None))


def build_message(payload: SendMail, origin: Address, key: str, at: datetime) -> EmailMessage:
    """Build the mail. Messages with equal keys get the same Message-ID, so a mailbox can recognise a repetition.

    Raises ValueError for an invalid address, and for a subject with several lines or an encoded word.
    """
    if "=?" in payload.subject:  # the library would decode it, and write its line ends into the header
        raise ValueError("a subject holds no encoded words")
    mail = EmailMessage(policy=SMTP)
    mail["From"] = origin
    mail["To"] = [_make_address(each) for each in payload.to]
    mail["Subject"] = payload.subject
    mail["Date"] = format_datetime(at)
    mail["Message-ID"] = f"<{key}@{origin.domain}>"
    mail.set_content(payload.body.replace("\r\n", "\n").replace("\r", "\n"))
    return mail


def _make_address(text: str) -> Address:
    return Address(addr_spec=text)
