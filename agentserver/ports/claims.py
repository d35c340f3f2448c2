"""Values with which several processes share the conversations of one organism."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agentserver.core.messages import (
        Cancellation,
        ConversationClosing,
        Done,
        EffectVerdict,
        EventPlace,
        OutsideMessage,
        Reply,
        RequeuedLetter,
    )
    from agentserver.core.state.approvals import ApprovalAnswer

    Arriving: TypeAlias = (
        OutsideMessage | Cancellation | ConversationClosing | ApprovalAnswer | RequeuedLetter | EffectVerdict
    )


class Claim(NamedTuple):
    """Right of this process to work on a conversation.

    Args:
        owner: number of the lease of this process; never 0.
        epoch: grows each time the conversation is claimed.
    """

    owner: int
    epoch: int


class GainedClaims(NamedTuple):
    """Conversations with waiting deliveries that this process has claimed and must continue.

    Args:
        claims: by conversation.
        previous: number of their previous lease; 0 if unknown.
    """

    claims: Mapping[str, Claim]
    previous: int = 0


class LostClaims(NamedTuple):
    """Conversations that another process has or may have now."""

    conversations: frozenset[str]


class Arrival(NamedTuple):
    """Event for a conversation, submitted by a process that does not have it.

    Args:
        id: unique; submissions under one id count once.
        conversation: its conversation.
        principal: the principal that submitted it; None for an operator.
        content: the message, cancellation, close, answer or dead letter.
    """

    id: str
    conversation: str
    principal: str | None
    content: Arriving


class ArrivalOutcome(NamedTuple):
    """Outcome of an arrival for the process that submitted it.

    Args:
        word: empty if accepted, else the reason (agentserver/pump/owners.py).
        request: the server's id of the request of a message.
        version: of the conversation before the step that accepted it.
        again: whether the message was committed before, under the same id of its sender.
    """

    word: str = ""
    request: str = ""
    version: int = 0
    again: bool = False


class RemoteStep(NamedTuple):
    """Step of another process: the conversation emitted events, ended, or asked a person.

    Args:
        conversation: its id.
        place: at or after the last emitted event; UNDECIDED if unknown.
        asks: whether it began or ceased to wait for a person.
        over: whether it has ended; None if unknown.
        since: a place; ``events`` has every event emitted after it. None if only the engine knows the events.
        events: in order.
    """

    conversation: str
    place: EventPlace
    asks: bool = False
    over: bool | None = None
    since: EventPlace | None = None
    events: tuple[Reply | Done, ...] = ()
