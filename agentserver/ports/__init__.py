"""Protocols between the pump and its engines, gateways and people, without implementations."""

from agentserver.completion import Completer
from agentserver.ports.claims import Arrival, Claim, Fate, GainedClaims, LostClaims, News
from agentserver.ports.engine import Engine
from agentserver.ports.errors import (
    ConflictError,
    DamagedError,
    EngineError,
    FencedError,
    ForgottenError,
    OtherMessageError,
    QuotaError,
    RepeatedError,
    UnfitError,
    UnheardError,
    UnkeptError,
)
from agentserver.ports.ingress import (
    ConversationFound,
    ConversationHandle,
    Ingress,
    RecordGap,
    RejectReason,
    SubmitResult,
    WatchEnd,
    WatchStop,
)
from agentserver.ports.marks import NO_PREVIOUS_RUN, Marks, PreviousRun
from agentserver.ports.people import Answers, Approver
from agentserver.ports.reading import EngineReader
from agentserver.ports.time import Clock

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
    "SubmitResult",
    "UnfitError",
    "UnheardError",
    "UnkeptError",
    "WatchEnd",
    "WatchStop",
]
