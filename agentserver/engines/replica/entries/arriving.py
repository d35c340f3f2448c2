"""Arrivals as bytes, and back.

Owns their form. Refuses to know where they wait.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from agentserver.core.encoding.parts import encode
from agentserver.core.encoding.record_rows import delivery_of, delivery_row, plain_bytes, whole_bytes
from agentserver.core.messages import Cancelling, Closing, Outside, RequestKey, Requeued
from agentserver.core.state.approvals import Answer, ApprovalAnswer
from agentserver.core.state.principals import Principal, Trust
from agentserver.ports.sharing import Arrival

if TYPE_CHECKING:
    from agentserver.ports.sharing import Arriving


def dump(arrival: Arrival) -> bytes:
    """An arrival as bytes. Raises TypeError for what has no form."""
    opener = arrival.opener
    rights = None if opener is None else [opener.name, opener.trust, opener.may]
    row = [arrival.id, arrival.conversation, arrival.principal, _row(arrival.what), rights]
    return encode(row)


def load(data: bytes) -> Arrival:
    """The arrival of which ``dump`` gave this. Raises ValueError, TypeError, LookupError or AttributeError."""
    key, conversation, principal, what, rights = json.loads(data)
    if not all(isinstance(one, str) for one in (key, conversation, "" if principal is None else principal)):
        raise TypeError("an id is none")
    opener = None
    if rights is not None:
        name, trust, may = rights
        opener = Principal(str(name), Trust(trust), None if may is None else tuple(map(str, may)))
    return Arrival(key, conversation, principal, _of(what), opener)


def _row(what: Arriving | None) -> list[Any] | None:
    match what:
        case None:
            return None
        case Outside(data, request, to, key):
            return ["receive", plain_bytes(data), request, to, *(key or ())]
        case Cancelling():
            return ["cancel", *what]
        case Closing():
            return ["close", *what]
        case ApprovalAnswer():
            return ["decide", *what]
        case Requeued(delivery):
            return ["requeue", delivery_row(delivery)]
    raise TypeError(f"{type(what).__name__} cannot be handed in")


def _of(row: list[Any] | None) -> Arriving | None:
    match row:
        case None:
            return None
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
