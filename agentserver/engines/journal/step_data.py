"""An outcome as data: all that is kept of it, before it has numbers and seals.

Owns what of the state a step has: its changes, or now and then the whole. Refuses to know rows, and whether the step is
kept.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from agentserver.core.decide.dismissal import DismissedMessage
from agentserver.core.encoding import changes, kept, record_rows, recording, snapshot
from agentserver.core.encoding.recorded import given_up
from agentserver.core.encoding.recording import Origin
from agentserver.core.messages import (
    ConversationOpening,
    OutsideMessage,
    RedrivenLetter,
    Reply,
    RequeuedLetter,
    TurnedAway,
)
from agentserver.core.receipts import issue_receipt
from agentserver.engines.journal.stored import row_delivery
from agentserver.ports import EngineError, UnfitError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from agentserver.core.encoding.changes import Changes
    from agentserver.core.guard import CoreGuard
    from agentserver.core.messages import Done, Moment
    from agentserver.core.records.outcome import Outcome
    from agentserver.core.state.conversation import Conversation

    _State = tuple[
        bytes, bytes, bool, Mapping[str, Mapping[str, bytes]], Mapping[str, Mapping[str, bytes | None]]
    ]

CHANGES: Final = 8192
"""Bytes of changes up to which no state is kept whole, however small it is."""


class GivenReceipt(NamedTuple):
    """The receipt that a step gives for a message under its sender's id. ``name`` and ``content`` are of its key."""

    name: str
    content: str
    request: str


class LeavingEvent(NamedTuple):
    """An event that leaves with a step: a reply when it has a message, else the end of a request.

    Args:
        flag: for a reply whether it is an error, for an end whether the request was answered.
    """

    request: str
    sender: str | None
    root: str | None
    message: bytes | None
    flag: int


class StepData(NamedTuple):
    """All that is kept of an outcome. Deliveries are columns as of ``row_delivery``; texts and bytes are as they stand.

    Args:
        rights: of the principal; empty where they are full.
        before: version of the conversation that it was decided on.
        version: after it.
        touched: seconds since the epoch.
        moment: in which it was decided.
        cause: what it was decided about.
        records: of what happened.
        outside: whether it takes a message from outside.
        done: id of the delivery that was consumed.
        asking: by how many more messages, or fewer, wait for a person.
        reason: for which the consumed delivery is a dead letter; None when it is none.
        added: new deliveries.
        dropped: ids of deliveries that will never be handled.
        revived: the dead letter that is queued again.
        redriven: conversation and id of the dead letter that became a request of its own.
        events: in order.
        changes: of the state; empty when the state is whole, or the conversation over.
        state: the whole state; empty when changes are given, or the conversation is over.
        values: by owner and name; of the owners that have changed, or of all when ``replacing``.
        entries: those that have come or, as None, are gone, by owner and name.
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
    receipt: GivenReceipt | None = None
    done: str | None = None
    reason: str | None = None
    added: Sequence[tuple[object, ...]] = ()
    dropped: Sequence[str] = ()
    revived: tuple[object, ...] | None = None
    redriven: tuple[str, str] | None = None
    events: Sequence[LeavingEvent] = ()
    changes: bytes = b""
    state: bytes = b""
    replacing: bool = False
    values: Mapping[str, Mapping[str, bytes]] = MappingProxyType({})
    entries: Mapping[str, Mapping[str, bytes | None]] = MappingProxyType({})


class Encoded(NamedTuple):
    """An outcome with what of it can be bytes whether or not it is kept.

    Args:
        moment: in which it was decided.
        cause: what it was decided about.
        records: of what happened.
        changes: of the conversation; None when it is closed, or not known what it was.
    """

    outcome: Outcome
    moment: Moment
    cause: bytes
    records: bytes
    changes: Changes | None


class StoredState(NamedTuple):
    """A conversation as it is stored.

    Args:
        last: the conversation as it is stored.
        room: bytes of changes that may still come before the state is kept whole again.
    """

    last: Conversation
    room: int


class StepMaker:
    """Makes steps of outcomes.

    Args:
        guards: those whose memories are kept.
    """

    def __init__(self, guards: Sequence[CoreGuard] = ()) -> None:
        self._known: dict[str, StoredState] = {}
        self.adopt(guards)

    def adopt(self, guards: Sequence[CoreGuard]) -> None:
        """Keep the memories of these guards from now on."""
        self._guards = tuple(guards)
        self._dump = snapshot.memory_dumper(self._guards)

    def encode(self, outcome: Outcome) -> Encoded | EngineError:
        """The part of an outcome that does not depend on what is stored, or why it cannot be kept."""
        if outcome.moment is None:
            return UnfitError("an outcome that no step has decided cannot be kept")
        try:
            cause, records = recording.dump_cause(outcome), record_rows.dump_records(outcome)
            changed = self._changes(outcome)
        except (TypeError, ValueError) as error:
            return UnfitError(f"an outcome that cannot be written: {error}")
        return Encoded(outcome, outcome.moment, cause, records, changed)

    def _changes(self, outcome: Outcome) -> Changes | None:
        if outcome.since is None or outcome.conversation.closed:
            return None
        return changes.diff(outcome.since, outcome.conversation, self._dump)

    def step(self, encoded: Encoded) -> StepData:
        """The step of an outcome, if what is known to be stored is. Raises TypeError and ValueError."""
        outcome, after = encoded.outcome, encoded.outcome.conversation
        cause = outcome.cause
        return StepData(
            after.id,
            after.principal,
            after.tree.root,
            kept.rights_text(after.rights) if not outcome.before else "",
            outcome.before,
            after.version,
            float(after.touched),
            after.closed,
            encoded.moment,
            encoded.cause,
            encoded.records,
            from_outside(outcome),
            outcome.asking,
            _receipt(outcome),
            outcome.done,
            given_up(outcome) if outcome.done is not None else None,
            () if isinstance(cause, RequeuedLetter) else [*map(row_delivery, outcome.added)],
            [one.id for one in outcome.dropped],
            row_delivery(cause.delivery) if isinstance(cause, RequeuedLetter) else None,
            (cause.delivery.conversation, cause.delivery.id) if isinstance(cause, RedrivenLetter) else None,
            [*map(_event, outcome.replies)],
            *self._state(encoded),
        )

    def _state(self, encoded: Encoded) -> _State:
        after, changed = encoded.outcome.conversation, encoded.changes
        known = None if changed is None else self._stored(encoded.outcome)
        if changed is None or known is None:
            everything = snapshot.by_owner(snapshot.durable_values(after, self._guards))
            state = b"" if after.closed else snapshot.state(after)
            return b"", state, True, everything, {}
        made, values, entries = changed
        if len(made) <= known.room:
            return made, b"", False, values, entries
        return b"", snapshot.state(after), False, values, entries

    def _stored(self, outcome: Outcome) -> StoredState | None:
        """The stored state, when the outcome was decided on it: its changes are all that differs then."""
        since = outcome.since
        if since is None:
            return None
        if not outcome.before:  # nothing is: unless something is in it already, it begins with its changes
            opened = Origin.from_conversation(outcome.conversation).conversation()
            return StoredState(since, CHANGES) if since == opened._replace(touched=since.touched) else None
        known = self._known.get(outcome.conversation.id)
        return known if known is not None and known.last is since else None

    def kept(self, encoded: Encoded, step: StepData) -> None:
        """Take a step for stored."""
        after = encoded.outcome.conversation
        if after.closed:
            self._known.pop(after.id, None)
        elif step.state:
            self._known[after.id] = StoredState(after, max(CHANGES, len(step.state)))
        else:
            known = self._known.get(after.id)
            room = CHANGES if known is None or not step.before else known.room
            self._known[after.id] = StoredState(after, room - len(step.changes))

    def forget(self, conversation: str | None = None) -> None:
        """Know no more what is stored of a conversation; of any without one."""
        if conversation is None:
            self._known.clear()
        else:
            self._known.pop(conversation, None)


def _receipt(outcome: Outcome) -> GivenReceipt | None:
    found = issue_receipt(outcome)
    return None if found is None else GivenReceipt(found[0], found[1].content, found[1].request)


def _event(event: Reply | Done) -> LeavingEvent:
    if isinstance(event, Reply):
        return LeavingEvent(event.request, event.sender, event.root, event.message, int(event.error))
    return LeavingEvent(event.request, None, None, None, int(event.answered))


def from_outside(outcome: Outcome) -> bool:
    """True when an outcome takes something from outside, which is refused when nothing new can be kept."""
    return isinstance(outcome.cause, ConversationOpening | OutsideMessage | TurnedAway | DismissedMessage)
