"""Reliable cancellation of tasks.

A library may lose a cancellation, as ``asyncio.wait_for`` of Python 3.11 does when its result comes in the same turn.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

AGAIN: Final = 5.0
"""Seconds that a cancelled task has for its cleanup before it is cancelled again."""


async def cancel_and_wait(tasks: Iterable[asyncio.Future[Any]], again: float = AGAIN) -> None:
    """Cancel tasks and wait until they are done. Their exceptions are discarded.

    Args:
        tasks: futures of the running loop.
        again: seconds after which a task that still runs is cancelled again.
    """
    every = frozenset(tasks)
    while running := {task for task in every if not task.done()}:
        for task in running:
            task.cancel()
        await asyncio.wait(running, timeout=again)
    for task in every:
        _ = task.cancelled() or task.exception()  # else the loop logs an unretrieved exception
