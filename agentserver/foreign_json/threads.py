"""Reading of large texts in threads, so that the event loop serves others meanwhile.

Owns the size from which a text needs a thread, and the number read at once. Refuses to know the contents.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

import anyio
import anyio.to_thread

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

SMALL: Final = 1 << 16
"""Bytes of a text that is read in the event loop: a thread would cost more."""
AT_ONCE: Final = 2
"""Large texts that are read at once: each takes a multiple of its size, and Python runs one thread at a time."""


class ReadingThreads:
    """The threads in which one part of a server reads large texts. Apart from the other threads of the process."""

    def __init__(self) -> None:
        self._limiter = anyio.CapacityLimiter(AT_ONCE)

    async def read(self, reader: Callable[[bytes], T], data: bytes) -> T:
        """Call a reader with a text, in a thread when the text is large."""
        if len(data) <= SMALL:
            return reader(data)
        return await anyio.to_thread.run_sync(partial(reader, data), limiter=self._limiter)
