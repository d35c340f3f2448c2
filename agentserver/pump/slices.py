"""Long work in slices on the event loop, and work that a cancelled caller does not cut short."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import anyio
import anyio.to_thread

from agentserver.core.pieces import prepend_work

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from agentserver.core.pieces import PreparedPieces
    from agentserver.core.records.outcome import Outcome
    from agentserver.core.state.conversation import Conversation

    Decision: TypeAlias = Callable[[Conversation], Outcome | PreparedPieces[Outcome] | None]


T = TypeVar("T")

PIECES = 8
"""Pieces of work, of some twenty microseconds each, between two turns of the loop."""


def take_only_piece(pieces: PreparedPieces[T]) -> T | PreparedPieces[T]:
    """Run work that has no more than one piece, which most work has. Returns its result, or all pieces of longer work.

    Raises what the work raises.
    """
    try:
        work = next(pieces)
    except StopIteration as end:
        result: T = end.value
        return result
    return prepend_work(work, pieces)


async def run_in_slices(pieces: PreparedPieces[T], limiter: anyio.CapacityLimiter | None = None) -> T:
    """Run all pieces, letting the loop turn after every few. Raises what the work raises.

    Args:
        pieces: the work.
        limiter: bounds the threads that prepare a piece; without one nothing is prepared.
    """
    done = 0
    while True:
        try:
            work = next(pieces)
        except StopIteration as end:
            result: T = end.value
            return result
        if work is not None and limiter is not None:
            await anyio.to_thread.run_sync(work, limiter=limiter)
        done += 1
        if done % PIECES == 0:
            await asyncio.sleep(0)


async def run_shielded(work: Coroutine[Any, Any, T]) -> T:
    """Await a coroutine to its end, even in a cancelled scope. Raises what the work raises."""
    with anyio.CancelScope(shield=True):
        result: T = await work
    return result


async def run_uncancelled(work: Coroutine[None, None, T]) -> T:
    """Run a coroutine to its end, and make even a cancelled caller wait for it. Raises what the work raises.

    Cancellation by asyncio itself, as in ``asyncio.wait_for``, interrupts a shielded scope of anyio as well.
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
