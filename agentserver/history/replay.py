"""Replay of recorded conversations: compares recorded decisions with those of the present rules. No handler runs."""

from __future__ import annotations

from itertools import zip_longest
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from agentserver.core.decide.dismissal import DismissedMessage
from agentserver.core.encoding import decision_codec
from agentserver.core.messages import (
    AbandonedDelivery,
    Cancellation,
    ClaimRequest,
    ConcludeRequest,
    ConversationClosing,
    ConversationOpening,
    DueDelivery,
    EffectVerdict,
    FinishedInvocation,
    OutsideMessage,
    RedrivenLetter,
    RejectedMessage,
    RequeuedLetter,
    ReserveRequest,
    SettleRequest,
)
from agentserver.core.records.audit import Event
from agentserver.core.records.wording import WORDING
from agentserver.core.state.approvals import ApprovalAnswer
from agentserver.payload.names import local

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from agentserver.core.encoding.history import RecordedConversation, RecordedStep
    from agentserver.core.guard import Rules
    from agentserver.core.records.audit import AuditRecord
    from agentserver.core.records.outcome import Cause, Outcome
    from agentserver.core.state.conversation import Conversation

AROUND = 40
"""Characters before and after the place where two messages part that are shown of each."""


class Deviation(NamedTuple):
    """Step that would be decided differently.

    Args:
        version: of the conversation after it.
        about: the subject of the step, as text.
        recorded: the recorded decision, where the two differ.
        now: the present decision.
    """

    version: int
    about: str
    recorded: str
    now: str

    def __str__(self) -> str:
        return f"step {self.version} ({self.about}): then {self.recorded}; now {self.now}"


def replay(recorded: RecordedConversation, rules: Rules) -> Deviation | None:
    """Return the first step that differs; None if every step is decided as recorded.

    After a difference the two conversations are no longer the same, so later steps are not compared. Compared are every
    sent message with its target and thread, every refusal and its code, every event that left, and every settled
    request. Text for operators may differ. Raises UnreadableError.
    """
    conversation = recorded.beginning.conversation()
    for step in recorded.steps:
        decided = decide_again(recorded, step, conversation, rules)
        if isinstance(decided, Deviation):
            return decided
        conversation = decided.conversation
    return None


def decide_again(
    recorded: RecordedConversation, step: RecordedStep, conversation: Conversation, rules: Rules
) -> Outcome | Deviation:
    """Decide a recorded step again: its outcome if that is the recorded one. Raises UnreadableError.

    Args:
        recorded: whose step it is.
        step: the step.
        conversation: in the state before it.
        rules: to decide by.
    """
    cause = recorded.cause(step, rules)
    try:
        outcome = decision_codec.decide(conversation, cause, rules, step.moment)
    except LookupError as error:
        return Deviation(
            step.version, describe_step(cause), "a decision", f"none can be taken: {error.args[0]}"
        )
    return _find_difference(recorded, step, outcome, describe_step(cause), rules.redact) or outcome


def describe_step(cause: Cause) -> str:  # noqa: PLR0911 - one for each kind
    """Describe the subject of a step."""
    match cause:
        case OutsideMessage() | RejectedMessage() | DueDelivery():
            return _ABOUT[type(cause)]
        case DismissedMessage():
            return f"a message from outside of {cause.data.length} bytes, refused"
        case FinishedInvocation():
            delivery = cause.delivery
            return f"{delivery.to} finished with {local(delivery.root)} from {delivery.sender}"
        case ApprovalAnswer() | EffectVerdict():
            answer = str(cause.answer) if isinstance(cause, ApprovalAnswer) else "on an effect"
            return f"the answer {answer} of {cause.by}"
        case ConversationOpening() | ConversationClosing():
            return "the opening" if isinstance(cause, ConversationOpening) else f"the end: {cause.reason}"
        case Cancellation():
            return f"the end of a request, by {cause.by or 'its principal'}"
        case AbandonedDelivery():
            return f"{cause.delivery.to} was given up with {local(cause.delivery.root)} from {cause.delivery.sender}"
        case (
            RequeuedLetter()
            | RedrivenLetter()
            | ReserveRequest()
            | SettleRequest()
            | ClaimRequest()
            | ConcludeRequest()
        ):
            return _ABOUT[type(cause)].format(cause.delivery.to)


_ABOUT: Final[Mapping[type, str]] = MappingProxyType(
    {
        OutsideMessage: "a message from outside",
        RejectedMessage: "a message from outside, turned away",
        DueDelivery: "a delayed message whose time has come",
        RequeuedLetter: "a dead letter to {}, queued again",
        RedrivenLetter: "a dead letter to {}, as a request of its own",
        ReserveRequest: "a charge of {}",
        ClaimRequest: "an effect of {}",
        ConcludeRequest: "the answer of an effect of {}",
        SettleRequest: "the cost of what {} was charged for",
    }
)


def _find_difference(
    recorded: RecordedConversation,
    step: RecordedStep,
    outcome: Outcome,
    about: str,
    redact: Callable[[str], str],
) -> Deviation | None:
    for then, now in zip_longest(recorded.records_of(step), outcome.records):
        if (then and _essence(then, redact)) != (now and _essence(now, redact)):
            return Deviation(step.version, about, *_describe_difference(then, now, redact))
    if tuple(outcome.replies) != step.events:
        return Deviation(step.version, about, "what left the conversation", "something else leaves it")
    if outcome.conversation.version != step.version:
        return Deviation(step.version, about, f"step {step.version}", f"step {outcome.conversation.version}")
    return None


def _essence(record: AuditRecord, redact: Callable[[str], str]) -> AuditRecord:
    """Return the part of a record that must not differ.

    A target may have been recorded before it was known to be a secret.
    """
    to = redact(record.to)
    return record._replace(
        at=0.0, to=to, detail=None, request="", took=None, code=str(record.code), event=Event(record.event)
    )


def _describe_difference(
    then: AuditRecord | None, now: AuditRecord | None, redact: Callable[[str], str]
) -> tuple[str, str]:
    """Describe two different records by texts that differ."""
    if then is None or now is None or _describe_words(then) != _describe_words(now):
        return _record(then), _record(now)
    if then.message != now.message:
        first, second = (redact(each.message.decode("utf-8", "backslashreplace")) for each in (then, now))
        differing = (at for at, pair in enumerate(zip(first, second, strict=False)) if pair[0] != pair[1])
        place = next(differing, min(len(first), len(second)))
        around = slice(max(0, place - AROUND), place + AROUND)
        return f"{_describe_words(then)}: ...{first[around]}...", f"...{second[around]}..."
    old, new = _essence(then, redact)._asdict(), _essence(now, redact)._asdict()
    field = next(name for name in old if old[name] != new[name])
    return f"{_describe_words(then)} with {field} {old[field]}", f"with {field} {new[field]}"


def _record(record: AuditRecord | None) -> str:
    """Describe a record with the first line of its detail, which may be an explanation of many."""
    if record is None:
        return "nothing more"
    detail = WORDING.join_lines(record.detail).split("\n", 1)[0] if record.detail else ""
    return f"{_describe_words(record)}: {detail}" if detail else _describe_words(record)


def _describe_words(record: AuditRecord) -> str:
    """Describe a record by sender, target and content."""
    sender = (record.sender, "->") if record.sender else ()
    parts = (record.event, *sender, record.to or "?", record.root, record.code)
    return " ".join(part for part in map(str, parts) if part)
