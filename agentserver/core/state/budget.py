"""Arithmetic of the message and hop budgets of a request."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from agentserver.contract import Code
from agentserver.core.records.details import Ground
from agentserver.core.refusals import Refusal

if TYPE_CHECKING:
    from agentserver.core.blueprint import Limits
    from agentserver.core.messages import Drafts
    from agentserver.core.records.details import Detail
    from agentserver.core.state.conversation import Conversation

_new = tuple.__new__


class Room(NamedTuple):
    """Permitted size of one result.

    Args:
        messages: at least one, because an answer that leaves the server needs no delivery.
        bytes: of all its payloads together.
    """

    messages: int
    bytes: int


def room(limits: Limits, conversation: Conversation, request: str) -> Room:
    """Return the permitted size of a result that is concluded now."""
    entry = conversation.requests.get(request)
    remaining = limits.messages if entry is None else limits.messages - entry.messages
    remaining = min(remaining, limits.conversation_messages - conversation.messages)
    return _new(Room, (max(1, remaining), limits.principal_bytes))


def find_overrun(returned: Drafts | Refusal, remaining: int) -> Detail | None:
    """Return how a result exceeds the rest of its request's budget, or None.

    Other invocations of the request may have used messages since the result was read.
    """
    if isinstance(returned, Refusal):
        return returned.detail if returned.code is Code.BUDGET else None
    many = len(returned.drafts)
    return Ground.RESULT.of(many, remaining) if many > max(1, remaining) else None
