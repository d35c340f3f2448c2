"""A call of a tool, from the message that it is to what came of it by the deadline.

Owns how long a call is waited for, and how what came too late is found again. Refuses to know the protocol, and to
approve anything: it can tell that a person is asked, and no more.
"""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass, field
from secrets import token_hex
from typing import TYPE_CHECKING, TypeAlias

import anyio

from agentserver.ports import Unkept, UnkeptError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from agentserver.core.messages import Reply
    from agentserver.core.records.audit import AuditRecord
    from agentserver.core.state.principals import Principal
    from agentserver.mcp.serving.rooms import McpHost, Rooms
    from agentserver.mcp.serving.tools import ServedTool

    Beat: TypeAlias = Callable[[str], Awaitable[None]]

BEAT = 5.0
"""Seconds after which a host hears again that its call goes on."""

LATE = 1000
"""Calls that were not waited for to the end and are known again."""


@dataclass(frozen=True, slots=True)
class CallDone:
    """A call that came to rest."""

    replies: tuple[Reply, ...]


@dataclass(frozen=True, slots=True)
class CallPending:
    """A call that goes on.

    Args:
        request: by which it is asked for again.
        approval: the id of what a person is asked; empty when nobody is.
    """

    request: str
    approval: str = ""


@dataclass
class Calls:
    """Sends calls and waits for what comes of them.

    Args:
        server: running.
        rooms: the conversation of each principal.
        deadline: seconds for which one is waited for.
    """

    server: McpHost
    rooms: Rooms
    deadline: float
    _late: dict[tuple[str, str, bytes], str] = field(default_factory=dict)

    async def call(
        self,
        principal: Principal,
        tool: ServedTool,
        message: bytes,
        beat: Beat,
        *,
        request: str = "",
        leaving: bool = False,
    ) -> CallDone | CallPending:
        """Send a message and wait for its answers.

        One that was not waited for to the end is found again by its request, or else by being the same once more: then
        nothing is sent.

        Args:
            principal: whose call it is.
            tool: what is called.
            message: the payload.
            beat: told now and then that the call goes on.
            request: of an earlier call; empty for a new one.
            leaving: whether to come back at once when a person is asked.

        Raises QuotaError, UnkeptError and ValueError as the server does.
        """
        handle = await self.rooms.of(principal)
        key = (handle.id, tool.listener, message)
        late = self._late.pop(key, "")
        own = request or late or token_hex(16)
        submitted = await handle.send(message, tool.listener, request=own)
        if isinstance(submitted.code, Unkept):
            raise UnkeptError(submitted.code)
        waiting = _Waiting(self.server, handle.id, submitted.request, leaving and not request)
        replies: list[Reply] = []
        with anyio.move_on_after(self.deadline), waiting:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(waiting.run, beat, tasks.cancel_scope)
                answers = handle.replies(message, tool.listener, request=own)
                replies += await _all(answers)
                waiting.over = True
                tasks.cancel_scope.cancel()
        if waiting.over:
            return CallDone(tuple(replies))
        self._late[key] = own
        while len(self._late) > LATE:
            del self._late[next(iter(self._late))]
        return CallPending(own, waiting.approval())


async def _all(answers: AsyncIterator[Reply]) -> list[Reply]:
    """All replies; where it is cancelled none counts as taken."""
    async with aclosing(answers):  # type: ignore[type-var]
        return [reply async for reply in answers]


class _Waiting:
    """Looks after one call while it is waited for. A context manager.

    Args:
        server: running.
        conversation: id of the call's.
        request: the server's id of it.
        leaving: whether to stop waiting when a person is asked.
    """

    def __init__(self, server: McpHost, conversation: str, request: str, leaving: bool) -> None:  # noqa: FBT001 - within this module
        self._server, self._conversation, self._request = server, conversation, request
        self._leaving = leaving
        self._stirred = anyio.Event()
        self.over = False

    def __enter__(self) -> None:
        self._stop = self._server.trace.watch(self._note)

    def __exit__(self, *_: object) -> None:
        self._stop()

    def _note(self, record: AuditRecord) -> None:
        if record.conversation == self._conversation:
            self._stirred.set()

    def approval(self) -> str:
        """The first approval that the call waits for; empty for none."""
        conversation = self._server.conversation(self._conversation)
        asked = () if conversation is None else conversation.approvals()
        return next((one.id for one in asked if one.delivery.request == self._request), "")

    async def run(self, beat: Beat, scope: anyio.CancelScope) -> None:
        """Tell that the call goes on, until it is over."""
        while True:
            asked = self.approval()
            if asked and self._leaving:
                scope.cancel()
                return
            await beat(f"waits for a person to approve it: {asked}" if asked else "goes on")
            with anyio.move_on_after(BEAT):
                while self.approval() == asked:
                    self._stirred = anyio.Event()
                    await self._stirred.wait()
