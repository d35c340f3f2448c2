"""What the engine has kept, as plain values for a page: conversations, dead letters, decisions, usage.

Owns how much of it a page is given. Runs where the engine reads. Refuses to change anything.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from agentserver.characters.printing import visible
from agentserver.core.encoding.snapshot import UnreadableError
from agentserver.gateways.live import telling
from agentserver.gateways.live.telling import name
from agentserver.payload.names import local
from agentserver.trace import text
from agentserver.trace.redact import redacted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentserver.core.encoding.recorded import DeadLetter, Summary
    from agentserver.core.records.audit import AuditRecord
    from agentserver.ports import EngineReader
    from agentserver.trace.redact import Redaction

MOST = 200
"""Conversations, dead letters and decisions that a page lists."""

ROWS = 1000
"""Records of a conversation that a page shows: the last ones."""


def conversations(reader: EngineReader, most: int = MOST) -> dict[str, Any]:
    """The conversations that were touched last."""
    found = list(islice(reader.conversations(), most + 1))
    return {"conversations": list(map(_summary, found[:most])), "more": len(found) > most}


def _summary(one: Summary) -> dict[str, Any]:
    told = one._asdict()
    told["principal"] = name(one.principal)
    return told


def conversation(reader: EngineReader, key: str, redaction: Redaction) -> dict[str, Any]:
    """One conversation, as the tree of its hops. Raises LookupError."""
    recorded = reader.recorded_conversation(key)
    records = redacted(recorded.records(), redaction)
    rows = telling.tree(records)
    return {
        "id": recorded.beginning.id,
        "principal": name(recorded.beginning.principal),
        "rows": rows[-ROWS:],
        "earlier": max(0, len(rows) - ROWS),
        "cost": _cost(records),
    }


def message(reader: EngineReader, key: str, delivery: str, redaction: Redaction) -> dict[str, Any]:
    """What one message of a conversation says, whole. Raises LookupError."""
    records = reader.recorded_conversation(key).records()
    for one in text.shown(redacted(records, redaction)):
        if one.record.message and one.record.delivery == delivery:
            return {"said": telling.row(one, whole=True)["said"]}
    raise LookupError(delivery)


def _cost(records: Sequence[AuditRecord]) -> dict[str, int]:
    """What the work of a conversation has cost: what was settled, and what was reserved and was not."""
    tokens = money = 0
    for record in records:
        cost = telling.row(text.TracedHop(record, 0, 0.0))["cost"]
        if cost is not None:
            tokens, money = tokens + cost[0], money + cost[1]
    return {"tokens": tokens, "money": money}


# Dead letters


def dead(reader: EngineReader, redaction: Redaction, most: int = MOST) -> dict[str, Any]:
    """The dead letters, those that were given up last first."""
    found = reader.dead()
    told = [_letter(one, redaction, telling.SAID) for one in found[: -most - 1 : -1]]
    return {"letters": told, "more": len(found) > most}


def letter(reader: EngineReader, delivery: str, redaction: Redaction) -> dict[str, Any]:
    """One dead letter with its message, whole. Raises LookupError."""
    return _letter(found_letter(reader, delivery), redaction, None)


def found_letter(reader: EngineReader, delivery: str) -> DeadLetter:
    """The dead letter of a delivery. Raises LookupError."""
    for one in reader.dead():
        if one.delivery.id == delivery:
            return one
    raise LookupError(delivery)


def _letter(one: DeadLetter, redaction: Redaction, most: int | None) -> dict[str, Any]:
    from agentserver.core.records.audit import AuditRecord, Event
    from agentserver.core.records.details import KeptText

    delivery = one.delivery
    record = AuditRecord(
        Event.FAILED,
        one.at,
        delivery.conversation,
        delivery.thread,
        detail=KeptText(one.reason),
        message=delivery.message,
    )
    (shown,) = redacted([record], redaction)
    reason = shown.detail.text if isinstance(shown.detail, KeptText) else ""
    said = text.payload(shown.message)
    return {
        "delivery": delivery.id,
        "conversation": delivery.conversation,
        "principal": name(one.principal),
        "sender": name(delivery.sender),
        "to": name(delivery.to),
        "root": name(local(delivery.root)),
        "at": one.at,
        "open": one.open,
        "reason": visible(reason[: telling.SAID]),
        "said": [] if most is not None else [visible(each) for each in said.split("\n")],
    }
