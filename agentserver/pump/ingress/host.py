"""The needs that a handle has of its server, as a Protocol only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Sequence

    from agentserver.core.messages import EventPlace, Outside
    from agentserver.ports import Submitted
    from agentserver.pump.ingress.stream import Event


class TaskEnds(Protocol):
    """Tells the hands of tasks when these are over."""

    def tell(self, hands: Any, task: asyncio.Task[object]) -> None:
        """Tell these hands, unless they are gone by then, when the task is over."""
        ...


class HandleHost(Protocol):
    """A handle's needs of its server."""

    @property
    def returns(self) -> TaskEnds:
        """Tells which tasks are over."""
        ...

    def outside(
        self, principal: str, conversation: str, data: bytes, to: str | None, own: str | None
    ) -> Outside:
        """A message under an id of the server's, and of the sender's."""
        ...

    async def submit(self, principal: str, conversation: str, outside: Outside) -> Submitted:
        """Commit an outside message, or say why not; of one that was sent before gives what became of it then."""
        ...

    async def told(self, conversation: str, request: str) -> list[Event]:
        """Everything that left for a request with a key, acknowledged or not."""
        ...

    async def outbox(self, conversation: str) -> list[Event]:
        """The events that left the conversation and were not acknowledged."""
        ...

    async def left(self, conversation: str, after: EventPlace) -> Sequence[Event] | None:
        """The next events after a place that are kept, acknowledged or not; None when the server has stopped."""
        ...

    async def catch_up(self, conversation: str) -> None:
        """Pass on what has left and was not passed on. Raises EngineError."""
        ...

    def acknowledge(self, conversation: str, place: EventPlace) -> None:
        """An event was taken."""
        ...

    def detach(self, conversation: str) -> None:
        """The gateway has the conversation no longer."""
        ...

    async def close(self, conversation: str) -> None:
        """End the conversation."""
        ...
