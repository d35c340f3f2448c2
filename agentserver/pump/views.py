"""Views of conversations that other processes own, for gateways of this process."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Final

import anyio

from agentserver.core.messages import UNDECIDED
from agentserver.ports import DamagedError, EngineError, News
from agentserver.pump.schedule import backoff
from agentserver.supervision import EndEffect, start_helper

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from agentserver.core.state.approvals import Approval
    from agentserver.core.state.conversation import Conversation
    from agentserver.ports import Engine
    from agentserver.pump.handles import Handles
    from agentserver.pump.watches import Watches


logger = logging.getLogger("agentserver.pump")

SEEN: Final = 1_000
"""Conversations that stay in memory though no gateway holds them and no approval waits in them."""


class Views:
    """Shows gateways of this process the conversations that other processes own.

    Args:
        engine: reports their news, and loads them.
        handles: of this process's gateways.
        watches: of this process's gateways.
        miss: counts a step elsewhere that asks a person as missed by readers of records.
    """

    def __init__(
        self, engine: Engine, handles: Handles, watches: Watches, miss: Callable[[str], None]
    ) -> None:
        self._engine = engine
        self._handles, self._watches, self._miss = handles, watches, miss
        self.known: dict[str, Conversation] = {}
        self._gone: asyncio.Queue[tuple[str, bool]] = asyncio.Queue()
        self._unread: dict[str, bool] = {}  # with whether a person is asked
        self._missed = asyncio.Event()

    def approvals(self) -> list[Approval]:
        """Return the messages that wait for a person elsewhere."""
        return [each for one in self.known.values() for each in one.approvals()]

    async def begin(self) -> None:
        """Find approvals of other processes. Raises EngineError."""
        if self._engine.shared:
            for conversation in await self._engine.read(lambda reader: reader.list_asking()):
                if self._engine.current_claim(conversation) is None:
                    await self.look(conversation)

    async def follow(self, stir: Callable[[], None]) -> None:
        """Show news from the engine until it closes; ``stir`` is called when a person is asked."""
        async with anyio.create_task_group() as tasks:
            start_helper(tasks, "shows moved conversations", EndEffect.SERVER, self._follow_moves)
            start_helper(tasks, "shows missed news", EndEffect.SERVER, partial(self._show_again, stir))
            async for news in self._engine.news(self._list_wanted):
                await self.show(news)
                if news.asks:
                    stir()
            tasks.cancel_scope.cancel()

    async def _follow_moves(self) -> None:
        """Keep showing conversations that moved to another process."""
        while True:
            conversation, asks = await self._gone.get()
            await self._see(News(conversation, UNDECIDED, asks=asks))

    async def _show_again(self, stir: Callable[[], None]) -> None:
        """Retry news that could not be read when it came."""
        failures = 1
        while True:
            await self._missed.wait()
            await anyio.sleep(backoff(failures))
            self._missed.clear()
            unread, self._unread = self._unread, {}
            for conversation, asks in unread.items():
                await self.show(News(conversation, UNDECIDED, asks=asks))
                if asks:
                    stir()
            failures = failures + 1 if self._unread else 1

    async def show(self, news: News) -> None:
        """Show news of a conversation, later if it cannot be read now."""
        found = await self._see(news)
        if news.asks and found is not None:
            self._miss(found.principal)

    async def _see(self, news: News) -> Conversation | None:
        """Pass on the events of a conversation, and load it if its state may be needed."""
        conversation, asks = news.conversation, news.asks
        try:
            if news.since is not None:
                self._watches.deliver_remote(conversation, news.since, news.events)
                await self._handles.catch_up(conversation)
            elif self._looked_at(conversation):
                await self._show(news)
            if asks or conversation in self.known or conversation in self._handles.known:
                return await self.look(conversation)
        except DamagedError as error:
            logger.error("events of another process cannot be read: %s", error)  # noqa: TRY400 - the text says it all
        except EngineError as error:
            logger.error("events of another process cannot be read at present: %s", error)  # noqa: TRY400 - the text says it all
            self._unread[conversation] = asks or self._unread.get(conversation, False)
            self._missed.set()
        return None

    async def _show(self, news: News) -> None:
        """Pass on the events and the end of a conversation."""
        conversation, over = news.conversation, news.over
        if over is None:
            found = await self._engine.find_conversation(conversation)
            over = found is not None and found.over
        self._watches.nudge(conversation, news.place)
        await self._handles.catch_up(conversation)
        if over:
            self._handles.finish(conversation)
            self._watches.close(conversation)

    async def look(self, conversation: str) -> Conversation | None:
        """Load a conversation of another process. Raises EngineError."""
        try:
            found = await self._engine.load(conversation)
        except DamagedError:  # its owner deals with that
            found = None
        if found is None or self._engine.current_claim(conversation) is not None:
            self.known.pop(conversation, None)
        else:
            self.known[conversation] = found
            self._forget()
        return found

    def _forget(self) -> None:
        if len(self.known) > SEEN:
            wanted = self._handles.known
            self.known = {key: one for key, one in self.known.items() if key in wanted or one.approvals()}

    def _looked_at(self, conversation: str) -> bool:
        return conversation in self._handles.known or conversation in self._watches.of

    def _list_wanted(self) -> list[str]:
        """Return the conversations of other processes that gateways here hold or watch."""
        looked_at = {*self._handles.known, *self._watches.of}
        return [key for key in looked_at if self._engine.current_claim(key) is None]

    # Moves

    async def show_gained(self, conversations: Collection[str]) -> None:
        """Show the earlier events of conversations that this process has gained. Raises EngineError."""
        for conversation in conversations:
            if self._looked_at(conversation):
                await self._show(News(conversation, UNDECIDED))
            self.known.pop(conversation, None)

    def keep_showing(self, lost: Mapping[str, bool]) -> None:
        """Keep showing conversations that this process has lost, each with whether it waits for a person.

        One that was not in memory counts too: its events go to watchers here.
        """
        for conversation, asks in lost.items():
            if asks or self._looked_at(conversation):
                self._gone.put_nowait((conversation, asks))
