"""The values by which several processes share the conversations of one organism.

Owns the share, which is a right to work, and what is handed in for a conversation that another process has. Refuses to
know how either is kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from agentserver.core.messages import Cancelling, Closing, EventPlace, Outside, Requeued
    from agentserver.core.state.approvals import ApprovalAnswer
    from agentserver.core.state.principals import Principal

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
        what: is to be decided about; None asks only whose the conversation is.
        opener: with whose rights the conversation begins, if it was opened elsewhere and no process knows it.
    """

    id: str
    conversation: str
    principal: str | None
    what: Arriving | None
    opener: Principal | None = None


class Fate(NamedTuple):
    """The outcome of an arrival for the one who has handed it in, in the words of agentserver/pump/elsewhere/owners.py.

    Args:
        word: empty where it was taken; why it was not.
        request: the server's id of the request that a message is; for an arrival that asks whose a conversation is, its
            principal.
        version: of the conversation before the step that took it.
        again: whether the message was there already, under its sender's own id.
    """

    word: str = ""
    request: str = ""
    version: int = 0
    again: bool = False


class Heard(NamedTuple):
    """News of a conversation that another process has: a step has let something leave, has ended it, or has asked.

    Args:
        conversation: its id.
        place: of the last event that has left with it; UNDECIDED where nothing has.
        asks: whether something waits for a person since, or does not any more.
    """

    conversation: str
    place: EventPlace
    asks: bool = False
