"""Codec of decisions, and their replay.

Texts that were sent with a decision are referenced, not repeated.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from agentserver.contract import Code, Target
from agentserver.core.decide import answers, charges, decisions, intake, ledger, timers
from agentserver.core.decide.admission import Admission, AuditNote
from agentserver.core.decide.dismissal import KEPT, DismissedMessage
from agentserver.core.decide.requeue import redrive, requeue
from agentserver.core.drafts import replies
from agentserver.core.encoding.codecs import UnreadableError, derive_stored
from agentserver.core.messages import (
    NO_EFFECTS,
    AbandonedDelivery,
    Cancellation,
    ClaimRequest,
    ConcludeRequest,
    ConversationClosing,
    ConversationOpening,
    Delivery,
    Draft,
    Drafts,
    DueDelivery,
    Effects,
    EffectVerdict,
    Excerpt,
    FinishedInvocation,
    HandlerFailure,
    HandlerReturn,
    OutsideMessage,
    RedrivenLetter,
    RejectedMessage,
    Reply,
    RequeuedLetter,
    ReserveRequest,
    SettleRequest,
)
from agentserver.core.receipts import Receipt
from agentserver.core.records.details import Ground, read_detail
from agentserver.core.refusals import Refusal
from agentserver.core.state.approvals import ApprovalAnswer
from agentserver.core.state.conversation import Conversation
from agentserver.core.state.principals import FULL, Principal, Rights
from agentserver.core.state.threads import ThreadTree
from agentserver.wire import envelope

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lxml import etree

    from agentserver.codec import ValueCodec
    from agentserver.core.guard import Rules
    from agentserver.core.messages import Moment, RequestKey
    from agentserver.core.records.audit import Event
    from agentserver.core.records.details import Detail
    from agentserver.core.records.outcome import Cause, Outcome
    from agentserver.spending import Amount


_new = tuple.__new__


class StoredDraft(NamedTuple):
    """Message of a result: the place of its markup in a sent message, or else the markup.

    Args:
        to: as of ``Draft``; None for the caller too.
        caller: whether it goes to the caller.
        place: the number of the sent message, and the start and end of the markup in it.
        markup: empty if sent.
        after: delay of its delivery, in seconds.
    """

    to: str | None
    caller: bool
    place: tuple[int, int, int] | None = None
    markup: str = ""
    after: float = 0.0


class StoredDrafts(NamedTuple):
    """Messages of a result, as in ``Drafts``."""

    drafts: tuple[StoredDraft, ...] = ()
    repairs: tuple[str, ...] = ()
    deprecated: bool = False


class StoredReturn(NamedTuple):
    """Result of a handler, as in ``HandlerReturn``. A refused payload is shortened."""

    result: StoredDrafts | Refusal
    effects: Effects = NO_EFFECTS


class StoredInvocation(NamedTuple):
    """Invocation that has ended, as in ``FinishedInvocation``; ``called``: whether its listener was called."""

    delivery: str
    attempt: int
    called: bool
    result: StoredReturn | HandlerFailure


class StoredAbandonment(NamedTuple):
    """Delivery that the server could not handle; ``observed``: whether the guards saw its payload."""

    delivery: str
    attempt: int
    detail: Detail
    observed: bool = False
    unseen: bool = False


class StoredReservation(NamedTuple):
    """Reservation for work, as in ``ReserveRequest``."""

    delivery: str
    attempt: int
    work: str
    amount: Amount


class StoredSettlement(NamedTuple):
    """Cost of work, as in ``SettleRequest``."""

    delivery: str
    attempt: int
    reservation: str
    cost: Amount


class StoredClaim(NamedTuple):
    """Claim of an external effect, as in ``ClaimRequest``."""

    delivery: str
    attempt: int
    key: str
    token: int
    passing: bool


class StoredConclusion(NamedTuple):
    """Answer of an external effect, as in ``ConcludeRequest``."""

    delivery: str
    attempt: int
    effect: str
    answer: str | None
    trusted: bool


class StoredRequeue(NamedTuple):
    """Dead letter that was queued again on its own thread."""

    delivery: str
    by: str = ""


class StoredNote(NamedTuple):
    """Remark, as in ``AuditNote``."""

    event: Event
    to: str
    detail: Detail


class StoredDismissal(NamedTuple):
    """Long message that was refused: an excerpt, the refusal and the remarks."""

    data: Excerpt
    request: str
    to: str | None
    refusal: Refusal
    remarks: tuple[StoredNote, ...] = ()
    key: RequestKey | None = None


KeptCause: TypeAlias = (
    OutsideMessage
    | RejectedMessage
    | StoredDismissal
    | StoredInvocation
    | StoredAbandonment
    | ApprovalAnswer
    | ConversationOpening
    | ConversationClosing
    | Cancellation
    | StoredRequeue
    | RedrivenLetter
    | StoredReservation
    | StoredSettlement
    | DueDelivery
    | StoredClaim
    | StoredConclusion
    | EffectVerdict
)
"""Stored causes of steps. Fields of deliveries are not repeated, and elements are parsed again."""

_CAUSES: Final[ValueCodec[KeptCause]] = derive_stored(
    KeptCause,
    tags={
        OutsideMessage: "receive",
        RejectedMessage: "turn away",
        StoredDismissal: "dismiss",
        StoredInvocation: "conclude",
        StoredAbandonment: "give up",
        ApprovalAnswer: "decide",
        ConversationOpening: "open",
        ConversationClosing: "close",
        Cancellation: "cancel",
        StoredRequeue: "requeue",
        RedrivenLetter: "redrive",
        StoredReservation: "reserve",
        StoredSettlement: "settle",
        DueDelivery: "wake",
        StoredClaim: "claim",
        StoredConclusion: "answer",
        EffectVerdict: "verdict",
        StoredReturn: "returned",
        HandlerFailure: "failed",
        StoredDrafts: "sent",
        Refusal: "refused",
    },
)


class Origin(NamedTuple):
    """Conversation before its first step."""

    id: str
    principal: str
    root: str
    rights: Rights = FULL

    @classmethod
    def from_conversation(cls, conversation: Conversation) -> Origin:
        """Return the origin of a conversation at any stage."""
        return cls(conversation.id, conversation.principal, conversation.tree.root, conversation.rights)

    def conversation(self) -> Conversation:
        """Return the conversation before its first step."""
        tree = ThreadTree.plant(self.root, self.principal)
        return Conversation(self.id, self.principal, tree, rights=self.rights)

    @property
    def opener(self) -> Principal:
        """The principal with its rights."""
        return Principal(self.principal, *self.rights)


def list_sent_messages(outcome: Outcome) -> list[bytes]:
    """List the messages that a step sent: to listeners, then through the gateway.

    A delivery that was queued again is not among them.
    """
    added = () if isinstance(outcome.cause, RequeuedLetter) else outcome.added
    messages = [delivery.message for delivery in added]
    if outcome.replies:
        messages += [event.message for event in outcome.replies if isinstance(event, Reply)]
    return messages


def dump_cause(outcome: Outcome) -> bytes:
    """Encode the cause of a decided step. Raises TypeError when it has none."""
    if outcome.cause is None:
        raise TypeError("a step without a cause cannot be recorded")
    return _CAUSES.dump(_keep_cause(outcome.cause, outcome))


def _keep_cause(cause: Cause, outcome: Outcome) -> KeptCause:  # noqa: PLR0911 - one for each kind
    match cause:
        case FinishedInvocation(delivery, element, result):
            encoded = (
                result
                if isinstance(result, HandlerFailure)
                else _keep_return(result, list_sent_messages(outcome))
            )
            return _new(StoredInvocation, (delivery.id, delivery.attempt, element is not None, encoded))
        case DismissedMessage(data, request, to, judged, key):
            assert judged.refusal is not None
            remarks = tuple(
                [StoredNote(one.event, one.to, read_detail(one.detail)) for one in judged.remarks]
            )
            return StoredDismissal(data, request, to, judged.refusal, remarks, key)
        case RequeuedLetter(delivery, by):
            return StoredRequeue(delivery.id, by)
        case RedrivenLetter(letter):
            return cause._replace(delivery=letter._replace(attempt=0))
        case ReserveRequest(delivery, work, amount):
            return StoredReservation(delivery.id, delivery.attempt, work, amount)
        case SettleRequest(delivery, reservation, cost):
            return StoredSettlement(delivery.id, delivery.attempt, reservation, cost)
        case ClaimRequest(delivery, key, token, passing):
            return StoredClaim(delivery.id, delivery.attempt, key, token, passing)
        case ConcludeRequest(delivery, effect, answer, trusted):
            return StoredConclusion(delivery.id, delivery.attempt, effect, answer, trusted)
        case AbandonedDelivery(delivery, detail, element, unseen):
            return StoredAbandonment(delivery.id, delivery.attempt, detail, element is not None, unseen)
    return cause


def _keep_return(result: HandlerReturn, messages: Sequence[bytes]) -> StoredReturn:
    returned = result.result
    if isinstance(returned, Refusal):
        return StoredReturn(replace(returned, payload_text=returned.payload_text[:KEPT]), result.effects)
    drafts: list[StoredDraft] = []
    at = 0
    for draft in returned.drafts:
        to, caller = (None, True) if draft.to is Target.CALLER else (draft.to, False)
        place = _find_place(draft.markup, messages, at)
        if place is None:
            drafts.append(StoredDraft(to, caller, None, draft.markup, draft.after))
        else:
            at = place[0] + 1
            drafts.append(_new(StoredDraft, (to, caller, place, "", draft.after)))
    stored_drafts = _new(StoredDrafts, (tuple(drafts), returned.repairs, returned.deprecated))
    return _new(StoredReturn, (stored_drafts, result.effects))


def _find_place(markup: str, messages: Sequence[bytes], at: int) -> tuple[int, int, int] | None:
    """Find markup in the sent messages.

    Messages are sent in the order of the result, so the search begins at ``at``, after the previous match. This keeps
    the search linear.
    """
    data = markup.encode()
    for number in chain(range(at, len(messages)), range(min(at, len(messages)))):
        start = messages[number].rfind(data)
        if start >= 0:
            return number, start, start + len(data)
    return None


def read_cause(data: bytes) -> KeptCause:
    """Read a stored cause. Raises UnreadableError."""
    try:
        return _CAUSES.load(data)
    except ValueError as error:
        raise UnreadableError(f"the decision cannot be read: {error}") from error


def read_receipt(data: bytes) -> tuple[str, Receipt] | None:
    """Read the name and the receipt, without its code, from a stored cause. Raises UnreadableError."""
    cause = read_cause(data)
    key = cause.key if isinstance(cause, OutsideMessage | RejectedMessage | StoredDismissal) else None
    return None if key is None else (key.name, Receipt(cause.request, key.content))  # type: ignore[union-attr]


def load_cause(
    data: bytes, deliveries: Mapping[str, Delivery], messages: Sequence[bytes], rules: Rules
) -> Cause:
    """Read the output of ``dump_cause``, with payloads parsed again under these rules.

    Args:
        data: the output.
        deliveries: those of the conversation, by id.
        messages: from ``list_sent_messages``.
        rules: a payload that they refuse becomes a refusal in the cause.

    Raises UnreadableError for damaged data.
    """
    try:
        return _CauseReader(deliveries, messages, rules).read_cause(read_cause(data))
    except LookupError as error:
        raise UnreadableError(f"the decision cannot be read: {type(error).__name__}: {error}") from error


def decide(conversation: Conversation, cause: Cause, rules: Rules, moment: Moment) -> Outcome:  # noqa: PLR0911 - one for each kind
    """Repeat a recorded decision under these rules."""
    match cause:
        case OutsideMessage() | RejectedMessage() | DismissedMessage():
            return _redecide_outside(conversation, cause, rules, moment)
        case ClaimRequest() | ConcludeRequest() | EffectVerdict():
            return _redecide_effect(conversation, cause, rules, moment)
        case ApprovalAnswer() | Cancellation() | ReserveRequest() | SettleRequest() | DueDelivery():
            return _redecide_optional(conversation, cause, rules, moment)
        case ConversationOpening():
            return decisions.open_conversation(conversation, rules, moment)
        case ConversationClosing():
            return decisions.close(conversation, rules, moment, cause.reason)
        case RequeuedLetter():
            return requeue(conversation, cause, rules, moment)
        case RedrivenLetter():
            return redrive(conversation, cause, rules, moment)
        case AbandonedDelivery():
            return decisions.give_up(conversation, cause, rules, moment)
        case FinishedInvocation():
            return decisions.conclude(conversation, cause, rules, moment)


def _redecide_optional(
    conversation: Conversation,
    cause: ApprovalAnswer | Cancellation | ReserveRequest | SettleRequest | DueDelivery,
    rules: Rules,
    moment: Moment,
) -> Outcome:
    """Repeat a decision that may not apply. Raises LookupError then."""
    if isinstance(cause, ApprovalAnswer):
        outcome, objection = (
            answers.decide(conversation, cause, rules, moment),
            "nothing waits for this answer",
        )
    elif isinstance(cause, Cancellation):
        outcome, objection = decisions.cancel(conversation, cause, rules, moment), "the request has ended"
    elif isinstance(cause, ReserveRequest):
        outcome = charges.reserve(conversation, cause, rules, moment)
        objection = charges.find_objection(conversation, cause, rules)
    elif isinstance(cause, DueDelivery):
        outcome, objection = (
            timers.wake(conversation, cause, rules, moment),
            "no delayed message of that id waits",
        )
    else:
        outcome, objection = (
            charges.settle(conversation, cause, rules, moment),
            "nothing is open to be settled",
        )
    if outcome is None:
        raise LookupError(objection)
    return outcome


def _redecide_effect(
    conversation: Conversation,
    cause: ClaimRequest | ConcludeRequest | EffectVerdict,
    rules: Rules,
    moment: Moment,
) -> Outcome:
    """Repeat a decision about an external effect. Raises LookupError when it does not apply."""
    if isinstance(cause, ClaimRequest):
        outcome = ledger.claim(conversation, cause, rules, moment)
    elif isinstance(cause, ConcludeRequest):
        outcome = ledger.conclude(conversation, cause, rules, moment)
    else:
        outcome = ledger.settle(conversation, cause, rules, moment)
    if outcome is None:
        raise LookupError("the effect has another state")
    return outcome


def _redecide_outside(
    conversation: Conversation,
    cause: OutsideMessage | RejectedMessage | DismissedMessage,
    rules: Rules,
    moment: Moment,
) -> Outcome:
    if isinstance(cause, OutsideMessage):
        return decisions.receive(conversation, cause, rules, moment)
    # A message that is not stored whole is not judged again: its refusal is recorded.
    data = cause.data.beginning if isinstance(cause.data, Excerpt) else cause.data
    outside = OutsideMessage(data, cause.request, cause.to, cause.key)
    if isinstance(cause, RejectedMessage):
        return decisions.turn_away(conversation, outside, cause.code, rules, moment)
    return decisions.receive(conversation, outside, rules, moment, cause.judged)


class _CauseReader:
    """Reader of one cause."""

    def __init__(self, deliveries: Mapping[str, Delivery], messages: Sequence[bytes], rules: Rules) -> None:
        self._deliveries = deliveries
        self._messages = messages
        self._rules = rules

    def read_cause(self, kept: KeptCause) -> Cause:  # noqa: PLR0911 - one for each kind
        match kept:
            case StoredDismissal(data, request, to, refusal, remarks, key):
                notes = tuple([AuditNote(*one) for one in remarks])
                return DismissedMessage(data, request, to, Admission((), refusal, notes), key)
            case StoredRequeue(delivery, by):
                return RequeuedLetter(self._deliveries[delivery], by)
            case StoredReservation(delivery, attempt, work, amount):
                return ReserveRequest(self._read_delivery(delivery, attempt), work, amount)
            case StoredSettlement(delivery, attempt, reservation, cost):
                return SettleRequest(self._read_delivery(delivery, attempt), reservation, cost)
            case StoredClaim(delivery, attempt, key, token, passing):
                return ClaimRequest(self._read_delivery(delivery, attempt), key, token, passing)
            case StoredConclusion(delivery, attempt, effect, answer, trusted):
                return ConcludeRequest(self._read_delivery(delivery, attempt), effect, answer, trusted)
            case StoredAbandonment(delivery, attempt, detail, observed, unseen):
                letter = self._read_delivery(delivery, attempt)
                return AbandonedDelivery(
                    letter, detail, self._find_element(letter) if observed else None, unseen
                )
            case StoredInvocation(delivery, attempt, called, result):
                done = self._read_delivery(delivery, attempt)
                element = self._find_element(done) if called else None
                return FinishedInvocation(
                    done, element, result if isinstance(result, HandlerFailure) else self._read_result(result)
                )
        return kept

    def _read_delivery(self, key: str, attempt: int) -> Delivery:
        return self._deliveries[key]._replace(attempt=attempt)

    def _find_element(self, delivery: Delivery) -> etree._Element | None:
        codec = self._rules.codecs.for_root(delivery.root)
        return None if codec is None else intake.read_own(delivery, codec, self._rules.bounds)

    def _read_result(self, kept: StoredReturn) -> HandlerReturn:
        returned = kept.result
        return HandlerReturn(
            returned if isinstance(returned, Refusal) else self._read_drafts(returned), kept.effects
        )

    def _read_drafts(self, kept: StoredDrafts) -> Drafts | Refusal:
        drafts = []
        for one in kept.drafts:
            draft = self._read_draft(one)
            if isinstance(draft, Refusal):
                return draft
            drafts.append(draft)
        return Drafts(tuple(drafts), kept.repairs, kept.deprecated)

    def _read_draft(self, kept: StoredDraft) -> Draft | Refusal:
        markup = kept.markup
        if kept.place is not None:
            number, start, end = kept.place
            markup = self._messages[number][start:end].decode()
        element = envelope.read_payload(markup.encode(), self._rules.bounds)
        codec = (
            None if isinstance(element, envelope.Malformed) else self._rules.codecs.for_root(str(element.tag))
        )
        if isinstance(element, envelope.Malformed) or codec is None:
            return Refusal(Code.VALIDATION, Ground.UNREADABLE.of())
        draft = replies.check(element, markup, Target.CALLER if kept.caller else kept.to, codec)
        return draft._replace(after=kept.after) if kept.after and isinstance(draft, Draft) else draft
