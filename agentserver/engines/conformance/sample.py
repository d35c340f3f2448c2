"""Sample conversations and helpers that the conformance checks share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from annotated_types import MaxLen

from agentserver.contract import Code, HandlerResponse, SetTimer
from agentserver.core import receipts
from agentserver.core.blueprint import Blueprint, Limits, Listener, map_services
from agentserver.core.decide import answers, charges, decisions, ledger, requeue, timers
from agentserver.core.decide.decisions import AcceptedDelivery
from agentserver.core.drafts.replies import normalise
from agentserver.core.guard import NeedsApproval, Rules
from agentserver.core.messages import (
    Cancellation,
    ClaimRequest,
    ConcludeRequest,
    Drafts,
    DueDelivery,
    FinishedInvocation,
    HandlerFailure,
    HandlerReturn,
    Moment,
    OutsideMessage,
    RequeuedLetter,
    ReserveRequest,
    SettleRequest,
)
from agentserver.core.state.approvals import Answer, ApprovalAnswer, NoAnswerReason
from agentserver.core.state.conversation import Conversation
from agentserver.core.state.requests import ResultLimits
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
    from agentserver.core.state.principals import Principal
    from agentserver.ports import Engine


class BrokenPromiseError(AssertionError):
    """Failure of a check: an engine breaks a promise."""


@dataclass(frozen=True, slots=True)
class Subject:
    """Engine under test.

    Args:
        open: returns a new engine on the same storage each time; for a memory engine an empty one.
        durable: whether commits outlive the instance.
        guarded: like ``open``, for conversations under these guards; only needed if the engine must know the guards
            whose memory it stores.
        retaining: like ``open``, with a retention in seconds; None for an engine that keeps no closed
            conversation.
    """

    open: Callable[[], Engine]
    durable: bool
    guarded: Callable[[Sequence[CoreGuard]], Engine] | None = None
    retaining: Callable[[float], Engine] | None = None

    def open_guarded(self, guards: Sequence[CoreGuard]) -> Engine:
        """Open an engine for conversations under these guards."""
        return self.open() if self.guarded is None else self.guarded(guards)


def keep(engine: Engine, outcome: Outcome) -> Awaitable[None]:
    """Commit an outcome, as the pump that owns the conversation does."""
    claim = engine.current_claim(outcome.conversation.id)
    if claim is None:
        raise BrokenPromiseError("an engine without peers owns every conversation")
    return engine.commit(claim, outcome)


async def at_work(engine: Engine) -> list[str]:
    """List the conversations that an engine reports as gained when it opens."""
    first = await anext(engine.changes())
    hold(isinstance(first, GainedClaims), "the first change is a gain of conversations")
    assert isinstance(first, GainedClaims)
    hold(
        all(engine.current_claim(key) == claim for key, claim in first.claims.items()),
        "gained claims are held",
    )
    return list(first.claims)


async def list_open(engine: Engine) -> list[tuple[str, str]]:
    """List the open conversations of an engine with their principals."""
    return [one async for one in engine.open_conversations()]


async def idle(engine: Engine, before: float) -> list[str]:
    """List the conversations of an engine that were last touched before a time."""
    return [key async for key in engine.idle(before)]


@xmlify
@dataclass(frozen=True, slots=True)
class Note:
    """Payload of the sample's messages."""

    text: Annotated[str, MaxLen(64)]


class SampleConversation:
    """Sample organism that makes conversations and outcomes to commit.

    Args:
        retries: of its listener.
        guards: of its rules.
        since: number before its first moment; two samples with the same number make the same ids.
    """

    def __init__(self, retries: int = 0, guards: tuple[CoreGuard, ...] = (), since: int = 0) -> None:
        listener = Listener("worker", (Note,), "answers every message", retries=retries)
        codecs = Codecs([Note])
        name = codecs.of(Note).name
        services = map_services(codecs)
        blueprint = Blueprint(
            {"worker": listener}, Limits(), {"worker": frozenset([name])}, services, {"worker": ""}
        )
        self.rules = Rules(blueprint, codecs, guards, Bounds())
        self._moments = since

    def moment(self) -> Moment:
        """Return the next moment of a fixed sequence."""
        self._moments += 1
        return Moment(float(self._moments), self._moments.to_bytes(16, "big"))

    def start(self, principal: Principal | str = "console") -> Conversation:
        """Start a conversation without committing anything."""
        return Conversation.begin(principal, self.moment())

    def make_message(self, request: str) -> OutsideMessage:
        """Make a message from outside."""
        return OutsideMessage(self.rules.codecs.of(Note).encode(Note(request)).encode(), request, "worker")

    def make_keyed_message(
        self, conversation: Conversation, request: str, own: str, to: str = "worker"
    ) -> OutsideMessage:
        """Make a message with an idempotency key."""
        data = self.rules.codecs.of(Note).encode(Note("the same each time")).encode()
        return OutsideMessage(
            data, request, to, receipts.make_key(conversation.principal, conversation.id, own, data, to)
        )

    def receive(self, conversation: Conversation, request: str) -> Outcome:
        """Decide on a message from outside: it adds one delivery."""
        return decisions.receive(conversation, self.make_message(request), self.rules, self.moment())

    def receive_keyed(
        self, conversation: Conversation, request: str, own: str, to: str = "worker"
    ) -> Outcome:
        """Decide on a message with an idempotency key: it adds one delivery."""
        outside = self.make_keyed_message(conversation, request, own, to)
        return decisions.receive(conversation, outside, self.rules, self.moment())

    def answer(self, conversation: Conversation, delivery: Delivery) -> Outcome:
        """Conclude an invocation that answers: it consumes the delivery."""
        accepted = decisions.accept(conversation, delivery, self.rules)
        hold(isinstance(accepted, AcceptedDelivery), "a committed delivery can be accepted")
        drafts = normalise(
            HandlerResponse.respond(Note("done")),
            self.rules.codecs,
            self.rules.bounds,
            ResultLimits(1, 1 << 20),
        )
        assert isinstance(drafts, Drafts)
        result = HandlerReturn(drafts)
        return decisions.conclude(
            conversation, FinishedInvocation(delivery, None, result), self.rules, self.moment()
        )

    def sleep(self, conversation: Conversation, delivery: Delivery, *seconds: float) -> Outcome:
        """Conclude an invocation that sets timers: it consumes the delivery."""
        timed = [HandlerResponse(SetTimer(each), "system.timer") for each in seconds]
        drafts = normalise(timed, self.rules.codecs, self.rules.bounds, ResultLimits(len(timed), 1 << 20))
        assert isinstance(drafts, Drafts)
        finished = FinishedInvocation(delivery, None, HandlerReturn(drafts))
        return decisions.conclude(conversation, finished, self.rules, self.moment())

    def wake(self, conversation: Conversation) -> Outcome:
        """Let the first timer of a conversation fire: its delivery is queued."""
        due = DueDelivery(conversation.timers[0].delivery)
        outcome = timers.wake(conversation, due, self.rules, self.moment())
        assert outcome is not None
        return outcome

    def fail(self, conversation: Conversation, delivery: Delivery) -> Outcome:
        """Conclude an invocation that crashed."""
        return decisions.conclude(
            conversation,
            FinishedInvocation(delivery, None, HandlerFailure(Code.INTERNAL)),
            self.rules,
            self.moment(),
        )

    def approve(self, conversation: Conversation, approval: Approval) -> Outcome:
        """Approve a pending message as a person: it is queued."""
        answered = ApprovalAnswer(approval.id, approval.digest, Answer.ONCE, "somebody")
        outcome = answers.decide(conversation, answered, self.rules, self.moment())
        assert outcome is not None
        return outcome

    def deny(self, conversation: Conversation, approval: Approval) -> Outcome:
        """Deny a pending message that no person has answered in time."""
        answered = ApprovalAnswer(approval.id, approval.digest, Answer.DENY, NoAnswerReason.LATE)
        outcome = answers.decide(conversation, answered, self.rules, self.moment())
        assert outcome is not None
        return outcome

    def charge(
        self, conversation: Conversation, delivery: Delivery, model: str, cost: int | None
    ) -> list[Outcome]:
        """Reserve at most 100 tokens, and settle the reservation if the cost is given."""
        request = ReserveRequest(delivery, model, Amount(100))
        reserved = charges.reserve(conversation, request, self.rules, self.moment())
        assert reserved is not None
        if cost is None:
            return [reserved]
        key = [*reserved.conversation.spending.open][-1]
        done = SettleRequest(delivery, key, Amount(cost))
        settled = charges.settle(reserved.conversation, done, self.rules, self.moment())
        assert settled is not None
        return [reserved, settled]

    def claim(self, conversation: Conversation, delivery: Delivery, key: str) -> Outcome:
        """Claim an external effect."""
        outcome = ledger.claim(conversation, ClaimRequest(delivery, key, 1), self.rules, self.moment())
        assert outcome is not None
        return outcome

    def conclude(
        self, conversation: Conversation, delivery: Delivery, key: str, answer: str | None
    ) -> Outcome:
        """Answer an external effect, or withdraw its claim."""
        effect = ledger.find(conversation, ClaimRequest(delivery, key, 1))
        assert effect is not None
        done = ConcludeRequest(delivery, effect.id, answer)
        outcome = ledger.conclude(conversation, done, self.rules, self.moment())
        assert outcome is not None
        return outcome

    def requeue(self, conversation: Conversation, delivery: Delivery) -> Outcome:
        """Requeue a dead letter."""
        return requeue.requeue(conversation, RequeuedLetter(delivery, "ops"), self.rules, self.moment())

    def cancel(self, conversation: Conversation, request: str) -> Outcome:
        """Cancel a request."""
        outcome = decisions.cancel(conversation, Cancellation(request), self.rules, self.moment())
        assert outcome is not None
        return outcome

    def open(self, conversation: Conversation) -> Outcome:
        """Open a conversation before its first message."""
        return decisions.open_conversation(conversation, self.rules, self.moment())

    async def keep_two_requests(self, engine: Engine) -> tuple[Outcome, Outcome]:
        """Keep a conversation with an answered and a pending request. Returns the answer's step and the last one."""
        first = self.receive(self.start(), "1")
        await keep(engine, first)
        answered = self.answer(first.conversation, first.ready[0])
        await keep(engine, answered)
        second = self.receive(answered.conversation, "2")
        await keep(engine, second)
        return answered, second

    def close(self, conversation: Conversation) -> Outcome:
        """Close a conversation."""
        return decisions.close(conversation, self.rules, self.moment(), "over")


class AskingGuard:
    """Guard that requires a person's approval for every message."""

    name = "asking"

    def observe(self, memory: object, delivery: Delivery, element: etree._Element, at: float) -> object:  # noqa: ARG002 - a guard's signature
        """Return the memory unchanged."""
        return memory

    def judge(self, memory: object, proposal: Proposal, at: float) -> Verdict:  # noqa: ARG002 - a guard's signature
        """Require an approval, with a question of two lines."""
        return NeedsApproval("may it\nbe sent?")

    def approve(self, memory: object, about: tuple[str, ...]) -> object:  # noqa: ARG002 - a guard's signature
        """Return the memory unchanged."""
        return memory


def hold(promise: bool, message: str) -> None:  # noqa: FBT001 - reads as an assertion
    """Raise BrokenPromiseError unless a promise is kept."""
    if not promise:
        raise BrokenPromiseError(message)


class Promise:
    """Context of one check, which names the promise in every failure.

    Args:
        name: of the check; underscores read as spaces.
    """

    def __init__(self, name: str) -> None:
        self._name = name.replace("_", " ")

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Convert exceptions to BrokenPromiseError, except those that end the program."""
        if isinstance(error, BrokenPromiseError):
            raise BrokenPromiseError(
                f"the engine breaks the promise that {self._name}: it does not hold that {error}"
            )
        if isinstance(error, Exception):
            text = f"{type(error).__name__}: {error}"
            raise BrokenPromiseError(
                f"the engine breaks the promise that {self._name}: it raised {text}"
            ) from error
