"""Conversations of other processes, as this one meets them: what is handed in for them, and news of them.

Owns who waits for the fate of an arrival, and who listens. Refuses to know where either is kept.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from agentserver.core.messages import EventPlace
from agentserver.engines.replica.entries.acts import Done, Handing, Setting
from agentserver.engines.sqlite.steps.step import StepData
from agentserver.ports.sharing import Fate, Heard

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from agentserver.ports.sharing import Arrival

_ASKING: Final = tuple(f'"{event}"'.encode() for event in ("approved", "withdrawn", "dropped", "asked"))
"""Parts of the records of a step that asks a person, or settles that."""


class ForeignConversations:
    """The waiting and the listening of one process.

    Args:
        put: has something appended for a conversation, and gives what came of it.
    """

    def __init__(self, put: Callable[[str, Any], Awaitable[Any]]) -> None:
        self._put = put
        self._fates: dict[str, list[asyncio.Future[Fate]]] = {}
        self._listening: list[asyncio.Queue[Heard | None]] = []
        self.came = asyncio.Event()

    async def hand_in(self, arrival: Arrival) -> asyncio.Future[Fate]:
        """Keep something for the owner of a conversation; gives a future of what becomes of it. Raises EngineError."""
        fate: asyncio.Future[Fate] = asyncio.get_running_loop().create_future()
        self._fates.setdefault(arrival.id, []).append(fate)  # it may be done with before this goes on
        fate.add_done_callback(lambda _: self._drop(arrival.id, fate))
        kept = False
        try:
            known = await self._put(arrival.conversation, Handing(arrival))
            kept = True
        finally:
            if not kept:
                fate.cancel()
        if isinstance(known, Fate) and not fate.done():
            fate.set_result(known)
        return fate

    def _drop(self, arrival: str, fate: asyncio.Future[Fate]) -> None:
        waiting = self._fates.get(arrival, [])
        if fate in waiting:
            waiting.remove(fate)
        if not waiting:
            self._fates.pop(arrival, None)

    async def heard(self) -> AsyncIterator[Heard]:
        """News of conversations of others, as they are committed."""
        queue: asyncio.Queue[Heard | None] = asyncio.Queue()
        self._listening.append(queue)
        try:
            while (heard := await queue.get()) is not None:
                yield heard
        finally:
            self._listening.remove(queue)

    def settle(self, act: Any, result: Any, *, ours: bool) -> None:
        """An act was done, of a conversation of ours or of another process."""
        if isinstance(act, Handing):
            came, self.came = self.came, asyncio.Event()
            came.set()
        elif isinstance(act, Done):
            waiting = [fate for fate in self._fates.get(act.arrival, ()) if not fate.done()]
            for fate in waiting:
                fate.set_result(act.fate)
        elif self._listening and not ours:
            self._hear(act, result)

    def _hear(self, act: Any, result: Any) -> None:
        if isinstance(act, StepData):
            asks = any(word in act.records for word in _ASKING)
            if not (act.events or act.closed or asks):
                return
            heard = Heard(act.conversation, EventPlace(act.version, max(len(act.events) - 1, 0)), asks=asks)
        elif isinstance(act, Setting) and result:
            heard = Heard(act.conversation, result[-1].place, asks=True)
        else:
            return
        for queue in self._listening:
            queue.put_nowait(heard)

    def close(self) -> None:
        """End for all who wait and listen."""
        self.came.set()
        for queue in self._listening:
            queue.put_nowait(None)
        for fate in [fate for waiting in self._fates.values() for fate in waiting]:
            fate.cancel()


async def either(*events: asyncio.Event) -> None:
    """Wait for one of several."""
    tasks = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
