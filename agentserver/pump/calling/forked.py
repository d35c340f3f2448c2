"""A copy of the process that a handler makes with fork().

Owns the end of a copy that would go on as a second server: it has the conversations, and neither the journal nor
the threads. A copy that does its work and ends, or becomes another program, is the handler's own.
"""

from __future__ import annotations

import asyncio
import os
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ASTRAY = 70
"""The status of a copy that came back to the event loop (EX_SOFTWARE)."""


@contextmanager
def only_here() -> Iterator[None]:
    """End every copy of this process that comes back to the event loop. Must be entered on it."""
    serving = [(asyncio.get_running_loop(), threading.get_ident())]

    def forked() -> None:
        for loop, thread in serving:
            if thread == threading.get_ident():
                loop.call_soon(os._exit, ASTRAY)

    os.register_at_fork(after_in_child=forked)  # for good, so it is told when there is nothing left to do
    try:
        yield
    finally:
        serving.clear()
