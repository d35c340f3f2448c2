"""Lines of the log from which a flow is run again."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Final, Literal

from agentserver.payload.xmlify import xmlify


@dataclass(frozen=True, slots=True)
class FlowEvent:
    """Request of a flow that its runner has fulfilled.

    Args:
        kind: ``ask`` or ``tell`` for a message, ``value`` for what a flow may not compute itself, ``unknown`` and
            ``not done`` for an external effect that raised so.
        name: the listener, or the kind of value.
        text: SHA-256 of the sent payload, the value as JSON, the id of an unknown effect, or the text of ``NotDone``.
        line: of the source, of a message; zero if unknown.
    """

    kind: Literal["ask", "tell", "value", "unknown", "not done"]
    name: str
    text: str
    line: int = 0


@xmlify(namespace="urn:agentserver-flow")
@dataclass(frozen=True, slots=True)
class FlowLine:
    """Record of one invocation of a flow.

    Args:
        key: idempotency key of the invocation.
        received: markup of the payload.
        call: idempotency key of the invocation that sent the answered message; empty for the request.
        place: of that message among the messages of its invocation.
        refused: whether the payload refuses all messages of that invocation.
        events: in order.
    """

    key: str
    received: str
    call: str = ""
    place: int = 0
    refused: bool = False
    events: list[FlowEvent] = dataclasses.field(default_factory=list)


KEPT: Final = (FlowLine,)
"""The payload classes that flows add to an organism."""
