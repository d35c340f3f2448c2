"""The process around a console session, as the session sees it.

Owns the seam. Refuses to know how a process is made to end.
"""

from __future__ import annotations

import signal
from enum import Enum
from typing import TYPE_CHECKING, Protocol

import anyio

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


CLOSING = 0.4
"""Seconds that the end of a session may take after the drain; a journal that cannot be written keeps it no longer."""


class EndReason(Enum):
    """The reason for which a session ends before its lines do."""

    QUIT = "quit"
    TERMINATED = "terminated"
    INTERRUPTED = "interrupted"


class SessionGuard(Protocol):
    """The process around a session."""

    def signals(self) -> AsyncIterator[int]:
        """SIGINT and SIGTERM, as they come."""
        ...

    def begin(self, status: int) -> None:
        """The session ends with the drain, at the latest. May see to it that the process does too."""
        ...


class Unhurried:
    """A process that lives on after the session."""

    async def signals(self) -> AsyncIterator[int]:
        """The signals of the event loop."""
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as received:
            async for number in received:
                yield number

    def begin(self, status: int) -> None:
        """Nothing to see to."""
