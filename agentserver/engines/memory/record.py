"""The operators' side of the engine in memory: a record of steps, and the reader of what is kept.

Owns the steps and dead letters of a memory engine that is told to record. Refuses to forget any of them: it is for
tests, and for a look into one run.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from agentserver.core.encoding import record_rows, recording
from agentserver.core.encoding.recorded import (
    Charges,
    ChargeSum,
    DeadLetter,
    DecidedApproval,
    RecordedConversation,
    RecordedStep,
    Summary,
    UnrecordedError,
    given_up,
    read_decided_approval,
)
from agentserver.core.encoding.recording import Origin
from agentserver.core.messages import RedrivenLetter, RequeuedLetter, ReserveRequest, SettleRequest
from agentserver.core.records.audit import Event
from agentserver.core.state.approvals import ApprovalAnswer
from agentserver.ports import UnfitError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sized

    from agentserver.core.encoding.recorded import SuspendedConversation
    from agentserver.core.messages import Delivery
    from agentserver.core.records.outcome import Outcome
    from agentserver.core.state.approvals import Approval
    from agentserver.core.state.conversation import Conversation

FOUND = 8
"""Conversations that ``find`` gives at most."""


class MemoryRecord:
    """The steps of every conversation, and the dead letters among its deliveries."""

    def __init__(self) -> None:
        self._steps: dict[str, list[RecordedStep]] = {}
        self._latest: dict[str, Conversation] = {}
        self._deliveries: dict[str, dict[str, Delivery]] = {}
        self._dead: dict[str, DeadLetter] = {}
        self._decided: list[DecidedApproval] = []
        self._priced: list[Outcome] = []

    def encode(self, outcome: Outcome) -> RecordedStep:
        """A step as it is recorded. Raises UnfitError, and nothing is recorded then."""
        if outcome.moment is None:
            raise UnfitError("an outcome that no step has decided cannot be kept")
        again = outcome.cause.delivery if isinstance(outcome.cause, RequeuedLetter | RedrivenLetter) else None
        if again is not None and again.id not in self._dead:
            raise UnfitError("what is no dead letter cannot be queued again")
        try:
            cause, records = recording.dump_cause(outcome), record_rows.dump_records(outcome)
        except (TypeError, ValueError) as error:
            raise UnfitError(f"an outcome that cannot be written: {error}") from error
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
        reason = given_up(outcome)
        if reason is not None and outcome.done is not None:
            letter = deliveries[outcome.done]
            self._dead[letter.id] = DeadLetter(
                letter, after.principal, reason, float(after.touched), open=True
            )

    def _note(self, outcome: Outcome) -> None:
        """Record what a person has decided, and what was charged."""
        after, cause = outcome.conversation, outcome.cause
        if isinstance(cause, ReserveRequest | SettleRequest):
            self._priced.append(outcome)
        elif isinstance(cause, ApprovalAnswer):
            record = next(one for one in outcome.records if one.event in {Event.APPROVED, Event.WITHDRAWN})
            self._decided.append(read_decided_approval(after.id, after.principal, cause.approval, record))

    def list_decisions(self, most: int, principal: str | None) -> list[DecidedApproval]:
        """The last decisions of people, the latest first."""
        found = (one for one in reversed(self._decided) if principal in {None, one.principal})
        return list(islice(found, most))

    def list_charges(self, since: float) -> tuple[ChargeSum, ...]:
        """The charges since a time."""
        charges = Charges()
        for outcome in self._priced:
            principal, cause = outcome.conversation.principal, outcome.cause
            if outcome.moment is None or outcome.moment.now < since:
                continue
            if isinstance(cause, SettleRequest):
                charges.settle(principal, cause.reservation, cause.cost)
            else:
                charges.reserve(principal, outcome.moment, outcome.records[0])
        return charges.sums()

    def recorded_conversation(self, conversation: str) -> RecordedConversation:
        """Everything that is recorded of a conversation. Raises LookupError."""
        one = self._latest[conversation]
        steps = tuple(self._steps[conversation])
        return RecordedConversation(Origin.from_conversation(one), steps, self._deliveries[conversation])

    def find_opening(self, conversation: str) -> float:
        """The time of the first step of a conversation that is recorded."""
        return self._steps[conversation][0].moment.now

    def latest(self) -> Mapping[str, Conversation]:
        """The conversations as their last steps left them, open or closed."""
        return self._latest

    def discard(self, delivery: str) -> bool:
        """Take a dead letter off the list; False when there is none of that id."""
        return self._dead.pop(delivery, None) is not None

    def dead(self, most: int | None, prefix: str) -> list[DeadLetter]:
        """The dead letters, oldest first; of more than ``most`` the latest."""
        found = [one for key, one in self._dead.items() if key.startswith(prefix)]
        latest = found if most is None else found[max(0, len(found) - most) :]
        return [one._replace(open=not self._latest[one.delivery.conversation].closed) for one in latest]


class MemoryReader(NamedTuple):
    """The contents of a memory engine, for operators. Used where the engine is: by the thread of its event loop.

    Args:
        kept: the open conversations.
        outbox: the events of each that were not acknowledged.
        record: of the steps; None when none is kept.
    """

    kept: Mapping[str, Conversation]
    outbox: Mapping[str, Sized]
    record: MemoryRecord | None

    @property
    def recorded(self) -> bool:
        """True when the engine was told to record."""
        return self.record is not None

    def find(self, prefix: str) -> list[str]:
        """The conversations whose ids begin so, at most a few."""
        return [key for key in self._list_known() if key.startswith(prefix)][:FOUND]

    def conversations(self) -> Iterator[Summary]:
        """The conversations, the one that was touched last first. Without a record ``opened`` is the last touch."""
        found = sorted(self._list_known().values(), key=_read_touched, reverse=True)
        return map(self._summary, found)

    def active(self) -> list[str]:
        """The open conversations in which something waits."""
        return [one.id for one in self.kept.values() if _count_waiting(one)]

    def load(self, conversation: str) -> Conversation | None:
        """The conversation as last committed."""
        return self.kept.get(conversation)

    def approvals(self, conversation: str) -> tuple[Approval, ...]:
        """The messages of an open conversation that wait for a person."""
        found = self.kept.get(conversation)
        return () if found is None else found.approvals()

    def list_asking(self) -> list[str]:
        """The open conversations in which something waits for a person."""
        return [key for key in self.active() if self.approvals(key)]

    def answers(self) -> tuple[tuple[ApprovalAnswer, float], ...]:
        """None: no other process can leave an answer."""
        return ()

    def list_decisions(self, most: int = 100, principal: str | None = None) -> list[DecidedApproval]:
        """The last decisions of people, the latest first."""
        return [] if self.record is None else self.record.list_decisions(most, principal)

    def list_charges(self, since: float = 0.0) -> tuple[ChargeSum, ...]:
        """The charges since a time."""
        return () if self.record is None else self.record.list_charges(since)

    def recorded_conversation(self, conversation: str) -> RecordedConversation:
        """Everything that is recorded of a conversation. Raises LookupError."""
        if self.record is None:
            raise UnrecordedError("the engine in memory was not told to record steps")
        return self.record.recorded_conversation(conversation)

    def find_altered(self, recorded: RecordedConversation) -> int | None:  # noqa: ARG002 - a reader's signature
        """None: steps in memory are not sealed."""
        return None

    def dead(self, most: int | None = None, prefix: str = "") -> list[DeadLetter]:
        """The dead letters, oldest first; of more than ``most`` the latest."""
        return [] if self.record is None else self.record.dead(most, prefix)

    def list_suspended(self) -> tuple[SuspendedConversation, ...]:
        """None: what is set aside is gone."""
        return ()

    def _list_known(self) -> Mapping[str, Conversation]:
        return self.kept if self.record is None else self.record.latest()

    def _summary(self, one: Conversation) -> Summary:
        opened = one.touched if self.record is None else self.record.find_opening(one.id)
        closed = None if one.id in self.kept else one.touched
        unread = len(self.outbox.get(one.id, ()))
        facts = (one.id, one.principal, opened, one.touched, closed, one.version, _count_waiting(one), unread)
        return Summary(*facts, one.spending.total.tokens, one.spending.total.money)


def _read_touched(conversation: Conversation) -> float:
    return conversation.touched


def _count_waiting(conversation: Conversation) -> int:
    return sum(len(thread.list_waiting()) for thread in conversation.tree.nodes.values())
