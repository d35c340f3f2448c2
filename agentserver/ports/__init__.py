"""The pump's needs of the world, as Protocols and the values that cross them.

Owns the seams: Engine, EngineReader, Clock, Ingress, Approver, Answers, Completer. Refuses to hold any implementation.
"""

from agentserver.completion import Completer
from agentserver.ports.engine import NO_PAST, Engine, Marks, Past
from agentserver.ports.errors import (
    ConflictError,
    DamagedError,
    EngineError,
    ForgottenError,
    OtherMessageError,
    QuotaError,
    RepeatedError,
    UnfitError,
    UnkeptError,
)
from agentserver.ports.ingress import (
    ConversationFound,
    ConversationHandle,
    Ended,
    Ingress,
    Lagged,
    Submitted,
    Unkept,
    WatchEnd,
)
from agentserver.ports.people import Answers, Approver
from agentserver.ports.reading import EngineReader
from agentserver.ports.time import Clock

__all__ = [
    "NO_PAST",
    "Answers",
    "Approver",
    "Clock",
    "Completer",
    "ConflictError",
    "ConversationFound",
    "ConversationHandle",
    "DamagedError",
    "Ended",
    "Engine",
    "EngineError",
    "EngineReader",
    "ForgottenError",
    "Ingress",
    "Lagged",
    "Marks",
    "OtherMessageError",
    "Past",
    "QuotaError",
    "RepeatedError",
    "Submitted",
    "UnfitError",
    "Unkept",
    "UnkeptError",
    "WatchEnd",
]
