"""Protocol through which operators' tools read an engine."""

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
    """Read-only, synchronous view of an engine for operators' tools.

    Each method raises UnreadableError (core/encoding/snapshot.py) for a damaged conversation.
    """

    @property
    def recorded(self) -> bool:
        """True when steps are kept.

        Without them there is no replay, no dead letter, no decision, no charge and nothing that is closed.
        """
        ...

    def find(self, prefix: str) -> Sequence[str]:
        """Find up to 8 conversations by a prefix of their ids."""
        ...

    def conversations(self) -> Iterable[Summary]:
        """List the conversations, the last touched first."""
        ...

    def active(self) -> Sequence[str]:
        """List the open conversations with queued, held or running deliveries, in the order of opening."""
        ...

    def load(self, conversation: str) -> Conversation | None:
        """Load an open conversation as last committed; None when it is unknown, closed or suspended."""
        ...

    def approvals(self, conversation: str) -> Sequence[Approval]:
        """List the messages of an open conversation that wait for a person."""
        ...

    def list_asking(self) -> Sequence[str]:
        """List the open conversations with messages that wait for a person."""
        ...

    def answers(self) -> Sequence[tuple[ApprovalAnswer, float]]:
        """List the answers that no server has taken, each with its time in seconds since the epoch."""
        ...

    def list_decisions(self, most: int = 100, principal: str | None = None) -> Sequence[DecidedApproval]:
        """List the latest decisions on messages that waited for a person, newest first.

        Args:
            most: greatest number.
            principal: owner of the conversations; None for all.
        """
        ...

    def list_charges(self, since: float = 0.0) -> Sequence[ChargeSum]:
        """List the charges since a time by listener, model and principal, the largest first."""
        ...

    def recorded_conversation(self, conversation: str) -> RecordedConversation:
        """Read the steps of a conversation. Raises LookupError for an unknown one, UnrecordedError without steps."""
        ...

    def find_altered(self, recorded: RecordedConversation) -> int | None:
        """Find the first version whose step was altered; None if intact or if steps are not sealed."""
        ...

    def dead(self, most: int | None = None, prefix: str = "") -> Sequence[DeadLetter]:
        """List the dead letters, oldest first, without those that were queued again or discarded.

        Args:
            most: number of the latest ones; None for all.
            prefix: of their delivery ids; other messages are not read.
        """
        ...

    def list_suspended(self) -> Sequence[SuspendedConversation]:
        """List the suspended conversations that can be resumed, oldest first."""
        ...
