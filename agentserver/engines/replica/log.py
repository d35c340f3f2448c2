"""The seam to a replicated log: one order of entries for all servers of an organism, and who may append to what.

Owns what the engine over a log needs of it. Refuses to hold any implementation, and to know what an entry means.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, Self

from agentserver.ports import EngineError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path
    from types import TracebackType

    from agentserver.ports.sharing import Share

PARTITIONS: Final = 64
"""The shares that the conversations of an organism fall into, however many servers it has."""


BEHIND: Final = (0.5, 1.0, 2.0, 4.0, 8.0, 15.0)
"""Seconds, one after the other, after which a log that ends before a place is asked again: a leader that is new, or
does not know yet that it is none any more, may be behind what others have told."""


class BrokenLogError(EngineError):
    """The log cannot be followed from here on, however often it is asked; the message says why, in one line."""


class LogEntry(NamedTuple):
    """One entry of the log.

    Args:
        place: in the log; grows from each entry to the next, not always by one.
        partition: that it was appended to.
        epoch: of the share under which it was appended; None for one that anybody may append.
        body: what was appended; empty for a claim, which is an entry whose place is its epoch: what is appended to
            the partition under an earlier epoch has an earlier place, or is refused.
        id: under which it was appended; of a claim, who made it. The same id may come twice, with the same body.
        at: when the log took it, in seconds since the epoch, by one clock of the log's.
    """

    place: int
    partition: int
    epoch: int | None
    body: bytes
    id: str
    at: float


class ReplicatedLog(Protocol):
    """A replicated log. An async context manager: entering connects, leaving gives up what is held.

    Entering raises EngineError when the log cannot be had.
    """

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None: ...

    @property
    def name(self) -> str:
        """The name of this process among those that share the log. No other has it or ever had it."""
        ...

    @property
    def away(self) -> str:
        """The reason that nothing can be appended at present, in words; empty while the log can be reached."""
        ...

    @property
    def most(self) -> int:
        """The bytes that an entry may have."""
        ...

    async def append(self, partition: int, epoch: int | None, entry: bytes, id: str) -> int:  # noqa: A002 - its name
        """Append an entry; gives its place. Waits for as long as it is unknown what became of it.

        Args:
            partition: that it belongs to.
            epoch: of the share that it is appended under; None for an entry that anybody may append.
            entry: at most ``most`` bytes.
            id: the same for the same entry. One that is there already is not appended again, where the log can tell.

        Raises FencedError when another process has claimed the partition since: it was not appended, or it was before
        the claim and is told by ``follow``. EngineError when nothing was appended.
        """
        ...

    def follow(self, after: int) -> AsyncIterator[LogEntry]:
        """The entries after a place, in order, those to come too; never ends.

        Raises BrokenLogError for what is gone.
        """
        ...

    async def bounds(self) -> tuple[int, int]:
        """The earliest place that ``follow`` may be given, and the last place of the log. Raises EngineError."""
        ...

    async def id_at(self, place: int) -> str:
        """The id of the entry at a place; empty when that is gone or has none. Raises EngineError."""
        ...

    def shares(self) -> AsyncIterator[frozenset[Share]]:
        """The shares that this process holds, at once and after each change; never ends.

        A share's epoch is the place of its claim: what was appended before is what ``follow`` gives up to there.
        """
        ...

    def alone(self, name: str) -> AbstractAsyncContextManager[None]:
        """Be the only one, among all processes that share the log, that is inside under a name; waits for that.

        A process that is taken for dead loses it without being told: it is for order, not for safety.
        """
        ...

    async def once(self, name: str, value: str) -> str:
        """Give a name a value unless it has one; gives the value that it has from now on. Raises EngineError."""
        ...

    async def belong(self, listeners: frozenset[str]) -> None:
        """Note the listeners of the organism, by which a start knows the log of another one. Raises EngineError."""
        ...

    async def note(self, name: str, text: str) -> None:
        """Keep a short text under a name, in place of an earlier one, for good. Raises EngineError."""
        ...

    async def noted(self, name: str) -> str:
        """The text under a name; empty for none. Raises EngineError."""
        ...

    async def mark(self, text: str) -> None:
        """Keep a short text of this process, in place of an earlier one, for as long as the log's storage runs.

        Raises EngineError.
        """
        ...

    async def marked(self, name: str) -> str:
        """The text of a process, also of one that is gone; empty for none. Raises EngineError."""
        ...

    def living(self, name: str) -> bool:
        """True for a process that is not known to be gone. What it had may be claimed once it is known."""
        ...

    async def snapshot(self, place: int, file: Path) -> None:
        """Keep a copy of a replica that is as of a place, in place of an earlier one.

        What no process will need any more of the log may be forgotten then: what was before that place.
        Raises EngineError.
        """
        ...

    async def restore(self, file: Path) -> int | None:
        """Write the kept copy to a file; gives its place. None when there is none. Raises EngineError."""
        ...

    async def rest(self) -> None:
        """Let go of all shares, and take none until ``wake``: others take them without waiting."""
        ...

    async def wake(self) -> None:
        """Take shares again."""
        ...

    async def give_up(self) -> None:
        """Let go of all shares on purpose, and take none from now on: others take them without waiting."""
        ...
