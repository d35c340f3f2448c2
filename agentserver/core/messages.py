"""Values that decisions are made of: deliveries, drafts, replies, causes and moments."""

from __future__ import annotations

from enum import StrEnum
from hashlib import blake2b
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lxml import etree

    from agentserver.contract import Code, Target
    from agentserver.core.records.details import Detail
    from agentserver.core.refusals import Refusal
    from agentserver.core.state.logs import LogChange
    from agentserver.spending import Amount

__all__ = ["Delivery", "Delta", "DeltaKind", "Done", "EventPlace", "Moment", "Progress", "Reply"]

SYSTEM = "system"
"""The writer of every SystemError, and its sender until a listener passes it on; no listener may take the name."""

TODO = "system.todo"
"""The service that keeps todos."""

TIMER = "system.timer"
"""The service that keeps timers."""

SERVICES = frozenset({TODO, TIMER})
"""The services that listeners may send to without naming them as peers."""

SYSTEM_NAMES = SERVICES | {SYSTEM}
"""The senders of the system's own messages."""


class Moment(NamedTuple):
    """The time and the randomness of one decision, so that a recorded decision can be taken again.

    Args:
        now: seconds since the epoch.
        seed: 16 unpredictable bytes; every id of the decision derives from them.
    """

    now: float
    seed: bytes

    def not_before(self, time: float) -> Moment:
        """Return the same moment, or one at that time when the clock was set back meanwhile."""
        return self if self.now >= time else self._replace(now=time)

    def ids(self) -> Iterator[str]:
        """Ids in the form of UUIDs that cannot be foretold without the seed."""
        return map(self.id, count())

    def id(self, number: int) -> str:
        """Make one of the ids, counted from zero."""
        digest = blake2b(number.to_bytes(4, "big"), key=self.seed, digest_size=16).hexdigest()
        return f"{digest[:8]}-{digest[8:12]}-{digest[12:16]}-{digest[16:20]}-{digest[20:]}"


class Call(NamedTuple):
    """Identity of a message from a thread to one below it; its answers refer to it.

    Args:
        order: messages that the conversation had seen when it was sent.
        key: id of the delivery whose invocation sent it; empty when none did.
        place: among the messages that the invocation sent, counted from zero.
        refused: whether this is a refusal of everything that the invocation sent.
    """

    order: int
    key: str = ""
    place: int = 0
    refused: bool = False


NO_CALL = Call(0)


class Delivery(NamedTuple):
    """One message on its way to one listener.

    Args:
        id: unique; stable when the delivery is attempted again.
        conversation: the conversation it belongs to.
        request: the outside message that caused it.
        thread: the thread it is handled on.
        origin: the thread it was sent from; the receiver's own thread when the system wrote it.
        sender: the name the receiver sees.
        to: the listener that handles it.
        root: name of the payload element, ``{namespace}local``.
        message: the envelope as sent on the wire.
        hop: messages in its causal chain since the outside message, which is 1.
        about: for a SystemError, the listener whose failure it reports.
        attempt: how often it was handed to the handler before.
        call: the call that it is, or that it answers.
    """

    id: str
    conversation: str
    request: str
    thread: str
    origin: str
    sender: str
    to: str
    root: str
    message: bytes
    hop: int
    about: str = ""
    attempt: int = 0
    call: Call = NO_CALL


class Draft(NamedTuple):
    """A valid payload on its way out.

    Args:
        to: the target as the handler named it; None when the root of the payload decides.
        root: name of the payload element, ``{namespace}local``.
        markup: the payload element as text.
        element: the same, parsed.
        after: delay of its delivery, in seconds.
    """

    to: str | Target | None
    root: str
    markup: str
    element: etree._Element
    after: float = 0.0


class Drafts(NamedTuple):
    """Everything one invocation wants to send, in order, and how deprecated text was repaired."""

    drafts: tuple[Draft, ...] = ()
    repairs: tuple[str, ...] = ()
    deprecated: bool = False


class Question(NamedTuple):
    """A question to a person, who has to approve a message.

    Args:
        guard: the guard that wants it approved.
        reason: the reason, as shown to the person.
        about: the values that the guard remembers, if the approval is for the rest of the conversation.
    """

    guard: str
    reason: Detail
    about: tuple[str, ...] = ()


class EventPlace(NamedTuple):
    """Unique, permanent position of an event in its conversation's output.

    Args:
        version: of the conversation after the step that emitted the event.
        position: among the events of that step.
    """

    version: int
    position: int


UNDECIDED = EventPlace(0, 0)
"""The place of an event that no step has emitted yet."""

LAST = 2**31 - 1
"""A position after every event of a step."""


class Reply(NamedTuple):
    """A message that leaves the server through the gateway that opened the conversation.

    Args:
        request: the outside message it answers.
        sender: the listener that answered, or ``system``.
        root: name of the payload element.
        message: the envelope.
        error: whether it is a SystemError, the system's own or one that the listener passed on.
        redelivered: whether it may have left before: it was given to a gateway that did not acknowledge it.
        place: among everything that leaves the conversation; by it a gateway knows a repetition.
    """

    conversation: str
    request: str
    sender: str
    root: str
    message: bytes
    error: bool = False
    redelivered: bool = False
    place: EventPlace = UNDECIDED


class Done(NamedTuple):
    """End of a request: all its deliveries are handled or dropped.

    Args:
        request: the outside message.
        answered: whether it got a reply.
        redelivered: as of a Reply.
        place: as of a Reply.
    """

    conversation: str
    request: str
    answered: bool
    redelivered: bool = False
    place: EventPlace = UNDECIDED


def weigh_event(event: Reply | Done) -> int:
    """Return the bytes of an event's message."""
    return len(event.message) if isinstance(event, Reply) else 0


class Progress(NamedTuple):
    """Progress report of a listener: shown to current watchers and never stored.

    Args:
        request: the outside message that it works for.
        sender: the listener.
        text: one line, without secrets; untrusted like any text of a listener.
    """

    conversation: str
    request: str
    sender: str
    text: str


class DeltaKind(StrEnum):
    """Kinds of deltas."""

    TEXT = "text"  # a piece of the answer
    CALL = "call"  # a call of a tool that was sent
    RESULT = "result"  # the end of such a call
    RESET = "reset"  # the pieces of this request so far are void
    DIFFERENCE = "difference"  # the committed answer differs from the pieces: it alone counts


class Delta(NamedTuple):
    """Piece of an answer that is not yet committed: shown to current watchers and never stored.

    Args:
        request: the outside message that it belongs to.
        sender: the listener.
        kind: the meaning of the other fields.
        text: the piece; of a call, its arguments as JSON if they may be shown; of a result or a reset, the reason.
        offset: characters of the answer before this piece. A watcher that lost pieces sees a gap.
        id: of a call and of its result; empty for text.
        name: of a call, the tool.
    """

    conversation: str
    request: str
    sender: str
    kind: DeltaKind
    text: str = ""
    offset: int = 0
    id: str = ""
    name: str = ""


class Effects(NamedTuple):
    """Changes that a handler made besides sending: committed with its outcome or not at all.

    Args:
        stored: encoded value per class name; None deletes.
        closed: ids of the todos it closed.
        logged: changes of its thread's logs, one for each that has changed.
    """

    stored: Mapping[str, bytes | None]
    closed: tuple[str, ...] = ()
    logged: tuple[LogChange, ...] = ()


NO_EFFECTS = Effects({})


class HandlerReturn(NamedTuple):
    """Result of a handler that returned, already encoded, so that its own objects are not used again."""

    result: Drafts | Refusal
    effects: Effects = NO_EFFECTS


class HandlerFailure(NamedTuple):
    """Failure of a handler, or of reading its input. ``detail`` is for operators only."""

    code: Code
    detail: Detail | None = None


class RequestKey(NamedTuple):
    """Idempotency key of a message.

    Args:
        name: digest of the sender's id, the principal and the conversation.
        content: digest of the bytes and of the receiver.
    """

    name: str
    content: str


class Excerpt(NamedTuple):
    """A message that is not kept whole.

    Args:
        beginning: its first bytes, without secrets.
        length: of the whole, in bytes.
        digest: SHA-256 of the whole, in hexadecimal.
    """

    beginning: bytes
    length: int
    digest: str


class OutsideMessage(NamedTuple):
    """A message from outside.

    Args:
        data: an envelope or a bare payload element.
        request: the id that replies carry; unique in the conversation.
        to: the listener it is for; None leaves it to the envelope or to the payload's root.
        key: its idempotency key; None when its sender gave no id.
    """

    data: bytes
    request: str
    to: str | None = None
    key: RequestKey | None = None


class FinishedInvocation(NamedTuple):
    """Invocation that has ended.

    Args:
        element: the payload; None when the handler was never called.
        took: seconds since the handler began, if known. No decision depends on it.
    """

    delivery: Delivery
    element: etree._Element | None
    result: HandlerReturn | HandlerFailure
    took: float | None = None


class AbandonedDelivery(NamedTuple):
    """Delivery that the server could not handle, for a reason that is not its listener's.

    Args:
        detail: for operators only.
        element: the payload that its listener was given, for the guards to observe; None when it was given none, or
            when they could not.
        unseen: whether its listener was given a payload that the guards could not observe.
    """

    delivery: Delivery
    detail: Detail
    element: etree._Element | None = None
    unseen: bool = False


class ReserveRequest(NamedTuple):
    """Request of an invocation to charge the greatest cost of work before doing it.

    Args:
        delivery: the one being handled.
        work: a word for the work.
        amount: the greatest cost.
    """

    delivery: Delivery
    work: str
    amount: Amount


class SettleRequest(NamedTuple):
    """Request of an invocation to replace a reservation by the actual cost.

    Args:
        delivery: the one being handled.
        reservation: its id.
        cost: the actual one.
    """

    delivery: Delivery
    reservation: str
    cost: Amount


class ClaimRequest(NamedTuple):
    """Request of an invocation to claim an external effect before doing it.

    Args:
        delivery: the one being handled.
        key: of the effect, unique for the listener in the conversation.
        token: epoch of the claim on the conversation.
        passing: whether its answer is dropped with the commit of the invocation.
    """

    delivery: Delivery
    key: str
    token: int
    passing: bool = False


class ConcludeRequest(NamedTuple):
    """Request of an invocation to record the answer of an external effect.

    Args:
        delivery: the one being handled.
        effect: its id.
        answer: as JSON; None withdraws the claim.
        trusted: whether the answer is the organism's own.
    """

    delivery: Delivery
    effect: str
    answer: str | None
    trusted: bool = False


class EffectVerdict(NamedTuple):
    """Verdict of an operator on an external effect with an unknown outcome.

    Args:
        effect: its id.
        answer: as JSON; None if the effect did not happen.
        by: the operator.
    """

    effect: str
    answer: str | None
    by: str


class RejectedMessage(NamedTuple):
    """Outside message that was refused without being read. ``key`` is as of ``OutsideMessage``."""

    data: bytes | Excerpt
    request: str
    to: str | None
    code: Code
    key: RequestKey | None = None


class DueDelivery(NamedTuple):
    """Delayed delivery whose time has come, by its id."""

    delivery: str


class ConversationOpening(NamedTuple):
    """Opening of a conversation before its first message."""


class ConversationClosing(NamedTuple):
    """End of a conversation, with its reason."""

    reason: str


class Cancellation(NamedTuple):
    """Early end of one request.

    Args:
        request: the outside message.
        by: the operator that wants it; empty for the conversation's principal.
    """

    request: str
    by: str = ""


class RequeuedLetter(NamedTuple):
    """Dead letter that an operator queued again on its own thread.

    Args:
        delivery: the dead letter.
        by: the operator.
    """

    delivery: Delivery
    by: str


class RedrivenLetter(NamedTuple):
    """Dead letter that an operator retried as a request of its own, in a new conversation.

    Args:
        delivery: the dead letter.
        request: the id of the request.
        by: the operator.
    """

    delivery: Delivery
    request: str
    by: str
