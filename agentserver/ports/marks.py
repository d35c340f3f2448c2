"""The seam to what is noted of work that may end the process.

Owns the marks and what a later server is told of them. Refuses to hold any implementation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping


class PreviousRun(NamedTuple):
    """The end of the server before, as far as it is known.

    Args:
        running: ids of the deliveries that were worked on; none after an end that was no delivery's fault.
        held: the one that held the event loop until the process was ended for it; empty for none.
        ends: suspects that are not acquitted, and how often the process ended while each ran alone.
    """

    running: frozenset[str]
    held: str
    ends: Mapping[str, int]


NO_PREVIOUS_RUN = PreviousRun(frozenset(), "", {})


class Marks(Protocol):
    """Keeps for the next server, here or in another process, what is being worked on.

    Nothing else here raises; only ``past``, ``begin`` and ``kept`` wait.
    """

    @property
    def at_once(self) -> bool:
        """True where a mark is there as soon as it is entered: ``kept`` needs not be waited for then."""
        ...

    async def previous_run(self, previous: int) -> PreviousRun:
        """The end of the process that had a lease before; NO_PAST when that cannot be read, or it gave everything back.

        Raises FencedError when this process has lost what it gained: it may not run here.

        What is running there is all of that process's: a delivery that ran beside others is no culprit.
        """
        ...

    async def begin(self, suspects: Mapping[str, int], calls: int) -> None:
        """Keep suspects with their ends for good, and make room for so many calls at once.

        Called at the start, and for each ``Gained`` that has suspects. Earlier suspects stay. Raises FencedError.
        """
        ...

    def enter(self, delivery: str, conversation: str) -> int:
        """Mark a delivery of a conversation; gives the slot to ``leave``."""
        ...

    async def wait_until_marked(self, slot: int) -> None:
        """Wait until the next server would find a mark, or it is left."""
        ...

    def leave(self, slot: int) -> None:
        """Clear a mark."""
        ...

    def acquit(self, delivery: str) -> None:
        """Forget a suspect."""
        ...

    def hold(self, delivery: str) -> None:
        """The process is about to be ended, because this one has held the event loop for too long."""
        ...

    def end(self) -> None:
        """The end that comes now is no delivery's fault. May be called from any thread."""
        ...
