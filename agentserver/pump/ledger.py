"""Ledger of external effects of one invocation."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from agentserver.core.decide import ledger
from agentserver.core.messages import ClaimRequest, ConcludeRequest
from agentserver.core.records.details import EffectChange
from agentserver.core.state.ledger import EffectState, find_conversation
from agentserver.effects import DryForkError, EffectUnknown, LedgerEntry
from agentserver.ports import EngineError
from agentserver.pump.steps import UndecidedError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from agentserver.core.messages import Delivery, EffectVerdict
    from agentserver.core.records.outcome import Outcome
    from agentserver.core.state.conversation import Conversation
    from agentserver.ports import Answers, Clock, Engine
    from agentserver.pump.editions import Editions
    from agentserver.pump.slices import Decision

    Take: TypeAlias = Callable[[str, Decision], Awaitable[bool]]


logger = logging.getLogger("agentserver.pump")

NAP: Final = 1.0
"""Seconds after which verdicts are looked for again."""


@dataclass(frozen=True, slots=True)
class DeliveryLedger:
    """Ledger of one invocation: see ``agentserver.effects.EffectLedger``.

    Args:
        editions: rules that effects are decided by.
        clock: time and randomness.
        take: takes a step, once; see ``Purses``.
        verdicts: of operators, which other processes leave.
        delivery: the one being handled.
        token: epoch of the claim on its conversation.
    """

    editions: Editions
    clock: Clock
    take: Take
    verdicts: VerdictPoller
    delivery: Delivery
    token: int

    async def claim(self, key: str, *, passing: bool = False) -> LedgerEntry:
        """Claim an effect, committed, or return its recorded outcome. Raises RuntimeError."""
        request = ClaimRequest(self.delivery, key, self.token, passing)
        found: LedgerEntry | None = None
        reason, dry = "the conversation is closed", False

        def decide(now: Conversation) -> Outcome | None:
            nonlocal found, reason, dry
            reason, dry = ledger.find_objection(now, request), now.rights.dry is not None
            outcome = ledger.claim(now, request, self.editions.rules_of(now.id), self.clock.moment())
            effect = ledger.find(now if outcome is None else outcome.conversation, request)
            found = None
            if effect is not None and not reason:
                state = "unknown" if ledger.is_unknown(now, effect) else str(effect.state)
                found = LedgerEntry(effect.id, state, effect.answer, self.token)
            return outcome

        await self._take(decide)
        if found is not None and found.state == "unknown" and await self._settle(found.id):
            await self._take(decide)
        if dry:
            raise DryForkError(key)
        if found is None:
            raise RuntimeError(f"the effect {key!r} cannot be claimed: {reason}")
        return found

    async def conclude(self, id: str, answer: str | None, *, trusted: bool = False) -> None:  # noqa: A002
        """Record an answer, committed. Raises RuntimeError."""
        done = ConcludeRequest(self.delivery, id, answer, trusted)
        taken = False

        def decide(now: Conversation) -> Outcome | None:
            nonlocal taken
            outcome = ledger.conclude(now, done, self.editions.rules_of(now.id), self.clock.moment())
            taken = outcome is not None
            return outcome

        if not (await self._take(decide) and taken):
            raise RuntimeError("the effect is not claimed by this invocation, or the invocation has ended")

    async def _settle(self, effect: str) -> bool:
        """Commit the verdict that an operator has left on an effect; False without one.

        A dead letter that is requeued after the verdict may run before the verdicts are looked for.
        """
        verdict = await self.verdicts.find(effect)
        if verdict is None:
            return False

        def decide(now: Conversation) -> Outcome | None:
            return ledger.settle(now, verdict, self.editions.rules_of(now.id), self.clock.moment())

        await self._take(decide)
        await self.verdicts.drop(effect)
        return True

    async def _take(self, decide: Decision) -> bool:
        try:
            return await self.take(self.delivery.conversation, decide)
        except (EngineError, UndecidedError) as error:
            raise RuntimeError("the server cannot record an effect at present") from error


class VerdictPoller:
    """Poller of operators' verdicts on external effects, which other processes leave in the engine.

    It polls while an effect without an answer is known.

    Args:
        answers: where they are left; None if other processes cannot leave any.
    """

    def __init__(self, answers: Answers | None) -> None:
        self._answers = answers
        self._unknown = asyncio.Event()

    async def find(self, effect: str) -> EffectVerdict | None:
        """Return the verdict on an effect that is left, or None."""
        try:
            left = [] if self._answers is None else await self._answers.list_verdicts()
        except EngineError:  # the effect stays unknown
            return None
        return next((each for each in left if each.effect == effect), None)

    async def drop(self, effect: str) -> None:
        """Remove a verdict that counts already; the watch removes it otherwise."""
        with suppress(EngineError):
            if self._answers is not None:
                await self._answers.drop([effect])

    def record(self, outcome: Outcome) -> None:
        """Look for verdicts from now on if an effect became unknown."""
        if not self._unknown.is_set() and any(
            isinstance(record.detail, EffectChange) and record.detail.state == EffectState.UNKNOWN
            for record in outcome.records
        ):
            self._unknown.set()

    async def watch(self, engine: Engine, settle: Callable[[str, EffectVerdict], Awaitable[bool]]) -> None:
        """Submit the verdicts that are left in the engine. Never returns."""
        if self._answers is None:
            await asyncio.Event().wait()
            return
        self._unknown.set()
        while True:
            await self._unknown.wait()
            try:
                await self._take(self._answers, settle)
                if not await engine.read(lambda reader: reader.list_effects()):
                    self._unknown.clear()
            except EngineError as error:
                logger.error("verdicts on effects cannot be read at present: %s", error)  # noqa: TRY400 - the text says it all
            await asyncio.sleep(NAP)

    async def _take(self, answers: Answers, settle: Callable[[str, EffectVerdict], Awaitable[bool]]) -> None:
        found = await answers.list_verdicts()
        for verdict in found:
            counts = await settle(find_conversation(verdict.effect), verdict)
            if not counts and await self.find(verdict.effect):  # no invocation has taken it meanwhile
                logger.warning("the verdict of %s on effect %s does not count", verdict.by, verdict.effect)
        if found:
            await answers.drop([verdict.effect for verdict in found])


def find_unknown_effect(error: BaseException) -> EffectUnknown | None:
    """Return the unknown effect for which a handler failed, or None."""
    cause = BaseException.__dict__["__cause__"].__get__(error)
    return next((one for one in (error, cause) if isinstance(one, EffectUnknown)), None)
