"""The seam to people who approve messages.

Owns how one is shown and where answers are left. Refuses to hold any implementation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentserver.core.state.approvals import Approval, ApprovalAnswer


class Approver(Protocol):
    """Shows a person the messages that wait for an approval. Absent, the answer is no.

    The answer comes back through ``answer`` of the server that runs the conversations, at any time.
    """

    def show(self, approval: Approval) -> None:
        """A message waits. Must not block or raise."""
        ...


class Answers(Protocol):
    """The place where people leave answers without being shown the question by this process."""

    async def list_pending(self) -> Sequence[tuple[ApprovalAnswer, float]]:
        """The answers that were left, each with its time in seconds since the epoch. Raises EngineError."""
        ...

    async def drop(self, approvals: Sequence[str]) -> None:
        """Forget the answers to these approvals: they were decided about. Raises EngineError."""
        ...
