"""The books of one step: deliveries, threads, requests and what leaves, while commands change them.

Owns the counts. Deliveries and threads pass from stage to stage by the tables of lives.py and in no other way, and each
passage is counted here. Refuses to decide anything, and to know commands: transaction.py carries them out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentserver.contract import Code, SystemError
from agentserver.core.decide import lives
from agentserver.core.decide.lives import DeliveryMove, DeliveryStage, ThreadMove
from agentserver.core.drafts.routing import Route
from agentserver.core.messages import (
    Call,
    Closing,
    Done,
    EventPlace,
    Finished,
    GivenUp,
    Opening,
    Reply,
    Requeued,
    Reserving,
    Settling,
)
from agentserver.core.notices import notice
from agentserver.core.records.audit import Event
from agentserver.core.records.outcome import Outcome
from agentserver.core.records.record_builder import RecordBuilder
from agentserver.core.refusals import system_error
from agentserver.core.state.approvals import ApprovalAnswer
from agentserver.core.state.conversation import Conversation
from agentserver.core.state.requests import RequestChange
from agentserver.core.state.threads import Held, TreeChange
from agentserver.payload.names import local
from agentserver.wire import envelope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from lxml import etree

    from agentserver.core.drafts.routing import Proposal
    from agentserver.core.guard import Rules
    from agentserver.core.messages import Delivery, Moment
    from agentserver.core.records.details import Detail
    from agentserver.core.records.outcome import Cause
    from agentserver.core.state.approvals import Approval
    from agentserver.core.state.threads import Thread


class Books:
    """The books of one step. Made from a conversation, which they leave as it was, and in which time never runs back.

    Args:
        conversation: as it is before the step.
        rules: those that the step is decided by.
        moment: when.
        cause: what was decided about.
    """

    def __init__(self, conversation: Conversation, rules: Rules, moment: Moment, cause: Cause) -> None:
        moment = moment.not_before(conversation.touched)
        self.before = conversation
        self.rules = rules
        self.moment = moment
        self._cause = cause
        self._delivery = cause.delivery if isinstance(cause, Finished | GivenUp) else None
        self.by = "" if self._delivery is None else self._delivery.id
        took = cause.took if isinstance(cause, Finished) else None
        self.builder = RecordBuilder(conversation.id, moment.now, rules.redact, _request(cause), took)
        self.ids = moment.ids()
        self.change = TreeChange(conversation.tree)
        self.tree = self.change.tree
        self.todos = conversation.todos
        self.memory: Mapping[str, object] | None = None
        self.requests = RequestChange(conversation.requests)
        self.messages = conversation.messages
        self.spending = conversation.spending
        self.done: str | None = None
        self.retry: Delivery | None = None
        self.added: dict[str, Delivery] = {}
        self.parsed: dict[str, etree._Element] = {}
        self._dropped: list[Delivery] = []
        self.asked: dict[str, Approval] = {}
        self._asking = 0
        self._grown = 0
        self._woken: dict[str, None] = {}
        self._closed: list[str] = []
        self._replies: list[Reply | Done] = []
        self.exhausted: dict[str, Detail] = {}
        self.deprecated = False
        self.over = False

    def move(self, delivery: Delivery, before: DeliveryStage, move: DeliveryMove) -> None:
        """Let a delivery pass into its next stage, and keep the counts."""
        _, waiting, held, asked = lives.passage(before, move)
        if waiting or held:
            self.requests.count(delivery.request, waiting, held)
        self._grown += waiting * len(delivery.message)
        self._asking += asked

    def put(self, before: Thread, move: ThreadMove, after: Thread) -> None:
        """Let a thread pass into its next stage. A delivery that becomes its first one is ready."""
        lives.step(before, move, after)
        if move is ThreadMove.TAKE or (after.inbox and after.inbox[:1] != before.inbox[:1]):
            self._woken[after.id] = None
        self.change.put(after)

    def stage(self, delivery: Delivery) -> DeliveryStage:
        """The stage of a delivery. One that is not there any more counts as dead: only a dead letter comes back."""
        if delivery.id == self.done:
            return DeliveryStage.DONE
        thread = self.tree.get(delivery.thread)
        if thread is not None and thread.inbox[:1] == (delivery,) and thread.id not in self._woken:
            return DeliveryStage.RUNNING
        standing = () if thread is None else self.standing(thread)
        return next((stage for other, stage in standing if other.id == delivery.id), DeliveryStage.DEAD)

    def standing(self, thread: Thread) -> Iterator[tuple[Delivery, DeliveryStage]]:
        """All deliveries on a thread with their states."""
        first = DeliveryStage.QUEUED if thread.id in self._woken else DeliveryStage.RUNNING
        for number, delivery in enumerate(thread.inbox):
            yield delivery, DeliveryStage.QUEUED if number else first
        for held in thread.held:
            yield held.delivery, DeliveryStage.HELD
        for approval in thread.approvals:
            yield approval.delivery, DeliveryStage.ASKED

    def drop(self, delivery: Delivery, before: DeliveryStage, move: DeliveryMove = DeliveryMove.DROP) -> None:
        """Let a delivery go that no listener will be given."""
        self.move(delivery, before, move)
        self.builder.record(Event.DROPPED, delivery)
        self.parsed.pop(delivery.id, None)
        if self.added.pop(delivery.id, None) is None:
            self._dropped.append(delivery)

    def close(self, threads: tuple[Thread, ...]) -> None:
        """Let go threads that are out of the tree, with all that is on them."""
        self.todos = self.todos.forget({thread.id for thread in threads})
        for thread in threads:
            lives.step(thread, ThreadMove.CLOSE, None)
            self._closed.append(thread.id)
            for delivery, stage in self.standing(thread):
                self.drop(delivery, stage)
            self.builder.note(Event.CLOSED, thread=thread.id, to=thread.owner)

    def shut(self, request: str) -> None:
        """Close the threads that a request was delivered on, if they are there still."""
        for thread in self.requests.threads(request):
            if self.tree.get(thread) is not None:
                self.close(self.change.shut(thread))

    def add(self, delivery: Delivery) -> None:
        """Enter a delivery that is new here."""
        self.added[delivery.id] = delivery
        self.builder.record(Event.SENT, delivery)

    def begin_on(self, request: str, thread: str) -> None:
        """Note a thread of the principal's at rest that a request is delivered on."""
        self.requests.began_on(request, thread, self.tree.nodes[thread].request)
        self.change.belongs(thread, request)

    def place(self, delivery: Delivery, before: DeliveryStage, move: DeliveryMove) -> None:
        """Queue a delivery on its thread, or hold it there for a todo."""
        holder = self.todos.holder(delivery, self.caller(delivery))
        if holder is None:
            self.move(delivery, before, move)
            self.queue(delivery.thread, (delivery,))
            return
        self.move(delivery, before, DeliveryMove.HOLD)
        self.todos = self.todos.keep(delivery.thread, holder)
        thread = self.tree.nodes[delivery.thread]
        held = (*thread.held, Held(holder.watcher_id, delivery))
        self.put(thread, ThreadMove.PARK, thread._replace(held=held))
        if holder.kept + 1 == holder.count:
            self.release(thread.id, lambda held: held.watcher == holder.watcher_id)

    def queue(self, thread_id: str, deliveries: Sequence[Delivery]) -> None:
        """Put deliveries behind the others in the inbox of a thread."""
        thread = self.tree.nodes[thread_id]
        self.put(thread, ThreadMove.QUEUE, thread.with_inbox((*thread.inbox, *deliveries)))

    def release(self, thread_id: str, chosen: Callable[[Held], bool]) -> None:
        """Queue the chosen of a thread's held deliveries in the order of the calls that they answer."""
        thread = self.tree.nodes[thread_id]
        freed = [held.delivery for held in thread.held if chosen(held)]
        if not freed:
            return
        rest = tuple(held for held in thread.held if not chosen(held))
        self.put(thread, ThreadMove.SHED, thread._replace(held=rest))
        for delivery in freed:
            self.move(delivery, DeliveryStage.HELD, DeliveryMove.RELEASE)
        self.queue(thread_id, sorted(freed, key=self._call_order))

    def _call_order(self, delivery: Delivery) -> int:
        if delivery.call.order:
            return delivery.call.order
        origin = self.tree.get(delivery.origin)  # an earlier server kept the order on the thread alone
        return origin.call.order if origin is not None else 0

    def caller(self, delivery: Delivery) -> str | None:
        """The thread that called the one of a delivery."""
        thread = self.tree.get(delivery.thread)
        return None if thread is None else thread.parent

    def call(self, receiver: Thread, proposal: Proposal) -> Call:
        """The call that a message is, or that it answers."""
        if proposal.route is Route.NOTICE:
            refused = proposal.root == self.rules.codecs.of(SystemError).name
            return Call(0, self.by, proposal.place, refused)
        if proposal.route is not Route.ANSWER:
            return receiver.call
        done = self._delivery
        if (
            done is not None and done.origin == receiver.id
        ):  # a dead letter may be older than the thread's last call
            return done.call
        return self.tree.nodes[proposal.thread].call

    def forget(self, thread: str, watcher: str) -> bool:
        """Close a todo of a thread and let go what it holds; False when the thread has none of that id."""
        before, self.todos = self.todos, self.todos.close(thread, watcher)
        if self.todos is before:
            return False
        self.release(thread, lambda held: held.watcher == watcher)
        return True

    def leave(self, proposal: Proposal, request: str, hop: int) -> None:
        """Send a message out through the gateway."""
        sender, root, principal = proposal.sender.name, proposal.root, self.before.principal
        error = root == self.rules.codecs.of(SystemError).name
        message = envelope.write(sender, principal, None, proposal.markup)
        self._replies.append(Reply(self.before.id, request, sender, root, message, error=error))
        self.requests.answer(request)
        self.builder.note(
            Event.ANSWERED,
            thread=proposal.thread,
            sender=sender,
            to=principal,
            root=local(root),
            hop=hop,
            message=message,
            request=request,
        )

    def finish(self) -> Outcome:
        """Settle spent budgets, stuck holds and requests at rest, and hand over the whole change."""
        before = self.before
        self._settle_exhausted()
        self._settle_held()
        self._settle_requests()
        after = Conversation(
            id=before.id,
            principal=before.principal,
            rights=before.rights,
            tree=self.change.result(),
            todos=self.todos,
            requests=self.requests.result(),
            messages=self.messages,
            memory=self.rules.recall(before) if self.memory is None else self.memory,
            version=before.version + 1,
            touched=self.moment.now,
            closed=self.over,
            spending=self.spending,
        )
        return Outcome(
            before=before.version,
            conversation=after,
            done=self.done,
            added=tuple(self.added.values()),
            dropped=tuple(self._dropped),
            asked=self._still_asked(),
            asking=self._asking,
            grown=self._grown,
            ready=self._ready(),
            retry=self.retry,
            closed=tuple(self._closed),
            replies=self._placed(),
            records=tuple(self.builder.records),
            parsed=self.parsed,
            deprecated=self.deprecated,
            moment=self.moment,
            cause=self._cause,
            since=before,
        )

    def _placed(self) -> tuple[Reply | Done, ...]:
        version = self.before.version + 1
        return tuple(
            [event._replace(place=EventPlace(version, at)) for at, event in enumerate(self._replies)]
        )

    def _still_asked(self) -> tuple[Approval, ...]:
        if not self.asked:
            return ()
        threads = [self.tree.get(one.delivery.thread) for one in self.asked.values()]
        return tuple(
            [
                one
                for thread in threads
                if thread is not None
                for one in thread.approvals
                if one.id in self.asked
            ]
        )

    def _ready(self) -> tuple[Delivery, ...]:
        """The deliveries that have become the first of their threads: they run from now on."""
        ready: list[Delivery] = []
        for thread in self._woken:
            node = self.tree.nodes.get(thread)
            if node is not None and node.inbox:
                self.move(node.inbox[0], DeliveryStage.QUEUED, DeliveryMove.RUN)
                ready.append(node.inbox[0])
        return tuple(ready)

    def _settle_exhausted(self) -> None:
        """A request that overran its budget ends at once, with a refusal to its sender."""
        root = self.tree.root
        for request, detail in self.exhausted.items():
            self.shut(request)
            error = notice(system_error(Code.BUDGET), root, self.rules)
            about = {"thread": root, "to": self.before.principal, "code": Code.BUDGET, "request": request}
            self.builder.note(Event.REFUSED, detail=detail, **about)
            self.leave(error, request, 0)

    def _settle_held(self) -> None:
        """When only held replies are left of a request, no other reply can come: let them go."""
        stuck = self.requests.stuck()
        if stuck:
            for thread in [node.id for node in self.tree.nodes.values() if node.held]:
                self.release(thread, lambda held: held.delivery.request in stuck)

    def _settle_requests(self) -> None:
        for request in self.requests.at_rest():
            for thread in request.threads:
                self.change.belongs(thread, "")
            self._replies.append(Done(self.before.id, request.id, request.answered))
            if not request.answered:
                root, principal = self.tree.root, self.before.principal
                self.builder.note(Event.ENDED, thread=root, to=principal, request=request.id)


def _request(cause: Cause) -> str:
    """The request that a step is about; empty when it is about none or several."""
    match cause:
        case Opening() | Closing() | ApprovalAnswer():
            return ""
        case Finished() | GivenUp() | Requeued() | Reserving() | Settling():
            return cause.delivery.request
        case _:
            return cause.request
