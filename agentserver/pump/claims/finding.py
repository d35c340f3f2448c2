"""Conversations that come to work because something is to be decided about them: claimed, then read.

Owns that a copy is of the claim that it is held under. Refuses to know what is decided.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agentserver.ports import DamagedError, FencedError
from agentserver.pump.claims.copies import at_work

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection

    from agentserver.core.state.conversation import Conversation
    from agentserver.ports import Claim
    from agentserver.pump.claims.copies import Copies
    from agentserver.pump.remote.elsewhere import Elsewhere


@dataclass(slots=True)
class Finder:
    """Finds conversations, and claims those that are not at work.

    Args:
        copies: those at work.
        set_aside: stops a conversation for good that cannot be read.
        gained: shows gateways what has left conversations, before anything leaves them here.
        elsewhere: those that another process had a moment ago.
    """

    copies: Copies
    set_aside: Callable[[str, Exception], Awaitable[None]]
    gained: Callable[[Collection[str]], Awaitable[None]]
    elsewhere: Elsewhere

    async def find(self, conversation: str) -> Conversation | None:
        """An open conversation, claimed; None when it is closed or unknown.

        Raises FencedError when another process has it, and EngineError.
        """
        live, _, _ = self.copies.work
        found = live.get(conversation)
        if found is not None:
            return found
        engine, claims = self.copies.kept
        claim = claims.get(conversation) or await self._claim(conversation)
        found = None if claim is None else await self._load(conversation)
        if claim is None or found is None:
            claims.pop(conversation, None)
            return None
        if engine.held(conversation) != claim:
            raise FencedError("another process had the conversation meanwhile")
        if claims.get(conversation) == claim:  # another task was quicker, or the copy was out of date
            return live.setdefault(conversation, found)
        if engine.shared and at_work(found):
            raise FencedError("what waits in the conversation is taken up first")
        self.copies.keep(found, claim)
        return found

    async def _claim(self, conversation: str) -> Claim | None:
        """Claim a conversation; None when it is closed or unknown."""
        engine, _ = self.copies.kept
        if engine.held(conversation) is None and self.elsewhere.find(conversation) is not None:
            raise FencedError("another process has the conversation")
        claim = await engine.claim(conversation)
        if claim is None:
            standing = await engine.standing(conversation)
            if standing is not None and not standing.over:
                self.elsewhere.note(standing)
                raise FencedError("another process has the conversation")
        elif engine.shared:
            self.elsewhere.forget(conversation)
            await self.gained([conversation])
        return claim

    async def _load(self, conversation: str) -> Conversation | None:
        engine, _ = self.copies.kept
        found = None
        try:
            found = await engine.load(conversation)
        except DamagedError as error:
            await self.set_aside(conversation, error)
        if found is None and engine.shared:
            await engine.release([conversation])
        return found

    async def still(self, conversation: str) -> Conversation | None:
        """An open conversation that this process has; None for any other. Claims nothing. Raises EngineError."""
        _, claims = self.copies.kept
        with suppress(FencedError):
            return await self.find(conversation) if conversation in claims else None
        return None
