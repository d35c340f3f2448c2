"""Two listeners that receive the same broadcast: one stores notes, the other counts them."""

from __future__ import annotations

from agentserver import HandlerMetadata, HandlerResponse, invocation
from listeners.payloads import Note, NoteCount, NoteList


async def keep(payload: Note, metadata: HandlerMetadata) -> HandlerResponse:
    """Answer with every note of this conversation."""
    storage = invocation().storage
    known = storage.get(NoteList) or NoteList()
    now = NoteList([*known.notes, payload.text])
    storage.set(now)
    return HandlerResponse.respond(now)


async def count(payload: Note, metadata: HandlerMetadata) -> HandlerResponse:
    """Answer with the number of notes and words."""
    storage = invocation().storage
    known = storage.get(NoteCount) or NoteCount()
    now = NoteCount(known.notes + 1, known.words + len(payload.text.split()))
    storage.set(now)
    return HandlerResponse.respond(now)
