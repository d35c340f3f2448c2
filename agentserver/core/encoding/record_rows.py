"""Codec of stored records.

The fields of a record's delivery are not repeated, nor are messages sent by the step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from agentserver.core.encoding.codecs import UnreadableError, derive_kept
from agentserver.core.records.audit import NOTED, AuditRecord, Event
from agentserver.payload.names import local

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from agentserver.codec import ValueCodec
    from agentserver.core.messages import Delivery, Reply
    from agentserver.core.records.details import Detail
    from agentserver.core.records.outcome import Outcome


class KeptMessage(NamedTuple):
    """Part of a record that its delivery supplies, if one is stored; the fields are those of ``AuditRecord``."""

    thread: str
    sender: str
    to: str
    root: str
    hop: int
    message: bytes = b""
    request: str = ""


class KeptRecord(NamedTuple):
    """Stored record. ``about`` is None if its delivery supplies the rest; the others are as of ``AuditRecord``."""

    event: Event
    delivery: str
    took: float | None = None
    code: str = ""
    detail: Detail | None = None
    about: KeptMessage | None = None


RECORDS: Final[ValueCodec[tuple[KeptRecord, ...]]] = derive_kept(tuple[KeptRecord, ...])


def dump_records(outcome: Outcome) -> bytes:
    """Encode the records of a step, without the messages it sent, which are stored anyway."""
    sent = {delivery.id for delivery in outcome.added}
    # A delivery that was made and dropped within the step is stored nowhere else.
    gone = {one.delivery for one in outcome.records if one.event is Event.SENT and one.delivery not in sent}
    return RECORDS.dump(
        tuple(
            [_keep_record(one, whole=one.event in NOTED or one.delivery in gone) for one in outcome.records]
        )
    )


def _keep_record(record: AuditRecord, *, whole: bool) -> KeptRecord:
    about = None
    if whole:
        message = b"" if record.event is Event.ANSWERED else record.message
        about = KeptMessage(
            record.thread, record.sender, record.to, record.root, record.hop, message, record.request
        )
    return KeptRecord(record.event, record.delivery, record.took, record.code, record.detail, about)


def kept_records(data: bytes) -> tuple[KeptRecord, ...]:
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
    for one in kept_records(data):
        record = whole_record(one, conversation, at, deliveries)
        if record.event is Event.SENT and not record.message and one.delivery in deliveries:
            record = record._replace(message=deliveries[one.delivery].message)
        elif record.event is Event.ANSWERED:
            reply = next(rest, None)
            record = record if reply is None else record._replace(message=reply.message)
        found.append(record)
    return tuple(found)


def whole_record(
    one: KeptRecord, conversation: str, at: float, deliveries: Mapping[str, Delivery]
) -> AuditRecord:
    """Complete a record from its delivery. Raises UnreadableError when that is missing."""
    if one.about is None:
        delivery = deliveries.get(one.delivery)
        if delivery is None:
            raise UnreadableError("the records cannot be read: a delivery that one is about is not there")
        message = delivery.message if one.event is Event.SENT else b""
        about = KeptMessage(
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
    where = (one.event, at, conversation, thread)
    why = (one.code, one.detail, one.delivery)
    return AuditRecord(*where, sender, to, root, hop, *why, message, request, one.took)
