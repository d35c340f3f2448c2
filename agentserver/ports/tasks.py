"""The end of tasks.

Owns that a cancelled task does end: what a library does inside it may lose a cancellation, as ``asyncio.wait_for`` of
Python 3.11 does when its result comes in the same turn of the loop. Refuses to know what a task is for.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

AGAIN: Final = 5.0
"""Seconds that a cancelled task has for what it does at its end, before it is cancelled once more."""


async def cancel_and_wait(tasks: Iterable[asyncio.Future[Any]], again: float = AGAIN) -> None:
    """Cancel tasks and wait until they are done. What one of them raises is not raised here.

    Args:
        tasks: futures of the running loop; those that are done already are left as they are.
        again: seconds after which one that goes on is cancelled once more.
    """
    every = frozenset(tasks)
    while running := {task for task in every if not task.done()}:
        for task in running:
            task.cancel()
        await asyncio.wait(running, timeout=again)
    for task in every:
        _ = task.cancelled() or task.exception()  # else the loop complains that nobody looked
