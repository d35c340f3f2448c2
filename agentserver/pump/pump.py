"""The pump: workers that take runnable deliveries, call handlers and commit what conversations decide.

Owns the tasks, the overall limit and the conversations at work. Refuses to have rules of its own: every decision
is a call of core/decide/decisions.py, every promise about storage the engine's.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import anyio
import anyio.lowlevel

from agentserver.contract import Code
from agentserver.core.encoding.snapshot import add_new_guards
from agentserver.core.guard import is_silenced
from agentserver.core.messages import LAST, EventPlace
from agentserver.core.receipts import refused_with
from agentserver.core.records.audit import Event
from agentserver.core.state import principals
from agentserver.delegation import DelegationCode, DelegationError
from agentserver.ports import EngineError, FencedError, RejectReason, RepeatedError, SubmitResult
from agentserver.ports.servers import ServerReport
from agentserver.pump.accounts import Accounts
from agentserver.pump.approvals import PendingApprovals
from agentserver.pump.boundary import Boundary, suspend
from agentserver.pump.claims import Copies, Finder, IdleReleaser, Takeover
from agentserver.pump.deltas import AnswerStreams
from agentserver.pump.digest import AuditDigest
from agentserver.pump.dispatch import Dispatcher, TokenHolder
from agentserver.pump.editions import Editions, at_once
from agentserver.pump.entrance import Conversations, Entrance, make_unkept
from agentserver.pump.invoke import Invoker, Purses
from agentserver.pump.ledger import VerdictPoller
from agentserver.pump.owners import RemoteConversations
from agentserver.pump.parsing import OffloadedParser, ParsedPayloads
from agentserver.pump.poison_search import NoMarks, Probation, mark_requested_end
from agentserver.pump.records import LogSink, RecordStream
from agentserver.pump.schedule import ArrivalQueue, RunQueue, Schedule, Ticket, backoff
from agentserver.pump.slices import run_uncancelled
from agentserver.pump.steps import ClaimTable, Steps
from agentserver.pump.sums import SumKeeper
from agentserver.pump.timekeeper import Alarms, Timekeeper, sweep
from agentserver.pump.watchdog import Watchdog, end_forks
from agentserver.supervision import EndEffect, start_errand, start_helper

if TYPE_CHECKING:
    from collections.abc import (
        AsyncIterator,
        Callable,
        Collection,
        Coroutine,
        Mapping,
        MutableMapping,
        Sequence,
    )
    from types import TracebackType
    from typing import Any

    from agentserver.core.blueprint import Limits
    from agentserver.core.decide.decisions import AcceptedDelivery
    from agentserver.core.guard import Rules
    from agentserver.core.messages import Delivery, Delta, OutsideMessage, Progress
    from agentserver.core.records.outcome import Outcome
    from agentserver.core.state.approvals import Approval, ApprovalAnswer
    from agentserver.core.state.conversation import Conversation
    from agentserver.core.state.principals import Principal
    from agentserver.delegation import Delegations
    from agentserver.ports import Answers, Approver, Clock, Engine, Marks
    from agentserver.pump.editions import Callee, Edition
    from agentserver.pump.handle import ServerHandle
    from agentserver.pump.invoke import Shows
    from agentserver.pump.schedule import KeyedLock
    from agentserver.pump.slices import Decision

_new = tuple.__new__

logger = logging.getLogger("agentserver.pump")


class PumpHooks(NamedTuple):
    """Connections of a pump to its surroundings.

    Args:
        stream: receives the records of every committed step; None for one without sinks.
        approver: is shown each message that waits for a person.
        answers: where people leave answers who are not asked here. Without either, every message that needs an
            approval is denied.
        stalled: ends the process when a handler has held the event loop for too long; None lets it run.
        delegations: exchanges tokens of users; None without an identity provider that does so.
    """

    stream: RecordStream | None = None
    approver: Approver | None = None
    answers: Answers | None = None
    stalled: Callable[[], None] | None = None
    delegations: Delegations | None = None


NO_HOOKS = PumpHooks()


class Pump:
    """Runs an organism. An async context manager: leaving it drains messages at work and stops.

    A failure of one delivery ends that delivery alone: see boundary.py. Any other exception in a worker is a defect,
    unless it is the engine's EngineError: the pump stops at once without draining, releases every waiting caller, and
    the exception leaves the context.

    Args:
        rules: that conversations decide by.
        bound: listeners with their handlers, by name.
        engine: where conversations are kept; already open.
        clock: time and randomness.
        resources: provided by the organism's lifespan.
        hooks: where records go, and who approves messages.
    """

    def __init__(
        self,
        rules: Rules,
        bound: Mapping[str, Callee],
        engine: Engine,
        clock: Clock,
        resources: Sequence[object] = (),
        hooks: PumpHooks = NO_HOOKS,
    ) -> None:
        self._editions = editions = Editions(rules, bound)
        self._engine, self._clock = engine, clock
        self._approvals = PendingApprovals(rules, hooks.approver, hooks.answers)
        self._parser = OffloadedParser(editions)
        self._time = Timekeeper(clock, engine)
        self._marks: Marks = engine.marks or NoMarks()
        self._marked = engine.marks is not None
        self._waits = not self._marks.at_once
        purses = Purses(editions, clock, self._charge, VerdictPoller(hooks.answers))
        self._live: dict[str, Conversation] = {}
        self._claims = ClaimTable()
        seen, shows = (self._marks, self._claims), self._open_shows(editions, hooks)
        self._invoker = Invoker(editions, resources, self._parser, seen, purses, shows)
        self._invoker.notes = engine.notes
        self._lay_out(editions, purses.verdicts)
        remote = RemoteConversations()
        self._finder = Finder(self._copies, self._suspend, self._show_gained, remote)
        self._steps = Steps(engine, self._claims, self._live, self._finder.find, self._release, self._forget)
        hand_over = None if engine.prompt else self._steps.hand_over
        self._boundary = Boundary(editions, clock, self._steps.take, hand_over, self._spawn, self._suspend)
        stall = rules.blueprint.limits.stall
        self._watchdog = Watchdog(stall, self._invoker.find_holder, self._marks, hooks.stalled)
        self._connect(editions)
        self._stream = RecordStream() if hooks.stream is None else hooks.stream
        self._stream.attach(LogSink(self._invoker.crashes, self._digest.count))
        conversations = Conversations(
            self._live, self._claims, self._finder.find, engine, self._accounts, remote, self._stream
        )
        self.entrance = Entrance(
            editions, conversations, clock, self._boundary, self._arrival_queue, self.receive
        )
        self._handles, self._watches = self.entrance.handles, self.entrance.watches
        self._stopping = self._halted = False
        self._warned: set[str] = set()
        self._drained = 0.0
        self._life = self._run()

    async def _delegate(self, delegations: Delegations, conversation: str, resource: str, scope: str) -> str:
        """Exchange the token of a conversation's principal. Raises DelegationError."""
        live = self._live.get(conversation)
        if live is None:
            raise DelegationError(DelegationCode.ENDED, "the conversation has ended")
        return await delegations.exchange(live.principal, resource, scope)

    def _open_shows(self, editions: Editions, hooks: PumpHooks) -> Shows:
        """Make the ways by which running invocations show progress and answers, and get tokens of users."""
        self.answers = AnswerStreams(editions, self._live, self._show, self._is_watched)
        delegations = hooks.delegations
        return (
            self._tell,
            self.answers.begin,
            None if delegations is None else partial(self._delegate, delegations),
        )

    def _lay_out(self, editions: Editions, verdicts: VerdictPoller) -> None:
        """Make the queues of deliveries, and the copies of conversations at work."""
        self._verdicts = verdicts
        self._digest = AuditDigest()
        self._approvals.sums = self._sums = SumKeeper(self._engine, self._clock, editions, self._live)
        self._accounts = Accounts(self._limits)
        self.alarms = Alarms(self._time, self._engine)
        self._queue = RunQueue()
        self._arrival_queue = ArrivalQueue()
        self._schedule = Schedule(at_once(editions.bound), self._queue.put)
        self._tokens = TokenHolder(self._engine, self._schedule.tokens, self._spawn, self._queue.put)
        self._probation = Probation(self._marks, self._schedule.put)
        self._put = (self._probation if self._marked else self._schedule).put
        self._parsed = ParsedPayloads()
        storage, bounds = (self._engine, self._claims), (self._accounts, self._approvals)
        work, turns = (self._live, self._parsed, editions), (self._queue, self._schedule, self._probation)
        self._copies = Copies(
            storage, work, bounds, turns, self._invoker.cancel, self.alarms, self._show_moved
        )
        self._claims.lost = self._copies.lose

    def _connect(self, editions: Editions) -> None:
        """Make the dispatcher and the objects that depend on it."""
        probation, conclude = self._probation if self._marked else None, self._boundary.conclude
        self._dispatcher = Dispatcher(
            editions, self._schedule, probation, conclude, self._spawn, self._claims
        )
        ways = self._dispatcher, self._probation, self._boundary.bury
        self._taking = Takeover(self._copies, self._suspend, self._show_gained, ways, self._clock)
        self.releasing = IdleReleaser(self._copies, self._steps.lock.inside)
        self.reloads = Reloads(
            editions,
            (self._live, self._steps.lock, self._parsed),
            (self._accounts, self._approvals, self._schedule),
            self._dispatcher,
            self._spawn,
        )

    # Life

    async def __aenter__(self) -> Self:
        """Take over the kept conversations, then start the workers."""
        await self._life.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        """Refuse new messages, let messages at work finish for ``limits.drain`` seconds, then stop."""
        try:
            return await self._life.__aexit__(kind, error, trace)
        finally:
            await self._invoker.end()

    @asynccontextmanager
    async def _run(self) -> AsyncIterator[None]:
        async with anyio.create_task_group() as self._tasks:
            await self._time.begin()
            await self._taking.begin()
            await self.entrance.views.begin()
            self._start_helpers()
            try:
                with self._watchdog, end_forks(), mark_requested_end(self._marks, self._tasks.cancel_scope):
                    yield
                    await self.drain()
                self._handles.settle()
            finally:
                self._stopping = self._halted = True
                self.entrance.stop()
                self._steps.end()
                self._tasks.cancel_scope.cancel()
                with anyio.CancelScope(shield=True):
                    await self._leave()

    def _start_helpers(self) -> None:
        for number in range(self._limits.concurrency):
            start_errand(self._tasks, f"takes deliveries, number {number}", EndEffect.SERVER, self._work)
        views, waiting = self.entrance.views, self._approvals
        parts = self._live, self._engine, self._boundary, self._time
        sweeping = partial(sweep, *parts, lambda: self._limits.idle)
        start_helper(self._tasks, "closes idle conversations", EndEffect.RESTART, sweeping)
        watching = partial(waiting.watch, self._time, self.answer, views.approvals)
        start_helper(self._tasks, "holds approvals to their time", EndEffect.SERVER, watching)
        weighing = partial(self._sums.run, self.answer, waiting.ask)
        start_helper(self._tasks, "adds up amounts", EndEffect.SERVER, weighing)
        settling = partial(self._verdicts.watch, self._engine, self.entrance.settle)
        start_helper(self._tasks, "takes verdicts on effects", EndEffect.RESTART, settling)
        start_helper(self._tasks, "sums up what passed in audit", EndEffect.RESTART, self._digest.run)
        start_helper(self._tasks, "lets committed steps go", EndEffect.SERVER, self._steps.let_go)
        start_errand(self._tasks, "follows claims", EndEffect.SERVER, self._taking.follow)
        start_errand(self._tasks, "takes arrivals", EndEffect.SERVER, self.entrance.arrivals.take)
        waking = partial(self.alarms.run, self._finder.find, self._boundary.wake, lambda: self._stopping)
        start_helper(self._tasks, "wakes sleeping conversations", EndEffect.SERVER, waking)
        if self._engine.shared or self._engine.durable:
            start_helper(self._tasks, "gives conversations back", EndEffect.RESTART, self.releasing.run)
        following = partial(views.follow, waiting.stir)
        start_errand(self._tasks, "follows views of other processes", EndEffect.SERVER, following)

    async def _leave(self) -> None:
        self._digest.log()
        with suppress(EngineError):  # then others take the conversations once its lease is over
            await self._engine.give_up()
        await self._steps.stop()

    @property
    def _limits(self) -> Limits:
        return self._editions.rules.blueprint.limits

    def _spawn(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        start_errand(self._tasks, "finishes a step", EndEffect.SERVER, work)

    async def drain(self) -> None:
        """Refuse new messages and let messages at work finish, until ``limits.drain`` seconds after the first call."""
        if not self._stopping:
            self._stopping = True
            self._marks.end()
            self._drained = anyio.current_time() + self._limits.drain
        with anyio.CancelScope(deadline=self._drained) as scope:
            await self._accounts.idle.wait()
        if scope.cancelled_caught:  # what is not kept by now is found by the next server
            self._halted = True
            self._steps.end()

    async def settle_timers(self) -> None:
        """Wait until no message is at work, and all that are due by then have been delivered and handled."""
        while True:
            await self._accounts.idle.wait()
            await self.alarms.settle()
            if self._accounts.idle.is_set():
                return

    # Gateways

    async def open(
        self,
        principal: Principal | str,
        key: str | None = None,
        maximum: int | None = None,
        *,
        committed: bool = False,
        door: str = "",
    ) -> ServerHandle:
        """Open a conversation. Takes and raises what ``Entrance.open`` does."""
        return await self.entrance.open(principal, key, maximum, committed=committed, door=door)

    async def conversations_of(self, principal: str, door: str = "") -> tuple[str, ...]:
        """Return the principal's conversations that no gateway holds and that can be resumed, oldest first."""
        return await self._handles.conversations_of(principal, door)

    async def resume(self, principal: str, conversation: str) -> ServerHandle:
        """Resume a conversation: its unacknowledged events come first.

        Raises LookupError if the principal has no such conversation.
        """
        return await self._handles.resume(principal, conversation)

    async def receive(self, principal: str, conversation: str, outside: OutsideMessage) -> SubmitResult:
        """Commit an outside message, or return why it is not kept. Raises RepeatedError."""
        await self._arrival_queue.enter(principal, conversation)
        if self._stopping:
            return SubmitResult(outside.request, RejectReason.STOPPING)
        accounts, alone, size = self._accounts, self._arrival_queue.lock, len(outside.data)
        busy = not accounts.admits(principal, size)
        accounts.arrive(principal, size)
        try:
            read = None if busy else await self._parser.parse_outside(principal, conversation, outside)
            refused = Code.BUSY if busy else None
            await alone.enter(conversation)
            try:
                outcome = await self._boundary.receive(conversation, outside, refused, read)
            finally:
                alone.leave(conversation)
        except (RepeatedError, FencedError):
            raise
        except EngineError as error:
            return make_unkept(outside, error)
        finally:
            accounts.finish_arrival(principal, size)
        if outcome is None:
            return SubmitResult(outside.request, RejectReason.OVER)
        code = "" if outcome.added else refused_with(outcome.records)
        after = _new(EventPlace, (outcome.before, LAST))
        return _new(SubmitResult, (outside.request, Code(code) if code else None, False, after))

    def conversation(self, conversation: str) -> Conversation | None:
        """Return a conversation at work, as last committed, or as last seen if another process owns it."""
        return self._live.get(conversation) or self.entrance.views.conversations.get(conversation)

    def queues(self) -> dict[str, tuple[int, int]]:
        """Return for each listener the deliveries that wait for room, and those that run or run next."""
        return self._schedule.queues()

    def report(self) -> ServerReport:
        """Describe the work of this process."""
        now, queues = self._clock.moment().now, self.queues().values()
        handlers = [each.remote for each in self._editions.bound.values() if each.remote is not None]
        workers = tuple(worker for handler in handlers for worker in handler.list_workers(now))
        running, queued = sum(each[1] for each in queues), sum(each[0] for each in queues)
        return ServerReport(len(self._live), running, queued, workers)

    def running(self) -> frozenset[str]:
        """Return the threads whose handlers run."""
        return self._invoker.running

    def approvals(self) -> tuple[Approval, ...]:
        """Return the messages that wait for a person, here or remote, oldest first."""
        return self._approvals.list_oldest(self.entrance.views.approvals())

    def held_approvals(self) -> tuple[Approval, ...]:
        """Return the messages that wait for a person in conversations of this process, oldest first."""
        return self._approvals.list_oldest()

    async def answer(self, conversation: str, answered: ApprovalAnswer) -> bool:
        """Commit a person's answer. Returns False if no approval, or another message, waits for it."""
        return await self.entrance.answer(conversation, answered)

    # Work

    async def _charge(self, conversation: str, decide: Decision) -> bool:
        """Take a step for a running invocation, once. Raises EngineError and UndecidedError."""
        return await self._steps.take(conversation, decide, patient=False, to_its_end=run_uncancelled)

    async def _work(self) -> None:
        # A worker that never waits outside of a commit would never be cancelled.
        worker = asyncio.current_task()
        assert worker is not None
        editions, marks, invoke = self._editions, self._marks, self._invoker.call
        while not self._halted:
            delivery = await self._queue.take()
            to = delivery.to
            if to in editions.exclusive and to not in self._schedule.tokens:
                self._tokens.ask(delivery)
                continue
            bound = editions.bound.get(to)
            if bound is None or delivery.conversation in editions.earlier:
                self._schedule.release(to)
                self.reloads.put_off(delivery)
                continue
            work = delivery.id, worker  # one that is back may still be ending in another worker
            editions.working[work] = delivery.conversation
            mark = marks.enter(delivery.id, delivery.conversation) if self._marked else 0
            try:
                if self._waits and not await self._claims.keeps(
                    delivery.conversation, marks.wait_until_marked(mark)
                ):
                    self._probation.withdraw(delivery)
                    marks.leave(mark)
                    continue
                conversation = self._live.get(delivery.conversation) or await self._finder.find_own(
                    delivery.conversation
                )
                parsed = self._parsed.pop(delivery.id, None)
                if conversation is not None:
                    call = partial(invoke, bound, worker)
                    await self._boundary.handle(conversation, delivery, parsed, call)
                del conversation, parsed  # or a worker that waits would keep them in memory
                if self._marked:
                    self._probation.finish(delivery)
                    marks.leave(mark)
            finally:
                del editions.working[work]
                self._schedule.release(to)
                if editions.earlier:
                    editions.notify_progress()

    def _tell(self, accepted: AcceptedDelivery, progress: Progress) -> None:
        """Pass on a handler's progress, unless its thread is gone or a guard silences it."""
        delivery, now = accepted.delivery, self._live.get(progress.conversation)
        if now is None or now.working_on(delivery) is None:
            return
        rules = self._editions.rules_of(now.id)
        if not is_silenced(rules.guards, rules.recall(now), delivery, accepted.element, now.touched):
            self._handles.tell(progress)
            self._watches.tell(progress)

    def _show(self, delta: Delta) -> None:
        """Pass on a piece of an answer."""
        self._watches.tell_delta(delta)

    def _is_watched(self, conversation: str) -> bool:
        return self._watches.wants_deltas(conversation)

    def _show_moved(self, lost: Mapping[str, bool]) -> None:
        """Keep showing gateways conversations that this process lost."""
        for conversation in lost:
            self.answers.forget(conversation)
        self.entrance.views.keep_showing(lost)

    async def _show_gained(self, conversations: Collection[str]) -> None:
        """Show gateways the earlier events of conversations before new ones occur here."""
        await self.entrance.views.show_gained(conversations)

    async def _suspend(self, conversation: str, error: Exception) -> None:
        """Suspend a conversation that cannot continue: its principal is informed, the others are served."""
        await run_uncancelled(self._suspend_now(conversation, error))

    async def _suspend_now(self, conversation: str, error: Exception) -> None:
        events = await suspend(self._engine, conversation, error, self._clock.moment().now)
        self._copies.forget(conversation)
        self._handles.deliver(conversation, events)
        self._watches.deliver(conversation, events)
        self._forget(conversation)

    def _release(self, outcome: Outcome) -> None:
        """Release the consequences of a committed step. Sinks come last: nothing else depends on them."""
        conversation = outcome.conversation
        self._live[conversation.id] = conversation
        for thread in outcome.closed:
            self._invoker.cancel(thread)
        if outcome.parsed or outcome.dropped:
            self._parsed.keep(outcome)
        self._accounts.book(outcome)
        if (
            outcome.approvals
            or conversation.timers
            or conversation.ledger
            or self._approvals.approvals
            or self.alarms.due_times
        ):
            self._note_waiting(outcome)
        for delivery in outcome.ready:
            if delivery.to in self._editions.bound:  # as the dispatcher does
                self._put(_new(Ticket, (conversation.principal, delivery)))
            else:
                self._dispatcher.fail(delivery)
        if outcome.retry is not None:
            ticket = Ticket(conversation.principal, outcome.retry)
            self._dispatcher.dispatch_later(ticket, backoff(outcome.retry.attempt))
        self._release_events(outcome)
        if conversation.closed:
            self._forget(conversation.id)
        self._stream.put(conversation.principal, outcome.records)
        if outcome.deprecated:
            self._warn_deprecated(outcome)

    def _release_events(self, outcome: Outcome) -> None:
        if self.answers.open:
            self.answers.settle(outcome)
        if outcome.replies:
            self._handles.deliver(outcome.conversation.id, outcome.replies)
        if self._watches.of:
            self.answers.show_calls(outcome)
        self._watches.pass_on(outcome)

    def _note_waiting(self, outcome: Outcome) -> None:
        """Note what waits for a person, for its time, or for a verdict."""
        self._approvals.record(outcome)
        self.alarms.note(outcome.conversation)
        self._verdicts.record(outcome)

    def _warn_deprecated(self, outcome: Outcome) -> None:
        name = next((r.to for r in outcome.records if r.event is Event.HANDLED), "")
        if name not in self._warned:
            self._warned.add(name)
            logger.warning("%s returned bytes, which is deprecated: return a HandlerResponse", name)

    def _forget(self, conversation: str) -> None:
        self.answers.forget(conversation)
        self._live.pop(conversation, None)
        self.alarms.forget(conversation)
        self._claims.pop(conversation, None)
        if self._editions.earlier:
            self._editions.forget(conversation)
        self._accounts.close(conversation)
        self._handles.finish(conversation)
        self._watches.close(conversation)


@dataclass(slots=True)
class Reloads:
    """Moves conversations to another edition.

    Args:
        editions: of each conversation.
        work: conversations as last committed, the lock of their steps, and their parsed payloads.
        bounds: quotas of principals, approvals, and queues of listeners.
        dispatcher: receives held deliveries.
        spawn: starts a task of the pump.
    """

    editions: Editions
    work: tuple[MutableMapping[str, Conversation], KeyedLock, ParsedPayloads]
    bounds: tuple[Accounts, PendingApprovals, Schedule]
    dispatcher: Dispatcher
    spawn: Callable[[Callable[[], Coroutine[Any, Any, None]]], None]

    def list_unfit(self, edition: Edition) -> tuple[str, ...]:
        """Return the principals with an open conversation whose name is a listener in another edition."""
        taken = principals.reserved_looks(edition.bound)
        return tuple(
            sorted(name for name in self.bounds[0].principals if principals.explain_unfit(name, taken))
        )

    def swap(self, edition: Edition) -> int:
        """Make an edition current. Returns how many conversations are busy; each moves as soon as it can."""
        editions, before = self.editions, at_once(self.editions.bound)
        live, alone, parsed = self.work
        accounts, waiting, schedule = self.bounds
        editions.swap(edition, alone.inside)
        accounts.limit(edition.rules.blueprint.limits)
        waiting.adopt(edition.rules)
        parsed.clear()
        for key in live.keys() - editions.earlier.keys():
            live[key] = add_new_guards(live[key], edition.rules.guards)
        for ticket in schedule.resize(before, at_once(edition.bound)):
            self.dispatcher.fail(ticket.delivery)
        for key in editions.earlier:
            self.spawn(partial(self._move, key))
        return len(editions.earlier)

    async def wait_moved(self) -> None:
        """Wait until every conversation uses the current edition."""
        while self.editions.earlier:
            await self.editions.wait_for_progress()

    def put_off(self, delivery: Delivery) -> None:
        """Hold a delivery that cannot run after a reload, or fail it if its listener is gone."""
        if delivery.conversation in self.editions.earlier:
            self.editions.hold(delivery)
        else:
            self.dispatcher.fail(delivery)

    async def _move(self, conversation: str) -> None:
        """Move a conversation once it has no work in an earlier edition."""
        _, alone, _ = self.work
        while conversation in self.editions.earlier:
            await alone.enter(conversation)
            try:
                moved = self._try_move(conversation)
            finally:
                alone.leave(conversation)
            if not moved:
                await self.editions.wait_for_progress()

    def _try_move(self, conversation: str) -> bool:
        """Move a locked conversation. Returns whether it has moved."""
        live, _, parsed = self.work
        held, now = self.editions.move(conversation), live.get(conversation)
        if held is None or now is None:
            return held is not None
        live[conversation] = add_new_guards(now, self.editions.rules.guards)
        for thread in now.tree.nodes.values():
            parsed.forget(thread.list_waiting())
        for delivery in held:
            self.dispatcher.dispatch_again(Ticket(now.principal, delivery))
        return True
