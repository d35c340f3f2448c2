"""Purses of running invocations: each charge is a committed step before its work is done."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from agentserver.core.decide import charges
from agentserver.core.messages import ReserveRequest, SettleRequest
from agentserver.ports import EngineError
from agentserver.pump.steps import UndecidedError
from agentserver.spending import Amount, SpentError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from agentserver.core.messages import Delivery
    from agentserver.core.records.outcome import Outcome
    from agentserver.core.state.conversation import Conversation
    from agentserver.ports import Clock
    from agentserver.pump.editions import Editions
    from agentserver.pump.slices import Decision

    Take: TypeAlias = Callable[[str, Decision], Awaitable[bool]]


logger = logging.getLogger("agentserver.pump")

WORD = 200
"""Characters of the description of some work that are kept."""


@dataclass(frozen=True, slots=True)
class Purses:
    """Factory of purses.

    Args:
        editions: rules that charges are decided by.
        clock: time and randomness.
        take: takes a step, once, and returns False if the conversation is closed; raises EngineError and
            UndecidedError.
    """

    editions: Editions
    clock: Clock
    take: Take

    def purse_of(self, delivery: Delivery) -> DeliveryPurse:
        """Return the purse of the invocation that handles a delivery."""
        return DeliveryPurse(self, delivery)


@dataclass(frozen=True, slots=True)
class DeliveryPurse:
    """Purse of one invocation: see ``agentserver.spending.Purse``."""

    purses: Purses
    delivery: Delivery

    async def reserve(self, most: Amount, what: str) -> str:
        """Reserve the highest possible cost of some work, committed. Raises SpentError and RuntimeError."""
        asked = ReserveRequest(self.delivery, what[:WORD], most)
        reserved, why = "", ""

        def decide(now: Conversation) -> Outcome | None:
            nonlocal reserved, why
            rules = self.purses.editions.rules_of(now.id)
            why = charges.objection(now, asked, rules)
            outcome = charges.reserve(now, asked, rules, self.purses.clock.moment())
            reserved = "" if outcome is None else [*outcome.conversation.spending.open][-1]
            return outcome

        try:
            kept = await self.purses.take(self.delivery.conversation, decide)
        except (EngineError, UndecidedError) as error:
            raise RuntimeError("the server cannot keep a charge at present") from error
        if not kept or not reserved:
            raise SpentError(why or "the conversation is closed")
        return reserved

    async def settle(self, reservation: str, cost: Amount) -> None:
        """Charge the actual cost. If that cannot be kept, the charge stays as it was reserved."""
        done = SettleRequest(self.delivery, reservation, cost)

        def decide(now: Conversation) -> Outcome | None:
            rules = self.purses.editions.rules_of(now.id)
            return charges.settle(now, done, rules, self.purses.clock.moment())

        try:
            await self.purses.take(self.delivery.conversation, decide)
        except (EngineError, UndecidedError):
            logger.exception("a charge of %s stays as it was reserved", self.delivery.to)
