"""Dead letters that an operator deals with while the server runs.

Owns where one goes: back to its thread while that lives, else into a conversation of its own. Refuses to decide what
may go again: core/decide/requeue.py does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentserver.core.decide.requeue import redrive
from agentserver.core.messages import Redriven, Requeued
from agentserver.core.state.conversation import Conversation
from agentserver.ports import FencedError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from agentserver.core.encoding.recorded import DeadLetter
    from agentserver.core.messages import Delivery
    from agentserver.core.state.principals import Principal
    from agentserver.ports import Clock, Engine, EngineReader
    from agentserver.pump.boundary import Boundary
    from agentserver.pump.ingress.handle import ServerHandle
    from agentserver.pump.remote.owners import Owners
    from agentserver.pump.turns.editions import Editions


class DeadLetters:
    """The dead letters of a server.

    Args:
        engine: where they are kept.
        editions: the rules by which one may go again.
        clock: time and randomness.
        ways: one decides and commits, the other hands in what is for another process.
        begin: begins a conversation, of which a principal may have so many open.
    """

    def __init__(
        self,
        engine: Engine,
        editions: Editions,
        clock: Clock,
        ways: tuple[Boundary, Owners],
        begin: Callable[[Conversation, int | None], Awaitable[ServerHandle]],
    ) -> None:
        self._engine, self._editions, self._clock = engine, editions, clock
        (self._boundary, self._owners), self._begin = ways, begin

    async def requeue(self, delivery: str, by: str) -> str:
        """Queue one again; gives the conversation in which it is. Raises LookupError and EngineError."""
        letter, opener = await self._engine.read(lambda reader: _found(reader, delivery))
        if letter.open and await self._requeued(letter.delivery):
            return letter.delivery.conversation
        opened = Conversation.opened(opener, self._clock.moment())
        redriven = Redriven(letter.delivery, next(self._clock.moment().ids()), by)
        # Decided here first, so that no conversation begins for one that may not go.
        redrive(opened, redriven, self._editions.rules, self._clock.moment())
        (await self._begin(opened, None)).detach()  # what it is answered waits for its principal
        await self._boundary.redrive(opened.id, redriven)
        return opened.id

    async def _requeued(self, letter: Delivery) -> bool:
        try:
            return await self._boundary.requeue(letter)
        except FencedError:
            return await self._owners.requeue(Requeued(letter))

    async def discard(self, delivery: str) -> None:
        """Take one off the list. What is recorded of it stays. Raises LookupError and EngineError."""
        if not await self._engine.discard(delivery):
            raise LookupError("no such dead letter")


def _found(reader: EngineReader, delivery: str) -> tuple[DeadLetter, Principal]:
    """A dead letter, and the principal whose conversation it is from."""
    for letter in reader.dead(prefix=delivery):
        if letter.delivery.id == delivery:
            return letter, reader.recorded_conversation(letter.delivery.conversation).beginning.opener
    raise LookupError("no such dead letter")
