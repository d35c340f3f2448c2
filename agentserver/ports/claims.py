"""The values by which several processes share the conversations of one organism.

Owns the claim, which is the right to work on a conversation, and the values that processes hand each other. Refuses to
know how either is kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agentserver.core.messages import (
        Cancellation,
        ConversationClosing,
        Done,
        EventPlace,
        OutsideMessage,
        Reply,
        RequeuedLetter,
    )
    from agentserver.core.state.approvals import ApprovalAnswer

    Arriving: TypeAlias = (
        OutsideMessage | Cancellation | ConversationClosing | ApprovalAnswer | RequeuedLetter
    )


class Claim(NamedTuple):
    """The right of this process to work on a conversation.

    Args:
        owner: number of the lease of this process; never 0.
        epoch: grows each time the conversation is claimed.
    """

    owner: int
    epoch: int


class GainedClaims(NamedTuple):
    """Conversations that this process claimed and is to take up: deliveries are queued in them, or wait for a person.

    Args:
        claims: by conversation.
        previous: number of the lease under which they were worked on before; 0 where none is known.
    """

    claims: Mapping[str, Claim]
    previous: int = 0


class LostClaims(NamedTuple):
    """Conversations that another process has, or may have, from now on."""

    conversations: frozenset[str]


class Arrival(NamedTuple):
    """A wish for a conversation, handed in by a process that does not have it.

    Args:
        id: unique; what is handed in twice under one id counts once.
        conversation: the conversation that it is for.
        principal: the principal that handed it in; None for an operator.
        content: the message, cancellation, close, answer or dead letter to decide about.
    """

    id: str
    conversation: str
    principal: str | None
    content: Arriving


class Fate(NamedTuple):
    """The outcome of an arrival for the process that handed it in.

    Args:
        word: empty where it was taken, else the reason (agentserver/pump/owners.py).
        request: the server's id of the request that a message is.
        version: of the conversation before the step that took it.
        again: whether the message was there already, under its sender's own id.
    """

    word: str = ""
    request: str = ""
    version: int = 0
    again: bool = False


class News(NamedTuple):
    """A step of another process in a conversation: something left it, it ended, or it asked a person.

    Args:
        conversation: its id.
        place: not before that of the last event that has left it; UNDECIDED where it is not known.
        asks: whether it began or ceased to wait for a person.
        over: whether it takes no message any more; None where it is not known.
        since: a place; every event that has left the conversation after it is in ``events``. None where only the
            engine knows what left.
        events: in order.
    """

    conversation: str
    place: EventPlace
    asks: bool = False
    over: bool | None = None
    since: EventPlace | None = None
    events: tuple[Reply | Done, ...] = ()
