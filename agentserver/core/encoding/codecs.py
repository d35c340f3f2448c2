"""Codecs of stored values, and of details for programs."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from agentserver.codec import ValueCodec, ValueStyle
from agentserver.contract import Code
from agentserver.core.messages import (
    Call,
    Cancellation,
    ConversationClosing,
    ConversationOpening,
    Delivery,
    Effects,
    Excerpt,
    HandlerFailure,
    OutsideMessage,
    Question,
    RedrivenLetter,
    RequestKey,
    TurnedAway,
)
from agentserver.core.records.audit import Event
from agentserver.core.records.details import NAMES, Detail, HandoffAttempt, OmittedCount, Unknown
from agentserver.core.records.wording import WORDING
from agentserver.core.refusals import Refusal
from agentserver.core.state.approvals import ApprovalAnswer
from agentserver.core.state.growing.logs import LogChange
from agentserver.core.state.principals import Rights
from agentserver.core.state.requests import OpenRequest
from agentserver.core.state.todos import Todo
from agentserver.spending import Amount

FORMAT: Final = 1
"""The version of the kept form. There is no release yet, so no other version is read."""

TYPES: Final[Mapping[str, Any]] = MappingProxyType(
    {
        **{
            one.__name__: one
            for one in (
                Amount, ApprovalAnswer, Call, Cancellation, Code, ConversationClosing, ConversationOpening, Delivery,
                Effects, Event, Excerpt, HandlerFailure, LogChange, OpenRequest, OutsideMessage, Question,
                RedrivenLetter, Refusal, RequestKey, Rights, Todo, TurnedAway,
            )
        },
        "Detail": Detail,
        "Mapping": Mapping,
    }
)  # fmt: skip
"""Types that the annotations of values name but their modules import for type checkers only."""


class UnreadableError(ValueError):
    """Stored state of a later version, or damaged."""


def derive_kept(
    kind: Any,
    types: Mapping[str, Any] = MappingProxyType({}),
    tags: Mapping[type, str] = MappingProxyType({}),
) -> ValueCodec[Any]:
    """Derive the codec of a stored type. ``types`` and ``tags`` are further ones that its annotations need."""
    style = ValueStyle(tags={**NAMES, **tags}, checks=dict.fromkeys(NAMES, WORDING.lines))
    return ValueCodec(kind, {**TYPES, **types}, style, FORMAT)


DETAILS: Final[ValueCodec[Detail | None]] = ValueCodec(
    Detail | None, TYPES, ValueStyle(named=True, tags={**NAMES, Unknown: "", OmittedCount: ""})
)
"""Details for programs, by name: the kind and the fields."""


def attempt_members(attempt: HandoffAttempt) -> dict[str, Any]:
    """Return the attempt with the keys of the record of handoffs."""
    members: dict[str, Any] = DETAILS.plain(attempt)
    del members["kind"]
    return members
