"""One atomic change of a conversation: commands in, an outcome out.

Owns what each command does to the books of a step; a command that the lives of its delivery and thread do not allow is
refused. Refuses to decide anything: commands say what is to be done.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from agentserver.contract import TodoClosed, TodoRegistered
from agentserver.core.decide import lives
from agentserver.core.decide.books import Books
from agentserver.core.decide.commands import (
    Approve,
    Begin,
    Bury,
    Cancel,
    Close,
    Complete,
    Deny,
    Enter,
    Exhaust,
    Forget,
    Prune,
    Remember,
    Requeue,
    Reserve,
    Retry,
    Send,
    Settle,
    Store,
    Strike,
    Take,
    Watch,
)
from agentserver.core.decide.lives import DeliveryMove, DeliveryStage, ThreadMove
from agentserver.core.drafts.routing import Route
from agentserver.core.messages import TODO, Call, Delivery
from agentserver.core.notices import notice
from agentserver.core.pieces import whole
from agentserver.core.records.audit import Event
from agentserver.core.records.details import Charge, GuardAsks, GuardQuestions, WhyEnded
from agentserver.core.state.approvals import Approval, digest
from agentserver.core.state.budget import exhausted, left
from agentserver.core.state.growing.logs import changed
from agentserver.core.state.growing.spending import Reservation
from agentserver.core.state.threads import narrowed
from agentserver.wire import envelope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from agentserver.core.decide.commands import Command
    from agentserver.core.drafts.routing import Proposal
    from agentserver.core.guard import Rules
    from agentserver.core.messages import Moment, Question
    from agentserver.core.pieces import Pieces
    from agentserver.core.records.outcome import Cause, Outcome
    from agentserver.core.state.conversation import Conversation
    from agentserver.core.state.threads import Thread


def transact(
    conversation: Conversation, rules: Rules, moment: Moment, cause: Cause, commands: Iterable[Command]
) -> Outcome:
    """Carry out commands as one step, as ``transacting`` does, without a pause."""
    return whole(transacting(conversation, rules, moment, cause, commands))


def transacting(
    conversation: Conversation, rules: Rules, moment: Moment, cause: Cause, commands: Iterable[Command]
) -> Pieces[Outcome]:
    """Carry out commands as one step; a piece for each message that is sent.

    Args:
        conversation: as it is; it stays so.
        rules: those that the commands were decided by.
        moment: when; time never runs back in a conversation.
        cause: what was decided about.
        commands: in order.

    Raises ImpossibleError for a command that the lives of its delivery and thread do not allow.
    """
    books = Books(conversation, rules, moment, cause)
    for command in commands:
        kind = type(command)
        _APPLY[kind](books, command)
        if kind in _LONG:
            yield
    return books.finish()


def _begin(books: Books, command: Begin) -> None:
    """Open a request."""
    books.requests.begin(command.request)


def _take(books: Books, command: Take) -> None:
    """Consume the first delivery of a thread's inbox, and let todos notice it."""
    delivery = command.delivery
    _consume(books, delivery, DeliveryMove.FINISH)
    books.builder.record(Event.HANDLED, delivery)
    books.todos = books.todos.notice(delivery, books.caller(delivery))
    books.deprecated = command.deprecated


def _bury(books: Books, command: Bury) -> None:
    """Give up a delivery, running or done."""
    delivery, failed = command
    _consume(books, delivery, DeliveryMove.FAIL)
    books.builder.record(Event.FAILED, delivery, code=failed.code, detail=failed.detail)


def _consume(books: Books, delivery: Delivery, move: DeliveryMove) -> None:
    stage = books.stage(delivery)
    books.move(delivery, stage, move)
    if stage is DeliveryStage.RUNNING:
        thread = books.tree.nodes[delivery.thread]
        books.put(thread, ThreadMove.TAKE, thread.with_inbox(thread.inbox[1:]))
    books.done = delivery.id


def _retry(books: Books, command: Retry) -> None:
    """Leave the first delivery of a thread's inbox in place for another attempt."""
    delivery, failed = command
    books.move(delivery, books.stage(delivery), DeliveryMove.RETRY)
    thread = books.tree.nodes[delivery.thread]
    books.retry = delivery._replace(attempt=delivery.attempt + 1)
    books.change.put(thread.with_inbox((books.retry, *thread.inbox[1:])))
    books.builder.record(Event.RETRIED, delivery, code=failed.code, detail=failed.detail)


def _requeue(books: Books, command: Requeue) -> None:
    """Queue a delivery that was consumed before."""
    delivery, began_on = command
    if began_on is not None:
        books.begin_on(delivery.request, began_on)
    books.add(delivery)
    books.move(delivery, books.stage(delivery), DeliveryMove.REQUEUE)
    books.queue(delivery.thread, (delivery,))


def _send(books: Books, command: Send) -> None:
    """Send a message to a thread below, above or the sender's own. What reaches the root leaves."""
    proposal, request, _ = command
    own = books.tree.nodes[proposal.thread]
    if proposal.route is Route.ANSWER:
        thread = books.tree.caller(own)
    elif proposal.route is Route.NOTICE:
        thread = own
    else:
        thread = _child(books, proposal, request)
    if thread.parent is None:
        books.leave(*command)
    else:
        _post(books, thread, *command)


def _child(books: Books, proposal: Proposal, request: str) -> Thread:
    """A thread below the sender's for the receiver: one at rest or, for what is sent to oneself, a new one."""
    origin = proposal.thread
    allowed = narrowed(books.tree.nodes[origin].allowed, proposal.allowed)
    apart = proposal.route is Route.SELF
    child = None if apart else books.change.resting(origin, proposal.to, allowed)
    if child is None:
        child = books.change.open(origin, proposal.to, next(books.ids), Call(books.messages))
        lives.step(None, ThreadMove.OPEN, child)
    called = child._replace(call=Call(books.messages, books.by, proposal.place), allowed=allowed)
    books.put(child, ThreadMove.CALL, called)
    if origin == books.tree.root:
        books.begin_on(request, child.id)
    return called


def _post(books: Books, thread: Thread, proposal: Proposal, request: str, hop: int) -> None:
    """Address a message to a thread and place it there, or find the budget spent."""
    limits = books.rules.blueprint.limits
    spent = exhausted(limits, hop, left(limits, books.messages, books.requests.spent(request)))
    if spent:
        _exhaust(books, Exhaust(request, spent))
        return
    books.messages += 1
    books.requests.spend(request)
    sender = proposal.sender.name
    delivery = Delivery(
        next(books.ids),
        books.before.id,
        request,
        thread.id,
        proposal.thread,
        sender,
        thread.owner,
        proposal.root,
        envelope.write(sender, thread.owner, thread.id, proposal.markup),
        hop,
        proposal.about,
        0,
        books.call(thread, proposal),
    )
    books.parsed[delivery.id] = proposal.element
    books.add(delivery)
    if proposal.questions:
        _ask(books, delivery, proposal.questions)
    else:
        books.place(delivery, DeliveryStage.NEW, DeliveryMove.SEND)


def _ask(books: Books, delivery: Delivery, questions: tuple[Question, ...]) -> None:
    """Let a delivery wait on its thread until a person approves it."""
    books.move(delivery, DeliveryStage.NEW, DeliveryMove.ASK)
    approval = Approval(next(books.ids), delivery, questions, books.moment.now, digest(delivery))
    thread = books.tree.nodes[delivery.thread]
    books.put(thread, ThreadMove.PARK, thread._replace(approvals=(*thread.approvals, approval)))
    books.asked[approval.id] = approval
    asked = tuple([GuardAsks(question.guard, question.why) for question in questions])
    books.builder.record(Event.ASKED, delivery, detail=GuardQuestions(asked))


def _approve(books: Books, command: Approve) -> None:
    """Let a delivery that waited for a person go on its way."""
    delivery = command.approval.delivery
    _answered(books, command.approval)
    books.builder.record(Event.APPROVED, delivery, detail=command.answered)
    books.place(delivery, DeliveryStage.ASKED, DeliveryMove.APPROVE)


def _deny(books: Books, command: Deny) -> None:
    """Drop a delivery that a person denied."""
    delivery = command.approval.delivery
    _answered(books, command.approval)
    books.builder.record(Event.WITHDRAWN, delivery, detail=command.answered)
    books.drop(delivery, DeliveryStage.ASKED, DeliveryMove.DENY)


def _answered(books: Books, approval: Approval) -> None:
    thread = books.tree.nodes[approval.delivery.thread]
    if approval not in thread.approvals:
        raise lives.ImpossibleError(f"no question {approval.id} waits on its thread")
    rest = tuple(other for other in thread.approvals if other.id != approval.id)
    books.put(thread, ThreadMove.SHED, thread._replace(approvals=rest))


def _store(books: Books, command: Store) -> None:
    """Change what a thread stores."""
    thread = books.tree.nodes[command.thread]
    storage, logs = thread.storage, thread.logs
    if command.values:
        merged = {**storage, **command.values}
        storage = {name: value for name, value in merged.items() if value is not None}
    if command.logged:
        logs = changed(logs, command.logged)
    books.change.put(thread._replace(storage=storage, logs=logs))


def _reserve(books: Books, command: Reserve) -> None:
    """Charge work before it is done, and let go what is known of work that is over."""
    delivery, what, most = command
    made = Reservation(next(books.ids), delivery.thread, delivery.id, delivery.request, delivery.to, most)
    books.spending = books.before.charged().reserve(made)
    books.builder.record(Event.RESERVED, delivery, detail=Charge(what, most.tokens, most.money))


def _settle(books: Books, command: Settle) -> None:
    """Charge what work has cost."""
    delivery, reservation, cost = command
    books.spending = books.spending.settle(reservation, cost)
    books.builder.record(Event.SETTLED, delivery, detail=Charge("", cost.tokens, cost.money))


def _strike(books: Books, command: Strike) -> None:
    """Set how many refusals in a row a thread has had."""
    thread = books.tree.nodes[command.thread]
    books.change.put(thread._replace(refusals=command.refusals))


def _prune(books: Books, command: Prune) -> None:
    """Close everything below a thread; what came from there and still waits on the thread goes too."""
    books.todos = books.todos.abandon(command.thread)
    closed = books.change.prune(command.thread)
    if not closed:
        return
    gone = {node.id for node in closed}
    books.close(closed)
    node = books.tree.nodes[command.thread]
    for delivery, stage in books.standing(node):
        if delivery.origin in gone:
            books.drop(delivery, stage)
    rest = node._replace(
        inbox=tuple(delivery for delivery in node.inbox if delivery.origin not in gone),
        held=tuple(held for held in node.held if held.delivery.origin not in gone),
        approvals=tuple(one for one in node.approvals if one.delivery.origin not in gone),
    )
    books.put(node, ThreadMove.SHED, rest)


def _watch(books: Books, command: Watch) -> None:
    """Register a todo and answer with its id."""
    delivery, until, place = command
    watcher = next(books.ids)
    books.todos = books.todos.watch(delivery.thread, until, watcher)
    _serve(books, delivery, TodoRegistered(watcher), place)


def _complete(books: Books, command: Complete) -> None:
    """Close a todo and answer whether there was one."""
    delivery, watcher, place = command
    _serve(books, delivery, TodoClosed(watcher, books.forget(delivery.thread, watcher)), place)


def _forget(books: Books, command: Forget) -> None:
    """Close a todo, if the thread has it."""
    books.forget(*command)


def _serve(books: Books, delivery: Delivery, answer: TodoRegistered | TodoClosed, place: int) -> None:
    reply = notice(answer, delivery.thread, books.rules, sender=TODO)._replace(place=place)
    _send(books, Send(reply, delivery.request, delivery.hop + 1))


def _exhaust(books: Books, command: Exhaust) -> None:
    """Let a request end with this step: it has used up its budget."""
    books.exhausted.setdefault(*command)


def _cancel(books: Books, command: Cancel) -> None:
    """Close the threads of a request with all that is under way on them."""
    request, reason = command
    about = {"thread": books.tree.root, "to": books.before.principal, "request": request}
    books.builder.note(Event.CANCELLED, detail=WhyEnded(reason), **about)
    books.shut(request)


def _remember(books: Books, command: Remember) -> None:
    """Replace the guards' memory."""
    books.memory = command.memory


def _enter(books: Books, command: Enter) -> None:
    """Put an event on record."""
    event, about, delivery = command
    if delivery is None:
        books.builder.note(event, **about)
    else:
        books.builder.record(event, delivery, **about)


def _close(books: Books, command: Close) -> None:
    """Close every thread of the conversation."""
    root = books.tree.root
    _prune(books, Prune(root))
    books.over = True
    books.builder.note(Event.CLOSED, thread=root, to=books.before.principal, detail=WhyEnded(command.reason))


_APPLY: Final[Mapping[type, Callable[[Books, Any], None]]] = MappingProxyType(
    {
        Begin: _begin,
        Take: _take,
        Retry: _retry,
        Bury: _bury,
        Requeue: _requeue,
        Remember: _remember,
        Store: _store,
        Reserve: _reserve,
        Settle: _settle,
        Strike: _strike,
        Watch: _watch,
        Complete: _complete,
        Forget: _forget,
        Prune: _prune,
        Send: _send,
        Exhaust: _exhaust,
        Cancel: _cancel,
        Approve: _approve,
        Deny: _deny,
        Enter: _enter,
        Close: _close,
    }
)

_LONG: Final = frozenset({Send, Watch, Complete})
