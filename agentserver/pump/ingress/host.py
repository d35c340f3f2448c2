"""The needs that a handle has of its server, as a Protocol only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import asyncio

    from agentserver.core.messages import EventPlace, Outside
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

    def new_id(self) -> str:
        """An id for a request."""
        ...

    async def submit(self, principal: str, conversation: str, outside: Outside) -> str:
        """Commit an outside message; gives its request, which is an earlier one when the message was sent before."""
        ...

    async def told(self, conversation: str, request: str) -> list[Event]:
        """Everything that left for a request with a key, acknowledged or not."""
        ...

    async def outbox(self, conversation: str) -> list[Event]:
        """The events that left the conversation and were not acknowledged."""
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
