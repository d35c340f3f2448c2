"""Sums of amounts over all conversations of a principal, which decide whether a person is asked or a message denied.

A message that counts towards a sum waits for an approval. The server gives it while the sums are within their
bounds. The approvals in the record of the engine are therefore the terms of the sums.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from typing import TYPE_CHECKING, Final, TypeAlias

import anyio

from agentserver.core.guard import SummingGuard, WeighedMessage
from agentserver.core.state.approvals import Answer, ApprovalAnswer
from agentserver.ports import EngineError, FencedError
from agentserver.wire.envelope import Malformed, read_sent

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from decimal import Decimal

    from agentserver.core.guard import Rules
    from agentserver.core.state.approvals import Approval
    from agentserver.core.state.conversation import Conversation
    from agentserver.ports import Clock, Engine
    from agentserver.pump.editions import Editions

    Commit: TypeAlias = Callable[[str, ApprovalAnswer], Awaitable[bool]]

logger = logging.getLogger("agentserver.pump")

BY: Final = "a sum within its bound"
"""Name under which the server approves."""

OVER: Final = "a sum over its limit"
"""Name under which the server denies."""

RETRY: Final = 1.0
"""Seconds between two attempts while the engine cannot be read."""


class SumKeeper:
    """Helper that approves messages, one at a time, while the sums that they count towards are within their bounds.

    Args:
        engine: has the approved messages.
        clock: the time.
        editions: the rules of conversations.
        live: the conversations at work.
    """

    def __init__(
        self, engine: Engine, clock: Clock, editions: Editions, live: Mapping[str, Conversation]
    ) -> None:
        self._engine, self._clock, self._editions, self._live = engine, clock, editions, live
        self._queue: asyncio.Queue[Approval] = asyncio.Queue()
        self.weighing: set[str] = set()

    def take(self, approval: Approval) -> bool:
        """Queue a message if sums decide whether a person is asked. ``weighing`` has its delivery until then."""
        delivery = approval.delivery
        rules = self._editions.rules_of(delivery.conversation)
        guard = next((one for one in rules.guards if isinstance(one, SummingGuard) and one.summing), None)
        if guard is None or any(question.guard != guard.name for question in approval.questions):
            return False
        if not _weigh(guard, rules, delivery.to, delivery.root, delivery.message).decided:
            return False
        self.weighing.add(delivery.id)
        self._queue.put_nowait(approval)
        return True

    async def run(self, answer: Commit, ask: Callable[[Approval], None]) -> None:
        """Decide on the queued messages. Never returns.

        Args:
            answer: commits an approval.
            ask: shows a message to a person.
        """
        while True:
            approval = await self._queue.get()
            passed = await self._try(approval, answer)
            self.weighing.discard(approval.delivery.id)
            if not passed:
                ask(approval)

    async def _try(self, approval: Approval, answer: Commit) -> bool:
        """Approve a message unless a sum is over its bound. Returns False if a person has to decide."""
        while True:
            try:
                return await self._approve(approval, answer)
            except FencedError:
                return True  # another process has the conversation, and decides
            except EngineError as error:
                logger.error("sums cannot be read at present: %s", error)  # noqa: TRY400 - the text says it all
                await anyio.sleep(RETRY)

    async def _approve(self, approval: Approval, answer: Commit) -> bool:
        delivery = approval.delivery
        conversation = self._live.get(delivery.conversation)
        rules = self._editions.rules_of(delivery.conversation)
        guard = next((one for one in rules.guards if isinstance(one, SummingGuard) and one.summing), None)
        if conversation is None or guard is None:
            return conversation is None
        weighed = _weigh(guard, rules, delivery.to, delivery.root, delivery.message)
        principal, to, now = conversation.principal, delivery.to, self._clock.moment().now
        since = now - max((one.bound.within for one in weighed.amounts), default=0.0)
        async with self._engine.exclusive(f"sums of {principal} to {to}"):
            earlier = await self._engine.read(lambda reader: reader.list_granted(principal, to, since))
            spent: dict[str, list[tuple[float, Decimal]]] = defaultdict(list)
            for one in earlier:
                for counted in _weigh(guard, rules, to, one.root, one.message).amounts:
                    spent[counted.key].append((one.at, counted.amount))
            for amount in weighed.amounts:
                recent = (each for at, each in spent[amount.key] if at >= now - amount.bound.within)
                if sum(recent, amount.amount) > amount.bound.over:
                    denial = ApprovalAnswer(approval.id, approval.digest, Answer.DENY, OVER)
                    return weighed.limited and await answer(conversation.id, denial)
            approved = ApprovalAnswer(approval.id, approval.digest, Answer.ONCE, BY)
            return weighed.decided and await answer(conversation.id, approved)


def _weigh(guard: SummingGuard, rules: Rules, to: str, root: str, message: bytes) -> WeighedMessage:
    """Read the amounts of a message; none if it cannot be read."""
    read = read_sent(message, rules.bounds.names)
    return WeighedMessage() if isinstance(read, Malformed) else guard.weigh(to, root, read.payload)
