"""Ends of a server that a person asked for, and those that come from what it runs.

Owns the difference. A handler need not kill the process to end it: what it starts may raise SystemExit, stop the
loop or cancel every task, and everything is then taken down in good order. Refuses to know what follows for the next
server.
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from anyio import CancelScope

    from agentserver.ports import Marks


@contextmanager
def acquitting(marks: Marks, work: CancelScope) -> Iterator[None]:
    """Say of an end that was asked for that it is no delivery's fault; say nothing of another one.

    An end was asked for when what is inside comes back or raises, and when it alone is cancelled, or all that is around
    the server. It was not when a worker has failed, or the whole loop is taken down.

    Args:
        marks: where it is said.
        work: the scope of the workers, which is cancelled here only when one of them has failed.
    """
    bystander = asyncio.create_task(asyncio.Event().wait(), name="bystander")
    taken_down = False
    try:
        yield
    except asyncio.CancelledError:
        # The one reason to cancel a task that none knows and that is in no scope is to cancel all there are.
        taken_down = work.cancel_called or bool(bystander.cancelling())
        raise
    finally:
        if not taken_down:
            marks.end()
        bystander.cancel()
