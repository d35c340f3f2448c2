"""The pump's needs of the world, as Protocols and the values that cross them.

Owns the seams: Engine, EngineReader, Clock, Ingress, Approver, Answers, Completer. Refuses to hold any implementation.
"""

from agentserver.completion import Completer
from agentserver.ports.claims import Arrival, Claim, Fate, Gained, Lost, News
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
from agentserver.ports.time import Clock

__all__ = [
    "NO_PAST",
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
    "Ended",
    "Engine",
    "EngineError",
    "EngineReader",
    "Fate",
    "FencedError",
    "ForgottenError",
    "Gained",
    "Ingress",
    "Lagged",
    "Lost",
    "Marks",
    "News",
    "OtherMessageError",
    "Past",
    "QuotaError",
    "RepeatedError",
    "Submitted",
    "UnfitError",
    "UnheardError",
    "Unkept",
    "UnkeptError",
    "WatchEnd",
]
