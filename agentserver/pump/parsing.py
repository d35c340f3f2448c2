"""Parsing of long or unfamiliar messages in threads, and the parsed payloads of queued deliveries.

Each thread is used once: libxml2 keeps the names of a document for as long as the thread that parsed it.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from agentserver.core.decide import intake
from agentserver.core.drafts import replies
from agentserver.pump.schedule import Rounds
from agentserver.pump.slices import unhurried
from agentserver.wire.familiar import familiar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from lxml import etree

    from agentserver.core.guard import Rules
    from agentserver.core.messages import Delivery, Draft, Drafts, Failed, Outside
    from agentserver.core.records.outcome import Outcome
    from agentserver.core.refusals import Refusal
    from agentserver.core.state.budget import Room
    from agentserver.pump.editions import Editions


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


LIMIT: Final = 1 << 14
"""Bytes of a message beyond which its parsed form is not kept: trees weigh more than their text."""


class ParsedPayloads(dict[str, "etree._Element"]):  # noqa: SLF001 - elements have no public name
    """Payload elements by delivery: kept by ``keep``, taken by ``pop`` when their delivery is handled."""

    def keep(self, outcome: Outcome) -> None:
        """Take the elements of what a committed step has added, and let those go of what it has dropped."""
        parsed = outcome.parsed
        for delivery in outcome.added:
            if len(delivery.message) <= LIMIT and delivery.id in parsed:
                self[delivery.id] = parsed[delivery.id]
        if outcome.dropped:
            self.forget(outcome.dropped)

    def forget(self, deliveries: Iterable[Delivery]) -> None:
        """Let go the elements of deliveries that no handler will be given."""
        for delivery in deliveries:
            self.pop(delivery.id, None)
