"""Work on the event loop that must not be hurried: long work in pieces, and work that no caller may cut short.

Owns how much is done between two pauses, and what becomes of a caller that gives up. Refuses to know the work.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Generator
from typing import TYPE_CHECKING, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from agentserver.core.conversation import Conversation
    from agentserver.core.outcome import Outcome
    from agentserver.core.pieces import Pieces

    Decision: TypeAlias = Callable[[Conversation], Outcome | Pieces[Outcome] | None]

T = TypeVar("T")

PIECES = 8
"""Pieces of work, of some twenty microseconds each, between two pauses."""


async def decided(decide: Decision, conversation: Conversation) -> Outcome | None:
    """Take a decision on a conversation, in pieces if it is made of them."""
    found = decide(conversation)
    return await unhurried(found) if isinstance(found, Generator) else found


async def unhurried(pieces: Pieces[T]) -> T:
    """Do all of it; what is short is done without a pause. Raises what the work raises."""
    done = 0
    while True:
        try:
            next(pieces)
        except StopIteration as end:
            result: T = end.value
            return result
        done += 1
        if done % PIECES == 0:
            await asyncio.sleep(0)


async def entirely(work: Coroutine[None, None, T]) -> T:
    """Do something to its end, even for a caller that gives up, who waits for it. Raises what the work raises.

    A task that is cancelled by asyncio's own means, as ``asyncio.wait_for`` does, is interrupted in a shielded scope of
    anyio as well.
    """
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        while not task.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([task])
        if not task.cancelled():
            task.exception()  # nobody is left to hear of it
        raise
