"""Lines of the log from which a flow is run again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final, Literal

from annotated_types import Ge

from agentserver.payload.xmlify import xmlify


@xmlify(namespace="urn:agentserver-flow")
@dataclass(frozen=True, slots=True)
class FlowLine:
    """One event of a flow.

    Args:
        kind: ``start`` with the request, ``ask`` and ``tell`` of a message, ``answer`` to one, ``refusal`` of all
            messages of an invocation, ``value`` of what a flow may not compute itself.
        key: idempotency key of the invocation that sent the message.
        place: of the message in the result of that invocation.
        name: of ``ask`` and ``tell`` the listener, of ``value`` its kind.
        digest: SHA-256 of a sent payload.
        text: markup of a received payload, or a value as JSON.
    """

    kind: Literal["start", "ask", "tell", "answer", "refusal", "value"]
    key: str = ""
    place: Annotated[int, Ge(0)] = 0
    name: str = ""
    digest: str = ""
    text: str = ""


KEPT: Final = (FlowLine,)
"""The payload classes that flows add to an organism."""
