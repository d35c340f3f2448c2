"""Protocols between the pump and its engines, gateways and people, without implementations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from agentserver.completion import Completer
from agentserver.ports.claims import Arrival, ArrivalOutcome, Claim, GainedClaims, LostClaims, RemoteStep
from agentserver.ports.engine import (
    NO_PREVIOUS_RUN,
    ConflictError,
    DamagedError,
    Engine,
    EngineError,
    EngineReader,
    EventsExpiredError,
    FencedError,
    Marks,
    MessageConflictError,
    NoOutcomeError,
    NotStoredError,
    PreviousRun,
    QuotaError,
    RepeatedError,
    SleepingConversation,
    UnstorableError,
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
    "ArrivalOutcome",
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
    "EventsExpiredError",
    "FencedError",
    "GainedClaims",
    "Ingress",
    "LostClaims",
    "Marks",
    "MessageConflictError",
    "NoOutcomeError",
    "NotStoredError",
    "PreviousRun",
    "QuotaError",
    "RecordGap",
    "RejectReason",
    "RemoteStep",
    "RepeatedError",
    "SleepingConversation",
    "SubmitResult",
    "UnstorableError",
    "WatchEnd",
    "WatchStop",
]


class Clock(Protocol):
    """Source of time and randomness."""

    def moment(self) -> Moment:
        """Return the present time with a new seed."""

    def steady(self) -> float:
        """Return seconds of a monotonic clock."""
