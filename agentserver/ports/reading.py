"""The seam to what an engine has kept, for operators.

Owns what their tools may ask. Refuses to hold any implementation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from agentserver.core.encoding.recorded import (
        ChargeSum,
        DeadLetter,
        DecidedApproval,
        RecordedConversation,
        Summary,
        SuspendedConversation,
    )
    from agentserver.core.state.approvals import Approval, ApprovalAnswer
    from agentserver.core.state.conversation import Conversation


class EngineReader(Protocol):
    """Gives operators what an engine has kept, as values. Synchronous; changes nothing.

    The tools of operators need no more of an engine: traces, replay, what-if, approvals, dead letters, lists.
    Each method raises UnreadableError (core/encoding/snapshot.py) for a conversation that is not what was written.
    """

    @property
    def recorded(self) -> bool:
        """True when steps are kept.

        Without them there is no replay, no dead letter, no decision, no charge and nothing that is closed.
        """
        ...

    def find(self, prefix: str) -> Sequence[str]:
        """The conversations whose ids begin so: at most 8 of them."""
        ...

    def conversations(self) -> Iterable[Summary]:
        """The conversations, the one that was touched last first."""
        ...

    def active(self) -> Sequence[str]:
        """The open conversations in which a delivery is queued, held or running, in the order of their opening."""
        ...

    def load(self, conversation: str) -> Conversation | None:
        """An open conversation as last committed; None when it is unknown, closed or set aside."""
        ...

    def approvals(self, conversation: str) -> Sequence[Approval]:
        """The messages of an open conversation that wait for a person."""
        ...

    def list_asking(self) -> Sequence[str]:
        """The open conversations in which something waits for a person."""
        ...

    def answers(self) -> Sequence[tuple[ApprovalAnswer, float]]:
        """The answers of people that no server has taken, each with its time in seconds since the epoch."""
        ...

    def list_decisions(self, most: int = 100, principal: str | None = None) -> Sequence[DecidedApproval]:
        """The messages that waited for a person and do no more, with who answered; the last ones, the latest first.

        Args:
            most: of them.
            principal: whose conversations; None for all.
        """
        ...

    def list_charges(self, since: float = 0.0) -> Sequence[ChargeSum]:
        """The charges since a time, in seconds since the epoch: by listener, model and principal, the dearest first."""
        ...

    def recorded_conversation(self, conversation: str) -> RecordedConversation:
        """The steps of a conversation. Raises LookupError when it is unknown, UnrecordedError without steps."""
        ...

    def find_altered(self, recorded: RecordedConversation) -> int | None:
        """The first version whose step is not what was written; None when all are, or when nothing seals steps."""
        ...

    def dead(self, most: int | None = None, prefix: str = "") -> Sequence[DeadLetter]:
        """The dead letters, oldest first; those that were queued again or discarded are none.

        Args:
            most: that are given, the latest; None for all.
            prefix: of the ids of their deliveries. Messages of others are not read.
        """
        ...

    def list_suspended(self) -> Sequence[SuspendedConversation]:
        """The conversations that are set aside and can be put back, oldest first."""
        ...
