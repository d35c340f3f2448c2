"""Long work on the event loop, with pauses in which everything else gets a turn.

Owns how much is done between two pauses. Refuses to know the work.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from typing import TYPE_CHECKING, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

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
