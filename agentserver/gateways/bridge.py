"""The bridge from an agent's output stream into the pump: what it asks for becomes messages of a principal.

Owns the way of one request from a stream to the server and its fate back. Refuses to judge: the server's own intents
do that, on the message. What no message can carry is put on record here, so that nothing is skipped in silence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentserver.core.handoffs import Handoff, Param
from agentserver.handoff.requests import Reason

if TYPE_CHECKING:
    from agentserver.handoff.requests import Request


def handoff(request: Request) -> Handoff | Reason:
    """The message that a request is, or why it is none. The target goes with it, unjudged."""
    if request.fault not in {None, Reason.LEGACY_PAYLOAD}:
        return request.fault or Reason.SCHEMA
    params = [(name, _text(value)) for name, value in request.params]
    if any(value is None for _, value in params):
        return Reason.PARAMS_SCHEMA
    values = tuple(Param(name, str(value)) for name, value in params)
    return Handoff(request.intent or "", request.target, values, None, request.event or None)


def _text(value: object) -> str | None:
    """A JSON value as the text of a parameter; None for one that has no such form."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, str | int) else None
