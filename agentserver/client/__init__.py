"""The client of an organism's door: conversations, events and approvals from another program, over HTTP.

Needs the extra ``client``. Uses only the public API of the door.
"""

# ruff: noqa: E402 - the extra is checked before the imports that need it
from agentserver.extras import require

require("agentserver.client", "client")

from agentserver.client.client import Client
from agentserver.client.conversations import RemoteConversation
from agentserver.client.errors import (
    ProblemError,
    ProtocolError,
    UnansweredError,
    UnreachableError,
    WaitingMessage,
)
from agentserver.client.values import (
    DeltaEvent,
    DoneEvent,
    PendingApproval,
    ProgressEvent,
    Reason,
    ReplyEvent,
    SentMessage,
)

__all__ = [
    "Client",
    "DeltaEvent",
    "DoneEvent",
    "PendingApproval",
    "ProblemError",
    "ProgressEvent",
    "ProtocolError",
    "Reason",
    "RemoteConversation",
    "ReplyEvent",
    "SentMessage",
    "UnansweredError",
    "UnreachableError",
    "WaitingMessage",
]
