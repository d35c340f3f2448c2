"""The outbox: writes mails as files. The only listener of the desk whose effects cannot be undone."""

from __future__ import annotations

from dataclasses import dataclass
from email.message import EmailMessage
from email.policy import SMTP

from anyio import Path

from agentserver import HandlerMetadata, HandlerResponse, invocation
from listeners.payloads import Mail, MailReceipt

_FORM = SMTP.clone(max_line_length=998)  # as long as RFC 5322 allows, so that a subject is not folded


@dataclass(frozen=True, slots=True)
class OutboxSettings:
    """Destination of the mail files.

    Args:
        directory: for the files, relative to the working directory of the server; created if missing.
        sender: the address in ``From``.
    """

    directory: str
    sender: str


async def send(payload: Mail, metadata: HandlerMetadata) -> HandlerResponse:
    """Write the mail and answer with the name of its file.

    The idempotency key of the message names the file, so that a message that is handled twice produces one mail.
    """
    running = invocation()
    settings: OutboxSettings = running.settings
    directory = Path(settings.directory)
    await directory.mkdir(parents=True, exist_ok=True)
    file = directory / f"{running.idempotency_key}.eml"
    await file.write_bytes(compose(payload, settings.sender))
    return HandlerResponse.respond(MailReceipt(payload.to, str(file)))


def compose(mail: Mail, sender: str) -> bytes:
    """Format a mail as RFC 5322 text. Raises ValueError for a line break in a header.

    The schema of ``Mail`` refuses line breaks already; this is a second line of defence.
    """
    message = EmailMessage(policy=_FORM)
    message["From"] = sender
    message["To"] = mail.to
    message["Subject"] = mail.subject
    message.set_content(mail.body)
    return message.as_bytes()
