"""Documents with names of a stranger's own, and long ones, read in a thread that is used once.

Owns the threads: what libxml2 keeps of the names goes with the thread that read them, and the event loop turns
meanwhile. Those who wait for one take turns. Refuses to know what is made of what was read.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from agentserver.core.decide import intake
from agentserver.core.drafts import replies
from agentserver.pump.turns.rounds import Rounds
from agentserver.pump.turns.unhurried import unhurried
from agentserver.wire.familiar import familiar

if TYPE_CHECKING:
    from collections.abc import Callable

    from agentserver.core.guard import Rules
    from agentserver.core.messages import Draft, Drafts, Failed, Outside
    from agentserver.core.refusals import Refusal
    from agentserver.core.state.budget import Room
    from agentserver.pump.turns.editions import Editions

T = TypeVar("T")

THREADS = 2
"""Documents that are read apart at once."""

SHORT = 1 << 15
"""Longest document, in bytes, that is read while the event loop waits."""


class ReadApart(NamedTuple):
    """The reading of a message, which holds for these rules."""

    rules: Rules
    read: Draft | Refusal


class Apart:
    """Reads what is long, or not accounted for by the server's own schemas; a few documents at a time.

    Args:
        editions: what is read by.
    """

    def __init__(self, editions: Editions) -> None:
        self._editions = editions
        self._free = THREADS
        self._waiting: Rounds[asyncio.Future[None]] = Rounds()

    async def outside(self, principal: str, conversation: str, outside: Outside) -> ReadApart | None:
        """An outside message that should not be read here; None for any other, and for one whose reading fails."""
        editions = self._editions
        rules = editions.of(conversation) if editions.earlier else editions.rules
        if len(outside.data) <= SHORT and familiar(outside.data, rules.bounds.names):
            return None
        read = partial(intake.read_outside, outside.data, outside.to, rules)
        done = await self._done(principal, conversation, read)
        return None if done.exception() is not None else ReadApart(rules, done.result())

    async def result(self, conversation: str, value: object, room: Room) -> Drafts | Refusal | Failed:
        """The result of a handler, read here unless it is text that should not be. Raises what reading raises."""
        rules = self._editions.of(conversation)
        codecs, bounds = rules.codecs, rules.bounds
        if not isinstance(value, bytes) or (len(value) <= SHORT and familiar(value, bounds.names)):
            return await unhurried(replies.reading(value, codecs, bounds, room))
        read = partial(replies.normalise, value, codecs, bounds, room)
        return (await self._done("", conversation, read)).result()

    async def _done(self, principal: str, conversation: str, work: Callable[[], T]) -> asyncio.Future[T]:
        """Have a thread do something while the event loop turns."""
        await self._enter(principal, conversation)
        thread = ThreadPoolExecutor(1, "apart")
        done = asyncio.wrap_future(thread.submit(work))
        done.add_done_callback(lambda _: self._leave())
        thread.shutdown(wait=False)
        await asyncio.wait([done])
        return done

    async def _enter(self, principal: str, conversation: str) -> None:
        if self._free:
            self._free -= 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.put(principal, conversation, turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._leave()
            raise

    def _leave(self) -> None:
        """Let the next in, not counting those that have given up."""
        while self._waiting:
            turn = self._waiting.take()
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1
