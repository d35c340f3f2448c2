"""Comparison of a recorded conversation with the decisions of other rules. No handler runs.

At each step the conversation is the recorded one; only the guards' memories are those of the other rules, which observe
the messages that listeners received. So each message is judged in its recorded state, also after a message that would
have been blocked.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from agentserver.core.encoding import decision_codec
from agentserver.core.messages import SYSTEM
from agentserver.core.records.audit import Event
from agentserver.core.records.details import FreeText, Ground
from agentserver.history.replay import Deviation, decide_again

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from agentserver.core.encoding.history import RecordedConversation, RecordedStep
    from agentserver.core.guard import Rules
    from agentserver.core.records.audit import AuditRecord
    from agentserver.core.records.details import Detail
    from agentserver.core.records.outcome import Outcome


class Disposition(StrEnum):
    """The fates of a message."""

    PASSED = "let through"
    NOTED = "let through with a note"
    ASKED = "asked about"
    BLOCKED = "blocked"


class Difference(NamedTuple):
    """Recorded decision about one message, and the decision of the other rules.

    Args:
        version: of the conversation after the step.
        at: when, in seconds since the epoch.
        sender: of the message.
        to: its target, empty if a blocked message named none.
        root: local name of its payload; empty if both blocked it.
        reason: reason of the other decision, or of the recorded one that would no longer apply; None without a reason.
    """

    version: int
    at: float
    sender: str
    to: str
    root: str
    recorded: Disposition
    now: Disposition
    reason: Detail | None

    @property
    def differs(self) -> bool:
        """True when the other rules treat it otherwise."""
        return self.recorded is not self.now

    @property
    def parts(self) -> bool:
        """True when the conversation would have gone another way from here on."""
        return self.differs and not {self.recorded, self.now} <= {Disposition.PASSED, Disposition.NOTED}


@dataclass(frozen=True, slots=True)
class PolicyDiff:
    """The decisions of other rules about one conversation.

    Args:
        differences: of the decisions on each message, in order.
        steps: that were followed.
        lost: the step that the rules it was decided by decide otherwise today; nothing is said from there on.
    """

    differences: tuple[Difference, ...]
    steps: int
    lost: Deviation | None = None

    @property
    def differs(self) -> bool:
        """True if a decision differs, or cannot be compared."""
        return self.lost is not None or any(difference.differs for difference in self.differences)


class ComparedStep(NamedTuple):
    """Recorded step with the decisions of other rules on it.

    Args:
        step: the recorded one.
        outcome: as it was decided.
        alternatives: the outcome by each of the other rules, in their order.
    """

    step: RecordedStep
    outcome: Outcome
    alternatives: tuple[Outcome, ...]


def compare_steps(
    recorded: RecordedConversation, rules: Rules, alternatives: Sequence[Rules]
) -> Iterator[ComparedStep | Deviation]:
    """Decide each step by ``rules`` and, on the same recorded state, by ``alternatives``; ends with a deviation."""
    conversation = recorded.beginning.conversation()
    memories: list[Mapping[str, object]] = [conversation.memory for _ in alternatives]
    for step in recorded.steps:
        outcome = decide_again(recorded, step, conversation, rules)
        if isinstance(outcome, Deviation):
            yield outcome
            return
        found = tuple(
            decision_codec.decide(
                conversation._replace(memory=memory), recorded.cause(step, other), other, step.moment
            )
            for other, memory in zip(alternatives, memories, strict=True)
        )
        yield ComparedStep(step, outcome, found)
        conversation = outcome.conversation
        memories = [one.conversation.memory for one in found]


def compare_what_if(recorded: RecordedConversation, rules: Rules, other: Rules) -> PolicyDiff:
    """Compare the decisions of ``other`` in a conversation decided by ``rules``: blocked, asked about, passed."""
    differences: list[Difference] = []
    for number, compared in enumerate(compare_steps(recorded, rules, (other,))):
        if isinstance(compared, Deviation):
            return PolicyDiff(tuple(differences), number, compared)
        differences += _differences(compared.step, compared.outcome, compared.alternatives[0])
    return PolicyDiff(tuple(differences), len(recorded.steps))


class _Message(NamedTuple):
    """One message to one receiver; ``number`` counts equal ones of the step."""

    sender: str
    to: str
    root: str
    number: int


class _MessageOutcome(NamedTuple):
    disposition: Disposition
    reason: Detail | None = None


_PASSED = _MessageOutcome(Disposition.PASSED)


def _differences(step: RecordedStep, then: Outcome, now: Outcome) -> Iterator[Difference]:
    """Yield one for each message that either let through or, when neither did, for what both refused."""
    before, after = _fates(then.records), _fates(now.records)
    for message in {**before, **after}:
        old = before.get(message) or _find_block(then.records)
        new = after.get(message) or _find_block(now.records)
        reason = new.reason or (old.reason if new.disposition is not old.disposition else None)
        yield Difference(
            step.version, step.moment.now, *message[:3], old.disposition, new.disposition, reason
        )
    if not before and not after:
        yield from _compare_unsent(step, then.records, now.records)


def _compare_unsent(
    step: RecordedStep, then: Iterable[AuditRecord], now: Iterable[AuditRecord]
) -> Iterator[Difference]:
    """On what neither let through, and on messages to services, which are recorded only when they are refused."""
    old, new = _find_refusal(then), _find_refusal(now)
    refused = new or old
    if refused is None:
        return
    before, after = (Disposition.PASSED if each is None else Disposition.BLOCKED for each in (old, new))
    yield Difference(
        step.version, step.moment.now, refused.sender, refused.to, "", before, after, _reason_of(refused)
    )


def _find_refusal(records: Iterable[AuditRecord]) -> AuditRecord | None:
    return next((record for record in records if record.event is Event.REFUSED), None)


def _fates(records: tuple[AuditRecord, ...]) -> dict[_Message, _MessageOutcome]:
    """Return the fate of each message that a listener or the principal got sent in a step."""
    requested = {record.delivery: record.detail for record in records if record.event is Event.ASKED}
    noted = {record.to: record.detail for record in records if record.event is Event.FLAGGED}
    seen: Counter[tuple[str, str, str]] = Counter()
    found: dict[_Message, _MessageOutcome] = {}
    for record in records:
        if record.event not in {Event.SENT, Event.ANSWERED} or _of_the_system(record.sender):
            continue
        place = (record.sender, record.to, record.root)
        seen[place] += 1
        if record.event is Event.SENT and record.delivery in requested:
            fate = _MessageOutcome(Disposition.ASKED, requested[record.delivery])
        elif record.to in noted:
            fate = _MessageOutcome(Disposition.NOTED, noted[record.to])
        else:
            fate = _PASSED
        found[_Message(*place, seen[place])] = fate
    return found


def _of_the_system(sender: str) -> bool:
    return sender == SYSTEM or sender.startswith(f"{SYSTEM}.")


_REASONS = (Event.REFUSED, Event.FAILED)


def _find_block(records: tuple[AuditRecord, ...]) -> _MessageOutcome:
    """Return the reason why a message was not sent in a step where another decision sent it."""
    reasons = [_reason_of(record) for record in records if record.event in _REASONS]
    return _MessageOutcome(Disposition.BLOCKED, reasons[0] if reasons else Ground.NO_RECEIVER.of())


def _reason_of(record: AuditRecord) -> Detail:
    """Return the reason of a refusal or a failure; its code without a reason."""
    return record.detail or FreeText(record.code)
