"""An outcome as data, before its rows are numbered and sealed.

A step stores the changes of the state, or occasionally the whole state.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from agentserver.core.decide.dismissal import DismissedMessage
from agentserver.core.encoding import changes, codecs, decision_codec, parts, snapshot
from agentserver.core.encoding.decision_codec import Origin
from agentserver.core.encoding.history import find_abandonment
from agentserver.core.encoding.search import list_facets
from agentserver.core.messages import (
    ConversationOpening,
    Done,
    DueDelivery,
    OutsideMessage,
    RedrivenLetter,
    RejectedMessage,
    Reply,
    RequeuedLetter,
)
from agentserver.core.receipts import issue_receipt
from agentserver.engines.journal.stored import convert_row_delivery
from agentserver.ports import EngineError, UnstorableError
from agentserver.spending import NOTHING_SPENT

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from agentserver.core.encoding.changes import Changes
    from agentserver.core.encoding.search import Facet
    from agentserver.core.guard import CoreGuard
    from agentserver.core.messages import Moment
    from agentserver.core.records.outcome import Outcome
    from agentserver.core.state.conversation import Conversation
    from agentserver.spending import Amount

    _State = tuple[
        bytes, bytes, bool, Mapping[str, Mapping[str, bytes]], Mapping[str, Mapping[str, bytes | None]]
    ]

CHANGES: Final = 8192
"""Bytes of changes below which even a small state is not stored whole."""


_new = tuple.__new__


class NamedReceipt(NamedTuple):
    """Receipt of a message sent with an idempotency key. ``name`` and ``content`` describe the key."""

    name: str
    content: str
    request: str


class EmittedEvent(NamedTuple):
    """Event that a step emits: a reply if it has a message, else the end of a request.

    Args:
        flag: whether a reply is an error, or whether an ended request was answered.
    """

    request: str
    sender: str | None
    root: str | None
    message: bytes | None
    flag: int


class StepData(NamedTuple):
    """Stored data of an outcome. Deliveries are columns of ``convert_row_delivery``.

    Args:
        rights: of the principal; empty for full rights.
        before: version of the conversation before the step.
        version: version after it.
        touched: seconds since the epoch.
        moment: time and seed of the decision.
        cause: encoded input of the decision.
        records: encoded audit records.
        outside: whether it accepts a message from outside.
        done: id of the consumed delivery.
        asking: change in the number of messages that wait for a person.
        sleeps_until: as of ``Conversation``.
        delayed: ids of the new deliveries that wait for their time.
        woken: id of the delivery that no longer does, unless it was dropped.
        reason: why the consumed delivery is a dead letter; None when it is not.
        added: new deliveries.
        dropped: ids of dropped deliveries.
        revived: the requeued dead letter.
        redriven: conversation and id of the dead letter that became a new request.
        events: in order.
        changes: of the state; empty for a whole state or a closed conversation.
        state: the whole state; empty if changes are given, or for a closed conversation.
        values: by owner and name; of changed owners, or of all when ``replacing``.
        entries: added entries, or None for removed ones, by owner and name.
        total_spent: the total of the conversation.
        facets: that the step adds.
        messages: that it sent.
    """

    conversation: str
    principal: str
    root: str
    rights: str
    before: int
    version: int
    touched: float
    closed: bool
    moment: Moment
    cause: bytes
    records: bytes
    outside: bool = False
    asking: int = 0
    sleeps_until: float | None = None
    delayed: Collection[str] = ()
    woken: str | None = None
    receipt: NamedReceipt | None = None
    done: str | None = None
    reason: str | None = None
    added: Sequence[tuple[object, ...]] = ()
    dropped: Sequence[str] = ()
    revived: tuple[object, ...] | None = None
    redriven: tuple[str, str] | None = None
    events: Sequence[EmittedEvent] = ()
    changes: bytes = b""
    state: bytes = b""
    replacing: bool = False
    values: Mapping[str, Mapping[str, bytes]] = MappingProxyType({})
    entries: Mapping[str, Mapping[str, bytes | None]] = MappingProxyType({})
    total_spent: Amount = NOTHING_SPENT
    facets: AbstractSet[Facet] = frozenset()
    messages: Sequence[bytes] = ()


class EncodedOutcome(NamedTuple):
    """Outcome with the parts that can be encoded before it is committed.

    Args:
        moment: time and seed of the decision.
        cause: encoded input of the decision.
        records: encoded audit records.
        changes: of the conversation; None if it is closed or its previous state is unknown.
        receipt: of the message that it received; None without a key.
    """

    outcome: Outcome
    moment: Moment
    cause: bytes
    records: bytes
    changes: Changes | None
    receipt: NamedReceipt | None


class StoredState(NamedTuple):
    """Stored state of a conversation.

    Args:
        last: the conversation as stored.
        room: bytes of changes left before the state is stored whole again.
    """

    last: Conversation
    room: int


class StepMaker:
    """Converts outcomes to step data.

    Args:
        guards: guards whose memories are stored.
    """

    def __init__(self, guards: Sequence[CoreGuard] = ()) -> None:
        self._known: dict[str, StoredState] = {}
        self.adopt(guards)

    def adopt(self, guards: Sequence[CoreGuard]) -> None:
        """Replace the guards whose memories are stored."""
        self._guards = tuple(guards)
        self._dump = snapshot.make_memory_dumper(self._guards)

    def encode(self, outcome: Outcome) -> EncodedOutcome | EngineError:
        """Encode the part of an outcome that is independent of stored state, or return the error."""
        if outcome.moment is None:
            return UnstorableError("an outcome that no step has decided cannot be stored")
        try:
            cause, records = decision_codec.dump_cause(outcome), codecs.dump_records(outcome)
            since, changed = outcome.since, None
            if since is not None and not outcome.conversation.closed:
                changed = changes.encode_diff(since, outcome.conversation, self._dump)
        except (TypeError, ValueError) as error:
            return UnstorableError(f"an outcome that cannot be written: {error}")
        receipt = _find_receipt(outcome) if isinstance(outcome.cause, _FROM_OUTSIDE) else None
        return _new(EncodedOutcome, (outcome, outcome.moment, cause, records, changed, receipt))

    def make_step(self, encoded: EncodedOutcome) -> StepData:
        """Make the step of an outcome, based on the state believed to be stored. Raises TypeError and ValueError."""
        outcome, after = encoded.outcome, encoded.outcome.conversation
        cause = outcome.cause
        added, replies = outcome.added, outcome.replies
        requeued = convert_row_delivery(cause.delivery) if isinstance(cause, RequeuedLetter) else None
        columns = (
            after.id,
            after.principal,
            after.tree.root,
            parts.write_rights_text(after.rights) if not outcome.before else "",
            outcome.before,
            after.version,
            float(after.touched),
            after.closed,
            encoded.moment,
            encoded.cause,
            encoded.records,
            isinstance(cause, _FROM_OUTSIDE),
            outcome.asking,
            after.sleeps_until if after.timers else None,
            {timer.delivery for timer in after.timers} if outcome.delaying else (),
            cause.delivery if isinstance(cause, DueDelivery) and not outcome.dropped else None,
            encoded.receipt,
            outcome.done,
            find_abandonment(outcome) if outcome.done is not None else None,
            [*map(convert_row_delivery, added)] if requeued is None else (),
            [one.id for one in outcome.dropped] if outcome.dropped else (),
            requeued,
            (cause.delivery.conversation, cause.delivery.id) if isinstance(cause, RedrivenLetter) else None,
            [*map(_make_event, replies)] if replies else (),
            *self._make_state(encoded),
            after.spending.total,
            list_facets([one.to for one in added], outcome.records),
            [one.message for one in (*added, *replies) if not isinstance(one, Done)],
        )
        return _new(StepData, columns)

    def _make_state(self, encoded: EncodedOutcome) -> _State:
        after, changed = encoded.outcome.conversation, encoded.changes
        known = None if changed is None else self._find_base(encoded.outcome)
        if changed is None or known is None:
            everything = snapshot.group_by_owner(snapshot.encode_durable_values(after, self._guards))
            state = b"" if after.closed else snapshot.encode_state(after)
            return b"", state, True, everything, {}
        encoded_state, values, entries = changed
        if len(encoded_state) <= known.room:
            return encoded_state, b"", False, values, entries
        return b"", snapshot.encode_state(after), False, values, entries

    def _find_base(self, outcome: Outcome) -> StoredState | None:
        """Find the stored state if the outcome was decided on it, so that its changes suffice."""
        since = outcome.since
        if since is None:
            return None
        if not outcome.before:  # a new conversation begins with changes, unless it already holds state
            opened = Origin.from_conversation(outcome.conversation).conversation()
            return StoredState(since, CHANGES) if since == opened._replace(touched=since.touched) else None
        known = self._known.get(outcome.conversation.id)
        return known if known is not None and known.last is since else None

    def note_stored(self, encoded: EncodedOutcome, step: StepData) -> None:
        """Remember that a step is stored."""
        after = encoded.outcome.conversation
        if after.closed:
            self._known.pop(after.id, None)
        elif step.state:
            self._known[after.id] = _new(StoredState, (after, max(CHANGES, len(step.state))))
        else:
            known = self._known.get(after.id)
            room = CHANGES if known is None or not step.before else known.room
            self._known[after.id] = _new(StoredState, (after, room - len(step.changes)))

    def forget(self, conversation: str | None = None) -> None:
        """Forget the stored state of a conversation, or of all."""
        if conversation is None:
            self._known.clear()
        else:
            self._known.pop(conversation, None)


def _find_receipt(outcome: Outcome) -> NamedReceipt | None:
    found = issue_receipt(outcome)
    return None if found is None else NamedReceipt(found[0], found[1].content, found[1].request)


def _make_event(event: Reply | Done) -> EmittedEvent:
    if isinstance(event, Reply):
        return EmittedEvent(event.request, event.sender, event.root, event.message, int(event.error))
    return EmittedEvent(event.request, None, None, None, int(event.answered))


_FROM_OUTSIDE: Final = (ConversationOpening, OutsideMessage, RejectedMessage, DismissedMessage)


def from_outside(outcome: Outcome) -> bool:
    """Check whether an outcome accepts something from outside, which is refused while storage is unavailable."""
    return isinstance(outcome.cause, _FROM_OUTSIDE)
