"""The outbox: writes mails as files. The one listener of the desk whose doings cannot be taken back."""

from __future__ import annotations

from dataclasses import dataclass
from email.message import EmailMessage
from email.policy import SMTP

from anyio import Path

from agentserver import HandlerMetadata, HandlerResponse, invocation
from listeners.payloads import Mail, Mailed

_FORM = SMTP.clone(max_line_length=998)  # as long as RFC 5322 allows, so that a subject is not folded


@dataclass(frozen=True, slots=True)
class OutboxSettings:
    """Where mail goes.

    Args:
        directory: for the files; made when it is missing, relative to where the server was started.
        sender: the address in ``From``.
    """

    directory: str
    sender: str


async def send(payload: Mail, metadata: HandlerMetadata) -> HandlerResponse:
    """Write the mail and answer with the name of its file.

    The file is named by the message's idempotency key: a message that is handled twice makes one mail.
    """
    running = invocation()
    settings: OutboxSettings = running.settings
    directory = Path(settings.directory)
    await directory.mkdir(parents=True, exist_ok=True)
    file = directory / f"{running.idempotency_key}.eml"
    await file.write_bytes(compose(payload, settings.sender))
    return HandlerResponse.respond(Mailed(payload.to, str(file)))


def compose(mail: Mail, sender: str) -> bytes:
    """The mail as RFC 5322 text. Raises ValueError when a header holds a line break.

    The schema of ``Mail`` refuses line breaks already; a header is worth two locks.
    """
    message = EmailMessage(policy=_FORM)
    message["From"] = sender
    message["To"] = mail.to
    message["Subject"] = mail.subject
    message.set_content(mail.body)
    return message.as_bytes()
