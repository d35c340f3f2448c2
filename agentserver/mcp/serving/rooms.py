"""The conversation of each principal that calls tools.

Owns which one it is: one for each principal, however often its host connects. What was seen in it is known for as long
as it lasts. Refuses to know the protocol.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

import anyio

from agentserver.ports import Ingress

if TYPE_CHECKING:
    from collections.abc import Callable

    from agentserver.core.guard import Rules
    from agentserver.core.state.principals import Principal
    from agentserver.ports import ConversationHandle
    from agentserver.ports.records import RecordSource
    from agentserver.trace.store import TraceBook


class McpHost(Ingress, Protocol):
    """The needs of this package of a server."""

    @property
    def rules(self) -> Rules:
        """The rules by which conversations decide."""
        ...

    @property
    def trace(self) -> TraceBook:
        """The events of late."""
        ...

    @property
    def stream(self) -> RecordSource:
        """The stream of committed records."""
        ...

    async def left_over(self, principal: str, door: str = "") -> tuple[str, ...]:
        """The principal's conversations that this door opened and that can be resumed, oldest first."""
        ...

    async def resume(self, principal: str, conversation: str) -> ConversationHandle:
        """Come back to a conversation."""
        ...


DOOR: Final = "mcp"
"""The name with which conversations of hosts are opened. No other conversation of a principal is touched here."""


class Rooms:
    """Conversations by principal. One that is over is followed by another.

    Args:
        server: running.
        most: conversations that the principal whose call is served may have open; None for as many as everybody.
    """

    def __init__(self, server: McpHost, most: Callable[[], int | None]) -> None:
        self._server, self._most = server, most
        self._open: dict[str, tuple[Principal, ConversationHandle]] = {}
        self._lock = anyio.Lock()

    async def of(self, principal: Principal) -> ConversationHandle:
        """The principal's conversation with hosts, which may be one that an earlier server left.

        Raises QuotaError and ValueError as ``open`` of the server does, RuntimeError when it stops.
        """
        async with self._lock:
            rights, known = self._open.pop(principal.name, (principal, None))
            if known is not None and known.over:
                known.detach()
                known = None
            if known is not None and rights != principal:
                await known.close()
                known = None
            found = known or await self._resumed(principal)
            if found is None:
                found = await self._server.open(principal, most=self._most(), door=DOOR)
            self._open[principal.name] = principal, found
            return found

    async def _resumed(self, principal: Principal) -> ConversationHandle | None:
        """The principal's latest conversation with just these rights. One with others ends."""
        for key in reversed(await self._server.left_over(principal.name, DOOR)):
            handle = await self._server.resume(principal.name, key)
            conversation = self._server.conversation(key)
            if conversation is not None and conversation.opener == principal:
                return handle
            if conversation is None:
                handle.detach()
            else:
                await handle.close()
        return None

    def leave(self) -> None:
        """Go without ending the conversations: the next server resumes them."""
        for _, handle in self._open.values():
            handle.detach()
        self._open.clear()

    async def close(self) -> None:
        """End the conversations."""
        for _, handle in self._open.values():
            await handle.close()
        self._open.clear()
