"""Decisions as bytes, and decisions taken again.

Owns the format of a recorded decision: what was decided about, and in which moment. Texts that went out with the
decision are referred to, not repeated. Refuses to know where decisions are kept and what a difference means.
"""

from __future__ import annotations

import json
from itertools import chain
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from agentserver.contract import Code, Target
from agentserver.core.decide import approving, decisions, intake
from agentserver.core.decide.admission import Admission, AuditNote
from agentserver.core.decide.charging import charges
from agentserver.core.decide.dismissal import KEPT, Dismissed
from agentserver.core.decide.requeue import redrive, requeue
from agentserver.core.drafts import replies
from agentserver.core.encoding.detail_form import dump as plain_detail
from agentserver.core.encoding.detail_form import load as detail_of
from agentserver.core.encoding.parts import encode
from agentserver.core.encoding.record_rows import (
    delivery_of,
    delivery_row,
    plain_bytes,
    whole_bytes,
)
from agentserver.core.encoding.snapshot import UnreadableError
from agentserver.core.messages import (
    Cancelling,
    Closing,
    Delivery,
    Draft,
    Drafts,
    Effects,
    Excerpt,
    Failed,
    Finished,
    GivenUp,
    Opening,
    Outside,
    Redriven,
    Reply,
    RequestKey,
    Requeued,
    Reserving,
    Returned,
    Settling,
    TurnedAway,
)
from agentserver.core.receipts import Receipt
from agentserver.core.records.audit import Event
from agentserver.core.records.details import Ground, KeptText
from agentserver.core.refusals import Refusal
from agentserver.core.state.approvals import Answer, ApprovalAnswer
from agentserver.core.state.conversation import Conversation
from agentserver.core.state.growing.logs import LogChange
from agentserver.core.state.principals import FULL, Principal, Rights
from agentserver.core.state.threads import ThreadTree
from agentserver.spending import Amount
from agentserver.wire import envelope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from lxml import etree

    from agentserver.core.guard import Rules
    from agentserver.core.messages import Moment
    from agentserver.core.records.outcome import Cause, Outcome


_OF_NAMES: Final[Mapping[str, Callable[..., Opening | Closing | Cancelling]]] = MappingProxyType(
    {"open": Opening, "close": Closing, "cancel": Cancelling}
)
_NAMES: Final = MappingProxyType({Opening: "open", Closing: "close", Cancelling: "cancel"})


class Origin(NamedTuple):
    """A conversation before its first step."""

    id: str
    principal: str
    root: str
    rights: Rights = FULL

    @classmethod
    def of(cls, conversation: Conversation) -> Origin:
        """The origin of a conversation, whatever has been said in it."""
        return cls(conversation.id, conversation.principal, conversation.tree.root, conversation.rights)

    def conversation(self) -> Conversation:
        """The conversation in which nothing has been said."""
        tree = ThreadTree.planted(self.root, self.principal)
        return Conversation(self.id, self.principal, tree, rights=self.rights)

    @property
    def opener(self) -> Principal:
        """The principal with its rights."""
        return Principal(self.principal, *self.rights)


def gone_out(outcome: Outcome) -> list[bytes]:
    """The messages that went out with a step, to listeners and then through the gateway, in order.

    What was queued again went out long before.
    """
    added = () if isinstance(outcome.cause, Requeued) else outcome.added
    return [delivery.message for delivery in added] + [
        event.message for event in outcome.replies if isinstance(event, Reply)
    ]


def dump(outcome: Outcome) -> bytes:
    """The cause of a decided step. Raises TypeError when it has none."""
    cause = outcome.cause
    match cause:
        case Outside() | TurnedAway() | Dismissed():
            row = [*_outside_row(cause), *(cause.key or ())]
        case ApprovalAnswer():
            row = ["decide", *cause[:4], *([True] if cause.undone else [])]
        case Opening() | Closing() | Cancelling():
            row = [_NAMES[type(cause)], *cause]
        case Requeued():
            row = ["requeue", cause.delivery.id]
        case Redriven(letter, request, by):
            row = ["redrive", request, by, {**delivery_row(letter), "attempt": 0}]
        case Reserving(delivery, about, amount) | Settling(delivery, about, amount):
            kind = "reserve" if isinstance(cause, Reserving) else "settle"
            row = [kind, delivery.id, delivery.attempt, about, amount.tokens, amount.money]
        case GivenUp():
            delivery, detail, element, unseen = cause
            observed = element is not None
            row = ["give_up", delivery.id, delivery.attempt, observed, unseen, plain_detail(detail)]
        case Finished():
            delivery = cause.delivery
            called = cause.element is not None
            row = [
                "conclude",
                delivery.id,
                delivery.attempt,
                called,
                _result_row(cause.result, gone_out(outcome)),
            ]
        case None:
            raise TypeError("a step without a cause cannot be recorded")
    return encode(row)


def receipt(data: bytes) -> tuple[str, Receipt] | None:
    """The receipt, but for its code, that the step of this cause has given, under its name.

    Raises ValueError when it is not JSON.
    """
    match json.loads(data):
        case ["receive", _, request, _, name, content] | [
            "turn_away" | "dismiss",
            _,
            request,
            _,
            _,
            name,
            content,
        ]:
            return name, Receipt(request, content)
    return None


def load(data: bytes, deliveries: Mapping[str, Delivery], messages: Sequence[bytes], rules: Rules) -> Cause:
    """The cause that ``dump`` wrote, with payloads read again under these rules.

    Args:
        data: what was written.
        deliveries: those of the conversation, by id.
        messages: what went out with the step, as ``gone_out`` gave it.
        rules: a payload that they refuse is a refusal in the cause.

    Raises UnreadableError when it is not what was written.
    """
    try:
        kind, *fields = json.loads(data)
        return _Loading(deliveries, messages, rules).cause(kind, fields)
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise UnreadableError(f"the decision cannot be read: {type(error).__name__}: {error}") from error


def decide(conversation: Conversation, cause: Cause, rules: Rules, moment: Moment) -> Outcome:  # noqa: PLR0911 - one for each kind
    """Take a recorded decision again, under these rules."""
    match cause:
        case Outside() | TurnedAway() | Dismissed():
            return _received(conversation, cause, rules, moment)
        case ApprovalAnswer() | Cancelling() | Reserving() | Settling():
            return _granted(conversation, cause, rules, moment)
        case Opening():
            return decisions.open_conversation(conversation, rules, moment)
        case Closing():
            return decisions.close(conversation, rules, moment, cause.reason)
        case Requeued():
            return requeue(conversation, cause.delivery, rules, moment)
        case Redriven():
            return redrive(conversation, cause, rules, moment)
        case GivenUp():
            return decisions.give_up(conversation, cause, rules, moment)
        case Finished():
            return decisions.conclude(conversation, cause, rules, moment)


def _granted(
    conversation: Conversation,
    cause: ApprovalAnswer | Cancelling | Reserving | Settling,
    rules: Rules,
    moment: Moment,
) -> Outcome:
    """Take a decision again that need not come about."""
    if isinstance(cause, ApprovalAnswer):
        outcome, why = approving.decide(conversation, cause, rules, moment), "nothing waits for this answer"
    elif isinstance(cause, Cancelling):
        outcome, why = decisions.cancel(conversation, cause, rules, moment), "the request is at rest"
    elif isinstance(cause, Reserving):
        outcome = charges.reserve(conversation, cause, rules, moment)
        why = charges.objection(conversation, cause, rules)
    else:
        outcome, why = charges.settle(conversation, cause, rules, moment), "nothing is open to be settled"
    if outcome is None:
        raise LookupError(why)
    return outcome


def _received(
    conversation: Conversation, cause: Outside | TurnedAway | Dismissed, rules: Rules, moment: Moment
) -> Outcome:
    if isinstance(cause, Outside):
        return decisions.receive(conversation, cause, rules, moment)
    # What is not there any more is not judged again: the refusal is on record.
    data = cause.data.beginning if isinstance(cause.data, Excerpt) else cause.data
    outside = Outside(data, cause.request, cause.to, cause.key)
    if isinstance(cause, TurnedAway):
        return decisions.turn_away(conversation, outside, cause.code, rules, moment)
    return decisions.receive(conversation, outside, rules, moment, cause.judged)


def _outside_row(cause: Outside | TurnedAway | Dismissed) -> list[Any]:
    match cause:
        case Outside():
            return ["receive", plain_bytes(cause.data), cause.request, cause.to]
        case TurnedAway():
            return ["turn_away", _kept(cause.data), cause.request, cause.to, cause.code]
        case Dismissed():
            return ["dismiss", _kept(cause.data), cause.request, cause.to, _judged_row(cause.judged)]


class _Loading:
    """Reads one cause."""

    def __init__(self, deliveries: Mapping[str, Delivery], messages: Sequence[bytes], rules: Rules) -> None:
        self._deliveries = deliveries
        self._messages = messages
        self._rules = rules

    def cause(self, kind: str, fields: list[Any]) -> Cause:  # noqa: PLR0911 - one for each kind
        match kind, fields:
            case "receive", [data, request, to, *key]:
                return Outside(whole_bytes(data), request, to, _key(key))
            case "turn_away", [data, request, to, code, *key]:
                return TurnedAway(_whole(data), request, to, Code(code), _key(key))
            case "dismiss", [excerpt, request, to, judged, *key]:
                return Dismissed(_excerpt(**excerpt), request, to, _judged(*judged), _key(key))
            case "decide", [approval, digest, answer, by, *undone]:
                return ApprovalAnswer(approval, digest, Answer(answer), by, *undone)
            case "open" | "close" | "cancel", _:
                return _OF_NAMES[kind](*fields)
            case "requeue", [delivery]:
                return Requeued(self._deliveries[delivery])
            case "redrive", [request, by, letter]:
                return Redriven(delivery_of(letter), request, by)
            case _, [key, attempt, *rest]:
                return self._of_delivery(kind, self._deliveries[key]._replace(attempt=attempt), rest)
        raise ValueError(f"no decision is called {kind}")

    def _of_delivery(self, kind: str, delivery: Delivery, fields: list[Any]) -> Cause:
        match kind, fields:
            case "reserve", [what, *most]:
                return Reserving(delivery, what, Amount(*most))
            case "settle", [reservation, *cost]:
                return Settling(delivery, reservation, Amount(*cost))
            case "give_up", [observed, unseen, detail]:
                element = self._element(delivery) if observed else None
                return GivenUp(delivery, detail_of(detail) or KeptText(""), element, unseen)
            case "conclude", [called, result]:
                return Finished(delivery, self._element(delivery) if called else None, self._result(*result))
        raise ValueError(f"no decision is called {kind}")

    def _element(self, delivery: Delivery) -> etree._Element | None:
        codec = self._rules.codecs.named(delivery.root)
        return None if codec is None else intake.read_own(delivery, codec, self._rules.bounds)

    def _result(self, kind: str, *fields: Any) -> Returned | Failed:
        match kind, fields:
            case "failed", (code, detail):
                return Failed(Code(code), detail_of(detail))
            case "refused", (code, detail, to, corrections, effects, *payload):
                refusal = Refusal(Code(code), detail_of(detail), to, tuple(corrections), *payload)
                return Returned(refusal, _effects(*effects))
            case "sent", (sent, repairs, deprecated, effects):
                return Returned(self._said(sent, repairs, deprecated=deprecated), _effects(*effects))
        raise ValueError(f"no result is called {kind}")

    def _said(self, sent: list[Any], repairs: list[str], *, deprecated: bool) -> Drafts | Refusal:
        drafts = []
        for to, *place in sent:
            draft = self._draft(Target.CALLER if to == 0 else to, *place)
            if isinstance(draft, Refusal):
                return draft
            drafts.append(draft)
        return Drafts(tuple(drafts), tuple(repairs), deprecated)

    def _draft(
        self, to: str | Target | None, first: str | int, start: int = 0, end: int = 0
    ) -> Draft | Refusal:
        markup = first if isinstance(first, str) else self._messages[first][start:end].decode()
        element = envelope.read_payload(markup.encode(), self._rules.bounds)
        codec = (
            None if isinstance(element, envelope.Malformed) else self._rules.codecs.named(str(element.tag))
        )
        if isinstance(element, envelope.Malformed) or codec is None:
            return Refusal(Code.VALIDATION, Ground.UNREADABLE.of())
        return replies.check(element, markup, to, codec)


def _result_row(result: Returned | Failed, messages: Sequence[bytes]) -> list[Any]:
    if isinstance(result, Failed):
        return ["failed", result.code, plain_detail(result.detail)]
    stored = {name: None if v is None else plain_bytes(v) for name, v in result.effects.stored.items()}
    effects: list[Any] = [stored, list(result.effects.closed)]
    if result.effects.logged:
        effects.append([[kind, gone, [*map(plain_bytes, new)]] for kind, gone, new in result.effects.logged])
    said = result.said
    if isinstance(said, Refusal):
        told = [said.code, plain_detail(said.detail), said.to, list(said.corrections), effects]
        return ["refused", *told, said.root, said.said[:KEPT], said.place]
    # Zero stands for the caller, so that no listener's name can be mistaken for it.
    sent: list[list[Any]] = []
    at = 0
    for draft in said.drafts:
        place = _place(draft.markup, messages, at)
        at = place[0] + 1 if len(place) > 1 else at
        sent.append([0 if draft.to is Target.CALLER else draft.to, *place])
    return ["sent", sent, list(said.repairs), said.deprecated, effects]


def _key(found: list[str]) -> RequestKey | None:
    return RequestKey(*found) if found else None


def _kept(data: bytes | Excerpt) -> Any:
    if isinstance(data, bytes):
        return plain_bytes(data)
    return {"beginning": plain_bytes(data.beginning), "length": data.length, "digest": data.digest}


def _whole(data: Any) -> bytes | Excerpt:
    return _excerpt(**data) if isinstance(data, dict) else whole_bytes(data)


def _excerpt(beginning: Any, length: int, digest: str) -> Excerpt:
    return Excerpt(whole_bytes(beginning), length, digest)


def _judged_row(judged: Admission) -> list[Any]:
    refusal = judged.refusal
    assert refusal is not None
    told = [refusal.code, plain_detail(refusal.detail), refusal.to, list(refusal.corrections), refusal.root]
    return [told, [[event, to, plain_detail(detail)] for event, to, detail in judged.remarks]]


def _judged(told: list[Any], remarks: list[Any]) -> Admission:
    code, detail, to, corrections, root = told
    refusal = Refusal(Code(code), detail_of(detail), to, tuple(corrections), root)
    return Admission(
        (),
        refusal,
        tuple(
            AuditNote(Event(event), to, detail_of(detail) or KeptText("")) for event, to, detail in remarks
        ),
    )


def _effects(stored: dict[str, Any], closed: list[str], logged: Iterable[Any] = ()) -> Effects:
    values = {name: None if v is None else whole_bytes(v) for name, v in stored.items()}
    changes = tuple(LogChange(kind, gone, tuple(map(whole_bytes, new))) for kind, gone, new in logged)
    return Effects(values, tuple(closed), changes)


def _place(markup: str, messages: Sequence[bytes], at: int) -> list[Any]:
    """The place of the markup in what went out, or the markup itself.

    What is said goes out in the order in which it is said: the search begins with message number ``at``, the one after
    the last that was found, so that a long result is not held against all of its messages each time.
    """
    data = markup.encode()
    for number in chain(range(at, len(messages)), range(min(at, len(messages)))):
        start = messages[number].rfind(data)
        if start >= 0:
            return [number, start, start + len(data)]
    return [markup]
