"""The pump's needs of the world, as Protocols and the values that cross them.

Owns the seams: Engine, EngineReader, Clock, Ingress, Approver, Answers, Completer. Refuses to hold any implementation.
"""

from agentserver.completion import Completer
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
    Ended,
    Ingress,
    Lagged,
    Submitted,
    Unkept,
    WatchEnd,
)
from agentserver.ports.marks import NO_PAST, Marks, Past
from agentserver.ports.people import Answers, Approver
from agentserver.ports.reading import EngineReader
from agentserver.ports.sharing import Arrival, Fate, Heard, Share
from agentserver.ports.time import Clock

__all__ = [
    "NO_PAST",
    "Answers",
    "Approver",
    "Arrival",
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
    "Fate",
    "FencedError",
    "ForgottenError",
    "Heard",
    "Ingress",
    "Lagged",
    "Marks",
    "OtherMessageError",
    "Past",
    "QuotaError",
    "RepeatedError",
    "Share",
    "Submitted",
    "UnfitError",
    "UnheardError",
    "Unkept",
    "UnkeptError",
    "WatchEnd",
]
