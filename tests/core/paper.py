"""A pump on paper: drives a conversation with plain functions, one delivery at a time, without an event loop."""

from __future__ import annotations

from dataclasses import dataclass

from agentserver import HandlerMetadata, SystemError, xmlify
from agentserver.contract import Answering, Code
from agentserver.core.blueprint import Blueprint, Limits, Listener, map_services
from agentserver.core.decide import answers, decisions
from agentserver.core.decide.decisions import AcceptedDelivery
from agentserver.core.decide.lives import DELIVERY, DeliveryStage
from agentserver.core.drafts.replies import normalise
from agentserver.core.guard import Rules
from agentserver.core.messages import (
    Done,
    FinishedInvocation,
    HandlerFailure,
    HandlerReturn,
    Moment,
    OutsideMessage,
    Reply,
    RequeuedLetter,
)
from agentserver.core.records.details import Failure
from agentserver.core.state.approvals import ApprovalAnswer
from agentserver.core.state.conversation import Conversation
from agentserver.core.state.effects import ThreadStorage, ThreadTodos, collect
from agentserver.guards.builtin import PeersGuard
from agentserver.payload.codec import Codecs
from agentserver.pump.invoke import make_answering
from agentserver.rulebook import write_usage_instructions
from agentserver.wire import envelope
from agentserver.wire.envelope import SCHEMA, Bounds, read_envelope


@xmlify
@dataclass(frozen=True)
class Ask:
    text: str


@xmlify
@dataclass(frozen=True)
class Answer:
    text: str


@xmlify
@dataclass(frozen=True)
class Note:
    text: str


def listener(name, *peers, payloads=(Ask,), **more):
    return Listener(name, payloads, f"the {name}", peers=frozenset(peers), **more)


def rules(*listeners, guards=None, payloads=(Answer, Note), **limits):
    named = {one.name: one for one in listeners}
    codecs = Codecs([*(p for one in listeners for p in one.payloads), *payloads])
    roots = {name: frozenset(codecs.of(p).name for p in one.payloads) for name, one in named.items()}
    services = map_services(codecs)
    usage = {name: write_usage_instructions(one, named, codecs) for name, one in named.items()}
    blueprint = Blueprint(named, Limits(**limits), roots, services, usage)
    asked = (PeersGuard(),) if guards is None else tuple(guards)
    known = envelope.collect_names([SCHEMA, *(codec.xsd() for codec in codecs)])
    return Rules(
        blueprint,
        codecs,
        asked,
        Bounds(names=known),
        explain=lambda one: write_usage_instructions(one, named, codecs),
    )


@dataclass
class Call:
    """One invocation as a handler function sees it."""

    payload: object
    metadata: HandlerMetadata
    storage: ThreadStorage
    todos: ThreadTodos
    attempt: int
    key: str = ""
    answering: Answering | None = None


class Paper:
    """Handlers are functions from a Call to a result; raising means a crash. Deliveries wait until ``run``."""

    def __init__(self, rules, handlers, principal="console"):
        self.rules = rules
        self.handlers = handlers
        self.seeds = 0
        self.conversation = Conversation.begin(principal, self.moment())
        self.waiting = []
        self.events = []
        self.records = []
        self.outcomes = []
        self.calls = []
        self.watched = True

    def moment(self):
        self.seeds += 1
        return Moment(1000.0 + self.seeds, self.seeds.to_bytes(16, "big"))

    def apply(self, outcome):
        assert outcome.before == self.conversation.version
        if self.watched:
            check_lives(self.conversation, outcome)
        self.conversation = outcome.conversation
        gone = {d.id for d in outcome.dropped}
        self.waiting = [d for d in self.waiting if d.id not in gone]
        self.waiting += [*outcome.ready, *([outcome.retry] if outcome.retry else [])]
        self.events += outcome.replies
        self.records += outcome.records
        self.outcomes.append(outcome)
        return outcome

    def say(self, payload, to=None, request=None):
        data = (
            payload
            if isinstance(payload, bytes)
            else self.rules.codecs.of(type(payload)).encode(payload).encode()
        )
        request = request or f"r{self.seeds}"
        self.receive(OutsideMessage(data, request, to))
        return request

    def ask(self, text="hi", to="a"):
        """Ask a listener, and run until nothing waits."""
        self.say(Ask(text), to)
        return self.run()

    def receive(self, outside):
        return self.apply(decisions.receive(self.conversation, outside, self.rules, self.moment()))

    def invoke(self, delivery):
        """Call the handler of a delivery without concluding; None when its thread is closed."""
        accepted = decisions.accept(self.conversation, delivery, self.rules)
        if accepted is None:
            return None
        if isinstance(accepted, HandlerFailure):
            return FinishedInvocation(delivery, None, accepted)
        assert isinstance(accepted, AcceptedDelivery)
        storage = ThreadStorage(
            accepted.storage,
            self.rules.codecs,
            self.rules.bounds,
            self.rules.blueprint.limits.storage,
            accepted.logs,
        )
        todos = ThreadTodos(delivery.thread, delivery.to, accepted.todos)
        payload = accepted.codec.decode(accepted.shown)
        named = make_answering(accepted.call)
        call = Call(payload, accepted.metadata, storage, todos, delivery.attempt, delivery.id, named)
        self.calls.append((delivery.to, call))
        try:
            value = self.handlers[delivery.to](call)
            said = normalise(value, self.rules.codecs, self.rules.bounds, accepted.room)
        except LateHandler:
            return FinishedInvocation(
                delivery, accepted.element, HandlerFailure(Code.TIMEOUT, Failure("late"))
            )
        except RuntimeError as error:
            return FinishedInvocation(
                delivery, accepted.element, HandlerFailure(Code.INTERNAL, Failure(str(error)))
            )
        result = said if isinstance(said, HandlerFailure) else HandlerReturn(said, collect(storage, todos))
        return FinishedInvocation(delivery, accepted.element, result)

    def conclude(self, finished):
        return self.apply(decisions.conclude(self.conversation, finished, self.rules, self.moment()))

    def decide(self, answer, to=None, **changed):
        """Answer the question about a message; None when the answer counts for nothing."""
        approval = to or self.conversation.approvals()[0]
        answered = ApprovalAnswer(approval.id, approval.digest, answer, "somebody")._replace(**changed)
        outcome = answers.decide(self.conversation, answered, self.rules, self.moment())
        return None if outcome is None else self.apply(outcome)

    def step(self, index=0):
        finished = self.invoke(self.waiting.pop(index))
        return None if finished is None else self.conclude(finished)

    def run(self, most=10_000):
        for _ in range(most):
            if not self.waiting:
                return self
            self.step()
        raise AssertionError("never came to rest")

    def decode(self, message):
        payload = read_envelope(message).payload
        return self.rules.codecs.for_root(payload.tag).decode(payload)

    @property
    def replies(self):
        return [self.decode(event.message) for event in self.events if isinstance(event, Reply)]

    @property
    def ends(self):
        return {event.request: event.answered for event in self.events if isinstance(event, Done)}

    def seen(self, name):
        return [call.payload for who, call in self.calls if who == name]


def delivery_states(conversation):
    """The state of each delivery in a conversation."""
    found = {}
    for thread in conversation.tree.nodes.values():
        found |= {
            d.id: DeliveryStage.QUEUED if n else DeliveryStage.RUNNING for n, d in enumerate(thread.inbox)
        }
        found |= {held.delivery.id: DeliveryStage.HELD for held in thread.held_deliveries}
        found |= {approval.delivery.id: DeliveryStage.ASKED for approval in thread.approvals}
        found |= {delayed.delivery.id: DeliveryStage.DELAYED for delayed in thread.delayed}
    return found


def reachable(state):
    """The states that a delivery may be in a step later."""
    found = {state}
    for _ in DeliveryStage:
        found |= {after for each in found for after in DELIVERY[each].values()}
    return found


REACHABLE = {state: reachable(state) for state in DeliveryStage}


def check_lives(before, outcome):
    """Hold a step to the lives of its deliveries."""
    was, now = delivery_states(before), delivery_states(outcome.conversation)
    gone = {d.id: DeliveryStage.DROPPED for d in outcome.dropped} | {outcome.done: DeliveryStage.DONE}
    for delivery in {**was, **now}:
        if now.get(delivery) is was.get(delivery):
            continue
        requeued = isinstance(outcome.cause, RequeuedLetter) and outcome.cause.delivery.id == delivery
        start = was.get(delivery, DeliveryStage.DEAD if requeued else DeliveryStage.NEW)
        assert now.get(delivery, gone.get(delivery)) in REACHABLE[start]
    first = {thread.inbox[0].id for thread in outcome.conversation.tree.nodes.values() if thread.inbox}
    assert {d.id for d in outcome.ready} <= first
    running = {d for d, state in now.items() if state is DeliveryStage.RUNNING and was.get(d) is not state}
    assert {d.id for d in outcome.ready} == running


class LateHandler(RuntimeError):
    """A handler that missed its deadline."""


def errors(payloads):
    return [p.code for p in payloads if isinstance(p, SystemError)]
