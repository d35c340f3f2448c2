"""Messages that wait for a person to approve them."""

from __future__ import annotations

from enum import StrEnum
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from agentserver.core.messages import Delivery, Question

__all__ = ["Answer", "Approval", "ApprovalAnswer"]

WAITING = 100
"""Messages of one conversation that wait for a person at once: people read no more, and questions must not bury one."""


class Answer(StrEnum):
    """The answers of a person to a question."""

    ONCE = "once"  # this one message may go on
    ALWAYS = "always"  # so may, in this conversation, all that the guard that asked takes for the same
    DENY = "deny"


class NoAnswerReason(StrEnum):
    """The reason for a no that no person has said."""

    NOBODY = "nobody is there to ask"
    LATE = "no answer in time"


class Approval(NamedTuple):
    """An admitted message that waits on its thread for a person's answer.

    Args:
        id: unique; an answer names it.
        delivery: the message.
        questions: what has to be approved; at least one.
        at: when it was asked, in seconds since the epoch.
        digest: what an answer is bound to; see ``digest``.
    """

    id: str
    delivery: Delivery
    questions: tuple[Question, ...]
    at: float
    digest: str


class ApprovalAnswer(NamedTuple):
    """A person's answer.

    Args:
        approval: id of what it answers.
        digest: of the message that the person was shown.
        answer: what it says.
        by: who answered, for the record; of a denial without an answer, a member of ``NoAnswerReason``.
        undone: said of a denial in the place of an answer that could not be carried out.
    """

    approval: str
    digest: str
    answer: Answer
    by: str
    undone: bool = False


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
