"""The conversation of each principal that calls tools.

Owns which one it is: one for each principal, however often its host connects. What was seen in it is known for as long
as it lasts. Refuses to know the protocol.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import anyio

from agentserver.ports import Ingress

if TYPE_CHECKING:
    from agentserver.core.guard import Rules
    from agentserver.core.state.principals import Principal
    from agentserver.ports import ConversationHandle
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

    async def left_over(self, principal: str) -> tuple[str, ...]:
        """The principal's conversations that an earlier server left and that can be resumed, oldest first."""
        ...

    async def resume(self, principal: str, conversation: str) -> ConversationHandle:
        """Come back to a conversation."""
        ...


class Rooms:
    """Conversations by principal. One that is over is followed by another.

    Args:
        server: running.
    """

    def __init__(self, server: McpHost) -> None:
        self._server = server
        self._open: dict[str, ConversationHandle] = {}
        self._lock = anyio.Lock()

    async def of(self, principal: Principal) -> ConversationHandle:
        """The principal's conversation, which may be one that an earlier server left.

        Raises QuotaError and ValueError as ``open`` of the server does, RuntimeError when it stops.
        """
        async with self._lock:
            known = self._open.get(principal.name)
            if known is not None and not known.over:
                return known
            if known is not None:
                known.detach()
                del self._open[principal.name]
            found = await self._resumed(principal) or await self._server.open(principal)
            self._open[principal.name] = found
            return found

    async def _resumed(self, principal: Principal) -> ConversationHandle | None:
        """The principal's latest conversation with just these rights. One with others ends."""
        for key in reversed(await self._server.left_over(principal.name)):
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
        for handle in self._open.values():
            handle.detach()
        self._open.clear()

    async def close(self) -> None:
        """End the conversations."""
        for handle in self._open.values():
            await handle.close()
        self._open.clear()
