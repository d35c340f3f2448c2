"""Idempotency keys of senders: a message that is sent twice counts once."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Final, NamedTuple

from agentserver.core.decide.dismissal import DismissedMessage
from agentserver.core.messages import OutsideMessage, RejectedMessage, RequestKey
from agentserver.core.records.audit import Event

if TYPE_CHECKING:
    from collections.abc import Iterable

    from agentserver.core.records.audit import AuditRecord
    from agentserver.core.records.outcome import Outcome

__all__ = ["Receipt", "issue_receipt"]

LONGEST = 512
"""Characters of a sender's id."""


class Receipt(NamedTuple):
    """Record of a committed message that has an idempotency key.

    Args:
        request: the server's id of the request.
        content: as of its key.
        code: of the immediate refusal; empty for an accepted message.
    """

    request: str
    content: str
    code: str = ""


def make_key(principal: str, conversation: str, own: str, data: bytes, to: str | None) -> RequestKey:
    """Make the key of a message with its sender's id ``own``. Raises ValueError unless that has 1 to 512 characters."""
    _fit(own)
    addressed = () if to is None else (_encode_bytes(to),)
    return RequestKey(
        _digest(_encode_bytes(principal), _encode_bytes(conversation), _encode_bytes(own)),
        _digest(data, *addressed),
    )


def make_arrival_key(conversation: str, outside: OutsideMessage) -> RequestKey:
    """Make the key of a message without a sender's id that several processes may try to decide.

    It never equals the key of a sender's id.
    """
    addressed = () if outside.to is None else (_encode_bytes(outside.to),)
    name = _digest(b"arriving", _encode_bytes(conversation), _encode_bytes(outside.request), b"")
    return RequestKey(name, _digest(outside.data, *addressed))


_ACCEPTED: Final = (OutsideMessage, RejectedMessage, DismissedMessage)


def issue_receipt(outcome: Outcome) -> tuple[str, Receipt] | None:
    """Return the key's name and the receipt of the message that a step received; None without a key."""
    cause = outcome.cause
    if not isinstance(cause, _ACCEPTED) or cause.key is None:
        return None
    return cause.key.name, Receipt(cause.request, cause.key.content, refused_with(outcome.records))


def refused_with(records: Iterable[AuditRecord]) -> str:
    """Return the refusal code in a step's records; empty when the message was accepted."""
    return next((record.code for record in records if record.event is Event.REFUSED), "")


def name_conversation(principal: str, own: str) -> str:
    """Name a conversation by its principal's id ``own``. Raises ValueError as ``make_key`` does."""
    _fit(own)
    return _digest(b"conversation", _encode_bytes(principal), _encode_bytes(own))


def opened_by(principal: str, door: str, conversation: str) -> str:
    """Name a conversation that a gateway opened for a principal. Never equals the name of ``name_conversation``."""
    return _digest(b"door", _encode_bytes(principal), _encode_bytes(door), _encode_bytes(conversation))


def _fit(own: str) -> None:
    if not 0 < len(own) <= LONGEST:
        raise ValueError(f"an id of the sender's has 1 to {LONGEST} characters, not {len(own)}")


def _encode_bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _digest(*parts: bytes) -> str:
    """Digest parts unambiguously, each with its length."""
    framed = b"".join(len(part).to_bytes(8, "big") + part for part in parts)
    return blake2b(framed, digest_size=20).hexdigest()
