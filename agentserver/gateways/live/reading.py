"""The contents of the engine, as plain values for a page: conversations, dead letters, decisions, usage.

Owns how much of it a page is given. Runs where the engine reads. Refuses to change anything.
"""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Any

from agentserver.characters.printing import escape_unseen
from agentserver.contract import Code
from agentserver.core.records.audit import AuditRecord, Event
from agentserver.core.records.details import Answered, Charge, KeptText, Unanswered
from agentserver.core.records.wording import WORDING
from agentserver.gateways.live import telling
from agentserver.gateways.live.telling import NAME, name
from agentserver.payload.names import local
from agentserver.spending import Amount
from agentserver.trace import text
from agentserver.trace.redact import EVERY, redact_records

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from agentserver.core.encoding.recorded import Charged, DeadLetter, Summary
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
    records = redact_records(recorded.records(), redaction)
    hops = text.visible_hops(records)
    return {
        "id": recorded.beginning.id,
        "principal": name(recorded.beginning.principal),
        "rows": list(map(telling.row, hops[-ROWS:])),
        "earlier": max(0, len(hops) - ROWS),
        "cost": _sum(cost for _, _, cost in charges(records)),
    }


def message(reader: EngineReader, key: str, delivery: str, redaction: Redaction) -> dict[str, Any]:
    """One message of a conversation, whole. Raises LookupError."""
    records = reader.recorded_conversation(key).records()
    for one in text.visible_hops(redact_records(records, redaction)):
        if one.record.message and one.record.delivery == delivery:
            return {"said": telling.row(one, whole=True)["said"]}
    raise LookupError(delivery)


# Decisions and usage


def decided(reader: EngineReader, most: int = MOST) -> list[dict[str, Any]]:
    """The decisions of people, the latest first."""
    return [
        {
            "at": one.at,
            "sender": name(one.sender),
            "to": name(one.to),
            "root": name(one.root),
            "conversation": one.conversation,
            "granted": one.granted,
            "answer": escape_unseen(
                WORDING.first(Unanswered(one.why) if one.why else Answered(one.by, one.answer))[:NAME]
            ),
            "by": escape_unseen(one.by[:NAME]),
        }
        for one in reader.decided(most)
    ]


def usage(reader: EngineReader, since: float) -> dict[str, Any]:
    """The charges since a time, by listener, model and principal."""
    found = reader.charged(since)
    return {
        "listeners": _charged((one.listener, one) for one in found),
        "models": _charged((one.model, one) for one in found),
        "principals": _charged((one.principal, one) for one in found),
    }


def charges(records: Iterable[AuditRecord]) -> Iterator[tuple[str, str, Amount]]:
    """Priced work: the listener, a word for the work, and its cost; while that is not known, the most it may cost."""
    open_: dict[str, deque[AuditRecord]] = {}
    for record in records:
        match record.event, record.detail:
            case Event.RESERVED, Charge():
                open_.setdefault(record.delivery, deque()).append(record)
            case Event.SETTLED, Charge() as cost:
                reserved = open_.get(record.delivery)
                begun = reserved.popleft().detail if reserved else None
                what = begun.what if isinstance(begun, Charge) else ""
                yield record.to, what, Amount(cost.tokens, cost.money)
    for record in (each for many in open_.values() for each in many):
        if isinstance(record.detail, Charge):
            yield record.to, record.detail.what, Amount(record.detail.tokens, record.detail.money)


def _sum(costs: Iterable[Amount]) -> dict[str, int]:
    total = sum(costs, Amount())
    return {"tokens": total.tokens, "money": total.money}


def _charged(found: Iterable[tuple[str, Charged]]) -> list[dict[str, Any]]:
    """The charges of each name, the dearest first."""
    calls: dict[str, int] = {}
    costs: dict[str, Amount] = {}
    for key, one in found:
        calls[key] = calls.get(key, 0) + one.calls
        costs[key] = costs.get(key, Amount()) + Amount(one.tokens, one.money)
    told = sorted(costs, key=lambda key: (-costs[key].money, -costs[key].tokens, key))
    return [
        {"name": name(key), "tokens": costs[key].tokens, "money": costs[key].money, "calls": calls[key]}
        for key in told[:MOST]
    ]


# Dead letters


def dead(reader: EngineReader, redaction: Redaction, most: int = MOST) -> dict[str, Any]:
    """The dead letters, those that were given up last first."""
    found = reader.dead(most + 1)
    told = [_letter(one, redaction, telling.SAID) for one in found[: -most - 1 : -1]]
    return {"letters": told, "more": len(found) > most}


def letter(reader: EngineReader, delivery: str, redaction: Redaction) -> dict[str, Any]:
    """One dead letter with its message, whole. Raises LookupError."""
    return _letter(found_letter(reader, delivery), redaction, None)


def found_letter(reader: EngineReader, delivery: str) -> DeadLetter:
    """The dead letter of a delivery. Raises LookupError."""
    for one in reader.dead(prefix=delivery):
        if one.delivery.id == delivery:
            return one
    raise LookupError(delivery)


def _letter(one: DeadLetter, redaction: Redaction, most: int | None) -> dict[str, Any]:
    delivery = one.delivery
    record = AuditRecord(
        Event.FAILED,
        one.at,
        delivery.conversation,
        delivery.thread,
        detail=KeptText(one.reason),
        message=delivery.message,
    )
    (shown,) = redact_records([record], redaction)
    reason = shown.detail.text if isinstance(shown.detail, KeptText) else ""
    if EVERY in redaction.fields:  # it may quote another message, which is not at hand here to be looked for
        code = reason.partition(":")[0]
        reason = code if code in set(Code) else ""
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
        "reason": escape_unseen(reason[: telling.SAID]),
        "said": [] if most is not None else [escape_unseen(each) for each in said.split("\n")],
    }
