"""Values that operators read from an engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from agentserver.core.encoding import codecs, decision_codec
from agentserver.core.encoding.search import FAILED, REFUSED
from agentserver.core.messages import Reply
from agentserver.core.records.audit import AuditRecord, Event
from agentserver.core.records.details import ApprovalGiven, Charge, EndDetail
from agentserver.core.records.wording import WORDING
from agentserver.core.state.principals import owns
from agentserver.payload.names import local
from agentserver.spending import Amount

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from decimal import Decimal

    from agentserver.core.encoding.decision_codec import Origin
    from agentserver.core.encoding.search import Facet
    from agentserver.core.guard import Rules
    from agentserver.core.messages import Delivery, Done, Moment
    from agentserver.core.records.outcome import Cause, Outcome

__all__ = [
    "ChargeSum",
    "Condition",
    "ConversationFilter",
    "ConversationPage",
    "DeadLetter",
    "DecidedApproval",
    "ListedConversation",
    "RecordedConversation",
    "RecordedStep",
    "Summary",
    "SuspendedConversation",
    "UnrecordedError",
]  # fmt: skip


class UnrecordedError(LookupError):
    """The engine keeps no steps, so the course of a conversation is unknown."""


class Summary(NamedTuple):
    """A conversation at a glance. Times are seconds since the epoch; ``closed`` is None while it is open.

    Args:
        opened: the time of its first step.
        touched: the time of its last step.
        steps: those that were committed.
        waiting: deliveries that are queued, held or running.
        unread: replies and ends of requests that no gateway has acknowledged.
        tokens: of language models that were charged in it.
        money: that was charged in it, in millionths of a US dollar.
        due: the time until which it sleeps; None if it does not.
    """

    id: str
    principal: str
    opened: float
    touched: float
    closed: float | None
    steps: int
    waiting: int
    unread: int
    tokens: int = 0
    money: int = 0
    due: float | None = None


class Condition(NamedTuple):
    """Comparison of one field of a conversation with a value."""

    field: str
    sign: str
    value: str | Decimal


class ConversationFilter(NamedTuple):
    """Conditions that a conversation must all meet; without any, each conversation matches.

    ``history/filters.py`` parses it.
    """

    conditions: tuple[Condition, ...] = ()


EVERY_CONVERSATION = ConversationFilter()


class ListedConversation(NamedTuple):
    """Row of a list of conversations.

    Args:
        state: ``open``, ``suspended`` or ``finished``.
        first: the message that began it; empty if none is stored.
        to: the listener that got it.
        listeners: that messages were sent to, or would have been but for a rule.
        codes: of refusals and failures.
        approvers: people who approved a message.
        refused: whether a message was refused.
        failed: whether a handler failed.
    """

    summary: Summary
    state: str
    first: bytes = b""
    to: str = ""
    listeners: tuple[str, ...] = ()
    codes: tuple[str, ...] = ()
    approvers: tuple[str, ...] = ()
    refused: bool = False
    failed: bool = False

    def with_facets(self, facets: Collection[Facet]) -> ListedConversation:
        """Return the row with its facets."""

        def select(kind: str) -> tuple[str, ...]:
            return tuple(sorted(one.value for one in facets if one.kind == kind))

        return self._replace(
            listeners=select("listener"),
            codes=select("code"),
            approvers=select("approver"),
            refused=REFUSED in facets,
            failed=FAILED in facets,
        )


class ConversationPage(NamedTuple):
    """Page of a list of conversations.

    Args:
        after: the cursor of the next page; empty at the end of the list.
    """

    rows: tuple[ListedConversation, ...]
    after: str = ""


class RecordedStep(NamedTuple):
    """One recorded step.

    Args:
        version: of the conversation after it.
        cause: as it was recorded (see ``core/encoding/decision_codec.py``).
        added: new deliveries.
        events: those that left through the gateway.
        chain: its link; empty where steps are not sealed.
        rows: its rows with their digests; see ``engines/journal/seal.py``.
    """

    version: int
    moment: Moment
    cause: bytes
    records: bytes
    added: tuple[Delivery, ...]
    events: tuple[Reply | Done, ...]
    chain: bytes = b""
    rows: tuple[bytes, ...] = ()

    def gone_out(self) -> list[bytes]:
        """Return the messages that it sent, in the order of ``list_sent_messages``."""
        return [one.message for one in self.added] + [e.message for e in self.events if isinstance(e, Reply)]


class DiscardedLetter(NamedTuple):
    """Decision of an operator to discard a dead letter. It is no step: its conversation may be closed.

    Args:
        delivery: its id.
        by: the operator.
        at: seconds since the epoch.
    """

    delivery: str
    by: str
    at: float


@dataclass(frozen=True, slots=True)
class RecordedConversation:
    """Everything that is recorded of one conversation."""

    beginning: Origin
    steps: tuple[RecordedStep, ...]
    deliveries: Mapping[str, Delivery]
    discarded: tuple[DiscardedLetter, ...] = ()

    def records(self) -> tuple[AuditRecord, ...]:
        """Return the records of the steps, in order, and then those of discarded dead letters."""
        stepped = (record for step in self.steps for record in self.records_of(step))
        return (*stepped, *map(self._record_discard, self.discarded))

    def _record_discard(self, discarded: DiscardedLetter) -> AuditRecord:
        letter = self.deliveries[discarded.delivery]
        return AuditRecord(
            Event.DISMISSED,
            discarded.at,
            self.beginning.id,
            letter.thread,
            letter.sender,
            letter.to,
            local(letter.root),
            letter.hop,
            detail=EndDetail(f"by {discarded.by}"),
            delivery=letter.id,
            request=letter.request,
        )

    def records_of(self, step: RecordedStep) -> tuple[AuditRecord, ...]:
        """Return the records of one step."""
        replies = [event for event in step.events if isinstance(event, Reply)]
        return codecs.load_records(step.records, self.beginning.id, step.moment.now, self.deliveries, replies)

    def cause(self, step: RecordedStep, rules: Rules) -> Cause:
        """Read the cause of a step under these rules. Raises UnreadableError."""
        return decision_codec.load_cause(step.cause, self.deliveries, step.gone_out(), rules)


class DeadLetter(NamedTuple):
    """Delivery that its listener could not handle.

    Args:
        reason: the SystemError code and the recorded detail.
        at: when it was given up, or discarded, in seconds since the epoch.
        open: True while its conversation is.
        discarded_by: the operator who discarded it; empty for one that is listed.
    """

    delivery: Delivery
    principal: str
    reason: str
    at: float
    open: bool
    discarded_by: str = ""


class SuspendedConversation(NamedTuple):
    """Conversation that was suspended and can be resumed.

    Args:
        at: since when, in seconds since the epoch.
        reason: why, in one line.
        waiting: deliveries that are queued or held in it.
    """

    id: str
    principal: str
    at: float
    reason: str
    waiting: int


class DecidedApproval(NamedTuple):
    """Message that waited for a person, and the decision.

    Args:
        approval: the id of the question.
        sender: of the message.
        to: the listener that it is for.
        root: the local name of its payload.
        granted: whether it was delivered.
        answer: ``once``, ``always`` or ``deny``, or ``undone``: a denial, since the answer could not be carried out.
            Empty if no person answered.
        by: the principal or user name of the person who answered; empty without an answer.
        reason: ``nobody`` without an approver, ``late`` without an answer in time; empty if a person answered.
        at: when, in seconds since the epoch.
    """

    conversation: str
    principal: str
    approval: str
    sender: str
    to: str
    root: str
    granted: bool
    answer: str
    by: str
    reason: str
    at: float


class GrantedMessage(NamedTuple):
    """Message that was delivered after an approval.

    Args:
        at: time of the approval, in seconds since the epoch.
        root: name of its payload element, ``{namespace}local``.
        message: its envelope.
    """

    at: float
    root: str
    message: bytes


class ChargeSum(NamedTuple):
    """Total charge for a listener's work with one model for one principal and its groups.

    Args:
        listener: its name; empty if the record of it was deleted.
        model: the name of the language model, or the word for other work. Empty if unknown.
        calls: how often.
        tokens: charged; for unsettled work, the greatest cost.
        money: the same, in millionths of a US dollar.
        payers: names of the groups whose budgets it counts in.
    """

    listener: str
    model: str
    principal: str
    calls: int
    tokens: int
    money: int
    payers: tuple[str, ...] = ()


class ActivitySum(NamedTuple):
    """Total of the conversations that were opened in a time, or of those among them with one name.

    Args:
        kind: ``time`` for an interval, ``principal``, or ``listener`` for conversations with a message to it.
        name: of the principal or listener; empty for an interval.
        start: of the time, in seconds since the epoch.
        conversations: how many.
        refused: those in which a message was refused.
        failed: those in which a handler failed.
        tokens: charged.
        money: charged, in millionths of a US dollar.
        seconds: from their first steps to their last, summed up.
        longest: seconds of the longest one.
    """

    kind: str
    name: str
    start: float
    conversations: int = 0
    refused: int = 0
    failed: int = 0
    tokens: int = 0
    money: int = 0
    seconds: float = 0.0
    longest: float = 0.0

    def add(self, one: ListedConversation) -> ActivitySum:
        """Add a conversation."""
        lasted = one.summary.touched - one.summary.opened
        return self._replace(
            conversations=self.conversations + 1,
            refused=self.refused + one.refused,
            failed=self.failed + one.failed,
            tokens=self.tokens + one.summary.tokens,
            money=self.money + one.summary.money,
            seconds=self.seconds + lasted,
            longest=max(self.longest, lasted),
        )


MOST_NAMES: Final = 50
"""Principals, and listeners, with the most conversations that a sum of activity names."""


def sum_activity(
    rows: Iterable[ListedConversation], since: float, until: float, parts: int, owner: str = ""
) -> tuple[ActivitySum, ...]:
    """Sum up conversations by interval, principal and listener: see ``EngineReader.list_activity``."""
    width = (until - since) / parts
    times = [ActivitySum("time", "", since + width * at) for at in range(parts)]
    named: dict[tuple[str, str], ActivitySum] = {}
    for one in rows:
        opened, principal = one.summary.opened, one.summary.principal
        if not since <= opened < until or (owner and not owns(owner, principal)):
            continue
        at = min(parts - 1, int((opened - since) / width))
        times[at] = times[at].add(one)
        for key in (("principal", principal), *(("listener", name) for name in one.listeners)):
            named[key] = named.get(key, ActivitySum(*key, since)).add(one)
    ranked = sorted(named.values(), key=lambda one: (-one.conversations, one.name))
    kinds = ([one for one in ranked if one.kind == kind] for kind in ("principal", "listener"))
    return (*times, *(one for each in kinds for one in each[:MOST_NAMES]))


def read_decided_approval(
    conversation: str, principal: str, approval: str, record: AuditRecord
) -> DecidedApproval:
    """Read the decision on a message that waited for a person from its record."""
    answer = record.detail
    decision = (
        (answer.answer, answer.by, "")
        if isinstance(answer, ApprovalGiven)
        else ("", "", getattr(answer, "reason", ""))
    )
    parts = (conversation, principal, approval, record.sender, record.to, record.root)
    return DecidedApproval(*parts, record.event is Event.APPROVED, *decision, record.at)


_ChargeKey: TypeAlias = tuple[str, str, str, tuple[str, ...]]
"""Listener, model, principal and its groups that pay."""


class Charges:
    """Sums of charges, built in the order of the steps."""

    def __init__(self) -> None:
        self._open: dict[str, tuple[_ChargeKey, Amount]] = {}
        self._sums: dict[_ChargeKey, tuple[int, Amount]] = {}

    def reserve(self, principal: str, payers: tuple[str, ...], moment: Moment, record: AuditRecord) -> None:
        """Add a reservation. Its id is the first of the moment."""
        if isinstance(record.detail, Charge):
            purpose = record.detail.work.partition(" ")[0]  # as llm/completer.py says it
            maximum = Amount(record.detail.tokens, record.detail.money)
            self._open[moment.id(0)] = ((record.to, purpose, principal, payers), maximum)

    def settle(self, principal: str, payers: tuple[str, ...], reservation: str, cost: Amount) -> None:
        """Replace a reservation by the actual cost."""
        key, _ = self._open.pop(reservation, (("", "", principal, payers), cost))
        self._add(key, cost)

    def list_sums(self) -> tuple[ChargeSum, ...]:
        """Return the sums, the largest first."""
        for key, maximum in self._open.values():
            self._add(key, maximum)
        self._open.clear()
        found = [
            ChargeSum(*key[:3], calls, cost.tokens, cost.money, key[3])
            for key, (calls, cost) in self._sums.items()
        ]
        return tuple(sorted(found, key=lambda one: (-one.money, -one.tokens, one[:3])))

    def _add(self, key: _ChargeKey, cost: Amount) -> None:
        calls, so_far = self._sums.get(key, (0, Amount()))
        self._sums[key] = (calls + 1, so_far + cost)


def find_abandonment(outcome: Outcome) -> str | None:
    """Return why the delivery that a step consumed is a dead letter, or None."""
    for record in outcome.records:
        if record.event is Event.FAILED and record.delivery == outcome.done:
            return f"{record.code}: {WORDING.join_lines(record.detail)}"
    return None
