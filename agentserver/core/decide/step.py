"""One step of a conversation: changes deliveries, threads and requests, and builds the outcome.

Deliveries and threads move by the tables of ``lives.py``. Nothing is decided here.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Final

from agentserver.contract import Code, TimerFired, TodoClosed, TodoOverdue, TodoRegistered
from agentserver.core.decide import lives
from agentserver.core.decide.lives import DeliveryMove, DeliveryStage, ThreadMove
from agentserver.core.drafts.replies import make_notice
from agentserver.core.drafts.routing import Route
from agentserver.core.messages import TIMER, TODO, Call, Delivery, Done, EventPlace, Reply
from agentserver.core.records.audit import Event, RecordBuilder
from agentserver.core.records.details import (
    Charge,
    Delay,
    EffectChange,
    EndDetail,
    Ground,
    GuardAsks,
    GuardQuestions,
)
from agentserver.core.records.outcome import Outcome
from agentserver.core.refusals import make_system_error
from agentserver.core.state.approvals import Approval, digest
from agentserver.core.state.conversation import Conversation
from agentserver.core.state.ledger import EffectState
from agentserver.core.state.logs import apply_log_changes
from agentserver.core.state.overlay import copy_changeable
from agentserver.core.state.requests import NO_REQUESTS, RequestChange
from agentserver.core.state.spending import Reservation
from agentserver.core.state.threads import (
    DelayedDelivery,
    HeldDelivery,
    TreeChange,
    list_timers,
    narrow_peers,
)
from agentserver.payload.names import local
from agentserver.wire import envelope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from lxml import etree

    from agentserver.contract import TodoUntil
    from agentserver.core.drafts.routing import Proposal
    from agentserver.core.guard import Rules
    from agentserver.core.messages import HandlerFailure, Moment, Question
    from agentserver.core.records.details import Answering, Detail
    from agentserver.core.records.outcome import Cause
    from agentserver.core.state.ledger import LedgerEffect
    from agentserver.core.state.logs import LogChange
    from agentserver.core.state.requests import OpenRequest
    from agentserver.core.state.threads import Thread, Timer
    from agentserver.spending import Amount

_new = tuple.__new__
"""Makes a wide tuple without the call of Python that its class would make; tests/test_tuples.py counts the fields."""
EARLY: Final = 64
"""Versions of which all conversations share the places of events: most conversations at rest have no later one."""

FEW: Final = 4
"""Events of a step that share their places."""

_EARLY_PLACES: Final = tuple(
    tuple(EventPlace(version, position) for position in range(FEW)) for version in range(EARLY)
)

_FINISHED: Final = lives.passage(DeliveryStage.RUNNING, DeliveryMove.FINISH).waiting
"""The change in the deliveries at work when a running one is done."""


class Step:
    """Builder of one step; ``finish`` returns the next conversation and all changes.

    Args:
        conversation: before the step; it stays unchanged.
        rules: those in force.
        moment: when; time never runs back in a conversation.
        cause: the event that is decided on.
        request: the one that the step is about; empty when it is about none or several.
        concluded: the delivery of the invocation that the step is about, if it is about one.
        took: seconds that the invocation took, where that is known.
    """

    # Few steps change any of these.
    memory: Mapping[str, object] | None = None
    _done: str | None = None
    _retry: Delivery | None = None
    _asking = 0
    _delaying = 0
    _grown = 0
    _deprecated = False
    _over = False

    def __init__(
        self,
        conversation: Conversation,
        rules: Rules,
        moment: Moment,
        cause: Cause,
        request: str = "",
        concluded: Delivery | None = None,
        took: float | None = None,
    ) -> None:
        if moment.now < conversation.touched:
            moment = moment.not_before(conversation.touched)
        self.before = conversation
        self.rules = rules
        self.moment = moment
        self.cause = cause
        self.records = RecordBuilder(conversation.id, moment.now, rules.redact, request, took)
        self._concluded = concluded
        self._ids = map(moment.id, count())
        self._threads = TreeChange(conversation.tree)
        self._nodes = self._threads.nodes
        self._root = conversation.tree.root
        self._requests = RequestChange(conversation.requests)
        self._todos = conversation.todos
        self._messages = conversation.messages
        self._spending = conversation.spending
        self._ledger = conversation.ledger
        self._added: dict[str, Delivery] = {}
        self._parsed: dict[str, etree._Element] = {}
        self._woken: dict[str, None] = {}
        self._dropped: list[Delivery] = []
        self._closed: list[str] = []
        self._replies: list[Reply | Done] = []
        self._pending: dict[str, Approval] = {}
        self._exhausted: dict[str, Detail] = {}
        self._timed = {timer.thread for timer in conversation.timers} if conversation.timers else set()

    # Deliveries

    def take(self, delivery: Delivery, *, deprecated: bool = False) -> None:
        """Consume the first delivery of a thread's inbox, and count it for todos.

        ``deprecated``: its listener returned bytes.
        """
        thread = self._nodes.get(delivery.thread)
        inbox = () if thread is None else thread.inbox
        if thread is None or not inbox or inbox[0] != delivery or thread.id in self._woken:
            self._consume(delivery, DeliveryMove.FINISH)
        else:
            self._requests.count(delivery.request, _FINISHED)
            self._grown += _FINISHED * len(delivery.message)
            self._done = delivery.id
            self._woken[thread.id] = None
            self._threads.put_inbox(thread, inbox[1:], thread.call)
        self.records.record(Event.HANDLED, delivery)
        if self._ledger:
            self._end_effects(delivery, done=True)
        if self._todos.watchers:
            before, self._todos = self._todos, self._todos.count_notice(delivery, self._find_caller(delivery))
            if self._todos is not before:
                self._drop_reminders(delivery.thread)
        self._deprecated = deprecated

    def bury(self, delivery: Delivery, failed: HandlerFailure) -> None:
        """Make a delivery, running or done, a dead letter."""
        self._consume(delivery, DeliveryMove.FAIL)
        self.records.record(Event.FAILED, delivery, code=failed.code, detail=failed.detail)
        if self._ledger:
            self._end_effects(delivery)

    def retry(self, delivery: Delivery, failed: HandlerFailure) -> None:
        """Leave the first delivery of a thread's inbox in place for another attempt."""
        self._move(delivery, self._find_stage(delivery), DeliveryMove.RETRY)
        thread = self._nodes[delivery.thread]
        self._retry = delivery._replace(attempt=delivery.attempt + 1)
        self._threads.put_inbox(thread, (self._retry, *thread.inbox[1:]), thread.call)
        self.records.record(Event.RETRIED, delivery, code=failed.code, detail=failed.detail)
        if self._ledger:
            self._end_effects(delivery)

    def requeue(self, delivery: Delivery, top: str | None) -> None:
        """Queue a dead letter again on its thread. ``top``: the idle principal's thread above it."""
        if top is not None:
            self._begin_on(delivery.request, top)
        self._added[delivery.id] = delivery
        self.records.record(Event.SENT, delivery)
        self._move(delivery, self._find_stage(delivery), DeliveryMove.REQUEUE)
        self._queue(self._nodes[delivery.thread], (delivery,))

    def send(self, proposal: Proposal, request: str, hop: int) -> None:
        """Send a message to a thread below, above or the sender's own; what reaches the root leaves.

        A message beyond the request's budget ends the request instead.

        Args:
            proposal: the message, admitted or the system's own.
            request: the outside message that caused it.
            hop: its place in the causal chain.
        """
        own, route = self._nodes[proposal.thread], proposal.route
        receiver: Thread | None = None
        if route is Route.ANSWER:
            receiver = self._nodes[own.parent or ""]
        elif route is Route.NOTICE:
            receiver = own
        if receiver is not None and receiver.parent is None:
            self._leave(proposal, request, hop)
            return
        limits, order = self.rules.blueprint.limits, self._messages
        if (
            hop > limits.hops
            or order >= limits.conversation_messages
            or not self._requests.spend(request, limits.messages)
        ):
            spent = Ground.HOPS.of(limits.hops) if hop > limits.hops else Ground.SPENT.of()
            self.exhaust(request, spent)
            return
        self._messages += 1
        if receiver is None:
            key = "" if self._concluded is None else self._concluded.id
            call = _new(Call, (order, key, proposal.place, False))
            receiver = self._find_child(own, proposal, call)
        else:
            call = self._call(own, receiver, proposal)
        self._deliver(receiver, proposal, request, hop, call)
        if own.parent is None:
            self._begin_on(request, receiver.id)

    def approve(self, approval: Approval, answered: Answering) -> None:
        """Queue an approved delivery. ``answered`` is for the record."""
        delivery = approval.delivery
        thread = self._unask(approval)
        self.records.record(Event.APPROVED, delivery, detail=answered)
        self._place(thread, delivery, DeliveryStage.ASKED, DeliveryMove.APPROVE)

    def deny(self, approval: Approval, answered: Answering) -> None:
        """Drop a delivery that a person denied. ``answered`` is for the record."""
        self._unask(approval)
        self.records.record(Event.WITHDRAWN, approval.delivery, detail=answered)
        self._drop(approval.delivery, DeliveryStage.ASKED, DeliveryMove.DENY)

    def wake(self, delivery: Delivery, questions: tuple[Question, ...] = ()) -> None:
        """Queue a delayed delivery whose time has come, or ask about it."""
        thread = self._take_delayed(self._nodes[delivery.thread], delivery)
        self.records.record(Event.RELEASED, delivery)
        if questions:
            self._ask(thread, delivery, DeliveryStage.DELAYED, questions)
        else:
            self._place(thread, delivery, DeliveryStage.DELAYED, DeliveryMove.WAKE)

    def drop_delayed(self, delivery: Delivery) -> None:
        """Drop a delayed delivery."""
        self._take_delayed(self._nodes[delivery.thread], delivery)
        self._drop(delivery, DeliveryStage.DELAYED)

    # Threads, requests and what threads keep

    def begin(self, request: str) -> None:
        """Open a request."""
        self._requests.begin(request)

    def cancel(self, request: str, reason: str) -> None:
        """Close the threads of a request with all that is under way on them. ``reason`` is for the record."""
        self.records.note(
            Event.CANCELLED,
            thread=self._root,
            to=self.before.principal,
            detail=EndDetail(reason),
            request=request,
        )
        self._shut(request)

    def exhaust(self, request: str, detail: Detail) -> None:
        """End a request that has used up its budget with this step. ``detail`` is for operators."""
        self._exhausted.setdefault(request, detail)

    def prune(self, thread: str) -> None:
        """Close everything below a thread and drop waiting deliveries that came from there."""
        if self._todos.watchers:
            self._todos = self._todos.abandon(thread)
        node = self._nodes[thread]
        if node.delayed:
            self._drop_timers(thread)
        if not node.children:
            return
        closed = self._threads.prune(thread)
        closed_ids = {node.id for node in closed}
        self._close(closed)
        node = self._nodes[thread]
        if not any(delivery.origin in closed_ids for delivery in node.list_waiting()):
            return
        for delivery, stage in self._list_stages(node):
            if delivery.origin in closed_ids:
                self._drop(delivery, stage)
        rest = node._replace(
            inbox=tuple([delivery for delivery in node.inbox if delivery.origin not in closed_ids]),
            held_deliveries=tuple(
                [held for held in node.held_deliveries if held.delivery.origin not in closed_ids]
            ),
            approvals=tuple([one for one in node.approvals if one.delivery.origin not in closed_ids]),
            delayed=tuple([one for one in node.delayed if one.delivery.origin not in closed_ids]),
        )
        self._put(node, ThreadMove.SHED, rest)

    def close(self, reason: str) -> None:
        """End the conversation: close every thread."""
        self.prune(self._root)
        self._over = True
        self.records.note(Event.CLOSED, thread=self._root, to=self.before.principal, detail=EndDetail(reason))

    def count_refusals(self, thread: str, refusals: int) -> None:
        """Set how many refusals in a row a thread has had."""
        self._threads.put(self._nodes[thread]._replace(refusals=refusals))

    def store(self, thread: str, values: Mapping[str, bytes | None], logged: Sequence[LogChange]) -> None:
        """Change the stored values of a thread, encoded, and its logs; None deletes a value."""
        node = self._nodes[thread]
        storage, logs = node.storage, node.logs
        if values:
            merged = {**storage, **values}
            storage = {name: value for name, value in merged.items() if value is not None}
        if logged:
            logs = apply_log_changes(logs, logged)
        self._threads.put(node.with_stored(storage, logs))

    def reserve(self, delivery: Delivery, purpose: str, maximum: Amount) -> None:
        """Charge work before it is done, and drop the charges of ended work."""
        reservation = Reservation(
            next(self._ids), delivery.thread, delivery.id, delivery.request, delivery.to, maximum
        )
        self._spending = self.before.current_spending().reserve(reservation)
        self.records.record(Event.RESERVED, delivery, detail=Charge(purpose, maximum.tokens, maximum.money))

    def settle(self, delivery: Delivery, reservation: Reservation, cost: Amount) -> None:
        """Replace a reservation by the actual cost."""
        self._spending = self._spending.settle(reservation, cost)
        self.records.record(Event.SETTLED, delivery, detail=Charge("", cost.tokens, cost.money))

    def put_effect(self, effect: LedgerEffect) -> None:
        """Write an external effect into the ledger."""
        ledger = copy_changeable(self._ledger)
        ledger[effect.id] = effect
        self._ledger = ledger
        self._record_effect(effect, effect.state, effect.by)

    def drop_effect(self, effect: LedgerEffect, by: str = "") -> None:
        """Remove an effect that did not happen from the ledger."""
        ledger = copy_changeable(self._ledger)
        del ledger[effect.id]
        self._ledger = ledger
        self._record_effect(effect, "not done", by)

    def watch(self, delivery: Delivery, until: TodoUntil, place: int = 0) -> None:
        """Register a todo for the thread of a delivery and answer with its id. ``place``: of the message."""
        watcher = next(self._ids)
        reminder = (
            "" if until.remind_after is None else self._remind(delivery, watcher, until.remind_after, place)
        )
        self._todos = self._todos.watch(delivery.thread, until, watcher, reminder)
        self._serve(delivery, TodoRegistered(watcher), place)

    def _remind(self, delivery: Delivery, watcher: str, after: float, place: int) -> str:
        """Delay a reminder of a todo. Returns its delivery; empty if the budget is spent."""
        reminder = make_notice(TodoOverdue(watcher), delivery.thread, self.rules, sender=TODO)
        before = len(self._nodes[delivery.thread].delayed)
        self.send(reminder._replace(place=place, after=after), delivery.request, delivery.hop + 1)
        added = self._nodes[delivery.thread].delayed[before:]
        return added[-1].delivery.id if added else ""

    def _drop_reminders(self, thread: str) -> None:
        """Drop the reminders of todos of a thread that are complete or closed."""
        pending = {each.reminder for each in self._todos.list_watchers(thread) if not each.raised}
        for one in self._nodes[thread].delayed:
            if one.delivery.sender == TODO and one.delivery.id not in pending:
                self.drop_delayed(one.delivery)

    def complete(self, delivery: Delivery, watcher: str, place: int = 0) -> None:
        """Close a todo and answer whether there was one. ``place``: of the message that asked."""
        self._serve(delivery, TodoClosed(watcher, self.forget(delivery.thread, watcher)), place)

    def set_timer(self, delivery: Delivery, seconds: float, place: int = 0) -> None:
        """Answer the thread of a delivery after a time. ``place``: of the message that asked."""
        fired = make_notice(TimerFired(seconds), delivery.thread, self.rules, sender=TIMER)
        self.send(fired._replace(place=place, after=seconds), delivery.request, delivery.hop + 1)

    def cancel_timer(self, thread: str, key: str, place: int) -> None:
        """Drop the timer of a thread that a message set, if it exists."""
        for one in self._nodes[thread].delayed:
            call = one.delivery.call
            if one.delivery.origin == thread and (call.key, call.place) == (key, place):
                self.drop_delayed(one.delivery)

    def _drop_timers(self, thread: str) -> None:
        """Drop all timers that a thread has set."""
        for one in self._nodes[thread].delayed:
            if one.delivery.origin == thread:
                self.drop_delayed(one.delivery)

    def forget(self, thread: str, watcher: str) -> bool:
        """Close a todo and release the deliveries that it holds; False for an unknown id."""
        before, self._todos = self._todos, self._todos.close(thread, watcher)
        if self._todos is before:
            return False
        self._drop_reminders(thread)
        self._release(thread, lambda held: held.watcher == watcher)
        return True

    def finish(self) -> Outcome:
        """Settle spent budgets, stuck holds and idle requests, and return all changes."""
        before = self.before
        if self._exhausted:
            self._end_exhausted()
        concerned = self._requests.settle()
        for request in concerned:
            if not request.pending or request.held_count == request.pending:
                self._end_requests(concerned)
                break
        ready: list[Delivery] = []
        for thread in self._woken:
            node = self._nodes.get(thread)
            if node is not None and node.inbox:
                ready.append(node.inbox[0])  # QUEUED becomes RUNNING, which no count tells apart
        after = self._make_conversation()
        return _new(
            Outcome,
            (
                before.version,
                after,
                self._done,
                tuple(self._added.values()),
                tuple(self._dropped),
                self._list_open_questions() if self._pending else (),
                self._asking,
                self._delaying,
                self._grown,
                tuple(ready),
                self._retry,
                tuple(self._closed),
                tuple(self._replies),
                tuple(self.records.records),
                self._parsed,
                self._deprecated,
                self.moment,
                self.cause,
                before,
            ),
        )

    def _make_conversation(self) -> Conversation:
        """Return the conversation after the step."""
        before = self.before
        memory = self.rules.recall(before) if self.memory is None else self.memory
        return _new(
            Conversation,
            (
                before.id,
                before.principal,
                self._threads.build_result(),
                self._todos,
                self._requests.now or NO_REQUESTS,
                self._messages,
                memory,
                before.version + 1,
                self.moment.now,
                self._over,
                before.rights,
                self._spending,
                self._list_timers() if self._timed else (),
                self._ledger,
            ),
        )

    # The moves of deliveries and threads

    def _move(self, delivery: Delivery, before: DeliveryStage, move: DeliveryMove) -> None:
        """Move a delivery to its next stage and update the counts."""
        _, waiting, held, asking_change, delayed = lives.passage(before, move)
        if before is DeliveryStage.NEW:  # counted when it was made
            waiting = 0
        if waiting or held:
            self._requests.count(delivery.request, waiting, held)
        self._grown += waiting * len(delivery.message)
        self._asking += asking_change
        self._delaying += delayed

    def _put(self, before: Thread, move: ThreadMove, after: Thread) -> None:
        """Move a thread to its next stage. A delivery that becomes the first one is ready."""
        lives.step(before, move, after)
        if move is ThreadMove.TAKE or (after.inbox and after.inbox[:1] != before.inbox[:1]):
            self._woken[after.id] = None
        self._threads.put(after)

    def _find_stage(self, delivery: Delivery) -> DeliveryStage:
        """Return the stage of a delivery. An absent one counts as dead: only a dead letter comes back."""
        if delivery.id == self._done:
            return DeliveryStage.DONE
        thread = self._nodes.get(delivery.thread)
        found = () if thread is None else self._list_stages(thread)
        return next((stage for other, stage in found if other.id == delivery.id), DeliveryStage.DEAD)

    def _list_stages(self, thread: Thread) -> Iterator[tuple[Delivery, DeliveryStage]]:
        """List all deliveries on a thread with their stages."""
        first = DeliveryStage.QUEUED if thread.id in self._woken else DeliveryStage.RUNNING
        for number, delivery in enumerate(thread.inbox):
            yield delivery, DeliveryStage.QUEUED if number else first
        for held in thread.held_deliveries:
            yield held.delivery, DeliveryStage.HELD
        for approval in thread.approvals:
            yield approval.delivery, DeliveryStage.ASKED
        for delayed in thread.delayed:
            yield delayed.delivery, DeliveryStage.DELAYED

    def _consume(self, delivery: Delivery, move: DeliveryMove) -> None:
        stage = self._find_stage(delivery)
        self._move(delivery, stage, move)
        if stage is DeliveryStage.RUNNING:
            thread = self._nodes[delivery.thread]
            self._woken[thread.id] = None
            self._threads.put_inbox(thread, thread.inbox[1:], thread.call)
        self._done = delivery.id

    def _queue(self, thread: Thread, deliveries: Sequence[Delivery]) -> None:
        """Put deliveries behind the others in the inbox of a thread: QUEUE leads there from every open stage."""
        if not thread.inbox:
            self._woken[thread.id] = None
        self._threads.put_inbox(thread, (*thread.inbox, *deliveries), thread.call)

    def _deliver(self, receiver: Thread, proposal: Proposal, request: str, hop: int, call: Call) -> None:
        """Make the delivery of a message to a thread, and queue it, hold it or ask about it there.

        A call becomes the last one of a thread below the sender's.
        """
        sender = proposal.sender.name
        delivery = _new(
            Delivery,
            (
                next(self._ids),
                self.before.id,
                request,
                receiver.id,
                proposal.thread,
                sender,
                receiver.owner,
                proposal.root,
                envelope.write(sender, receiver.owner, receiver.id, proposal.markup),
                hop,
                proposal.about,
                0,
                call,
            ),
        )
        self._parsed[delivery.id] = proposal.element
        self._added[delivery.id] = delivery
        self._grown += len(delivery.message)
        self.records.record(Event.SENT, delivery)
        called = call if receiver.parent == proposal.thread else receiver.call
        if not (proposal.after or proposal.questions or self._todos.watchers):
            if not receiver.inbox:
                self._woken[receiver.id] = None
            self._threads.put_inbox(receiver, (*receiver.inbox, delivery), called)
            return
        receiver = receiver.called_by(called)
        if proposal.after:
            self._delay(receiver, delivery, self.moment.now + proposal.after)
        elif proposal.questions:
            self._ask(receiver, delivery, DeliveryStage.NEW, proposal.questions)
        else:
            self._place(receiver, delivery, DeliveryStage.NEW, DeliveryMove.SEND)

    def _find_child(self, own: Thread, proposal: Proposal, call: Call) -> Thread:
        """Find an idle thread for a call below the sender's, or open one; a call to itself always opens one."""
        allowed = own.allowed if proposal.allowed is None else narrow_peers(own.allowed, proposal.allowed)
        if proposal.route is not Route.SELF:
            child = self._threads.take_resting(own.id, proposal.to, allowed)
            if child is not None:
                return child
        return self._threads.open(own.id, proposal.to, next(self._ids), call, allowed)

    def _call(self, own: Thread, receiver: Thread, proposal: Proposal) -> Call:
        """Return the call that an answer or a notice is about."""
        concluded = self._concluded
        if proposal.route is Route.NOTICE:
            refused = proposal.root == self.rules.failure
            return Call(0, "" if concluded is None else concluded.id, proposal.place, refused)
        if concluded is not None and concluded.origin == receiver.id:
            return concluded.call  # a dead letter may be older than the thread's last call
        return own.call

    def _place(self, thread: Thread, delivery: Delivery, before: DeliveryStage, move: DeliveryMove) -> None:
        """Queue a delivery on its thread, or hold it there for a todo."""
        holder = self._todos.find_holder(delivery, thread.parent)
        if holder is None:
            self._move(delivery, before, move)
            self._queue(thread, (delivery,))
            return
        self._move(delivery, before, DeliveryMove.HOLD)
        self._todos = self._todos.keep(thread.id, holder)
        held = (*thread.held_deliveries, HeldDelivery(holder.watcher_id, delivery))
        self._put(thread, ThreadMove.PARK, thread._replace(held_deliveries=held))
        if holder.collected + 1 == holder.count:
            self._release(thread.id, lambda held: held.watcher == holder.watcher_id)

    def _release(self, thread_id: str, chosen: Callable[[HeldDelivery], bool]) -> None:
        """Queue the chosen of a thread's held deliveries in the order of the calls that they answer."""
        thread = self._nodes[thread_id]
        freed = [held.delivery for held in thread.held_deliveries if chosen(held)]
        if not freed:
            return
        rest = tuple([held for held in thread.held_deliveries if not chosen(held)])
        self._put(thread, ThreadMove.SHED, thread._replace(held_deliveries=rest))
        for delivery in freed:
            self._move(delivery, DeliveryStage.HELD, DeliveryMove.RELEASE)
        self._queue(self._nodes[thread_id], sorted(freed, key=self._call_order))

    def _call_order(self, delivery: Delivery) -> int:
        if delivery.call.order:
            return delivery.call.order
        origin = self._nodes.get(delivery.origin)
        return origin.call.order if origin is not None else 0

    def _delay(self, thread: Thread, delivery: Delivery, due: float) -> None:
        """Let a delivery wait on its thread for its time."""
        self._move(delivery, DeliveryStage.NEW, DeliveryMove.DELAY)
        self._timed.add(thread.id)
        delayed = (*thread.delayed, DelayedDelivery(due, delivery))
        self._put(thread, ThreadMove.PARK, thread._replace(delayed=delayed))
        self.records.record(Event.DELAYED, delivery, detail=Delay(int(due)))

    def _take_delayed(self, thread: Thread, delivery: Delivery) -> Thread:
        """Take a delayed delivery from its thread, and return the thread without it."""
        rest = tuple([other for other in thread.delayed if other.delivery.id != delivery.id])
        after = thread._replace(delayed=rest)
        self._put(thread, ThreadMove.SHED, after)
        return after

    def _list_timers(self) -> tuple[Timer, ...]:
        return list_timers([self._nodes[key] for key in self._timed if key in self._nodes])

    def _ask(
        self, thread: Thread, delivery: Delivery, before: DeliveryStage, questions: tuple[Question, ...]
    ) -> None:
        """Let a delivery wait on its thread until a person approves it."""
        self._move(delivery, before, DeliveryMove.ASK)
        approval = Approval(next(self._ids), delivery, questions, self.moment.now, digest(delivery))
        self._put(thread, ThreadMove.PARK, thread._replace(approvals=(*thread.approvals, approval)))
        self._pending[approval.id] = approval
        asks = tuple([GuardAsks(question.guard, question.reason) for question in questions])
        self.records.record(Event.ASKED, delivery, detail=GuardQuestions(asks))

    def _unask(self, approval: Approval) -> Thread:
        """Take an approval from its thread, and return the thread without it."""
        thread = self._nodes[approval.delivery.thread]
        if approval not in thread.approvals:
            raise lives.ImpossibleError(f"no question {approval.id} waits on its thread")
        rest = tuple([other for other in thread.approvals if other.id != approval.id])
        after = thread._replace(approvals=rest)
        self._put(thread, ThreadMove.SHED, after)
        return after

    def _serve(self, delivery: Delivery, answer: TodoRegistered | TodoClosed, place: int) -> None:
        reply = make_notice(answer, delivery.thread, self.rules, sender=TODO)._replace(place=place)
        self.send(reply, delivery.request, delivery.hop + 1)

    def _drop(
        self, delivery: Delivery, before: DeliveryStage, move: DeliveryMove = DeliveryMove.DROP
    ) -> None:
        """Drop a delivery that no listener will be given."""
        self._move(delivery, before, move)
        self.records.record(Event.DROPPED, delivery)
        self._parsed.pop(delivery.id, None)
        if self._added.pop(delivery.id, None) is None:
            self._dropped.append(delivery)

    def _end_effects(self, delivery: Delivery, *, done: bool = False) -> None:
        """Mark the claims of an ended invocation as unknown, and drop the passing answers of one that succeeded."""
        for effect in [one for one in self._ledger.values() if one.delivery == delivery.id]:
            if effect.state is EffectState.CLAIMED:
                self.put_effect(effect._replace(state=EffectState.UNKNOWN))
            elif done and effect.passing and effect.state is EffectState.DONE:
                ledger = copy_changeable(self._ledger)
                del ledger[effect.id]
                self._ledger = ledger

    def _record_effect(self, effect: LedgerEffect, state: str, by: str) -> None:
        self.records.note(
            Event.EFFECT,
            thread=effect.thread,
            to=effect.listener,
            delivery=effect.delivery,
            detail=EffectChange(effect.id, effect.key, state, effect.label, by),
        )

    def _close(self, threads: tuple[Thread, ...]) -> None:
        """Drop threads that are out of the tree, with all that is on them."""
        if self._todos.watchers:
            self._todos = self._todos.forget({thread.id for thread in threads})
        if self._ledger:
            closed = {thread.id for thread in threads}
            for effect in [one for one in self._ledger.values() if one.thread in closed]:
                if effect.state is EffectState.CLAIMED:
                    self.put_effect(effect._replace(state=EffectState.UNKNOWN))
        for thread in threads:
            self._closed.append(thread.id)
            if not thread.quiet:
                for delivery, stage in self._list_stages(thread):
                    self._drop(delivery, stage)
            self.records.note(Event.CLOSED, thread=thread.id, to=thread.owner)

    def _shut(self, request: str) -> None:
        """Close the threads that a request was delivered on, if they are still there."""
        for thread in self._requests.list_threads(request):
            if thread in self._nodes:
                self._close(self._threads.shut(thread))

    def _begin_on(self, request: str, thread: str) -> None:
        """Note the idle principal's thread on which a request is delivered."""
        self._requests.began_on(request, thread, self._nodes[thread].request)
        self._threads.belongs(thread, request)

    def _find_caller(self, delivery: Delivery) -> str | None:
        """Return the thread that called the one of a delivery."""
        thread = self._nodes.get(delivery.thread)
        return None if thread is None else thread.parent

    def _leave(self, proposal: Proposal, request: str, hop: int) -> None:
        """Send a message out through the gateway."""
        sender, root, principal = proposal.sender.name, proposal.root, self.before.principal
        error = root == self.rules.failure
        message = envelope.write(sender, principal, None, proposal.markup)
        self._replies.append(
            _new(
                Reply, (self.before.id, request, sender, root, message, error, False, self._find_next_place())
            )
        )
        self._requests.answer(request)
        self.records.note(
            Event.ANSWERED,
            thread=proposal.thread,
            sender=sender,
            to=principal,
            root=local(root),
            hop=hop,
            message=message,
            request=request,
        )

    # The end of a step

    def _find_next_place(self) -> EventPlace:
        """Return the place of the next event that leaves."""
        version, position = self.before.version + 1, len(self._replies)
        if version < EARLY and position < FEW:
            return _EARLY_PLACES[version][position]
        return _new(EventPlace, (version, position))

    def _list_open_questions(self) -> tuple[Approval, ...]:
        threads = [self._nodes.get(one.delivery.thread) for one in self._pending.values()]
        return tuple(
            [
                one
                for thread in threads
                if thread is not None
                for one in thread.approvals
                if one.id in self._pending
            ]
        )

    def _end_exhausted(self) -> None:
        """End requests that overran their budgets, with a refusal to their senders."""
        for request, detail in self._exhausted.items():
            self._shut(request)
            error = make_notice(make_system_error(Code.BUDGET), self._root, self.rules)
            self.records.note(
                Event.REFUSED,
                thread=self._root,
                to=self.before.principal,
                detail=detail,
                code=Code.BUDGET,
                request=request,
            )
            self._leave(error, request, 0)

    def _end_requests(self, concerned: Sequence[OpenRequest]) -> None:
        """Release replies held for others that cannot come any longer, and end idle requests."""
        stuck = [entry.id for entry in concerned if entry.held_count and entry.held_count == entry.pending]
        if stuck:
            for thread in [node.id for node in self._nodes.values() if node.held_deliveries]:
                self._release(thread, lambda held: held.delivery.request in stuck)
            concerned = self._requests.settle()
        for request in concerned:
            if request.pending:
                continue
            self._requests.close(request.id)
            for thread in request.threads:
                self._threads.belongs(thread, "")
            self._replies.append(
                _new(Done, (self.before.id, request.id, request.answered, False, self._find_next_place()))
            )
            if not request.answered:
                self.records.note(
                    Event.ENDED, thread=self._root, to=self.before.principal, request=request.id
                )
