"""Record of steps and reader for operators of the engine in memory.

The record grows without bound: it is for tests, and for inspecting one run.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from agentserver.core.encoding import codecs, decision_codec
from agentserver.core.encoding.decision_codec import Origin
from agentserver.core.encoding.history import (
    EVERY_CONVERSATION,
    ActivitySum,
    Charges,
    ChargeSum,
    ConversationFilter,
    ConversationPage,
    DeadLetter,
    DecidedApproval,
    DiscardedLetter,
    ListedConversation,
    RecordedConversation,
    RecordedStep,
    Summary,
    UnrecordedError,
    find_abandonment,
    read_decided_approval,
    sum_activity,
)
from agentserver.core.encoding.search import Facet, find_words, list_facets
from agentserver.core.messages import RedrivenLetter, RequeuedLetter, ReserveRequest, SettleRequest
from agentserver.core.records.audit import Event
from agentserver.core.state.approvals import ApprovalAnswer
from agentserver.core.state.ledger import EffectState
from agentserver.history.filters import Candidate, cut_page
from agentserver.ports import UnstorableError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized

    from agentserver.completion import RecordedCompletion
    from agentserver.core.encoding.history import GrantedMessage, SuspendedConversation
    from agentserver.core.messages import Delivery
    from agentserver.core.records.outcome import Outcome
    from agentserver.core.state.approvals import Approval
    from agentserver.core.state.conversation import Conversation
    from agentserver.core.state.ledger import LedgerEffect
    from agentserver.ports.schedules import ScheduleOrder
    from agentserver.ports.servers import ServerState

FOUND = 8
"""Most conversations that ``find`` returns."""


class MemoryRecord:
    """Steps of every conversation, and the dead letters among its deliveries."""

    def __init__(self) -> None:
        self._steps: dict[str, list[RecordedStep]] = {}
        self._latest: dict[str, Conversation] = {}
        self._deliveries: dict[str, dict[str, Delivery]] = {}
        self._dead: dict[str, DeadLetter] = {}
        self._discarded: list[DeadLetter] = []
        self._decided: list[DecidedApproval] = []
        self._priced: list[Outcome] = []
        self._completions: dict[str, list[tuple[float, RecordedCompletion]]] = {}

    def encode(self, outcome: Outcome) -> RecordedStep:
        """Encode an outcome as a step. Raises UnstorableError."""
        if outcome.moment is None:
            raise UnstorableError("an outcome without a step cannot be recorded")
        again = outcome.cause.delivery if isinstance(outcome.cause, RequeuedLetter | RedrivenLetter) else None
        if again is not None and again.id not in self._dead:
            raise UnstorableError("only a dead letter can be queued again")
        try:
            cause, records = decision_codec.dump_cause(outcome), codecs.dump_records(outcome)
        except (TypeError, ValueError) as error:
            raise UnstorableError(f"an outcome that cannot be written: {error}") from error
        added = () if isinstance(outcome.cause, RequeuedLetter) else outcome.added
        version = outcome.conversation.version
        return RecordedStep(version, outcome.moment, cause, records, added, tuple(outcome.replies))

    def keep(self, outcome: Outcome, step: RecordedStep) -> None:
        """Record a committed step."""
        after, deliveries = outcome.conversation, self._deliveries.setdefault(outcome.conversation.id, {})
        self._steps.setdefault(after.id, []).append(step)
        self._latest[after.id] = after._replace(touched=float(after.touched))
        deliveries.update({delivery.id: delivery for delivery in step.added})
        if isinstance(outcome.cause, RequeuedLetter | RedrivenLetter):
            del self._dead[outcome.cause.delivery.id]
        self._note(outcome)
        reason = find_abandonment(outcome)
        if reason is not None and outcome.done is not None:
            letter = deliveries[outcome.done]
            self._dead[letter.id] = DeadLetter(
                letter, after.principal, reason, float(after.touched), open=True
            )

    def _note(self, outcome: Outcome) -> None:
        """Record a person's decision or a charge."""
        after, cause = outcome.conversation, outcome.cause
        if isinstance(cause, ReserveRequest | SettleRequest):
            self._priced.append(outcome)
        elif isinstance(cause, ApprovalAnswer):
            record = next(one for one in outcome.records if one.event in {Event.APPROVED, Event.WITHDRAWN})
            self._decided.append(read_decided_approval(after.id, after.principal, cause.approval, record))

    def list_decisions(self, limit: int, principal: str | None) -> list[DecidedApproval]:
        """List people's decisions, latest first."""
        found = (one for one in reversed(self._decided) if principal in {None, one.principal})
        return list(islice(found, limit))

    def list_charges(self, since: float) -> tuple[ChargeSum, ...]:
        """Sum the charges since a time."""
        charges = Charges()
        for outcome in self._priced:
            opened, cause = outcome.conversation, outcome.cause
            principal, payers = opened.principal, opened.rights.payers
            if outcome.moment is None or outcome.moment.now < since:
                continue
            if isinstance(cause, SettleRequest):
                charges.settle(principal, payers, cause.reservation, cause.cost)
            else:
                charges.reserve(principal, payers, outcome.moment, outcome.records[0])
        return charges.list_sums()

    def recorded_conversation(self, conversation: str) -> RecordedConversation:
        """Collect the record of a conversation. Raises LookupError."""
        one = self._latest[conversation]
        steps = tuple(self._steps[conversation])
        discarded = tuple(
            DiscardedLetter(each.delivery.id, each.discarded_by, each.at)
            for each in self._discarded
            if each.delivery.conversation == conversation
        )
        return RecordedConversation(
            Origin.from_conversation(one), steps, self._deliveries[conversation], discarded
        )

    def list_terms(self, conversation: str) -> tuple[set[Facet], list[bytes]]:
        """List the facets of a conversation, and the messages that were sent in it."""
        facets, messages = set[Facet](), list[bytes]()
        for step in self._steps[conversation]:
            facets |= list_facets([one.to for one in step.added], codecs.read_stored_records(step.records))
            messages += step.gone_out()
        return facets, messages

    def find_addressee(self, conversation: str) -> str:
        """Find the listener that got the first message of a conversation; empty without one."""
        return next((one.to for step in self._steps[conversation] for one in step.added), "")

    def add_completion(self, done: RecordedCompletion, until: float) -> None:
        """Record a completion until a time; one of an unknown conversation is ignored."""
        if done.conversation in self._latest:
            self._completions.setdefault(done.conversation, []).append((until, done))

    def expire_completions(self, now: float) -> None:
        """Delete the completions past their retention."""
        for key, entries in self._completions.items():
            self._completions[key] = [each for each in entries if each[0] >= now]

    def list_completions(self, conversation: str) -> list[RecordedCompletion]:
        """List the completions of a conversation, in the order in which they began."""
        return sorted((one for _, one in self._completions.get(conversation, ())), key=lambda one: one.at)

    def find_opening(self, conversation: str) -> float:
        """Find the time of a conversation's first step."""
        return self._steps[conversation][0].moment.now

    def latest(self) -> Mapping[str, Conversation]:
        """Return the conversations after their last steps, open or closed."""
        return self._latest

    def discard(self, delivery: str, by: str, at: float) -> bool:
        """Discard a dead letter; False if the id is unknown."""
        letter = self._dead.pop(delivery, None)
        if letter is None:
            return False
        self._discarded.append(letter._replace(at=at, discarded_by=by))
        return True

    def list_discarded(self, limit: int) -> list[DeadLetter]:
        """List the latest discarded letters, oldest first."""
        return self._mark_open(self._discarded[max(0, len(self._discarded) - limit) :])

    def dead(self, limit: int | None, prefix: str) -> list[DeadLetter]:
        """List the latest dead letters, at most ``limit``, oldest first."""
        found = [one for key, one in self._dead.items() if key.startswith(prefix)]
        latest = found if limit is None else found[max(0, len(found) - limit) :]
        return self._mark_open(latest)

    def _mark_open(self, letters: Iterable[DeadLetter]) -> list[DeadLetter]:
        return [one._replace(open=not self._latest[one.delivery.conversation].closed) for one in letters]


class MemoryReader(NamedTuple):
    """Reader of a memory engine for operators. Use it in the thread of the engine's event loop.

    Args:
        conversations_by_id: the open conversations.
        outbox: their unacknowledged events.
        record: of the steps; None if they are not recorded.
        granted: the approved messages, each with its principal and receiver.
    """

    conversations_by_id: Mapping[str, Conversation]
    outbox: Mapping[str, Sized]
    record: MemoryRecord | None
    granted: Sequence[tuple[str, str, GrantedMessage]] = ()

    @property
    def recorded(self) -> bool:
        """True when the engine records steps."""
        return self.record is not None

    def find(self, prefix: str) -> list[str]:
        """Find conversations by a prefix of their id, at most ``FOUND``."""
        return [key for key in self._list_known() if key.startswith(prefix)][:FOUND]

    def conversations(self) -> Iterator[Summary]:
        """List conversations, last touched first. Without a record ``opened`` is the last touch."""
        found = sorted(self._list_known().values(), key=_read_touched, reverse=True)
        return map(self._summarize, found)

    def list_conversations(
        self, chosen: ConversationFilter = EVERY_CONVERSATION, after: str = "", limit: int = 50
    ) -> ConversationPage:
        """List a page of the conversations that match, the last opened first. Raises ValueError."""
        return cut_page(
            enumerate(map(self._make_candidate, self._list_known().values())), chosen, after, limit
        )

    def active(self) -> list[str]:
        """List the open conversations with pending work."""
        return [one.id for one in self.conversations_by_id.values() if _count_waiting(one)]

    def load(self, conversation: str) -> Conversation | None:
        """Look up a conversation as last committed."""
        return self.conversations_by_id.get(conversation)

    def approvals(self, conversation: str) -> tuple[Approval, ...]:
        """List the pending approvals of an open conversation."""
        found = self.conversations_by_id.get(conversation)
        return () if found is None else found.approvals()

    def list_asking(self) -> list[str]:
        """List the open conversations with pending approvals."""
        return [key for key in self.active() if self.approvals(key)]

    def answers(self) -> tuple[tuple[ApprovalAnswer, float], ...]:
        """Return no answers: no other process can leave one."""
        return ()

    def list_effects(self) -> list[LedgerEffect]:
        """List the external effects without an answer, oldest first."""
        found = (one for each in self._list_known().values() for one in each.ledger.values())
        return sorted((one for one in found if one.state is not EffectState.DONE), key=lambda one: one.at)

    def list_servers(self) -> tuple[ServerState, ...]:
        """Return no servers: no other process uses this memory."""
        return ()

    def list_schedule_orders(self) -> tuple[ScheduleOrder, ...]:
        """Return no orders: no other process can leave one."""
        return ()

    def list_decisions(self, limit: int = 100, principal: str | None = None) -> list[DecidedApproval]:
        """List people's decisions, latest first."""
        return [] if self.record is None else self.record.list_decisions(limit, principal)

    def list_granted(self, principal: str, to: str, since: float) -> list[GrantedMessage]:
        """List the approved messages of a principal to a listener since a time."""
        route = (principal, to)
        return [one for *source, one in self.granted if (*source,) == route and one.at >= since]

    def list_charges(self, since: float = 0.0) -> tuple[ChargeSum, ...]:
        """Sum the charges since a time."""
        return () if self.record is None else self.record.list_charges(since)

    def list_activity(
        self, since: float, until: float, parts: int, owner: str = ""
    ) -> tuple[ActivitySum, ...]:
        """Sum up the conversations that were opened in a time: see the port."""
        rows = (self._make_candidate(one).row for one in self._list_known().values())
        return sum_activity(rows, since, until, parts, owner)

    def recorded_conversation(self, conversation: str) -> RecordedConversation:
        """Collect the record of a conversation. Raises LookupError."""
        if self.record is None:
            raise UnrecordedError("the engine in memory does not record steps")
        return self.record.recorded_conversation(conversation)

    def find_altered(self, recorded: RecordedConversation) -> int | None:  # noqa: ARG002 - a reader's signature
        """Return None: steps in memory are not sealed."""
        return None

    def dead(self, limit: int | None = None, prefix: str = "") -> list[DeadLetter]:
        """List the latest dead letters, at most ``limit``, oldest first."""
        return [] if self.record is None else self.record.dead(limit, prefix)

    def list_discarded(self, limit: int) -> list[DeadLetter]:
        """List the latest discarded letters, oldest first."""
        return [] if self.record is None else self.record.list_discarded(limit)

    def list_suspended(self) -> tuple[SuspendedConversation, ...]:
        """Return nothing: suspended conversations are not kept."""
        return ()

    def list_completions(self, conversation: str) -> list[RecordedCompletion]:
        """List the recorded completions of a conversation."""
        return [] if self.record is None else self.record.list_completions(conversation)

    def _list_known(self) -> Mapping[str, Conversation]:
        return self.conversations_by_id if self.record is None else self.record.latest()

    def _make_candidate(self, one: Conversation) -> Candidate:
        summary = self._summarize(one)
        row = ListedConversation(summary, "open" if summary.closed is None else "finished")
        if self.record is None:
            return Candidate(row)
        facets, messages = self.record.list_terms(one.id)
        row = row._replace(first=messages[0] if messages else b"", to=self.record.find_addressee(one.id))
        return Candidate(row.with_facets(facets), facets, find_words(messages))

    def _summarize(self, one: Conversation) -> Summary:
        opened = one.touched if self.record is None else self.record.find_opening(one.id)
        closed = None if one.id in self.conversations_by_id else one.touched
        unread = len(self.outbox.get(one.id, ()))
        facts = (one.id, one.principal, opened, one.touched, closed, one.version, _count_waiting(one), unread)
        return Summary(*facts, one.spending.total.tokens, one.spending.total.money, one.sleeps_until)


def _read_touched(conversation: Conversation) -> float:
    return conversation.touched


def _count_waiting(conversation: Conversation) -> int:
    queued = sum(len(thread.list_waiting()) for thread in conversation.tree.nodes.values())
    return queued - len(conversation.timers)
