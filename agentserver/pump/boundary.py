"""Boundary of one delivery: a failure while it is handled ends that delivery alone.

After STREAK failing conversations in a row, with no delivery concluded between, the server stops and keeps its queue.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from agentserver.contract import Code
from agentserver.core.decide import answers, decisions, intake, ledger, timers
from agentserver.core.decide import requeue as requeueing
from agentserver.core.decide.decisions import AcceptedDelivery
from agentserver.core.messages import AbandonedDelivery, DueDelivery, FinishedInvocation
from agentserver.core.pieces import prepend_work
from agentserver.core.receipts import Receipt
from agentserver.core.records.details import Failure, Ground
from agentserver.core.state.approvals import Answer
from agentserver.ports import DamagedError, EngineError, FencedError, RepeatedError
from agentserver.pump.invoke import format_error
from agentserver.pump.slices import run_shielded, run_uncancelled
from agentserver.pump.steps import UndecidedError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterator
    from typing import Any, Protocol

    from lxml import etree

    from agentserver.core.messages import (
        Cancellation,
        Delivery,
        Done,
        Draft,
        EffectVerdict,
        OutsideMessage,
        RedrivenLetter,
        Reply,
        RequeuedLetter,
    )
    from agentserver.core.pieces import PreparedPieces
    from agentserver.core.records.outcome import Outcome
    from agentserver.core.refusals import Refusal
    from agentserver.core.state.approvals import ApprovalAnswer
    from agentserver.core.state.conversation import Conversation
    from agentserver.ports import Clock, Engine
    from agentserver.pump.editions import Editions
    from agentserver.pump.parsing import ParsedOutside
    from agentserver.pump.slices import Decision
    from agentserver.pump.steps import ToItsEnd

    Suspender: TypeAlias = Callable[[str, Exception], Awaitable[None]]

    HandOver: TypeAlias = Callable[[str, Decision, Callable[[bool], None]], Awaitable[bool]]

    Spawn: TypeAlias = Callable[[Callable[[], Coroutine[Any, Any, None]]], None]

    Call: TypeAlias = Callable[[AcceptedDelivery], Awaitable[FinishedInvocation | None]]

    class Step(Protocol):
        """Function that decides a step and commits it."""

        async def __call__(
            self,
            conversation: str,
            decide: Decision,
            *,
            patient: bool = True,
            to_its_end: ToItsEnd = run_shielded,
        ) -> bool:
            """Decide and commit. Returns False if the conversation is closed. Raises UndecidedError and EngineError."""


logger = logging.getLogger("agentserver.pump")

STREAK = 8
"""Conversations in a row whose deliveries fail here that the server does not outlive."""

CLOSED = "closed by its gateway"
"""Reason of the end of a conversation that its own gateway closed."""


class Boundary:
    """Handles one message at a time, and gives up a message that cannot be handled.

    Args:
        editions: rules of each conversation at the time of each decision.
        clock: time and randomness.
        step: decides and commits.
        hand_over: decides and commits without waiting for the commit; see ``Steps.hand_over``.
        spawn: starts a task of the pump.
        suspend: suspends a conversation about which no decision is possible.
    """

    def __init__(
        self,
        editions: Editions,
        clock: Clock,
        step: Step,
        hand_over: HandOver | None,
        spawn: Spawn,
        suspend: Suspender,
    ) -> None:
        self._editions = editions
        self._clock = clock
        self._step = step
        self._hand_over = hand_over
        self._spawn = spawn
        self._suspend = suspend
        self._failed: set[str] = set()

    async def handle(
        self, conversation: Conversation, delivery: Delivery, parsed: etree._Element | None, call: Call
    ) -> None:
        """Read a delivery, call its listener and conclude, unless another process owns it by then."""
        element = None
        try:
            editions = self._editions
            rules = editions.rules_of(conversation.id) if editions.earlier else editions.rules
            accepted = decisions.accept(conversation, delivery, rules, parsed)
            if accepted is None:
                return
            if isinstance(accepted, AcceptedDelivery):
                element = accepted.element
                finished = await call(accepted)
            else:
                finished = FinishedInvocation(delivery, None, accepted)
        except Exception as error:  # noqa: BLE001 - the boundary of one delivery
            with _letting_go(delivery):
                await self._give_up(delivery, element, error)
        else:
            if finished is not None:
                await self.conclude(finished)

    async def conclude(self, finished: FinishedInvocation, *, waiting: bool = False) -> None:
        """Decide what follows from an invocation, or end the delivery if that is impossible.

        ``waiting`` waits for the commit, and retries until the engine can keep it.
        """

        def decide(now: Conversation) -> PreparedPieces[Outcome]:
            moment = self._clock.moment()
            rules = editions.rules_of(now.id) if editions.earlier else editions.rules
            work = rules.prepare(now, finished, moment) if rules.preparing else None
            pieces = decisions.conclude_in_pieces(now, finished, rules, moment)
            return pieces if work is None else prepend_work(work, pieces)

        editions = self._editions
        conversation, hand_over = finished.delivery.conversation, None if waiting else self._hand_over
        try:
            if hand_over is None or not await hand_over(
                conversation, decide, partial(self._note_commit, finished)
            ):
                await self._step(conversation, decide)
                self._failed.clear()
        except UndecidedError as error:
            with _letting_go(finished.delivery):
                await self._give_up(finished.delivery, finished.element, _find_cause(error))
        except EngineError as error:
            _let_go(finished.delivery, error)

    def _note_commit(self, finished: FinishedInvocation, committed: bool) -> None:  # noqa: FBT001 - a callback
        """Note the result of a commit that was handed over. A failed one is repeated and waited for."""
        if committed:
            self._failed.clear()
        else:
            self._editions.working[finished.delivery.id] = finished.delivery.conversation
            self._spawn(partial(self._conclude_again, finished))

    async def _conclude_again(self, finished: FinishedInvocation) -> None:
        """Conclude by the edition of the invocation, which its conversation keeps until then."""
        try:
            await self.conclude(finished, waiting=True)
        finally:
            self._editions.working.pop(finished.delivery.id, None)
            if self._editions.earlier:
                self._editions.notify_progress()

    async def bury(self, delivery: Delivery) -> None:
        """End a delivery whose handler ends the process. It is not parsed again: that may be the cause."""
        logger.error(
            "%s ends the process with %s: it is given up",
            delivery.to,
            delivery.id,
            extra=_build_place(delivery),
        )
        detail = Ground.KILLS.of()
        with _letting_go(delivery):
            await self._end_or_suspend(AbandonedDelivery(delivery, detail, None, unseen=True))

    async def _give_up(self, delivery: Delivery, element: etree._Element | None, error: Exception) -> None:
        """End a delivery. If the guards cannot observe its message, they learn only that one is missing.

        A conversation in which even that cannot be decided is suspended.
        """
        self._count(delivery, error)
        given_up = AbandonedDelivery(delivery, Failure(format_error(error)), element)
        try:
            await self._end(given_up)
        except UndecidedError as again:
            logger.warning("guards miss a message", exc_info=_find_cause(again), extra=_build_place(delivery))
            await self._end_or_suspend(given_up._replace(element=None, unseen=element is not None))

    async def _end_or_suspend(self, given_up: AbandonedDelivery) -> None:
        """End a delivery, or suspend its conversation if that cannot be decided."""
        try:
            await self._end(given_up)
        except UndecidedError as error:
            await self._suspend(given_up.delivery.conversation, _find_cause(error))

    async def _end(self, given_up: AbandonedDelivery) -> None:
        await self._step(
            given_up.delivery.conversation,
            lambda now: decisions.give_up(
                now, given_up, self._editions.rules_of(now.id), self._clock.moment()
            ),
        )

    def _count(self, delivery: Delivery, error: Exception) -> None:
        """Count a failure. Re-raises it after too many in a row: then no delivery is given up any longer."""
        self._failed.add(delivery.conversation)
        if len(self._failed) >= STREAK:
            error.add_note(f"{STREAK} conversations in a row failed: the server stops and keeps its queue")
            raise error
        text = "the server could not handle the delivery to %s: it is given up"
        logger.error(text, delivery.to, exc_info=error, extra=_build_place(delivery))

    # What comes from outside of a conversation

    async def receive(
        self,
        conversation: str,
        outside: OutsideMessage,
        refused: Code | None = None,
        reading: ParsedOutside | None = None,
    ) -> Outcome | None:
        """Admit an outside message, or reject it unread with the code ``refused``.

        ``reading`` is what is known of the message from before. Returns None if the conversation is closed.
        """
        outcome: Outcome | None = None

        def turn_away(now: Conversation, code: Code) -> Outcome:
            nonlocal outcome
            rules = self._editions.rules_of(now.id)
            outcome = decisions.turn_away(now, outside, code, rules, self._clock.moment())
            return outcome

        def decide(now: Conversation) -> Outcome:
            nonlocal outcome
            if (
                outside.key is not None and outside.request in now.requests
            ):  # it was handed in, and is decided
                raise RepeatedError(Receipt(outside.request, outside.key.content))
            if refused is not None:
                return turn_away(now, refused)
            editions = self._editions
            rules = editions.rules_of(now.id) if editions.earlier else editions.rules
            read = None if reading is None or reading.rules is not rules else _read_now(reading, outside)
            outcome = decisions.receive(now, outside, rules, self._clock.moment(), read)
            return outcome

        try:
            goes_on = await self._step(conversation, decide, patient=False, to_its_end=run_uncancelled)
        except UndecidedError as error:
            text = "the server could not handle a message from outside: it is refused"
            logger.error(text, exc_info=_find_cause(error), extra={"conversation": conversation})  # noqa: TRY400 - the cause, not the wrapping
            goes_on = await self._or_suspend(
                conversation, lambda now: turn_away(now, Code.INTERNAL), patient=False
            )
        return outcome if goes_on else None

    async def cancel(self, conversation: str, cancelled: Cancellation) -> bool:
        """Cancel one request. Returns False if it is settled or unknown, or its conversation is closed.

        Raises EngineError.
        """
        found = False

        def decide(now: Conversation) -> Outcome | None:
            nonlocal found
            outcome = decisions.cancel(now, cancelled, self._editions.rules_of(now.id), self._clock.moment())
            found = outcome is not None
            return outcome

        return await self._or_suspend(conversation, decide, patient=False) and found

    async def wake(self, conversation: str, now: float) -> None:
        """Release the delayed messages of a conversation that are due, one in a step. Raises EngineError."""
        woken = True

        def decide(current: Conversation) -> Outcome | None:
            nonlocal woken
            woken = bool(current.timers) and current.timers[0].due_at <= now
            if not woken:
                return None
            due = DueDelivery(current.timers[0].delivery)
            return timers.wake(current, due, self._editions.rules_of(current.id), self._clock.moment())

        while woken:
            woken = await self._or_suspend(conversation, decide, patient=False) and woken

    async def requeue(self, requeued: RequeuedLetter) -> bool:
        """Queue a dead letter again in its thread. Returns False if the thread does not wait for it.

        Raises LookupError and EngineError.
        """

        def decide(now: Conversation) -> Outcome | None:
            if not requeueing.lives(now, requeued.delivery):
                return None
            return requeueing.requeue(now, requeued, self._editions.rules_of(now.id), self._clock.moment())

        return await self._decide_again(requeued.delivery.conversation, decide)

    async def open(self, conversation: str) -> bool:
        """Commit the opening of a conversation, unless a step of it is committed. Raises EngineError."""

        def decide(now: Conversation) -> Outcome | None:
            if now.version:
                return None
            return decisions.open_conversation(now, self._editions.rules_of(now.id), self._clock.moment())

        try:
            return await self._step(conversation, decide, patient=False, to_its_end=run_uncancelled)
        except UndecidedError as error:
            logger.exception("a conversation cannot be opened")
            raise EngineError(str(_find_cause(error))) from error

    async def redrive(self, conversation: str, redriven: RedrivenLetter) -> None:
        """Make a dead letter the first request of a conversation. Raises LookupError and EngineError."""

        def decide(now: Conversation) -> Outcome:
            return requeueing.redrive(now, redriven, self._editions.rules_of(now.id), self._clock.moment())

        await self._decide_again(conversation, decide)

    async def _decide_again(
        self, conversation: str, decide: Callable[[Conversation], Outcome | None]
    ) -> bool:
        taken = False

        def decide_once(now: Conversation) -> Outcome | None:
            nonlocal taken
            outcome = decide(now)
            taken = outcome is not None
            return outcome

        try:
            return (
                await self._step(conversation, decide_once, patient=False, to_its_end=run_uncancelled)
                and taken
            )
        except UndecidedError as error:
            raise LookupError(*map(str, _find_cause(error).args)) from error

    async def answer(self, conversation: str, answered: ApprovalAnswer) -> bool:
        """Commit a person's answer; one that cannot be carried out becomes a denial.

        Returns False if no approval waits for it.
        """
        spent = False

        def answer(decision: ApprovalAnswer) -> Callable[[Conversation], Outcome | None]:
            def decide(now: Conversation) -> Outcome | None:
                nonlocal spent
                outcome = answers.decide(now, decision, self._editions.rules_of(now.id), self._clock.moment())
                spent = outcome is not None
                return outcome

            return decide

        try:
            return await self._step(conversation, answer(answered), to_its_end=run_uncancelled) and spent
        except UndecidedError as error:
            text = "an answer could not be carried out by the server: it is a denial"
            logger.error(text, exc_info=_find_cause(error), extra={"conversation": conversation})  # noqa: TRY400 - the cause, not the wrapping
            denied = answered._replace(answer=Answer.DENY, undone=True)
            return await self._or_suspend(conversation, answer(denied)) and spent

    async def settle(self, conversation: str, verdict: EffectVerdict) -> bool:
        """Commit an operator's verdict on an external effect. Returns False unless its outcome is unknown.

        Raises EngineError.
        """

        def decide(now: Conversation) -> Outcome | None:
            return ledger.settle(now, verdict, self._editions.rules_of(now.id), self._clock.moment())

        return await self._decide_again(conversation, decide)

    async def close(
        self,
        conversation: str,
        reason: str,
        if_: Callable[[Conversation], bool] = lambda _: True,
        *,
        patient: bool = True,
    ) -> None:
        """Close a conversation if it still satisfies ``if_``."""

        def decide(now: Conversation) -> Outcome | None:
            if not if_(now):
                return None
            return decisions.close(now, self._editions.rules_of(now.id), self._clock.moment(), reason)

        await self._or_suspend(conversation, decide, patient=patient)

    async def end(self, conversation: str) -> None:
        """Close a conversation for its gateway. It stays open if it cannot be closed before the server ends."""
        with staying_open():
            await self.close(conversation, CLOSED)

    async def _or_suspend(
        self, conversation: str, decide: Callable[[Conversation], Outcome | None], *, patient: bool = True
    ) -> bool:
        """Take a step that must be possible in any open conversation, or suspend it. Returns whether it was taken."""
        try:
            return await self._step(conversation, decide, patient=patient, to_its_end=run_uncancelled)
        except UndecidedError as error:
            await self._suspend(conversation, _find_cause(error))
            return False


def _read_now(reading: ParsedOutside, outside: OutsideMessage) -> Draft | Refusal:
    if reading.read is not None:
        return reading.read
    return intake.read_outside(outside.data, outside.to, reading.rules, checked=True)


def _find_cause(error: UndecidedError) -> Exception:
    cause = error.__cause__
    assert isinstance(cause, Exception)
    return cause


@contextmanager
def staying_open() -> Iterator[None]:
    """Leave a conversation open that cannot be closed at present. Raises FencedError if another process owns it."""
    try:
        yield
    except FencedError:
        raise
    except EngineError as error:
        logger.error("a conversation cannot be closed at present: %s", error)  # noqa: TRY400 - the text says it all


@contextmanager
def _letting_go(delivery: Delivery) -> Iterator[None]:
    """Leave a delivery to its next owner if a step that must be kept cannot be kept here."""
    try:
        yield
    except EngineError as error:
        _let_go(delivery, error)


def _let_go(delivery: Delivery, error: EngineError) -> None:
    logger.info("the outcome of a delivery is not kept here: %s", error, extra=_build_place(delivery))


def _build_place(delivery: Delivery) -> dict[str, str]:
    return {"conversation": delivery.conversation, "thread_id": delivery.thread}


async def suspend(engine: Engine, conversation: str, error: Exception, at: float) -> tuple[Reply | Done, ...]:
    """Have the engine suspend a conversation. Returns the events for its requests.

    If the engine cannot keep that, there are no events, and the next load of the conversation fails again.
    """
    text = "a conversation is suspended: agentserver journal suspended lists it"
    logger.error(text, exc_info=error, extra={"conversation": conversation})
    reason = str(error) if isinstance(error, DamagedError) else format_error(error)
    try:
        return await engine.suspend(conversation, reason, at)
    except EngineError as failure:
        logger.error("that cannot be kept, so the next start tries again: %s", failure)  # noqa: TRY400 - the text says it all
        return ()
