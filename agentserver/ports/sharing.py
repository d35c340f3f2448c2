"""The values by which several processes share the conversations of one organism.

Owns the share, which is a right to work, and what is handed in for a conversation that another process has. Refuses to
know how either is kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from agentserver.core.messages import Cancelling, Closing, Outside, Requeued
    from agentserver.core.state.approvals import ApprovalAnswer

    Arriving: TypeAlias = Outside | Cancelling | Closing | ApprovalAnswer | Requeued


class Share(NamedTuple):
    """The conversations that a process may work on, since it claimed them.

    Args:
        partition: the part of all conversations, counted from zero; an engine for one process has one.
        epoch: grows with each claim of the partition, over restarts too.
    """

    partition: int
    epoch: int


class Arrival(NamedTuple):
    """Something for a conversation, handed in where another process may have it.

    Args:
        id: unique; what is handed in twice under one id counts once.
        conversation: the conversation that it is for.
        principal: who handed it in; None for an operator.
        what: is to be decided about.
    """

    id: str
    conversation: str
    principal: str | None
    what: Arriving
