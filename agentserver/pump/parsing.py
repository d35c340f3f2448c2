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
from agentserver.pump.slices import run_in_slices
from agentserver.wire.envelope import check_familiar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from lxml import etree

    from agentserver.core.guard import Rules
    from agentserver.core.messages import Delivery, Draft, Drafts, HandlerFailure, OutsideMessage
    from agentserver.core.records.outcome import Outcome
    from agentserver.core.refusals import Refusal
    from agentserver.core.state.requests import ResultLimits
    from agentserver.pump.editions import Editions


T = TypeVar("T")

_new = tuple.__new__

THREADS = 2
"""Messages that are parsed in threads at once."""

SHORT = 1 << 15
"""Bytes of the longest message that is parsed on the event loop."""


class ParsedOutside(NamedTuple):
    """Message that was parsed by these rules, or has only their names and is short; then ``read`` is None."""

    rules: Rules
    read: Draft | Refusal | None


class OffloadedParser:
    """Parses long messages, and those with names outside the server's schemas, in threads.

    Args:
        editions: rules to parse by.
    """

    def __init__(self, editions: Editions) -> None:
        self._editions = editions
        self._free = THREADS
        self._waiters: Rounds[asyncio.Future[None]] = Rounds()

    async def parse_outside(
        self, principal: str, conversation: str, outside: OutsideMessage
    ) -> ParsedOutside | None:
        """Parse an outside message in a thread, if that is necessary. Returns None if parsing raises."""
        editions = self._editions
        rules = editions.rules_of(conversation) if editions.earlier else editions.rules
        if len(outside.data) <= SHORT and check_familiar(outside.data, rules.bounds.names):
            return _new(ParsedOutside, (rules, None))
        read = partial(intake.read_outside, outside.data, outside.to, rules)
        done = await self._run_in_thread(principal, conversation, read)
        return None if done.exception() is not None else ParsedOutside(rules, done.result())

    async def parse_result(
        self, conversation: str, value: object, room: ResultLimits
    ) -> Drafts | Refusal | HandlerFailure:
        """Parse the result of a handler, in a thread if necessary. Raises what parsing raises."""
        rules = self._editions.rules_of(conversation)
        codecs, bounds = rules.codecs, rules.bounds
        if not isinstance(value, bytes) or (len(value) <= SHORT and check_familiar(value, bounds.names)):
            return await run_in_slices(replies.read_result(value, codecs, bounds, room))
        read = partial(replies.normalise, value, codecs, bounds, room)
        return (await self._run_in_thread("", conversation, read)).result()

    async def _run_in_thread(
        self, principal: str, conversation: str, work: Callable[[], T]
    ) -> asyncio.Future[T]:
        """Run a function in a new thread."""
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
        self._waiters.put(principal, conversation, turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._leave()
            raise

    def _leave(self) -> None:
        """Admit the next waiting caller that has not given up."""
        while self._waiters:
            turn = self._waiters.take()
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1


LIMIT: Final = 1 << 14
"""Bytes of a message beyond which its tree is not kept: trees weigh more than their text."""


class ParsedPayloads(dict[str, "etree._Element"]):  # noqa: SLF001 - elements have no public name
    """Payload elements of queued deliveries, so that they are parsed once. A missing one is parsed again."""

    def keep(self, outcome: Outcome) -> None:
        """Add the elements of new deliveries of a committed step, and remove those of dropped ones."""
        parsed = outcome.parsed
        for delivery in outcome.added:
            if len(delivery.message) <= LIMIT and delivery.id in parsed:
                self[delivery.id] = parsed[delivery.id]
        if outcome.dropped:
            self.forget(outcome.dropped)

    def forget(self, deliveries: Iterable[Delivery]) -> None:
        """Remove the elements of deliveries that no handler will receive."""
        for delivery in deliveries:
            self.pop(delivery.id, None)
