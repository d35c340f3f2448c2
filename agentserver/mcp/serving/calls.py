"""A call of a tool, from its message to its result by the deadline.

Owns how long a call is waited for, and that one which comes again is made once. Refuses to know the protocol, and to
approve anything: it only reports that a person is asked.
"""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import anyio

from agentserver.mcp.serving.hearing import ProgressHearing
from agentserver.mcp.serving.unanswered import KnownCalls
from agentserver.ports import Unkept, UnkeptError
from agentserver.supervision import Ending, start_errand

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
    from typing import Any

    from agentserver.core.messages import Reply
    from agentserver.core.state.principals import Principal
    from agentserver.mcp.serving.rooms import McpHost, Rooms
    from agentserver.mcp.serving.tools import ServedTool
    from agentserver.ports.records import Records

    Beat: TypeAlias = Callable[[str], Awaitable[None]]

BEAT = 5.0
"""Seconds after which a host hears again that its call goes on."""


async def _here() -> bool:
    return False


@dataclass(frozen=True, slots=True)
class HostCall:
    """A call as a host makes it.

    Args:
        tool: its target.
        message: the payload.
        host: id that the host has given it, unique among its calls; empty for none.
        request: of an earlier call that the host comes back to; empty for none.
        leaving: whether to come back at once when a person is asked.
        gone: tells whether the host does not listen any more.
        progress: whether the host wants to hear how far the call is.
    """

    tool: ServedTool
    message: bytes
    host: str = ""
    request: str = ""
    leaving: bool = False
    gone: Callable[[], Awaitable[bool]] = _here
    progress: bool = False


@dataclass(frozen=True, slots=True)
class CallDone:
    """A call that came to rest.

    Args:
        replies: in order.
        again: whether the host has made this call before, and it was not made twice.
    """

    replies: tuple[Reply, ...]
    again: bool = False


@dataclass(frozen=True, slots=True)
class CallPending:
    """A call that goes on.

    Args:
        request: by which it is asked for again.
        approval: the id of what a person is asked; empty when nobody is.
        again: as of ``CallDone``.
    """

    request: str
    approval: str = ""
    again: bool = False


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
    _known: dict[str, KnownCalls] = field(default_factory=dict)
    _hearing: ProgressHearing = field(default_factory=ProgressHearing)

    async def call(self, principal: Principal, call: HostCall, beat: Beat) -> CallDone | CallPending:
        """Send a message and wait for its answers.

        A call that its host has no answer to, since it was late, cancelled or cut off, is found again by being the same
        once more, as is one that comes again under the id of its host. Then nothing is sent.

        Args:
            principal: whose call it is.
            call: the call.
            beat: shows a text to the host: now and then that the call runs, and the progress of its listeners.

        Raises QuotaError, UnkeptError and ValueError as the server does.
        """
        handle = await self.rooms.of(principal)
        known, told = self._known_of(principal.name, handle.id), (call.tool.listener, call.message)
        own = call.request or known.find(told, call.host) or known.begin(told)
        words = handle.progress() if call.progress else None  # from now on, so that the first is not missed
        submitted = await handle.send(call.message, call.tool.listener, request=own)
        if isinstance(submitted.code, Unkept):
            raise UnkeptError(submitted.code)
        again = submitted.again and not call.request
        waiting = _Waiting(self.server, handle.id, submitted.request, call.leaving and not call.request)
        hearing = None if words is None else partial(self._hearing.hear, words, submitted.request, beat)
        with waiting:
            await self._wait(handle.replies(*told[::-1], request=own), waiting, beat, hearing)
        if not waiting.over:
            known.keep(told, own)
            return CallPending(own, waiting.approval(), again)
        if not await call.gone():
            known.answer(told, own, call.host)
        return CallDone(tuple(waiting.replies), again)

    def cancel(self, principal: str, host: str) -> None:
        """Note that a host gave up a call, by its id of the call. The call itself continues."""
        known = self._known.get(principal)
        if known is not None:
            known.cancel(host)

    def _known_of(self, principal: str, conversation: str) -> KnownCalls:
        """Find what is known of a principal's calls, which goes with its conversation."""
        known = self._known.get(principal)
        if known is None or known.conversation != conversation:
            known = self._known[principal] = KnownCalls(conversation)
        return known

    async def _wait(
        self,
        answers: AsyncIterator[Reply],
        waiting: _Waiting,
        beat: Beat,
        hearing: Callable[[], Coroutine[Any, Any, None]] | None,
    ) -> None:
        """Wait for the answers until the deadline."""
        with anyio.move_on_after(self.deadline):
            async with anyio.create_task_group() as tasks:
                running = partial(waiting.run, beat, tasks.cancel_scope)
                start_errand(tasks, "looks after a call", Ending.OWNER, running)
                if hearing is not None:
                    start_errand(tasks, "hears the progress of a call", Ending.OWNER, hearing)
                waiting.replies += await _all(answers)
                waiting.over = True
                tasks.cancel_scope.cancel()


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
        self.replies: list[Reply] = []

    def __enter__(self) -> None:
        self._stop = self._server.stream.attach(self._note)

    def __exit__(self, *_: object) -> None:
        self._stop()

    def _note(self, records: Records) -> None:
        if any(record.conversation == self._conversation for record in records):
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
