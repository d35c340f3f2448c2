"""The needs of the live view from the server and from those who know tokens, as Protocols.

Owns the seams. Refuses to hold any implementation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from agentserver.core.guard import Rules
    from agentserver.core.records.audit import AuditRecord
    from agentserver.core.state.approvals import Approval, ApprovalAnswer
    from agentserver.core.state.conversation import Conversation
    from agentserver.gateways.principals import Caller
    from agentserver.ports import EngineReader, Lagged

T = TypeVar("T")


class LiveHost(Protocol):
    """The server, as far as it is watched and decided about here."""

    @property
    def rules(self) -> Rules:
        """The rules by which conversations decide at present."""
        ...

    def records(self) -> AsyncIterator[tuple[AuditRecord, ...] | Lagged]:
        """The records of each committed step, from now on, until the server stops; those that were missed, counted."""
        ...

    def approvals(self) -> tuple[Approval, ...]:
        """The messages that wait for a person, the oldest first."""
        ...

    async def answer(self, conversation: str, answered: ApprovalAnswer) -> bool:
        """Commit a person's answer. False when nothing waits for it, or another message than the one shown does.

        Raises EngineError, and UnheardError of it where the answer may count yet.
        """
        ...

    def conversation(self, conversation: str) -> Conversation | None:
        """A conversation at work; None when it is unknown or over."""
        ...

    async def read(self, work: Callable[[EngineReader], T]) -> T:
        """Do some reading of what the engine has kept."""
        ...

    async def requeue(self, delivery: str, by: str) -> str:
        """Queue a dead letter again; gives the conversation in which it is. Raises LookupError."""
        ...

    async def discard(self, delivery: str) -> None:
        """Take a dead letter off the list. Raises LookupError."""
        ...

    def queues(self) -> Mapping[str, tuple[int, int]]:
        """By listener: deliveries that wait until it has room, and those that it has."""
        ...


class LiveTokens(Protocol):
    """Knows callers by their tokens."""

    def authenticate(self, token: str) -> Caller | None:
        """The caller whose token it is; None when it is nobody's."""
        ...

    def stands(self, caller: Caller) -> bool:
        """True while the caller's token counts, and for the same."""
        ...

    async def revoked(self, caller: Caller) -> None:
        """Wait until the caller's token counts no more."""
        ...
