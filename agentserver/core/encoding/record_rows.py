"""Records as rows of plain values, and back.

Owns their kept form. What the delivery of a record tells is not repeated, nor is a message that went out with the step.
Refuses to know where rows are kept.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from typing import TYPE_CHECKING, Any

from agentserver.core.encoding import detail_form
from agentserver.core.encoding.parts import encode
from agentserver.core.encoding.snapshot import UnreadableError
from agentserver.core.messages import NO_CALL, Call, Delivery
from agentserver.core.records.audit import NOTED, AuditRecord, Event
from agentserver.payload.names import local

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from agentserver.core.messages import Reply
    from agentserver.core.records.outcome import Outcome

LONG = 10
"""Columns of the row of a record that no kept delivery tells, at least."""


def dump_records(outcome: Outcome) -> bytes:
    """The records of a step. Messages that went out with it are left out, since they are kept anyway."""
    sent = {delivery.id for delivery in outcome.added}
    # What was made and dropped within the step is kept nowhere else.
    gone = {one.delivery for one in outcome.records if one.event is Event.SENT and one.delivery not in sent}
    return encode(
        [
            _short(one) if one.event not in NOTED and one.delivery not in gone else _long(one)
            for one in outcome.records
        ]
    )


def load_records(
    data: bytes, conversation: str, at: float, deliveries: Mapping[str, Delivery], replies: Sequence[Reply]
) -> tuple[AuditRecord, ...]:
    """The records that ``dump_records`` wrote.

    Args:
        data: what was written.
        conversation: its id.
        at: when the step was decided.
        deliveries: those of the conversation, by id.
        replies: those of the step, in order.

    Raises UnreadableError when it is not what was written.
    """
    try:
        return _records(json.loads(data), conversation, at, deliveries, replies)
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise UnreadableError(f"the records cannot be read: {type(error).__name__}") from error


def plain_bytes(data: bytes) -> Any:
    """Bytes for JSON: a text, or else base64 in a list of one."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return [b64encode(data).decode("ascii")]


def whole_bytes(value: Any) -> bytes:
    """The bytes of which ``plain_bytes`` gave the form. Raises ValueError, TypeError or IndexError."""
    return value.encode() if isinstance(value, str) else b64decode(value[0], validate=True)


def delivery_row(delivery: Delivery) -> dict[str, Any]:
    """A delivery for JSON, by the names of its fields."""
    row = {**delivery._asdict(), "message": plain_bytes(delivery.message)}
    if delivery.call == NO_CALL:
        del row["call"]
    return row


def delivery_of(row: Mapping[str, Any]) -> Delivery:
    """The delivery of which ``delivery_row`` gave this. Raises TypeError, ValueError or LookupError."""
    call = row.get("call")
    known = {**row, "message": whole_bytes(row["message"])}
    return Delivery(**{**known, "call": NO_CALL if call is None else Call(*call)})


_EMPTY = ("", "", None, "", "")
"""The columns of a short row that are left out at its end."""


def _short(record: AuditRecord) -> list[Any]:
    """The row of a record that its delivery tells, as far as it is needed."""
    if record.detail is not None or record.code:
        return [record.event, record.delivery, record.took, record.code, detail_form.dump(record.detail)]
    if record.took is not None:
        return [record.event, record.delivery, record.took]
    return [record.event, record.delivery]


def _long(record: AuditRecord) -> list[Any]:
    row = [
        record.event,
        record.thread,
        record.sender,
        record.to,
        record.root,
        record.hop,
        record.code,
        detail_form.dump(record.detail),
        record.delivery,
        "" if record.event is Event.ANSWERED else plain_bytes(record.message),
    ]
    return [*row, record.request] if record.request else row


def _records(
    rows: Any, conversation: str, at: float, deliveries: Mapping[str, Delivery], replies: Sequence[Reply]
) -> tuple[AuditRecord, ...]:
    left = iter(replies)
    found: list[AuditRecord] = []
    for row in rows:
        if len(row) < LONG:
            found.append(_told(conversation, at, deliveries[row[1]], row))
            continue
        event, thread, sender, to, root, hop, code, detail, delivery, message, *request = row
        told = (thread, sender, to, root, hop, code, detail_form.load(detail), delivery)
        record = AuditRecord(Event(event), at, conversation, *told, whole_bytes(message), *request)
        if record.event is Event.SENT and not record.message and delivery in deliveries:
            record = record._replace(message=deliveries[delivery].message)
        elif record.event is Event.ANSWERED:
            reply = next(left, None)
            record = record if reply is None else record._replace(message=reply.message)
        found.append(record)
    return tuple(found)


def _told(conversation: str, at: float, delivery: Delivery, row: Sequence[Any]) -> AuditRecord:
    """The record of a short row."""
    columns: list[Any] = [*row, *_EMPTY[len(row) :]]
    event, key, took, code, detail = columns
    return AuditRecord(
        Event(event),
        at,
        conversation,
        delivery.thread,
        delivery.sender,
        delivery.to,
        local(delivery.root),
        delivery.hop,
        code,
        detail_form.load(detail),
        key,
        delivery.message if event == Event.SENT else b"",
        delivery.request,
        took,
    )
