"""Messages that wait for a person to approve them."""

from __future__ import annotations

from enum import StrEnum
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from agentserver.core.messages import Delivery, Question

__all__ = ["Answer", "Approval", "ApprovalAnswer"]

WAITING = 100
"""Messages of one conversation that may wait for a person at once, so that questions do not bury one another."""


class Answer(StrEnum):
    """Answers of a person to a question."""

    ONCE = "once"  # this one message is approved
    ALWAYS = "always"  # so is, in this conversation, every message that the guard considers the same
    DENY = "deny"


class NoAnswerReason(StrEnum):
    """Reasons for a denial without an answer."""

    NOBODY = "nobody is there to ask"
    LATE = "no answer in time"


class Approval(NamedTuple):
    """Admitted message that waits on its thread for a person's answer.

    Args:
        id: unique; an answer names it.
        delivery: the message.
        questions: those to approve; at least one.
        at: when it was asked, in seconds since the epoch.
        digest: binds an answer to the message; see ``digest``.
    """

    id: str
    delivery: Delivery
    questions: tuple[Question, ...]
    at: float
    digest: str


class ApprovalAnswer(NamedTuple):
    """Answer of a person.

    Args:
        approval: id of the approval.
        digest: of the message that the person was shown.
        answer: the decision.
        by: who answered, for the record; for a denial without an answer, a member of ``NoAnswerReason``.
        undone: whether this denial replaces an answer that could not be carried out.
    """

    approval: str
    digest: str
    answer: Answer
    by: str
    undone: bool = False


class LastingApproval(NamedTuple):
    """Approval that covers later messages, until it ends or a person revokes it.

    Args:
        id: names it in its conversation.
        to: the receiver of the messages.
        subject: the messages, for a person.
        until: the time at which it ends, in seconds since the epoch.
    """

    id: str
    to: str
    subject: str
    until: float

    def name_in(self, conversation: str) -> str:
        """Name it among those of all conversations, as the approval of a denial that revokes it."""
        return f"{self.id}@{conversation}"


def digest(delivery: Delivery) -> str:
    """SHA-256, in hexadecimal, of a message in the canonical form in which it goes out, and of where it goes.

    The envelope is written in one form only, so its bytes are that form. The delivery's id is in it: of two equal
    messages each has a digest of its own, so that one answer never counts for both.
    """
    parts = (delivery.id, delivery.thread, delivery.sender, delivery.to, delivery.root)
    hashed = sha256()
    for part in (*(text.encode() for text in parts), delivery.message):
        hashed.update(len(part).to_bytes(8, "big"))
        hashed.update(part)
    return hashed.hexdigest()
