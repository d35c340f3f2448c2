"""Codecs of stored values, and of details for programs.

A stored record does not repeat the fields of its delivery, nor the messages sent by the step.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from agentserver.codec import ValueCodec, ValueStyle
from agentserver.completion import RecordedCompletion
from agentserver.contract import Code
from agentserver.core.messages import (
    Call,
    Cancellation,
    ConversationClosing,
    ConversationOpening,
    Delivery,
    Effects,
    Excerpt,
    HandlerFailure,
    OutsideMessage,
    Question,
    RedrivenLetter,
    RejectedMessage,
    RequestKey,
)
from agentserver.core.records.audit import NOTED, AuditRecord, Event
from agentserver.core.records.details import NAMES, Detail, HandoffAttempt, OmittedCount, Unknown
from agentserver.core.records.wording import WORDING
from agentserver.core.refusals import Refusal
from agentserver.core.state.approvals import ApprovalAnswer
from agentserver.core.state.logs import LogChange
from agentserver.core.state.principals import Rights
from agentserver.core.state.requests import OpenRequest
from agentserver.core.state.todos import Todo
from agentserver.payload.names import local
from agentserver.spending import Amount

if TYPE_CHECKING:
    from collections.abc import Iterable

    from agentserver.core.messages import Reply
    from agentserver.core.records.outcome import Outcome

FORMAT: Final = 1
"""The version of the kept form. There is no release yet, so no other version is read."""

TYPES: Final[Mapping[str, Any]] = MappingProxyType(
    {
        **{
            one.__name__: one
            for one in (
                Amount, ApprovalAnswer, Call, Cancellation, Code, ConversationClosing, ConversationOpening, Delivery,
                Effects, Event, Excerpt, HandlerFailure, LogChange, OpenRequest, OutsideMessage, Question,
                RedrivenLetter, Refusal, RequestKey, Rights, Todo, RejectedMessage,
            )
        },
        "Detail": Detail,
        "Mapping": Mapping,
    }
)  # fmt: skip
"""Types that the annotations of values name but their modules import for type checkers only."""


class UnreadableError(ValueError):
    """Stored state of a later version, or damaged."""


def derive_stored(
    kind: Any,
    types: Mapping[str, Any] = MappingProxyType({}),
    tags: Mapping[type, str] = MappingProxyType({}),
) -> ValueCodec[Any]:
    """Derive the codec of a stored type. ``types`` and ``tags`` are further ones that its annotations need."""
    style = ValueStyle(tags={**NAMES, **tags}, checks=dict.fromkeys(NAMES, WORDING.describe_lines))
    return ValueCodec(kind, {**TYPES, **types}, style, FORMAT)


DETAILS: Final[ValueCodec[Detail | None]] = ValueCodec(
    Detail | None, TYPES, ValueStyle(by_name=True, tags={**NAMES, Unknown: "", OmittedCount: ""})
)
"""Details for programs, by name: the kind and the fields."""


COMPLETIONS: Final[ValueCodec[RecordedCompletion]] = ValueCodec(
    RecordedCompletion, {"Mapping": Mapping}, ValueStyle(by_name=True), FORMAT
)
"""Recorded completions, by name."""


def attempt_members(attempt: HandoffAttempt) -> dict[str, Any]:
    """Return the attempt with the keys of the record of handoffs."""
    members: dict[str, Any] = DETAILS.plain(attempt)
    del members["kind"]
    return members


class StoredMessage(NamedTuple):
    """Part of a record that its delivery supplies, if one is stored; the fields are those of ``AuditRecord``."""

    thread: str
    sender: str
    to: str
    root: str
    hop: int
    message: bytes = b""
    request: str = ""


class StoredRecord(NamedTuple):
    """Stored record. ``about`` is None if its delivery supplies the rest; the others are as of ``AuditRecord``."""

    event: Event
    delivery: str
    took: float | None = None
    code: str = ""
    detail: Detail | None = None
    about: StoredMessage | None = None


_new = tuple.__new__

RECORDS: Final[ValueCodec[tuple[StoredRecord, ...]]] = derive_stored(tuple[StoredRecord, ...])


def dump_records(outcome: Outcome) -> bytes:
    """Encode the records of a step, without the messages it sent, which are stored anyway."""
    added = {delivery.id for delivery in outcome.added}
    transient: set[str] = set()
    found = []
    for one in outcome.records:
        event, key, about = one.event, one.delivery, None
        if event is Event.SENT and key not in added:
            transient.add(key)  # made and dropped within the step, and stored nowhere else
        if event in NOTED or key in transient:
            about = _keep_message(one)
        found.append(_new(StoredRecord, (event, key, one.took, one.code, one.detail, about)))
    return RECORDS.dump(tuple(found))


def _keep_message(record: AuditRecord) -> StoredMessage:
    message = b"" if record.event is Event.ANSWERED else record.message
    return StoredMessage(
        record.thread, record.sender, record.to, record.root, record.hop, message, record.request
    )


def read_stored_records(data: bytes) -> tuple[StoredRecord, ...]:
    """Read the output of ``dump_records``. Raises UnreadableError."""
    try:
        return RECORDS.load(data)
    except ValueError as error:
        raise UnreadableError(f"the records cannot be read: {error}") from error


def load_records(
    data: bytes, conversation: str, at: float, deliveries: Mapping[str, Delivery], replies: Iterable[Reply]
) -> tuple[AuditRecord, ...]:
    """Read the records of a step.

    Args:
        data: from ``dump_records``.
        conversation: its id.
        at: when the step was decided.
        deliveries: those of the conversation, by id.
        replies: those of the step, in order.

    Raises UnreadableError for damaged data.
    """
    rest = iter(replies)
    found: list[AuditRecord] = []
    for one in read_stored_records(data):
        record = complete_record(one, conversation, at, deliveries)
        if record.event is Event.SENT and not record.message and one.delivery in deliveries:
            record = record._replace(message=deliveries[one.delivery].message)
        elif record.event is Event.ANSWERED:
            reply = next(rest, None)
            record = record if reply is None else record._replace(message=reply.message)
        found.append(record)
    return tuple(found)


def complete_record(
    one: StoredRecord, conversation: str, at: float, deliveries: Mapping[str, Delivery]
) -> AuditRecord:
    """Complete a record from its delivery. Raises UnreadableError when that is missing."""
    if one.about is None:
        delivery = deliveries.get(one.delivery)
        if delivery is None:
            raise UnreadableError("the records cannot be read: a delivery that one is about is not there")
        message = delivery.message if one.event is Event.SENT else b""
        about = StoredMessage(
            delivery.thread,
            delivery.sender,
            delivery.to,
            local(delivery.root),
            delivery.hop,
            message,
            delivery.request,
        )
    else:
        about = one.about
    thread, sender, to, root, hop, message, request = about
    place = (one.event, at, conversation, thread)
    reason = (one.code, one.detail, one.delivery)
    return AuditRecord(*place, sender, to, root, hop, *reason, message, request, one.took)
