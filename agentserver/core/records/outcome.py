"""The outcome of a step: all its changes, committed whole or not at all."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lxml import etree

    from agentserver.core.decide.dismissal import DismissedMessage
    from agentserver.core.messages import (
        Cancellation,
        ConversationClosing,
        ConversationOpening,
        Delivery,
        Done,
        FinishedInvocation,
        GivenUp,
        Moment,
        OutsideMessage,
        RedrivenLetter,
        Reply,
        RequeuedLetter,
        ReserveRequest,
        SettleRequest,
        TurnedAway,
    )
    from agentserver.core.records.audit import AuditRecord
    from agentserver.core.state.approvals import Approval, ApprovalAnswer
    from agentserver.core.state.conversation import Conversation

    Cause: TypeAlias = (
        OutsideMessage
        | TurnedAway
        | DismissedMessage
        | FinishedInvocation
        | GivenUp
        | ApprovalAnswer
        | ConversationOpening
        | ConversationClosing
        | Cancellation
        | RequeuedLetter
        | RedrivenLetter
        | ReserveRequest
        | SettleRequest
    )

__all__ = ["Outcome"]


class Outcome(NamedTuple):
    """The changes of one step. Committed whole or not at all.

    Args:
        before: version of the conversation that the step was decided on.
        conversation: the conversation after the step.
        done: the delivery that was consumed, if one was.
        added: new deliveries.
        dropped: deliveries that will never be handled.
        asked: messages that wait for a person since this step.
        asking: by how many the messages that wait for a person have become more, or fewer.
        grown: by how many bytes the messages that wait anywhere in the conversation have become more, or fewer.
        ready: deliveries that may be handled now.
        retry: the delivery to hand to its handler again, if any.
        closed: threads that closed; what runs on them is to be cancelled.
        replies: what the gateway is told, in order.
        records: what happened, in order.
        parsed: payload elements of new deliveries, by delivery; spares the pump the reading. Not to be kept.
        deprecated: whether a handler returned bytes.
        moment: when, and with which seed, the step was decided.
        cause: what the step was decided about, so that it can be decided again.
        since: the conversation that the step was decided on; with it only the changes need be kept.
    """

    before: int
    conversation: Conversation
    done: str | None = None
    added: tuple[Delivery, ...] = ()
    dropped: tuple[Delivery, ...] = ()
    asked: tuple[Approval, ...] = ()
    asking: int = 0
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
