"""How much one request may lead to, and how much of it is left.

Owns the arithmetic. Refuses to know what becomes of a request that has used up its budget: the step decides that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from agentserver.core.blueprint import Limits
    from agentserver.core.conversation import Conversation


class Room(NamedTuple):
    """What one result may hold.

    Args:
        messages: at least one, because an answer that leaves the server needs no delivery.
        bytes: of all its payloads together.
    """

    messages: int
    bytes: int


def left(limits: Limits, conversation: int, request: int) -> int:
    """How many more messages a request may lead to after so many in its conversation, and so many of its own."""
    return max(0, min(limits.messages - request, limits.conversation_messages - conversation))


def room(limits: Limits, conversation: Conversation, request: str) -> Room:
    """What a result may hold that is concluded now."""
    entry = conversation.requests.get(request)
    spent = 0 if entry is None else entry.messages
    return Room(max(1, left(limits, conversation.messages, spent)), limits.principal_bytes)
