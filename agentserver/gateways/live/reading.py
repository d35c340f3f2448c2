"""What the engine has kept, as plain values for a page: conversations, dead letters, decisions, usage.

Owns how much of it a page is given. Runs where the engine reads. Refuses to change anything.
"""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Any

from agentserver.characters.printing import visible
from agentserver.core.encoding.snapshot import UnreadableError
from agentserver.core.records.audit import AuditRecord, Event
from agentserver.core.records.details import Answered, Charge, KeptText
from agentserver.core.records.wording import WORDING
from agentserver.gateways.live import telling
from agentserver.gateways.live.telling import NAME, name
from agentserver.payload.names import local
from agentserver.spending import Amount
from agentserver.trace import text
from agentserver.trace.redact import redacted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from agentserver.core.encoding.recorded import DeadLetter, Summary
    from agentserver.ports import EngineReader
    from agentserver.trace.redact import Redaction

MOST = 200
"""Conversations, dead letters and decisions that a page lists."""

LATEST = 50
"""Conversations in which decisions and charges are looked for: those that were touched last."""

STEPS = 10_000
"""Steps of them that are read for it: the work does not grow with what is kept."""

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
        "cost": _sum(cost for _, _, cost in charges(records)),
    }


def message(reader: EngineReader, key: str, delivery: str, redaction: Redaction) -> dict[str, Any]:
    """What one message of a conversation says, whole. Raises LookupError."""
    records = reader.recorded_conversation(key).records()
    for one in text.shown(redacted(records, redaction)):
        if one.record.message and one.record.delivery == delivery:
            return {"said": telling.row(one, whole=True)["said"]}
    raise LookupError(delivery)


# Decisions and usage


def decided(reader: EngineReader, most: int = MOST) -> list[dict[str, Any]]:
    """What people have decided, the latest first, in the conversations that were touched last."""
    records = [record for record in _latest(reader) if record.event in {Event.APPROVED, Event.WITHDRAWN}]
    records.sort(key=lambda record: record.at, reverse=True)
    return [
        {
            "at": record.at,
            "sender": name(record.sender),
            "to": name(record.to),
            "root": name(record.root),
            "conversation": record.conversation,
            "granted": record.event is Event.APPROVED,
            "answer": visible(WORDING.first(record.detail)[:NAME]),
            "by": visible(record.detail.by[:NAME]) if isinstance(record.detail, Answered) else "",
        }
        for record in records[:most]
    ]


def usage(reader: EngineReader) -> dict[str, Any]:
    """What was charged, by listener and model in the conversations that were touched last, and by principal in all."""
    listeners: dict[str, list[Amount]] = {}
    models: dict[str, list[Amount]] = {}
    principals: dict[str, list[Amount]] = {}
    for listener, model, cost in charges(_latest(reader)):
        listeners.setdefault(listener, []).append(cost)
        models.setdefault(model, []).append(cost)
    for one in reader.conversations():
        if one.tokens or one.money:
            principals.setdefault(one.principal, []).append(Amount(one.tokens, one.money))
    return {
        "listeners": _charged(listeners),
        "models": _charged(models),
        "principals": [{**each, "calls": None} for each in _charged(principals)],
        "latest": LATEST,
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


def _charged(groups: Mapping[str, list[Amount]]) -> list[dict[str, Any]]:
    told = [(name(key), sum(costs, Amount()), len(costs)) for key, costs in groups.items()]
    told.sort(key=lambda one: (-one[1].money, -one[1].tokens, one[0]))
    return [
        {"name": key, "tokens": cost.tokens, "money": cost.money, "calls": calls}
        for key, cost, calls in told[:MOST]
    ]


def _latest(reader: EngineReader) -> Iterator[AuditRecord]:
    """The records of the conversations that were touched last, within so many steps."""
    room = STEPS
    for one in islice(reader.conversations(), LATEST):
        room -= one.steps
        if room < 0:
            return
        try:
            yield from reader.recorded_conversation(one.id).records()
        except (LookupError, UnreadableError):
            continue


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
