"""Parses large texts in threads, so that the event loop stays responsive."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

import anyio
import anyio.to_thread

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

SMALL: Final = 1 << 16
"""Bytes up to which a text is parsed on the event loop: a thread would cost more."""
AT_ONCE: Final = 2
"""Large texts parsed concurrently: each takes a multiple of its size, and Python runs one thread at a time."""


class ReadingThreads:
    """Thread limiter for parsing, separate from the process's other worker threads."""

    def __init__(self) -> None:
        self._limiter = anyio.CapacityLimiter(AT_ONCE)

    async def read(self, reader: Callable[[bytes], T], data: bytes) -> T:
        """Call ``reader`` with a text, in a thread if the text is large."""
        if len(data) <= SMALL:
            return reader(data)
        return await anyio.to_thread.run_sync(partial(reader, data), limiter=self._limiter)
