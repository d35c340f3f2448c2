"""Two listeners that take the same broadcast: one keeps notes, the other counts them."""

from __future__ import annotations

from agentserver import HandlerMetadata, HandlerResponse, invocation
from listeners.payloads import Counted, Note, Noted


async def keep(payload: Note, metadata: HandlerMetadata) -> HandlerResponse:
    """Answer with every note of this conversation."""
    storage = invocation().storage
    known = storage.get(Noted) or Noted()
    now = Noted([*known.notes, payload.text])
    storage.set(now)
    return HandlerResponse.respond(now)


async def count(payload: Note, metadata: HandlerMetadata) -> HandlerResponse:
    """Answer with how much has been noted."""
    storage = invocation().storage
    known = storage.get(Counted) or Counted()
    now = Counted(known.notes + 1, known.words + len(payload.text.split()))
    storage.set(now)
    return HandlerResponse.respond(now)
