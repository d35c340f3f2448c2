"""Protocols for the people who approve messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentserver.core.state.approvals import Approval, ApprovalAnswer


class Approver(Protocol):
    """Display of the messages that wait for an approval. Without one they are denied.

    The answer comes back through the server's ``answer``, at any time.
    """

    def show(self, approval: Approval) -> None:
        """Show a waiting message. Must not block or raise."""
        ...


class Answers(Protocol):
    """Store of answers from people that another process has asked."""

    async def list_pending(self) -> Sequence[tuple[ApprovalAnswer, float]]:
        """List the answers, each with its time in seconds since the epoch. Raises EngineError."""
        ...

    async def drop(self, approvals: Sequence[str]) -> None:
        """Remove the answers to decided approvals. Raises EngineError."""
        ...
