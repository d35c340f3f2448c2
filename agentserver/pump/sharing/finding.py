"""Conversations that come to work: read from the engine, if they are this process's.

Owns that what is read under one share is not taken for another's. Refuses to know what is done with them.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agentserver.ports import DamagedError, FencedError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, MutableMapping

    from agentserver.core.state.conversation import Conversation
    from agentserver.ports import Engine
    from agentserver.pump.sharing.shares import Shares


@dataclass(slots=True)
class Finder:
    """Finds conversations.

    Args:
        engine: where they are kept.
        shares: of the pump.
        live: those at work, as last committed.
        set_aside: lets one go on no more that cannot be read.
    """

    engine: Engine
    shares: Shares
    live: MutableMapping[str, Conversation]
    set_aside: Callable[[str, Exception], Awaitable[None]]

    async def find(self, conversation: str) -> Conversation | None:
        """A conversation that goes on; None when it does not.

        Raises FencedError when it is another process's, and EngineError.
        """
        live = self.live.get(conversation)
        if live is not None:
            return live
        share = self.shares[conversation]
        try:
            found = await self.engine.load(conversation)
        except DamagedError as error:
            found = None
            await self.set_aside(conversation, error)
        if found is None:
            self.shares.pop(conversation, None)
            return None
        if self.shares[conversation] is not share:
            raise FencedError("another process had the conversation meanwhile")
        return self.live.setdefault(conversation, found)

    async def still(self, conversation: str) -> Conversation | None:
        """A conversation that goes on in this process."""
        with suppress(FencedError):
            return await self.find(conversation)
        return None
