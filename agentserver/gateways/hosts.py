"""The server as gateways see it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

from agentserver.core.state.principals import owns

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from agentserver.core.guard import Rules
    from agentserver.core.state.approvals import Approval, ApprovalAnswer
    from agentserver.core.state.conversation import Conversation
    from agentserver.gateways.principals import Caller
    from agentserver.ports import EngineReader
    from agentserver.ports.records import RecordSource
    from agentserver.ports.servers import ServerState
    from agentserver.trace.store import TraceBook

T = TypeVar("T")


def list_approvals(server: ServerView, caller: Caller) -> list[Approval]:
    """List the open approvals that a caller may see, oldest first."""
    if caller.sees is None:
        return list(server.approvals())
    found = [(each, server.conversation(each.delivery.conversation)) for each in server.approvals()]
    return [each for each, state in found if state is not None and owns(caller.sees, state.principal)]


class ServerView(Protocol):
    """State of a running server that gateways show, and the answers to its approvals."""

    @property
    def rules(self) -> Rules:
        """Current rules of the decisions."""

    @property
    def trace(self) -> TraceBook:
        """The latest events."""

    @property
    def stream(self) -> RecordSource:
        """The stream of committed records."""

    def conversation(self, conversation: str) -> Conversation | None:
        """Return an active conversation; None if it is unknown or closed."""

    def approvals(self) -> tuple[Approval, ...]:
        """List the open approvals, oldest first."""

    async def answer(self, conversation: str, answered: ApprovalAnswer) -> bool:
        """Commit a person's answer. False if the approval is no longer open, or another message than the one shown.

        Raises EngineError, or its subclass NoOutcomeError if the answer may still count.
        """

    async def read(self, work: Callable[[EngineReader], T]) -> T:
        """Read what the engine has stored."""

    def describe_itself(self) -> ServerState:
        """Describe this server as the only one of its storage."""

    def queues(self) -> Mapping[str, tuple[int, int]]:
        """Count, by listener, the deliveries that wait and those that run."""
