"""The outcome of a step: all its changes, committed whole or not at all."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lxml import etree

    from agentserver.core.decide.dismissal import DismissedMessage
    from agentserver.core.messages import (
        AbandonedDelivery,
        Cancellation,
        ClaimRequest,
        ConcludeRequest,
        ConversationClosing,
        ConversationOpening,
        Delivery,
        Done,
        DueDelivery,
        EffectVerdict,
        FinishedInvocation,
        Moment,
        OutsideMessage,
        RedrivenLetter,
        RejectedMessage,
        Reply,
        RequeuedLetter,
        ReserveRequest,
        SettleRequest,
    )
    from agentserver.core.records.audit import AuditRecord
    from agentserver.core.state.approvals import Approval, ApprovalAnswer
    from agentserver.core.state.conversation import Conversation

    Cause: TypeAlias = (
        OutsideMessage
        | RejectedMessage
        | DismissedMessage
        | FinishedInvocation
        | AbandonedDelivery
        | ApprovalAnswer
        | ConversationOpening
        | ConversationClosing
        | Cancellation
        | RequeuedLetter
        | RedrivenLetter
        | ReserveRequest
        | SettleRequest
        | DueDelivery
        | ClaimRequest
        | ConcludeRequest
        | EffectVerdict
    )

__all__ = ["Outcome"]


class Outcome(NamedTuple):
    """Changes of one step, committed whole or not at all.

    Args:
        before: version of the conversation that the step was decided on.
        conversation: the conversation after the step.
        done: the delivery that was consumed, if one was.
        added: new deliveries.
        dropped: deliveries that will never be handled.
        approvals: messages that wait for a person since this step.
        asking: change in the number of messages that wait for a person.
        delaying: change in the number of messages that wait for their time.
        grown: change in the bytes of waiting messages.
        ready: deliveries that may be handled now.
        retry: the delivery to hand to its handler again, if any.
        closed: threads that closed; cancel their invocations.
        replies: events for the gateway, in order.
        records: what happened, in order.
        parsed: payload elements of new deliveries, by id, so that the pump need not parse them. Not to be stored.
        deprecated: whether a handler returned bytes.
        moment: time and seed of the decision.
        cause: the event that was decided on, for replay.
        since: the conversation before the step; an engine can store the difference.
    """

    before: int
    conversation: Conversation
    done: str | None = None
    added: tuple[Delivery, ...] = ()
    dropped: tuple[Delivery, ...] = ()
    approvals: tuple[Approval, ...] = ()
    asking: int = 0
    delaying: int = 0
    grown: int = 0
    ready: tuple[Delivery, ...] = ()
    retry: Delivery | None = None
    closed: tuple[str, ...] = ()
    replies: tuple[Reply | Done, ...] = ()
    records: tuple[AuditRecord, ...] = ()
    parsed: Mapping[str, etree._Element] = MappingProxyType({})
    deprecated: bool = False
    moment: Moment | None = None
    cause: Cause | None = None
    since: Conversation | None = None
