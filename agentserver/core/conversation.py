"""The conversation: the only state machine. It accepts messages and concludes what handlers did with them.

Owns every decision about messages: who is called, who is answered, what is refused, when a thread closes.
Synchronous and pure: time and randomness are arguments, so a recorded decision can be taken again. Refuses to know
handlers, queues, clocks and storage.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from agentserver.contract import Code, HandlerMetadata, TodoClosed, TodoComplete, TodoRegistered, TodoUntil
from agentserver.core import envelope, replies
from agentserver.core.audit import Event
from agentserver.core.codec import Undecodable
from agentserver.core.messages import SYSTEM, TODO, Closing, Failed, Recorded, TurnedAway
from agentserver.core.refusals import Refusal, system_error
from agentserver.core.replies import Draft, Drafts
from agentserver.core.routing import Place, Proposal, Route, resolve
from agentserver.core.step import Letter, Outcome, Request, Step
from agentserver.core.threads import ThreadTree
from agentserver.core.todos import NO_TODOS, TodoBook, Watcher, nudge

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lxml import etree

    from agentserver.core.guard import Denied, Rules, Verdict
    from agentserver.core.messages import Delivery, Effects, Moment, Returned


class Accepted(NamedTuple):
    """A delivery that its listener may be called with.

    Args:
        payload: the decoded payload.
        element: the same as it stood on the wire.
        metadata: what the handler is told.
        storage: the thread's stored values, encoded.
        todos: the thread's todos.
    """

    delivery: Delivery
    payload: Any
    element: etree._Element
    metadata: HandlerMetadata
    storage: Mapping[str, bytes]
    todos: tuple[Watcher, ...]


class Finished(NamedTuple):
    """An invocation that is over. ``element`` is None when the handler was never called."""

    delivery: Delivery
    element: etree._Element | None
    result: Returned | Recorded | Failed


class Outside(NamedTuple):
    """A message from outside.

    Args:
        data: an envelope or a bare payload element.
        request: an id by which the gateway will know its replies; unique in the conversation.
        to: the listener it is for; None leaves it to the envelope or to the payload's root.
    """

    data: bytes
    request: str
    to: str | None = None


class Conversation(NamedTuple):
    """Everything that one conversation remembers. Every change gives a new value.

    Args:
        id: opaque.
        principal: who opened it; nobody else may address, watch or cancel it.
        tree: its threads.
        todos: its watchers.
        requests: outside messages that have not come to rest.
        messages: deliveries made so far.
        memory: each guard's memory by the guard's name.
        version: number of steps committed.
        touched: when the last step was taken, in seconds since the epoch.
        closed: whether it is over.
    """

    id: str
    principal: str
    tree: ThreadTree
    todos: TodoBook = NO_TODOS
    requests: Mapping[str, Request] = MappingProxyType({})
    messages: int = 0
    memory: Mapping[str, object] = MappingProxyType({})
    version: int = 0
    touched: float = 0.0
    closed: bool = False

    @classmethod
    def opened(cls, principal: str, moment: Moment) -> Conversation:
        """A conversation in which nothing has been said."""
        ids = moment.ids()
        return cls(next(ids), principal, ThreadTree.planted(next(ids), principal), touched=moment.now)

    # From outside

    def receive(self, outside: Outside, rules: Rules, moment: Moment) -> Outcome:
        """Admit a message of the principal, or answer it with a SystemError. Either way it is a request of its own."""
        step = Step(self, rules, moment)
        step.cause = outside
        request = step.begin(outside.request)
        drafted = _read_outside(outside, rules)
        place = Place(rules.blueprint.principal(self.principal), self.tree.root, None)
        judged = drafted if isinstance(drafted, Refusal) else _judge(step, (drafted,), place)
        if isinstance(judged, Refusal):
            return _turn_away(step, request, judged)
        for proposal in judged:
            letter = Letter(
                self.principal,
                self.tree.root,
                proposal.root,
                proposal.markup,
                request,
                1,
                element=proposal.element,
            )
            step.note(
                Event.RECEIVED,
                thread=self.tree.root,
                sender=self.principal,
                to=proposal.to,
                root=_local(proposal.root),
            )
            step.call(letter, proposal.to)
        return step.finish()

    def turn_away(self, outside: Outside, code: Code, rules: Rules, moment: Moment) -> Outcome:
        """Answer an outside message with a SystemError without looking at it."""
        step = Step(self, rules, moment)
        step.cause = TurnedAway(*outside, code)
        return _turn_away(step, step.begin(outside.request), Refusal(code))

    def close(self, rules: Rules, moment: Moment, reason: str) -> Outcome:
        """End the conversation: drop what is queued and close every thread."""
        step = Step(self, rules, moment)
        step.cause = Closing(reason)
        step.end()
        step.note(Event.CLOSED, thread=self.tree.root, to=self.principal, detail=reason)
        return step.finish(closed=True)

    # From the queue

    def accept(
        self, delivery: Delivery, rules: Rules, element: etree._Element | None = None
    ) -> Accepted | Failed | None:
        """Read a delivery for its listener. None when its thread closed meanwhile. Changes nothing.

        ``element`` is the payload as the step that made the delivery parsed and validated it; without it the
        message is read and validated afresh.
        """
        thread = self.tree.get(delivery.thread)
        if thread is None:
            return None
        if element is None:
            read = read_own(delivery, rules)
            if isinstance(read, Failed):
                return read
            element = read
        codec = rules.codecs.named(delivery.root)
        try:
            payload = None if codec is None else codec.decode(element)
        except Undecodable as error:
            return Failed(Code.INTERNAL, str(error))
        todos = self.todos.notice(delivery).of(thread.id)
        listener = rules.blueprint.listeners[delivery.to]
        metadata = HandlerMetadata(
            thread.id,
            delivery.sender,
            listener.name if listener.agent else None,
            delivery.sender == listener.name,
            rules.blueprint.usage[listener.name],
            nudge(todos),
        )
        return Accepted(delivery, payload, element, metadata, thread.storage, todos)

    def conclude(self, finished: Finished, rules: Rules, moment: Moment) -> Outcome:
        """Decide what follows from an invocation."""
        step = Step(self, rules, moment)
        delivery, result = finished.delivery, finished.result
        thread = self.tree.get(delivery.thread)
        step.cause = finished if isinstance(result, Failed) else finished._replace(result=Recorded(()))
        if thread is None or not thread.inbox or thread.inbox[0].id != delivery.id:
            step.record(Event.DISCARDED, delivery)
            return step.finish()
        listener = rules.blueprint.listeners.get(delivery.to)
        if listener is None:  # the conversation is older than the organism
            return _failed(step, delivery, Failed(Code.INTERNAL, f"no listener is called {delivery.to}"), retries=0)
        if isinstance(result, Failed):
            return _failed(step, delivery, result, retries=listener.retries)
        step.take(delivery)
        step.record(Event.HANDLED, delivery)
        step.todos = step.todos.notice(delivery)
        if finished.element is not None:
            step.memory = _observe(step, delivery, finished.element)
        _apply(step, delivery.thread, result.effects)
        recorded, read = _read_result(result, rules)
        step.cause = finished._replace(result=recorded)
        if isinstance(read, Failed):
            return _give_up(step, delivery, read)
        judged: tuple[Proposal, ...] | Refusal
        if isinstance(read, Drafts):
            _note_repairs(step, delivery, read)
            judged = _judge(step, read.drafts, Place(listener, thread.id, self.tree.caller(thread).owner))
        else:
            judged = read
        if isinstance(judged, Refusal):
            return _refuse(step, delivery, judged)
        return _send(step, delivery, judged)


def _read_result(result: Returned | Recorded, rules: Rules) -> tuple[Recorded, Drafts | Refusal | Failed]:
    """What a handler returned, with the form of it that is kept; or what was kept, read again."""
    if isinstance(result, Recorded):
        return result, replies.reread(result.value, rules.codecs, rules.bounds)
    read = replies.normalise(result.value, rules.codecs, rules.bounds)
    value = replies.recorded(result.value, read, rules.codecs, rules.bounds)
    return Recorded(value, result.effects), read


def read_own(delivery: Delivery, rules: Rules) -> etree._Element | Failed:
    """The payload of a message that an engine kept: it may be older than the schema it claims to satisfy."""
    read = envelope.read(delivery.message, rules.bounds)
    if isinstance(read, envelope.Malformed):
        return Failed(Code.INTERNAL, f"unreadable message: {read.detail}")
    codec = rules.codecs.named(delivery.root)
    if codec is None or read.payload.tag != delivery.root or not codec.valid(read.payload):
        return Failed(Code.INTERNAL, f"{delivery.root} does not satisfy its present schema")
    return read.payload


def _read_outside(outside: Outside, rules: Rules) -> Draft | Refusal:
    """The draft of an outside message: its envelope, if it has one, says nothing but ``to``."""
    read = envelope.read(outside.data, rules.bounds)
    to = outside.to
    if isinstance(read, envelope.Envelope):
        element, to = read.payload, to or read.to
    elif read.kind is envelope.Fault.SHAPE:
        payload = envelope.read_payload(outside.data, rules.bounds)
        if isinstance(payload, envelope.Malformed):
            return _malformed(payload, to)
        element = payload
    else:
        return _malformed(read, to)
    codec = rules.codecs.named(str(element.tag))
    if codec is None:
        return Refusal(Code.ROUTING, "no payload of that name", to or "")
    return replies.check(element, envelope.canonical(element).decode(), to, codec)


def _malformed(malformed: envelope.Malformed, to: str | None) -> Refusal:
    return Refusal(Code.VALIDATION, malformed.detail, to or "", (f"the document: {malformed.detail}",))


def _judge(step: Step, drafts: tuple[Draft, ...], place: Place) -> tuple[Proposal, ...] | Refusal:
    """All proposals of an invocation, or the refusal of the first that may not be sent."""
    admitted: list[Proposal] = []
    for draft in drafts:
        proposals = resolve(draft, place, step.rules.blueprint)
        allowed, denied = _ask(step, proposals)
        # Whoever a broadcast may not reach is left out; any other denial is about the message itself.
        if denied is not None and not (draft.to is None and allowed and denied.code is Code.ROUTING):
            return Refusal(denied.code, denied.reason, _named(draft))
        if not allowed:
            return Refusal(Code.ROUTING, f"nobody takes {_local(draft.root)} here", _named(draft))
        admitted.extend(allowed)
    return tuple(admitted)


def _ask(step: Step, proposals: tuple[Proposal, ...]) -> tuple[list[Proposal], Denied | None]:
    """The proposals that every guard lets pass, and the weightiest denial of the others."""
    allowed: list[Proposal] = []
    worst: Denied | None = None
    for proposal in proposals:
        denied = _denied(step, proposal)
        if denied is None:
            allowed.append(proposal)
        elif worst is None or worst.code is Code.ROUTING:
            worst = denied
    return allowed, worst


def _denied(step: Step, proposal: Proposal) -> Verdict:
    for guard in step.rules.guards:
        verdict = guard.judge(step.memory.get(guard.name), proposal)
        if verdict is not None:
            return verdict
    return None


def _observe(step: Step, delivery: Delivery, element: etree._Element) -> Mapping[str, object]:
    guards = step.rules.guards
    return {g.name: g.observe(step.memory.get(g.name), delivery, element) for g in guards}


def _apply(step: Step, thread: str, effects: Effects) -> None:
    for watcher in effects.closed:
        step.todos = step.todos.close(thread, watcher)
    if effects.stored:
        node = step.tree.nodes[thread]
        merged = {**node.storage, **effects.stored}
        kept = {name: value for name, value in merged.items() if value is not None}
        step.tree = step.tree.put(node._replace(storage=kept))


def _note_repairs(step: Step, delivery: Delivery, drafts: Drafts) -> None:
    step.deprecated = drafts.deprecated
    for repair in drafts.repairs:
        step.record(Event.REPAIRED, delivery, detail=repair)


def _send(step: Step, delivery: Delivery, proposals: tuple[Proposal, ...]) -> Outcome:
    """Admit every proposal. An answer first ends the sub-tasks that were under way."""
    thread = step.tree.nodes[delivery.thread]
    if proposals and thread.refusals:
        step.tree = step.tree.put(thread._replace(refusals=0))
    if any(proposal.route is Route.ANSWER for proposal in proposals):
        step.prune(thread.id)
    for proposal in proposals:
        letter = Letter(
            delivery.to,
            thread.id,
            proposal.root,
            proposal.markup,
            delivery.request,
            delivery.hop + 1,
            element=proposal.element,
        )
        match proposal.route:
            case Route.ANSWER:
                _answer(step, letter, delivery)
            case Route.SERVICE:
                _serve(step, proposal, delivery)
            case Route.SELF:
                step.call(letter, proposal.to, apart=True)
            case Route.PEER:
                step.call(letter, proposal.to)
    return step.finish()


def _answer(step: Step, letter: Letter, delivery: Delivery) -> None:
    """Send a letter to the caller of the delivery's thread, or out of the server when that is the principal."""
    caller = step.tree.caller(step.tree.nodes[delivery.thread])
    if caller.parent is None:
        step.leave(letter)
    else:
        step.post(letter, caller.id)


def _serve(step: Step, proposal: Proposal, delivery: Delivery) -> None:
    """Answer a message to ``system.todo``. The service reads nothing but what the todo schemas accept."""
    codecs = step.rules.codecs
    codec = codecs.named(proposal.root)
    asked = None if codec is None else codec.decode(proposal.element)
    answer: TodoRegistered | TodoClosed
    if isinstance(asked, TodoUntil):
        watcher = next(step.ids)
        step.todos = step.todos.watch(delivery.thread, asked, watcher)
        answer = TodoRegistered(watcher)
    elif isinstance(asked, TodoComplete):
        answer = TodoClosed(asked.watcher_id, step.todos.owns(delivery.thread, asked.watcher_id))
        step.todos = step.todos.close(delivery.thread, asked.watcher_id)
    else:
        raise TypeError(f"{proposal.root} is no request to {TODO}")
    reply = codecs.of(type(answer))
    markup = reply.encode(answer)
    step.post(
        Letter(TODO, delivery.thread, reply.name, markup, delivery.request, delivery.hop + 1), delivery.thread
    )


def _refuse(step: Step, delivery: Delivery, refusal: Refusal) -> Outcome:
    """Tell the sender that its messages were not admitted; one that will not learn is given up."""
    limit = step.rules.blueprint.limits.refusals
    thread = step.tree.nodes[delivery.thread]
    count = thread.refusals + 1
    step.tree = step.tree.put(thread._replace(refusals=count))
    step.note(
        Event.REFUSED,
        thread=thread.id,
        sender=delivery.to,
        to=refusal.to,
        hop=delivery.hop,
        code=refusal.code,
        detail=refusal.detail,
        delivery=delivery.id,
    )
    if count > limit:
        return _give_up(step, delivery, Failed(Code.INTERNAL, f"{count} refusals in a row"))
    letter = step.error(delivery, refusal.code, refusal.corrections, final=count == limit, about=refusal.to)
    step.post(letter, thread.id)
    return step.finish()


def _failed(step: Step, delivery: Delivery, failed: Failed, retries: int) -> Outcome:
    """A crash or a missed deadline: try again while that is allowed, else tell the caller."""
    if delivery.attempt < retries:
        step.again(delivery)
        step.record(Event.RETRIED, delivery, code=failed.code, detail=failed.detail)
        return step.finish()
    step.take(delivery)
    return _give_up(step, delivery, failed)


def _give_up(step: Step, delivery: Delivery, failed: Failed) -> Outcome:
    """End the work of a thread with a SystemError to its caller."""
    step.record(Event.FAILED, delivery, code=failed.code, detail=failed.detail)
    step.prune(delivery.thread)
    _answer(step, step.error(delivery, failed.code, about=delivery.to), delivery)
    return step.finish()


def _turn_away(step: Step, request: str, refusal: Refusal) -> Outcome:
    payload = system_error(refusal.code, refusal.corrections)
    codec = step.rules.codecs.of(type(payload))
    root = step.before.tree.root
    step.note(
        Event.REFUSED,
        thread=root,
        sender=step.before.principal,
        to=refusal.to,
        code=refusal.code,
        detail=refusal.detail,
    )
    step.leave(Letter(SYSTEM, root, codec.name, codec.encode(payload), request, 0))
    return step.finish()


def _named(draft: Draft) -> str:
    return draft.to if isinstance(draft.to, str) else ""


def _local(name: str) -> str:
    return name.rpartition("}")[2]
