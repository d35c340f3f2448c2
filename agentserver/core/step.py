"""One atomic change of a conversation, gathered before it is committed.

Owns the bookkeeping: which deliveries are added, dropped and runnable, which threads close, what leaves. Refuses to
decide anything: decisions.py says what happens, this module keeps the books straight.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentserver.contract import Code, SystemError
from agentserver.core import envelope
from agentserver.core.approvals import Approval, digest
from agentserver.core.audit import Event
from agentserver.core.budget import exhausted, left
from agentserver.core.conversation import Conversation
from agentserver.core.details import GuardAsks, GuardQuestions
from agentserver.core.guard import opening
from agentserver.core.messages import Delivery, Done, EventPlace, Reply
from agentserver.core.minutes import Minutes, local
from agentserver.core.notices import notice
from agentserver.core.outcome import Outcome
from agentserver.core.refusals import system_error
from agentserver.core.requests import RequestChange
from agentserver.core.routing import Route
from agentserver.core.threads import Held, TreeChange, narrowed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from lxml import etree

    from agentserver.core.details import Answering, Detail
    from agentserver.core.guard import Rules
    from agentserver.core.messages import Moment, Question
    from agentserver.core.outcome import Cause
    from agentserver.core.routing import Proposal
    from agentserver.core.threads import Thread

PARSED_LIMIT = 1 << 14
"""Bytes of a message beyond which its parsed form is not handed on: trees weigh more than their text."""


class Step:
    """The books of one step. Made from a conversation, which it leaves as it was, and in which time never runs back."""

    def __init__(self, conversation: Conversation, rules: Rules, moment: Moment) -> None:
        moment = moment.not_before(conversation.touched)
        self.before = conversation
        self.rules = rules
        self.moment = moment
        self.minutes = Minutes(conversation.id, moment.now, rules.redact)
        self.ids = moment.ids()
        self.change = TreeChange(conversation.tree)
        self.tree = self.change.tree
        self.todos = conversation.todos
        self.memory = conversation.memory if conversation.version else opening(rules.guards)
        self.requests = RequestChange(conversation.requests)
        self._messages = conversation.messages
        self._done: str | None = None
        self._retry: Delivery | None = None
        self._added: dict[str, Delivery] = {}
        self._parsed: dict[str, etree._Element] = {}
        self._dropped: list[Delivery] = []
        self._asked: dict[str, Approval] = {}
        self._asking = 0
        self._grown = 0
        self._woken: dict[str, None] = {}
        self._closed: list[str] = []
        self._replies: list[Reply | Done] = []
        self._exhausted: dict[str, Detail] = {}
        self.deprecated = False
        self.cause: Cause | None = None

    # Deliveries

    def take(self, delivery: Delivery) -> None:
        """Consume the first delivery of a thread's inbox."""
        thread = self.tree.nodes[delivery.thread]
        self.change.put(thread._replace(inbox=thread.inbox[1:]))
        self._woken[thread.id] = None
        self._done = delivery.id
        self._grown -= len(delivery.message)
        self.requests.count(delivery.request, -1)

    def again(self, delivery: Delivery) -> None:
        """Leave the first delivery of a thread's inbox in place for another attempt."""
        thread = self.tree.nodes[delivery.thread]
        self._retry = delivery._replace(attempt=delivery.attempt + 1)
        self.change.put(thread._replace(inbox=(self._retry, *thread.inbox[1:])))

    def revive(self, delivery: Delivery) -> None:
        """Queue a delivery that was consumed before."""
        self._add(delivery)
        self._queue(delivery.thread, (delivery,))

    def _add(self, delivery: Delivery) -> None:
        self._added[delivery.id] = delivery
        self._grown += len(delivery.message)
        self.requests.count(delivery.request, 1)
        self.minutes.record(Event.SENT, delivery)

    def left(self, request: str) -> int:
        """Count the messages that a request may still lead to."""
        return left(self.rules.blueprint.limits, self._messages, self.requests.spent(request))

    def exhaust(self, request: str, detail: Detail) -> None:
        """Let a request end with this step: it has used up its budget."""
        self._exhausted.setdefault(request, detail)

    def _post(self, proposal: Proposal, thread: Thread, request: str, hop: int) -> None:
        """Address a message to a thread and queue it there, or hold it for a todo, or find the budget spent."""
        spent = exhausted(self.rules.blueprint.limits, hop, self.left(request))
        if spent:
            self.exhaust(request, spent)
            return
        self._messages += 1
        self.requests.spend(request)
        sender = proposal.sender.name
        delivery = Delivery(
            next(self.ids),
            self.before.id,
            request,
            thread.id,
            proposal.thread,
            sender,
            thread.owner,
            proposal.root,
            envelope.write(sender, thread.owner, thread.id, proposal.markup),
            hop,
            proposal.about,
        )
        if len(delivery.message) <= PARSED_LIMIT:
            self._parsed[delivery.id] = proposal.element
        self._add(delivery)
        if proposal.questions:
            self._ask(delivery, proposal.questions)
        else:
            self._place(delivery)

    def _ask(self, delivery: Delivery, questions: tuple[Question, ...]) -> None:
        """Let a delivery wait on its thread until a person permits it."""
        approval = Approval(next(self.ids), delivery, questions, self.moment.now, digest(delivery))
        thread = self.tree.nodes[delivery.thread]
        self.change.put(thread._replace(approvals=(*thread.approvals, approval)))
        self._asked[approval.id] = approval
        self._asking += 1
        asked = tuple([GuardAsks(question.guard, question.why) for question in questions])
        self.minutes.record(Event.ASKED, delivery, detail=GuardQuestions(asked))

    def permit(self, approval: Approval, answered: Answering) -> None:
        """Let a delivery that waited for a person go on its way."""
        self._answered(approval)
        self.minutes.record(Event.APPROVED, approval.delivery, detail=answered)
        self._place(approval.delivery)

    def withdraw(self, approval: Approval, answered: Answering) -> None:
        """Drop a delivery that a person did not permit."""
        self._answered(approval)
        self.minutes.record(Event.WITHDRAWN, approval.delivery, detail=answered)
        self._drop((approval.delivery,))

    def _answered(self, approval: Approval) -> None:
        thread = self.tree.nodes[approval.delivery.thread]
        rest = tuple(other for other in thread.approvals if other.id != approval.id)
        self.change.put(thread._replace(approvals=rest))
        self._asking -= 1

    def _place(self, delivery: Delivery) -> None:
        holder = self.todos.holder(delivery)
        if holder is None:
            self._queue(delivery.thread, (delivery,))
            return
        self.todos = self.todos.keep(delivery.thread, holder)
        self.requests.count(delivery.request, 0, held=1)
        thread = self.tree.nodes[delivery.thread]
        self.change.put(thread._replace(held=(*thread.held, Held(holder.watcher_id, delivery))))
        if holder.kept + 1 == holder.count:
            self._release(thread.id, lambda held: held.watcher == holder.watcher_id)

    def _queue(self, thread_id: str, deliveries: Sequence[Delivery]) -> None:
        thread = self.tree.nodes[thread_id]
        if not thread.inbox:
            self._woken[thread_id] = None
        self.change.put(thread._replace(inbox=(*thread.inbox, *deliveries)))

    def _release(self, thread_id: str, chosen: Callable[[Held], bool]) -> None:
        """Queue the chosen of a thread's held deliveries in the order of the calls that they answer."""
        thread = self.tree.nodes[thread_id]
        freed = [held.delivery for held in thread.held if chosen(held)]
        if not freed:
            return
        rest = tuple(held for held in thread.held if not chosen(held))
        self.change.put(thread._replace(held=rest))
        for delivery in freed:
            self.requests.count(delivery.request, 0, held=-1)
        self._queue(thread_id, sorted(freed, key=self._call_order))

    def close_todo(self, thread: str, watcher_id: str) -> bool:
        """Forget a todo of a thread and let go what it holds; False when the thread has none of that id."""
        before, self.todos = self.todos, self.todos.close(thread, watcher_id)
        if self.todos is before:
            return False
        self._release(thread, lambda held: held.watcher == watcher_id)
        return True

    def _call_order(self, delivery: Delivery) -> int:
        origin = self.tree.get(delivery.origin)
        return origin.called if origin is not None else 0

    # Threads

    def _child(self, proposal: Proposal, request: str) -> Thread:
        """A thread below the sender's for the receiver: one at rest or, for what is sent to oneself, a new one."""
        origin = proposal.thread
        allowed = narrowed(self.tree.nodes[origin].allowed, proposal.allowed)
        apart = proposal.route is Route.SELF
        child = None if apart else self.change.resting(origin, proposal.to, allowed)
        fresh = child is None
        if child is None:
            child = self.change.open(origin, proposal.to, next(self.ids), self._messages)
        child = child._replace(called=self._messages, allowed=allowed)
        self.change.put(child)
        if origin == self.tree.root:
            self.requests.began_on(request, child.id, fresh=fresh)
        return child

    def prune(self, thread: str) -> None:
        """Close everything below a thread; what came from there and still waits on the thread goes too."""
        self.todos = self.todos.abandon(thread)
        closed = self.change.prune(thread)
        if not closed:
            return
        gone = {node.id for node in closed}
        self._close(closed)
        node = self.tree.nodes[thread]
        for delivery in [held.delivery for held in node.held if held.delivery.origin in gone]:
            self.requests.count(delivery.request, 0, held=-1)
        self._drop(delivery for delivery in node.waiting() if delivery.origin in gone)
        approvals = tuple(one for one in node.approvals if one.delivery.origin not in gone)
        self._asking -= len(node.approvals) - len(approvals)
        self.change.put(
            node._replace(
                inbox=tuple(delivery for delivery in node.inbox if delivery.origin not in gone),
                held=tuple(held for held in node.held if held.delivery.origin not in gone),
                approvals=approvals,
            )
        )

    def _close(self, threads: tuple[Thread, ...]) -> None:
        self.todos = self.todos.forget({thread.id for thread in threads})
        for thread in threads:
            self._closed.append(thread.id)
            for held in thread.held:
                self.requests.count(held.delivery.request, 0, held=-1)
            self._asking -= len(thread.approvals)
            self._drop(thread.waiting())
            self.minutes.note(Event.CLOSED, thread=thread.id, to=thread.owner)

    def _drop(self, deliveries: Iterable[Delivery]) -> None:
        for delivery in deliveries:
            self._grown -= len(delivery.message)
            self.requests.count(delivery.request, -1)
            self.minutes.record(Event.DROPPED, delivery)
            self._parsed.pop(delivery.id, None)
            if self._added.pop(delivery.id, None) is None:
                self._dropped.append(delivery)

    # Messages

    def send(self, proposal: Proposal, request: str, hop: int) -> None:
        """Send a message on its route: to a thread below, above or the sender's own. What reaches the root leaves.

        Args:
            proposal: the message, admitted or the system's own.
            request: the outside message that caused it.
            hop: its place in the causal chain.
        """
        own = self.tree.nodes[proposal.thread]
        if proposal.route is Route.ANSWER:
            thread = self.tree.caller(own)
        elif proposal.route is Route.NOTICE:
            thread = own
        else:
            thread = self._child(proposal, request)
        if thread.parent is None:
            self._leave(proposal, request, hop)
        else:
            self._post(proposal, thread, request, hop)

    def _leave(self, proposal: Proposal, request: str, hop: int) -> None:
        """Send a message out through the gateway."""
        sender, root, principal = proposal.sender.name, proposal.root, self.before.principal
        error = root == self.rules.codecs.of(SystemError).name
        message = envelope.write(sender, principal, None, proposal.markup)
        self._replies.append(Reply(self.before.id, request, sender, root, message, error=error))
        self.requests.answer(request)
        self.minutes.note(
            Event.ANSWERED,
            thread=proposal.thread,
            sender=sender,
            to=principal,
            root=local(root),
            hop=hop,
            message=message,
        )

    # The end

    def end(self) -> None:
        """Close every thread of the conversation."""
        self.prune(self.tree.root)

    def finish(self, *, closed: bool = False) -> Outcome:
        """Settle spent budgets, stuck holds and requests at rest, and hand over the whole change."""
        before = self.before
        self._settle_exhausted()
        self._settle_held()
        self._settle_requests()
        after = Conversation(
            id=before.id,
            principal=before.principal,
            tree=self.change.result(),
            todos=self.todos,
            requests=self.requests.result(),
            messages=self._messages,
            memory=self.memory,
            version=before.version + 1,
            touched=self.moment.now,
            closed=closed,
        )
        return Outcome(
            before=before.version,
            conversation=after,
            done=self._done,
            added=tuple(self._added.values()),
            dropped=tuple(self._dropped),
            asked=self._still_asked(),
            asking=self._asking,
            grown=self._grown,
            ready=self._ready(),
            retry=self._retry,
            closed=tuple(self._closed),
            replies=self._placed(),
            records=tuple(self.minutes.records),
            parsed=self._parsed,
            deprecated=self.deprecated,
            moment=self.moment,
            cause=self.cause,
            since=before,
        )

    def _placed(self) -> tuple[Reply | Done, ...]:
        version = self.before.version + 1
        return tuple(
            [event._replace(place=EventPlace(version, at)) for at, event in enumerate(self._replies)]
        )

    def _still_asked(self) -> tuple[Approval, ...]:
        threads = [self.tree.get(one.delivery.thread) for one in self._asked.values()]
        return tuple(
            [
                one
                for thread in threads
                if thread is not None
                for one in thread.approvals
                if one.id in self._asked
            ]
        )

    def _ready(self) -> tuple[Delivery, ...]:
        nodes = [self.tree.get(thread) for thread in self._woken]
        return tuple([node.inbox[0] for node in nodes if node is not None and node.inbox])

    def _settle_exhausted(self) -> None:
        """A request that overran its budget ends at once, with a refusal to its sender."""
        for request, detail in self._exhausted.items():
            for thread in self.requests.threads(request):
                self._close(self.change.shut(thread))
            self.minutes.note(
                Event.REFUSED,
                thread=self.tree.root,
                to=self.before.principal,
                code=Code.BUDGET,
                detail=detail,
            )
            self.send(notice(system_error(Code.BUDGET), self.tree.root, self.rules), request, 0)

    def _settle_held(self) -> None:
        """When only held replies are left of a request, no other reply can come: let them go."""
        stuck = self.requests.stuck()
        if stuck:
            for thread in [node.id for node in self.tree.nodes.values() if node.held]:
                self._release(thread, lambda held: held.delivery.request in stuck)

    def _settle_requests(self) -> None:
        for request in self.requests.at_rest():
            self._replies.append(Done(self.before.id, request.id, request.answered))
            if not request.answered:
                self.minutes.note(Event.ENDED, thread=self.tree.root, to=self.before.principal)
