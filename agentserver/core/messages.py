"""Values that decisions are made of: deliveries, drafts, replies, causes and moments."""

from __future__ import annotations

from hashlib import blake2b
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lxml import etree

    from agentserver.contract import Code, Target
    from agentserver.core.records.details import Detail
    from agentserver.core.refusals import Refusal
    from agentserver.core.state.growing.logs import LogChange
    from agentserver.spending import Amount

__all__ = ["Delivery", "Done", "EventPlace", "Moment", "Progress", "Reply"]

SYSTEM = "system"
"""The writer of every SystemError, and its sender until a listener passes it on; no listener may take the name."""

TODO = "system.todo"
"""The service that keeps todos."""


class Moment(NamedTuple):
    """The time and the randomness of one decision, so that a recorded decision can be taken again.

    Args:
        now: seconds since the epoch.
        seed: 16 unpredictable bytes; every id of the decision derives from them.
    """

    now: float
    seed: bytes

    def not_before(self, time: float) -> Moment:
        """The same moment, or one at that time when the clock was set back meanwhile."""
        return self if self.now >= time else self._replace(now=time)

    def ids(self) -> Iterator[str]:
        """Ids in the form of UUIDs that cannot be foretold without the seed."""
        return map(self.id, count())

    def id(self, number: int) -> str:
        """One of the ids, counted from zero."""
        digest = blake2b(number.to_bytes(4, "big"), key=self.seed, digest_size=16).hexdigest()
        return f"{digest[:8]}-{digest[8:12]}-{digest[12:16]}-{digest[16:20]}-{digest[20:]}"


class Call(NamedTuple):
    """A message from a thread to one below it, as its answers will name it.

    Args:
        order: messages that the conversation had seen when it was sent.
        key: id of the delivery whose invocation sent it; empty when none did.
        place: among the messages that the invocation sent, counted from zero.
        refused: said of a refusal of all that the invocation sent.
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
        message: the envelope as it stands on the wire.
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
    """

    to: str | Target | None
    root: str
    markup: str
    element: etree._Element


class Drafts(NamedTuple):
    """Everything one invocation wants to send, in order, and how deprecated text was repaired."""

    drafts: tuple[Draft, ...] = ()
    repairs: tuple[str, ...] = ()
    deprecated: bool = False


class Question(NamedTuple):
    """A question to a person, who has to approve a message.

    Args:
        guard: the guard that wants it approved.
        why: the reason, as the person is told it.
        about: what that guard will remember, if the approval is for the rest of the conversation.
    """

    guard: str
    why: Detail
    about: tuple[str, ...] = ()


class EventPlace(NamedTuple):
    """The place of an event among everything that leaves its conversation; no two share it, and it never changes.

    Args:
        version: of the conversation after the step that let it go.
        position: among what that step let go.
    """

    version: int
    position: int


UNDECIDED = EventPlace(0, 0)
"""The place of what no step has let go yet."""

LAST = 2**31 - 1
"""A position behind that of everything which a step lets go."""


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
    """Nothing of a request is queued, held or running any more.

    Args:
        request: the outside message that has come to rest.
        answered: whether it got a reply.
        redelivered: as of a Reply.
        place: as of a Reply.
    """

    conversation: str
    request: str
    answered: bool
    redelivered: bool = False
    place: EventPlace = UNDECIDED


class Progress(NamedTuple):
    """A listener's word on how far it is: shown while somebody looks, and never kept.

    Args:
        request: the outside message that it works for.
        sender: the listener.
        text: one line, without secrets. Data, as any text of a listener is.
    """

    conversation: str
    request: str
    sender: str
    text: str


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
    """A handler came back. What it returned is already encoded: nothing of the handler's own is looked at again."""

    said: Drafts | Refusal
    effects: Effects = NO_EFFECTS


class HandlerFailure(NamedTuple):
    """A handler gave no result, or what should reach it could not be read. ``detail`` is for operators only."""

    code: Code
    detail: Detail | None = None


class RequestKey(NamedTuple):
    """A message under its sender's id.

    Args:
        name: digest of the id, together with the principal and the conversation that it counts in.
        content: digest of the bytes and of whom they are for.
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
        request: an id by which the gateway will know its replies; unique in the conversation.
        to: the listener it is for; None leaves it to the envelope or to the payload's root.
        key: what is kept of its sender's own id; None when its sender gave none.
    """

    data: bytes
    request: str
    to: str | None = None
    key: RequestKey | None = None


class FinishedInvocation(NamedTuple):
    """An invocation that is over.

    Args:
        element: the payload; None when the handler was never called.
        took: seconds since the handler began, where that is known. Nothing is decided by it.
    """

    delivery: Delivery
    element: etree._Element | None
    result: HandlerReturn | HandlerFailure
    took: float | None = None


class GivenUp(NamedTuple):
    """A delivery that the server could not deal with, for a reason that is not its listener's.

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
    """Work that an invocation wants to do, of which the cost is charged before.

    Args:
        delivery: that it works on.
        what: a word for it.
        most: that it may cost.
    """

    delivery: Delivery
    what: str
    most: Amount


class SettleRequest(NamedTuple):
    """The cost of work that an invocation has done.

    Args:
        delivery: that it works on.
        reservation: the id of what was charged for it before.
        cost: of it.
    """

    delivery: Delivery
    reservation: str
    cost: Amount


class TurnedAway(NamedTuple):
    """An outside message that was refused without a look at it. ``key`` is as of ``OutsideMessage``."""

    data: bytes | Excerpt
    request: str
    to: str | None
    code: Code
    key: RequestKey | None = None


class ConversationOpening(NamedTuple):
    """The opening of a conversation, where it is acknowledged before anything is said."""


class ConversationClosing(NamedTuple):
    """The end of a conversation, with its reason."""

    reason: str


class Cancellation(NamedTuple):
    """The end of one request, before it came to rest.

    Args:
        request: the outside message.
        by: the operator that wants it; empty for the conversation's principal.
    """

    request: str
    by: str = ""


class RequeuedLetter(NamedTuple):
    """A dead letter that an operator had tried again where it was."""

    delivery: Delivery


class RedrivenLetter(NamedTuple):
    """A dead letter that an operator had tried again as a request of its own, in a new conversation.

    Args:
        delivery: the dead letter.
        request: the id of the request.
        by: the operator.
    """

    delivery: Delivery
    request: str
    by: str
