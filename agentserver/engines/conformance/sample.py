"""A small organism whose conversations give outcomes to commit, for checks of an engine.

Owns what checks share. Refuses to know any engine.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from annotated_types import MaxLen

from agentserver.contract import Code, HandlerResponse, TodoComplete, TodoUntil
from agentserver.core import receipts
from agentserver.core.blueprint import Blueprint, Limits, Listener
from agentserver.core.decide import approving, charges, decisions, requeue
from agentserver.core.decide.decisions import AcceptedDelivery
from agentserver.core.drafts.replies import normalise
from agentserver.core.guard import NeedsApproval, Rules
from agentserver.core.messages import (
    Cancellation,
    Drafts,
    FinishedInvocation,
    HandlerFailure,
    HandlerReturn,
    Moment,
    OutsideMessage,
    ReserveRequest,
    SettleRequest,
)
from agentserver.core.state.approvals import Answer, ApprovalAnswer, NoAnswerReason
from agentserver.core.state.budget import Room
from agentserver.core.state.conversation import Conversation
from agentserver.payload.codec import Codecs
from agentserver.payload.xmlify import xmlify
from agentserver.ports import GainedClaims
from agentserver.spending import Amount
from agentserver.wire.envelope import Bounds

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from types import TracebackType

    from lxml import etree

    from agentserver.core.drafts.routing import Proposal
    from agentserver.core.guard import CoreGuard, Verdict
    from agentserver.core.messages import Delivery
    from agentserver.core.records.outcome import Outcome
    from agentserver.core.state.approvals import Approval
    from agentserver.ports import Engine


class BrokenPromiseError(AssertionError):
    """An engine does not keep what it promises."""


@dataclass(frozen=True, slots=True)
class Subject:
    """An engine under test.

    Args:
        open: gives a new engine on the same storage each time; a memory engine gives an empty one.
        durable: whether what one instance committed is there for the next.
        guarded: the same as ``open`` for conversations under these guards, of which the engine keeps the memories; not
            needed for an engine that does not have to be told.
        retaining: the same as ``open`` with a retention in seconds; None for an engine that keeps no closed
            conversation.
    """

    open: Callable[[], Engine]
    durable: bool
    guarded: Callable[[Sequence[CoreGuard]], Engine] | None = None
    retaining: Callable[[float], Engine] | None = None

    def open_guarded(self, guards: Sequence[CoreGuard]) -> Engine:
        """A new engine for conversations under these guards."""
        return self.open() if self.guarded is None else self.guarded(guards)


def keep(engine: Engine, outcome: Outcome) -> Awaitable[None]:
    """Commit an outcome, as a pump does that has the conversation."""
    claim = engine.current_claim(outcome.conversation.id)
    if claim is None:
        raise BrokenPromiseError("an engine that is alone has every conversation")
    return engine.commit(claim, outcome)


async def at_work(engine: Engine) -> list[str]:
    """The conversations that an engine gives to be taken up at the start."""
    first = await anext(engine.changes())
    hold(isinstance(first, GainedClaims), "the first change is what is to be taken up")
    assert isinstance(first, GainedClaims)
    hold(
        all(engine.current_claim(key) == claim for key, claim in first.claims.items()),
        "what is gained is held",
    )
    return list(first.claims)


async def list_open(engine: Engine) -> list[tuple[str, str]]:
    """The open conversations of an engine, with their principals."""
    return [one async for one in engine.open_conversations()]


async def idle(engine: Engine, before: float) -> list[str]:
    """The conversations of an engine in which nothing has happened since."""
    return [key async for key in engine.idle(before)]


@xmlify
@dataclass(frozen=True, slots=True)
class Told:
    """The payload of the sample's messages."""

    text: Annotated[str, MaxLen(64)]


class SampleConversation:
    """A small organism whose conversations give outcomes to commit.

    Args:
        retries: of its listener.
        guards: of its rules.
        since: the moment that its first comes after; the ids of two that share one are the same.
    """

    def __init__(self, retries: int = 0, guards: tuple[CoreGuard, ...] = (), since: int = 0) -> None:
        listener = Listener("worker", (Told,), "answers what it is told", retries=retries)
        codecs = Codecs([Told])
        name = codecs.of(Told).name
        services = frozenset(codecs.of(payload).name for payload in (TodoUntil, TodoComplete))
        blueprint = Blueprint(
            {"worker": listener}, Limits(), {"worker": frozenset([name])}, services, {"worker": ""}
        )
        self.rules = Rules(blueprint, codecs, guards, Bounds())
        self._moments = since

    def moment(self) -> Moment:
        """The next of a fixed row of moments."""
        self._moments += 1
        return Moment(float(self._moments), self._moments.to_bytes(16, "big"))

    def start(self, principal: str = "console") -> Conversation:
        """A new conversation."""
        return Conversation.begin(principal, self.moment())

    def make_message(self, request: str) -> OutsideMessage:
        """A message from outside."""
        return OutsideMessage(self.rules.codecs.of(Told).encode(Told(request)).encode(), request, "worker")

    def make_keyed_message(
        self, conversation: Conversation, request: str, own: str, to: str = "worker"
    ) -> OutsideMessage:
        """The same of a message to which its sender gave an id."""
        data = self.rules.codecs.of(Told).encode(Told("the same each time")).encode()
        return OutsideMessage(
            data, request, to, receipts.key(conversation.principal, conversation.id, own, data, to)
        )

    def receive(self, conversation: Conversation, request: str) -> Outcome:
        """The outcome of a message from outside: one more delivery."""
        return decisions.receive(conversation, self.make_message(request), self.rules, self.moment())

    def receive_keyed(
        self, conversation: Conversation, request: str, own: str, to: str = "worker"
    ) -> Outcome:
        """The same of a message to which its sender gave an id."""
        outside = self.make_keyed_message(conversation, request, own, to)
        return decisions.receive(conversation, outside, self.rules, self.moment())

    def answer(self, conversation: Conversation, delivery: Delivery) -> Outcome:
        """The outcome of an invocation that answers: one delivery less."""
        accepted = decisions.accept(conversation, delivery, self.rules)
        hold(isinstance(accepted, AcceptedDelivery), "a committed delivery can be accepted")
        said = normalise(
            HandlerResponse.respond(Told("done")), self.rules.codecs, self.rules.bounds, Room(1, 1 << 20)
        )
        assert isinstance(said, Drafts)
        result = HandlerReturn(said)
        return decisions.conclude(
            conversation, FinishedInvocation(delivery, None, result), self.rules, self.moment()
        )

    def fail(self, conversation: Conversation, delivery: Delivery) -> Outcome:
        """The outcome of an invocation that crashed."""
        return decisions.conclude(
            conversation,
            FinishedInvocation(delivery, None, HandlerFailure(Code.INTERNAL)),
            self.rules,
            self.moment(),
        )

    def approve(self, conversation: Conversation, approval: Approval) -> Outcome:
        """The outcome of a person's approval: what waited for it is queued."""
        answered = ApprovalAnswer(approval.id, approval.digest, Answer.ONCE, "somebody")
        outcome = approving.decide(conversation, answered, self.rules, self.moment())
        assert outcome is not None
        return outcome

    def deny(self, conversation: Conversation, approval: Approval) -> Outcome:
        """The outcome of a question that no person has answered in time."""
        answered = ApprovalAnswer(approval.id, approval.digest, Answer.DENY, NoAnswerReason.LATE)
        outcome = approving.decide(conversation, answered, self.rules, self.moment())
        assert outcome is not None
        return outcome

    def charge(
        self, conversation: Conversation, delivery: Delivery, what: str, cost: int | None
    ) -> list[Outcome]:
        """The outcomes of a charge of 100 tokens at most, and of what it has cost, where that is known."""
        asked = ReserveRequest(delivery, what, Amount(100))
        reserved = charges.reserve(conversation, asked, self.rules, self.moment())
        assert reserved is not None
        if cost is None:
            return [reserved]
        key = [*reserved.conversation.spending.open][-1]
        done = SettleRequest(delivery, key, Amount(cost))
        settled = charges.settle(reserved.conversation, done, self.rules, self.moment())
        assert settled is not None
        return [reserved, settled]

    def requeue(self, conversation: Conversation, delivery: Delivery) -> Outcome:
        """The outcome of queueing a dead letter again."""
        return requeue.requeue(conversation, delivery, self.rules, self.moment())

    def cancel(self, conversation: Conversation, request: str) -> Outcome:
        """The outcome of cancelling a request."""
        outcome = decisions.cancel(conversation, Cancellation(request), self.rules, self.moment())
        assert outcome is not None
        return outcome

    def open(self, conversation: Conversation) -> Outcome:
        """The outcome of an opening that is kept before anything is said."""
        return decisions.open_conversation(conversation, self.rules, self.moment())

    def close(self, conversation: Conversation) -> Outcome:
        """The outcome of closing."""
        return decisions.close(conversation, self.rules, self.moment(), "over")


class AskingGuard:
    """Wants a person to approve every message."""

    name = "asking"

    def observe(self, memory: object, delivery: Delivery, element: etree._Element, at: float) -> object:  # noqa: ARG002 - a guard's signature
        """Nothing to remember."""
        return memory

    def judge(self, memory: object, proposal: Proposal, at: float) -> Verdict:  # noqa: ARG002 - a guard's signature
        """Ask, in two lines."""
        return NeedsApproval("may it\nbe sent?")

    def approve(self, memory: object, about: tuple[str, ...]) -> object:  # noqa: ARG002 - a guard's signature
        """Nothing to remember."""
        return memory


def hold(promise: bool, what: str) -> None:  # noqa: FBT001 - reads as an assertion
    """Raise BrokenPromiseError unless the promise, in words, is kept."""
    if not promise:
        raise BrokenPromiseError(what)


class Promise:
    """A context in which one promise is tried. Every failure in it names the promise.

    Args:
        name: of the check; underscores read as spaces.
    """

    def __init__(self, name: str) -> None:
        self._name = name.replace("_", " ")

    def __enter__(self) -> None:
        """Nothing to prepare."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Raise BrokenPromiseError for whatever went wrong, but for what ends the program."""
        if isinstance(error, BrokenPromiseError):
            raise BrokenPromiseError(
                f"the engine breaks the promise that {self._name}: it does not hold that {error}"
            )
        if isinstance(error, Exception):
            told = f"{type(error).__name__}: {error}"
            raise BrokenPromiseError(
                f"the engine breaks the promise that {self._name}: it raised {told}"
            ) from error
