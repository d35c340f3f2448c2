"""Arrivals and fates as the inbox keeps them.

Owns their form. Refuses to know where they wait.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from agentserver.core.encoding.parts import encode
from agentserver.core.encoding.record_rows import delivery_of, delivery_row, plain_bytes, whole_bytes
from agentserver.core.messages import Cancelling, Closing, Outside, RequestKey, Requeued
from agentserver.core.state.approvals import Answer, ApprovalAnswer
from agentserver.ports import Arrival, Fate

if TYPE_CHECKING:
    from agentserver.ports.claims import Arriving


def dump(arrival: Arrival) -> bytes:
    """Write an arrival. Raises TypeError for one that has no form."""
    return encode([arrival.principal, _row(arrival.content)])


def load(key: str, conversation: str, data: bytes) -> Arrival:
    """Read an arrival. Raises ValueError, TypeError, LookupError or AttributeError."""
    principal, row = json.loads(data)
    if not (principal is None or isinstance(principal, str)):
        raise TypeError("a principal is a text")
    return Arrival(key, conversation, principal, _content(row))


def dump_fate(fate: Fate) -> str:
    """Write a fate."""
    return json.dumps(fate)


def load_fate(text: str) -> Fate:
    """Read a fate."""
    word, request, version, again = json.loads(text)
    return Fate(str(word), str(request), int(version), bool(again))


def _row(content: Arriving) -> list[Any]:
    match content:
        case Outside(data, request, to, key):
            return ["receive", plain_bytes(data), request, to, *(key or ())]
        case Cancelling():
            return ["cancel", *content]
        case Closing():
            return ["close", *content]
        case ApprovalAnswer():
            return ["decide", *content]
        case Requeued(delivery):
            return ["requeue", delivery_row(delivery)]
    raise TypeError(f"{type(content).__name__} cannot be handed in")


def _content(row: list[Any]) -> Arriving:
    match row:
        case ["receive", data, str(request), str() | None as to, *key]:
            return Outside(whole_bytes(data), request, to, RequestKey(*map(str, key)) if key else None)
        case ["cancel", str(request), str(by)]:
            return Cancelling(request, by)
        case ["close", str(reason)]:
            return Closing(reason)
        case ["decide", str(approval), str(digest), answer, str(by), bool(undone)]:
            return ApprovalAnswer(approval, digest, Answer(answer), by, undone)
        case ["requeue", delivery]:
            return Requeued(delivery_of(delivery))
    raise ValueError("no arrival is of this kind")
