"""Calls user code: handlers, and the code of their payloads.

A crash becomes a value. The deadlines of all running calls share one timer.
"""

from __future__ import annotations

import asyncio
import contextvars
import decimal
import logging
import traceback
from collections import deque
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

import anyio

from agentserver.completion import CompletionError, CompletionFault
from agentserver.contract import (
    Answering,
    Code,
    DelayedResponse,
    HandlerMetadata,
    HandlerResponse,
    HandlerResult,
    Invocation,
    run_in,
)
from agentserver.core.decide import charges
from agentserver.core.drafts.replies import add_delayed, read_single
from agentserver.core.messages import (
    NO_EFFECTS,
    FinishedInvocation,
    HandlerFailure,
    HandlerReturn,
    Progress,
    ReserveRequest,
    SettleRequest,
)
from agentserver.core.records.details import Failure, Ground
from agentserver.core.refusals import ServiceUnreachableError
from agentserver.core.state.effects import ThreadStorage, ThreadTodos, collect
from agentserver.effects import DryForkError
from agentserver.notes import NoteAccess
from agentserver.ports import EngineError
from agentserver.pump.calls import RunningCall, Stage
from agentserver.pump.ledger import DeliveryLedger, find_unknown_effect
from agentserver.pump.steps import UndecidedError
from agentserver.pump.watchdog import LoopHolder
from agentserver.spending import Amount, BudgetExceededError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence
    from contextvars import Context

    from agentserver.completion import AnswerWriter, Completer
    from agentserver.core.decide.decisions import AcceptedDelivery
    from agentserver.core.messages import Call, Delivery
    from agentserver.notes import MessageLineage, NoteStore
    from agentserver.ports import Marks
    from agentserver.pump.editions import Callee, Editions
    from agentserver.pump.ledger import VerdictPoller
    from agentserver.pump.parsing import OffloadedParser
    from agentserver.pump.steps import ClaimTable

    Handler: TypeAlias = Callable[[Any, HandlerMetadata], Awaitable[HandlerResult]]

    _Call: TypeAlias = RunningCall[HandlerReturn | HandlerFailure]

    _Made: TypeAlias = tuple[Invocation, ThreadStorage, ThreadTodos, list[DelayedResponse]]
    from collections.abc import Awaitable, Callable

    from agentserver.core.records.outcome import Outcome
    from agentserver.core.state.conversation import Conversation
    from agentserver.ports import Clock
    from agentserver.pump.slices import Decision

    Shows: TypeAlias = tuple[
        Callable[[AcceptedDelivery, Progress], None],
        Callable[[AcceptedDelivery, "Stoppable", str], AnswerWriter],
        Callable[[str, str, str], Awaitable[str]] | None,
    ]
    Take: TypeAlias = Callable[[str, Decision], Awaitable[bool]]

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
        verdicts: of operators on external effects.
    """

    editions: Editions
    clock: Clock
    take: Take
    verdicts: VerdictPoller

    def ledger_of(self, delivery: Delivery, token: int) -> DeliveryLedger:
        """Return the ledger of external effects for the invocation that handles a delivery.

        ``token``: epoch of the claim on its conversation.
        """
        return DeliveryLedger(self.editions, self.clock, self.take, self.verdicts, delivery, token)

    def purse_of(self, delivery: Delivery) -> DeliveryPurse:
        """Return the purse of the invocation that handles a delivery."""
        return DeliveryPurse(self, delivery)


@dataclass(frozen=True, slots=True)
class DeliveryPurse:
    """Purse of one invocation: see ``agentserver.spending.Purse``."""

    purses: Purses
    delivery: Delivery

    async def reserve(self, maximum: Amount, purpose: str) -> str:
        """Reserve the highest possible cost of some work, committed. Raises BudgetExceededError and RuntimeError."""
        request = ReserveRequest(self.delivery, purpose[:WORD], maximum)
        reserved, reason = "", ""

        def decide(now: Conversation) -> Outcome | None:
            nonlocal reserved, reason
            rules = self.purses.editions.rules_of(now.id)
            reason = charges.find_objection(now, request, rules)
            outcome = charges.reserve(now, request, rules, self.purses.clock.moment())
            reserved = "" if outcome is None else [*outcome.conversation.spending.open][-1]
            return outcome

        try:
            committed = await self.purses.take(self.delivery.conversation, decide)
        except (EngineError, UndecidedError) as error:
            raise RuntimeError("the server cannot keep a charge at present") from error
        if not committed or not reserved:
            raise BudgetExceededError(reason or "the conversation is closed")
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


class CleanContext:
    """Copy of its maker's context variables, without mutable state.

    Python keeps the rules of decimal arithmetic as one mutable value of a context variable, which a copied context
    would share. Each fresh context gets its own copy of them if they differ from Python's defaults.
    """

    def __init__(self) -> None:
        arithmetic = decimal.getcontext().copy()
        arithmetic.clear_flags()
        self._clean = contextvars.Context()
        for variable, value in contextvars.copy_context().items():
            if not isinstance(value, decimal.Context):
                self._clean.run(variable.set, value)
        usual = repr(arithmetic) == repr(decimal.Context())
        self.copy: Callable[[], Context] = (
            self._clean.copy if usual else partial(self._copy_with_decimal, arithmetic)
        )
        """Gives a copy that nothing else has."""

    def _copy_with_decimal(self, arithmetic: decimal.Context) -> Context:
        context = self._clean.copy()
        context.run(decimal.setcontext, arithmetic.copy())
        return context


class Deadlines:
    """Deadlines of all running calls, with one timer.

    A call that ends in time needs no timer of its own: the timer fires at the earliest deadline so far, and then for
    the earliest of those that still run.

    Args:
        running: the calls that run now.
    """

    def __init__(self, running: Callable[[], Iterable[RunningCall[Any]]]) -> None:
        self._running = running
        self._timer: asyncio.TimerHandle | None = None
        self._next = float("inf")

    def watch(self, call: RunningCall[Any]) -> None:
        """Check the clock at this call's deadline, at the latest."""
        if call.loop_deadline < self._next:
            self._set(call.loop_deadline)

    def end(self) -> None:
        """Cancel the timer."""
        if self._timer is not None:
            self._timer.cancel()

    def _set(self, due: float) -> None:
        self.end()
        self._next = due
        self._timer = asyncio.get_running_loop().call_at(due, self._look)

    def _look(self) -> None:
        now, self._next, self._timer = self._next, float("inf"), None
        calls = [call for call in self._running() if not call.stopped]
        for call in calls:
            if call.loop_deadline <= now:
                call.expire()
        remaining = [call.loop_deadline for call in calls if call.loop_deadline > now]
        if remaining:
            self._set(min(remaining))


LINE: Final = 500
"""Characters of one line of progress, after which it is cut."""

BURST: Final = 10
"""Lines of one invocation that may come at once."""

RATE: Final = 5.0
"""Lines a second of one invocation after these."""


class Stoppable(Protocol):
    """Call as its progress sees it."""

    @property
    def stopped(self) -> bool:
        """True once it was cancelled."""

    def done(self) -> bool:
        """Return whether it has ended."""


class ProgressSender:
    """Sends the progress of one invocation: BURST lines at once, then RATE a second. May be called from any thread.

    Lines that exceed these bounds, or come after the invocation ended or was cancelled, are dropped.

    Args:
        tell: passes progress on, on the event loop.
        accepted: the delivery that the handler was called with.
        call: its call.
        loop: the event loop.
        redact: removes secrets from a text, before it is cut.
        steady: seconds, by a clock that cannot be set.
    """

    def __init__(
        self,
        tell: Callable[[AcceptedDelivery, Progress], None],
        accepted: AcceptedDelivery,
        call: Stoppable,
        loop: asyncio.AbstractEventLoop,
        redact: Callable[[str], str],
        steady: Callable[[], float],
    ) -> None:
        self._tell = tell
        self._accepted = accepted
        self._call = call
        self._loop = loop
        self._redact = redact
        self._steady = steady
        self._budget = float(BURST)
        self._at = steady()

    def __call__(self, text: str) -> None:
        """Send a line of text, or drop it. Raises TypeError for anything but text."""
        if not isinstance(text, str):
            raise TypeError(f"progress is text, not {type(text).__name__}")
        if self._call.stopped or self._call.done() or not self._spend():
            return
        # Half a surrogate pair is no text.
        redacted = self._redact(str.__str__(text)).encode("utf-8", "backslashreplace").decode()
        line = " ".join(redacted.split())
        if not line:
            return
        delivery = self._accepted.delivery
        shortened = line if len(line) <= LINE else f"{line[: LINE - 1]}\u2026"
        progress = Progress(delivery.conversation, delivery.request, delivery.to, shortened)
        if self._on_loop():
            self._tell(self._accepted, progress)  # later the handler may have come back
        else:
            self._loop.call_soon_threadsafe(self._tell, self._accepted, progress)

    def _on_loop(self) -> bool:
        try:
            return asyncio.get_running_loop() is self._loop
        except RuntimeError:
            return False

    def _spend(self) -> bool:
        now = self._steady()
        self._budget = min(float(BURST), self._budget + (now - self._at) * RATE)
        self._at = now
        if self._budget < 1:
            return False
        self._budget -= 1
        return True


logger = logging.getLogger("agentserver.pump")

_new = tuple.__new__

LAST_WORDS = 0.5
"""Seconds that a server which stops waits for cancelled handlers."""


CRASHES = 256
"""Deliveries whose crash is remembered as logged, until its record comes."""


class Invoker:
    """Calls handlers, and cancels the ones whose threads are closed.

    Each call has a task and a context of its own: what a handler does to either ends with it. A call that does not end
    when it is cancelled is abandoned: it may run on, but nothing that it returns or stores counts. A listener with as
    many abandoned calls as it may run at once is ``busy`` until one of them ends.

    Args:
        editions: codecs and bounds of what handlers answer and store.
        resources: provided by the organism's lifespan.
        parser: parses results.
        seen: the marks of running deliveries, and the claims on conversations at work.
        purses: for the charges of invocations. Their clock also measures how long an invocation took.
        shows: passes progress on, begins to show an answer as it comes, and exchanges tokens of users.
    """

    notes: NoteStore | None = None
    """The engine's notes; None if it keeps none."""

    def __init__(
        self,
        editions: Editions,
        resources: Sequence[object],
        parser: OffloadedParser,
        seen: tuple[Marks, ClaimTable],
        purses: Purses,
        shows: Shows,
    ) -> None:
        self._tell, self._stream_answer, self._delegate = shows
        self._purses = purses
        self._steady = purses.clock.steady
        self._marks, self._claims = seen
        self._editions = editions
        self._parser = parser
        self._resources = tuple(resources)
        self._clean = CleanContext()
        self._calls: dict[str, _Call] = {}
        self._deadlines = Deadlines(self._calls.values)
        self._abandoned: dict[str, set[_Call]] = {}
        self._ending: set[asyncio.Future[None]] = set()
        self.crashes: deque[str] = deque(maxlen=CRASHES)

    @property
    def grace(self) -> float:
        """Seconds that a call has to end once it is cancelled."""
        return self._editions.rules.blueprint.limits.grace

    @property
    def running(self) -> frozenset[str]:
        """Threads whose handlers run."""
        return frozenset(self._calls)

    def watch(self, call: _Call) -> None:
        """Call ``expire`` of a call at its deadline."""
        self._deadlines.watch(call)

    def cancel(self, thread: str) -> None:
        """Cancel the call that runs on a thread; its result is void."""
        call = self._calls.pop(thread, None)
        if call is not None:
            call.stop()

    def find_holder(self, task: object) -> LoopHolder | None:
        """Return the call of a task, including an abandoned one. May be called from another thread."""
        calls = (
            *self._calls.values(),
            *(call for remaining in self._abandoned.values() for call in remaining),
        )
        return next(
            (LoopHolder(call.listener.name, call.delivery.id) for call in calls if call is task), None
        )

    async def end(self) -> None:
        """Wait briefly for cancelled calls to end."""
        self._deadlines.end()
        with anyio.CancelScope(shield=True):
            if self._ending:
                await asyncio.wait(self._ending, timeout=LAST_WORDS)

    async def call(
        self, bound: Callee, worker: asyncio.Task[Any], accepted: AcceptedDelivery
    ) -> FinishedInvocation | None:
        """Call the handler under its deadline. Returns None if its thread was closed meanwhile.

        A missed deadline is a value, and so is a crash of the payload's constructor, of the handler, or in its result.
        ``worker`` is the current task.
        """
        delivery, listener = accepted.delivery, bound.listener
        if (
            self._abandoned
            and len(remaining := self._abandoned.get(listener.name, ())) >= listener.concurrency
        ):
            busy = HandlerFailure(Code.BUSY, Ground.BUSY.of(len(remaining), listener.name))
            return FinishedInvocation(delivery, accepted.element, busy)
        began = self._steady()
        # asyncio.get_running_loop() would ask the system for the id of the process.
        call: _Call = RunningCall(self, worker.get_loop(), listener, delivery)
        call.epoch = self._claims[delivery.conversation].epoch
        self._calls[delivery.thread] = call
        try:
            run = self._run if bound.remote is None else self._run_remote
            context = self._clean.copy()
            if bound.enter is not None:
                context.run(bound.enter, delivery)
            finished = call.begin(run(bound, accepted, call), context, worker)
            stage = call.stage if finished else await call.wait_end()
        finally:
            if self._calls.get(delivery.thread) is call:
                del self._calls[delivery.thread]
            if not call.done():
                self._ending.add(call)
                call.add_done_callback(self._ending.discard)
        if stage is Stage.VOID:
            return None
        result = call.outcome
        if stage is Stage.LATE or result is None:
            result = HandlerFailure(Code.TIMEOUT, Ground.LATE.of(f"{listener.deadline:g}"))
        took = int((self._steady() - began) * 1e6) / 1e6  # round() would go through a text
        return _new(FinishedInvocation, (delivery, accepted.element, result, took))

    def abandon(self, call: _Call) -> None:
        """Stop waiting for a call that does not end."""
        name = call.listener.name
        remaining = self._abandoned.setdefault(name, set())
        remaining.add(call)
        mark = self._marks.enter(call.delivery.id, call.delivery.conversation)  # it may end the process yet
        call.add_done_callback(lambda _: self._marks.leave(mark))
        call.add_done_callback(lambda _: remaining.discard(call))
        logger.error(
            "%s did not end within %g s of being cancelled and is abandoned; %d of its invocations are",
            name,
            self.grace,
            len(remaining),
        )

    async def _run(self, bound: Callee, accepted: AcceptedDelivery, call: _Call) -> None:
        invocations: list[_Made] = []  # when the handler first asks for it

        def current() -> Invocation:
            if not invocations:
                invocations.append(self._make_invocation(bound, accepted, call))
            return invocations[0][0]

        try:
            run_in(current)
            payload = accepted.codec.decode(accepted.shown)
            value = await bound.handler(payload, accepted.metadata)
            if call.cancels:
                _check_unharmed(call)
            if isinstance(value, HandlerResponse) and not (invocations and invocations[0][3]):
                editions, conversation = self._editions, accepted.delivery.conversation
                rules = editions.rules_of(conversation) if editions.earlier else editions.rules
                result = read_single(value, rules.codecs, rules.bounds)
            else:
                whole = add_delayed(value, invocations[0][3]) if invocations else value
                result = await self._parser.parse_result(accepted.delivery.conversation, whole, accepted.room)
        except BaseException as error:  # noqa: BLE001 - one of the two places that turn any exception into a value
            if isinstance(error, ServiceUnreachableError):
                call.take_result(HandlerFailure(Code.BUSY, Failure(format_error(error))))
            elif not isinstance(error, asyncio.CancelledError):
                call.take_result(self._record_crash(accepted, error))
            elif not call.stopped:
                call.take_result(self._record_crash(accepted, _CancelledItselfError()))
            return
        if isinstance(result, HandlerFailure):
            call.take_result(result)
        else:
            call.take_result(
                _new(HandlerReturn, (result, collect(*invocations[0][1:3]) if invocations else NO_EFFECTS))
            )

    async def _run_remote(self, bound: Callee, accepted: AcceptedDelivery, call: _Call) -> None:
        """Have another process call the handler. Its failures are values; a cancelled call has no result."""
        assert bound.remote is not None  # the caller has looked
        current, *_ = self._make_invocation(bound, accepted, call)
        call.take_result(await bound.remote.call(accepted, current))

    def _record_crash(self, accepted: AcceptedDelivery, error: BaseException) -> HandlerFailure:
        delivery = accepted.delivery
        written = writable(error)
        if isinstance(written, BudgetExceededError) or isinstance(_cause(written), BudgetExceededError):
            return HandlerFailure(Code.BUDGET, Failure(format_error(written)))
        for each in (written, _cause(written)):
            if isinstance(each, DryForkError):
                return HandlerFailure(Code.DENIED, Ground.DRY.of(f"the effect {each.key}"))
        place = {"conversation": delivery.conversation, "thread_id": delivery.thread}
        logger.error("%s crashed", delivery.to, exc_info=written, extra=place)
        self.crashes.append(delivery.id)
        unknown = find_unknown_effect(written)
        if unknown is not None:
            return HandlerFailure(Code.INTERNAL, Ground.EFFECT.of(unknown.id))
        return HandlerFailure(
            code_of_failure(error.fault if isinstance(error, CompletionError) else None),
            Failure(format_error(written)),
        )

    def _make_invocation(self, bound: Callee, accepted: AcceptedDelivery, call: _Call) -> _Made:
        delivery = accepted.delivery
        rules = self._editions.rules_of(delivery.conversation)
        room = rules.blueprint.limits.storage
        storage = ThreadStorage(accepted.storage, rules.codecs, rules.bounds, room, accepted.logs)
        todos = ThreadTodos(delivery.thread, bound.listener.name, accepted.todos)
        delayed: list[DelayedResponse] = []
        current = Invocation(
            accepted.metadata,
            storage,
            todos,
            bound.supply(),
            self._resources,
            delivery.id,
            delivery.attempt,
            make_answering(accepted.call),
            call.deadline,
            _find_completer(bound, delivery),
            self._find_teller(bound, accepted, call),
            self._purses.purse_of(delivery),
            call.epoch,
            delayed.append,
            self._purses.ledger_of(delivery, call.epoch),
            None if bound.completer is None else partial(self._stream_answer, accepted, call),
            None if self._delegate is None else partial(self._delegate, delivery.conversation),
            None if accepted.lineage is None else self._open_notes(delivery, accepted.lineage),
            self._read_clock,
            None if bound.note_site is None else partial(bound.note_site, delivery.id),
        )
        return current, storage, todos, delayed

    def _open_notes(self, delivery: Delivery, lineage: MessageLineage) -> NoteAccess | None:
        """Return the access of a listener that keeps notes; None if the engine keeps none."""
        if self.notes is None:
            return None
        at = self._read_clock()
        return NoteAccess(self.notes, lineage, delivery.id, delivery.conversation, at)

    def _read_clock(self) -> float:
        """Read the engine's time, in seconds since the epoch."""
        return self._purses.clock.moment().now

    def _find_teller(self, bound: Callee, accepted: AcceptedDelivery, call: _Call) -> ProgressSender | None:
        """Return the sender of a handler's progress, if its listener may send any."""
        if not bound.listener.progress:
            return None
        redact = self._editions.rules_of(accepted.delivery.conversation).redact
        return ProgressSender(self._tell, accepted, call, call.get_loop(), redact, self._steady)


def _find_completer(bound: Callee, delivery: Delivery) -> Completer | None:
    """Return what asks language models for a delivery, recorded if that is configured."""
    if bound.completer is None or bound.log is None:
        return bound.completer
    return bound.log.wrap(bound.completer, delivery)


def make_answering(call: Call | None) -> Answering | None:
    """Return a call as the handler sees it that gets its answer."""
    return Answering(call.key, call.place, call.refused) if call is not None and call.key else None


class _CancelledItselfError(Exception):
    def __init__(self) -> None:
        super().__init__("the handler cancelled its own task")


def _check_unharmed(call: _Call) -> None:
    """Raise if a handler that returned has cancelled its own task."""
    if not call.stopped:
        raise _CancelledItselfError


class UnwritableError(Exception):
    """Replacement of an exception that cannot be formatted."""


_CODES = MappingProxyType(
    {
        CompletionFault.RATE: Code.BUSY,
        CompletionFault.UNAVAILABLE: Code.BUSY,
        CompletionFault.TIMEOUT: Code.TIMEOUT,
        CompletionFault.BUDGET: Code.BUDGET,
    }
)
"""The code for a caller after a completion that failed and that the handler let pass, where it is not ``internal``."""


def code_of_failure(fault: CompletionFault | None) -> Code:
    """Return the code for a caller after a failed handler: for a completion by its fault, otherwise ``internal``."""
    return Code.INTERNAL if fault is None else _CODES.get(fault, Code.INTERNAL)


def _cause(error: BaseException) -> object:
    """Return the cause of an exception without running its class's code."""
    return BaseException.__dict__["__cause__"].__get__(error)


def writable(error: BaseException) -> BaseException:
    """Return the exception, or a replacement if formatting it raises.

    Logging formats an exception in filters that must not fail.
    """
    try:
        traceback.format_exception(error)
    except BaseException:  # noqa: BLE001 - what an exception brings along is user code as well
        name = type.__dict__["__name__"].__get__(type(error))
        trace = BaseException.__dict__["__traceback__"].__get__(error)
        return UnwritableError(f"a {name} that cannot be written out").with_traceback(trace)
    return error


def format_error(error: BaseException) -> str:
    """Format an exception in a line. Its own repr() and str() may raise."""
    return "".join(traceback.format_exception_only(writable(error))).strip()
