"""Protocols between the pump and its engines, gateways and people, without implementations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from agentserver.completion import Completer
from agentserver.ports.claims import Arrival, Claim, Fate, GainedClaims, LostClaims, News
from agentserver.ports.engine import (
    NO_PREVIOUS_RUN,
    ConflictError,
    DamagedError,
    Engine,
    EngineError,
    EngineReader,
    FencedError,
    ForgottenError,
    Marks,
    OtherMessageError,
    PreviousRun,
    QuotaError,
    RepeatedError,
    SleepingConversation,
    UnfitError,
    UnheardError,
    UnkeptError,
)
from agentserver.ports.ingress import (
    Answers,
    Approver,
    ConversationFound,
    ConversationHandle,
    Ingress,
    RecordGap,
    RejectReason,
    SubmitResult,
    WatchEnd,
    WatchStop,
)

if TYPE_CHECKING:
    from agentserver.core.messages import Moment

__all__ = [
    "NO_PREVIOUS_RUN",
    "Answers",
    "Approver",
    "Arrival",
    "Claim",
    "Clock",
    "Completer",
    "ConflictError",
    "ConversationFound",
    "ConversationHandle",
    "DamagedError",
    "Engine",
    "EngineError",
    "EngineReader",
    "Fate",
    "FencedError",
    "ForgottenError",
    "GainedClaims",
    "Ingress",
    "LostClaims",
    "Marks",
    "News",
    "OtherMessageError",
    "PreviousRun",
    "QuotaError",
    "RecordGap",
    "RejectReason",
    "RepeatedError",
    "SleepingConversation",
    "SubmitResult",
    "UnfitError",
    "UnheardError",
    "UnkeptError",
    "WatchEnd",
    "WatchStop",
]


class Clock(Protocol):
    """Source of time and randomness."""

    def moment(self) -> Moment:
        """Return the present time with a new seed."""

    def steady(self) -> float:
        """Return seconds of a monotonic clock."""
