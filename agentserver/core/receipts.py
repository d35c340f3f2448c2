"""Idempotency keys of senders: a message that is sent twice counts once."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple

from agentserver.core.decide.dismissal import DismissedMessage
from agentserver.core.messages import OutsideMessage, RequestKey, TurnedAway
from agentserver.core.records.audit import Event

if TYPE_CHECKING:
    from collections.abc import Iterable

    from agentserver.core.records.audit import AuditRecord
    from agentserver.core.records.outcome import Outcome

__all__ = ["Receipt", "issue_receipt"]

LONGEST = 512
"""Characters of a sender's id."""


class Receipt(NamedTuple):
    """A message under its sender's id that was committed.

    Args:
        request: the id of the server's own that it was given.
        content: as of its key.
        code: of the refusal that it was answered with at once; empty for one that was accepted.
    """

    request: str
    content: str
    code: str = ""


def key(principal: str, conversation: str, own: str, data: bytes, to: str | None) -> RequestKey:
    """The key of a message that its sender calls ``own``. Raises ValueError unless that has 1 to 512 characters."""
    _fit(own)
    addressed = () if to is None else (_bytes(to),)
    return RequestKey(
        _digest(_bytes(principal), _bytes(conversation), _bytes(own)), _digest(data, *addressed)
    )


def arrival_key(conversation: str, outside: OutsideMessage) -> RequestKey:
    """The key of a message to which its sender gave no id, and that may be decided about by one process after another.

    No sender's own id has its name.
    """
    addressed = () if outside.to is None else (_bytes(outside.to),)
    name = _digest(b"arriving", _bytes(conversation), _bytes(outside.request), b"")
    return RequestKey(name, _digest(outside.data, *addressed))


def issue_receipt(outcome: Outcome) -> tuple[str, Receipt] | None:
    """The receipt that a step gives, under the name of its key; None when it receives nothing that has a key."""
    cause = outcome.cause
    if not isinstance(cause, OutsideMessage | TurnedAway | DismissedMessage) or cause.key is None:
        return None
    return cause.key.name, Receipt(cause.request, cause.key.content, refused_with(outcome.records))


def refused_with(records: Iterable[AuditRecord]) -> str:
    """The code of the refusal in the records of the step that received a message; empty when it was accepted."""
    return next((record.code for record in records if record.event is Event.REFUSED), "")


def conversation_name(principal: str, own: str) -> str:
    """The name of a conversation that its principal calls ``own``. Raises ValueError as ``key`` does."""
    _fit(own)
    return _digest(b"conversation", _bytes(principal), _bytes(own))


def opened_by(principal: str, door: str, conversation: str) -> str:
    """Name a conversation that a gateway opened for a principal. Never equals a ``conversation_name``."""
    return _digest(b"door", _bytes(principal), _bytes(door), _bytes(conversation))


def _fit(own: str) -> None:
    if not 0 < len(own) <= LONGEST:
        raise ValueError(f"an id of the sender's has 1 to {LONGEST} characters, not {len(own)}")


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _digest(*parts: bytes) -> str:
    """A digest of parts that no other parts have, however they are cut."""
    framed = b"".join(len(part).to_bytes(8, "big") + part for part in parts)
    return blake2b(framed, digest_size=20).hexdigest()
