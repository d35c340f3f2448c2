"""Protocol of the marks of running deliveries, which show a later server what ended the process."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping


class PreviousRun(NamedTuple):
    """Known facts about the end of the previous server.

    Args:
        running: ids of the running deliveries; empty after an end that was not caused by a delivery.
        held: the delivery that blocked the event loop until the process was ended, or empty.
        ends: the suspects, and how often the process ended while each ran alone.
    """

    running: frozenset[str]
    held: str
    ends: Mapping[str, int]


NO_PREVIOUS_RUN = PreviousRun(frozenset(), "", {})


class Marks(Protocol):
    """Store of the running deliveries for the next server, here or in another process.

    Only the documented errors are raised; only ``previous_run``, ``begin`` and ``wait_until_marked`` wait.
    """

    @property
    def at_once(self) -> bool:
        """True when a mark is stored as soon as it is entered, without ``wait_until_marked``."""
        ...

    async def previous_run(self, previous: int) -> PreviousRun:
        """Return how the process with an earlier lease ended; NO_PREVIOUS_RUN if unreadable or ended in order.

        Raises FencedError when this process has lost the gained claims and may not continue them.

        ``running`` has all deliveries of that process: one that ran together with others is not a suspect.
        """
        ...

    async def begin(self, suspects: Mapping[str, int], calls: int) -> None:
        """Store suspects with their counts, and make room for ``calls`` concurrent calls.

        Called at the start and for each ``GainedClaims`` with suspects. Earlier suspects stay. Raises FencedError.
        """
        ...

    def enter(self, delivery: str, conversation: str) -> int:
        """Mark a delivery of a conversation; returns the slot for ``leave``."""
        ...

    async def wait_until_marked(self, slot: int) -> None:
        """Wait until a mark is stored or cleared."""
        ...

    def leave(self, slot: int) -> None:
        """Clear a mark."""
        ...

    def acquit(self, delivery: str) -> None:
        """Remove a suspect."""
        ...

    def hold(self, delivery: str) -> None:
        """Note that this delivery blocked the event loop too long and the process will be ended."""
        ...

    def end(self) -> None:
        """Note that no delivery caused the coming end. May be called from any thread."""
        ...
