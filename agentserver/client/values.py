"""Things that the door says, as values.

Owns their reading: a field that is missing or of another type is a ProtocolError, one that is not known here is left
out. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from agentserver.client.errors import ProtocolError, WaitingMessage
from agentserver.foreign_json.reading import JsonLimits, RefusedJson, parse_json

if TYPE_CHECKING:
    from collections.abc import Mapping

V = TypeVar("V", str, bool, int, list[Any])

Event: TypeAlias = "ReplyEvent | DoneEvent | ProgressEvent"


@dataclass(frozen=True, slots=True)
class ReplyEvent:
    """An answer, or another message to the principal.

    Args:
        request: the request that it belongs to.
        sender: the listener that has sent it.
        payload: the name of its payload.
        value: the payload as a JSON value; None where it has no JSON form, or may not be seen.
        xml: the payload as markup where it has no JSON form; else empty.
        place: the id of the event; empty for none.
        again: for the answer of ``ask``, whether its message was there before under the same key. False for an event of
            a stream, which is known by its place.
    """

    request: str
    sender: str
    payload: str
    value: Any
    xml: str
    place: str
    again: bool = False


@dataclass(frozen=True, slots=True)
class DoneEvent:
    """A request has come to rest: nothing more comes of it.

    Args:
        request: its id.
        answered: whether there was a reply.
        place: the id of the event; empty for none.
    """

    request: str
    answered: bool
    place: str


@dataclass(frozen=True, slots=True)
class ProgressEvent:
    """A listener says how far it is. May be lost.

    Args:
        request: the request that it belongs to.
        sender: the listener.
        text: its words.
    """

    request: str
    sender: str
    text: str


@dataclass(frozen=True, slots=True)
class SentMessage:
    """A message that was accepted.

    Args:
        request: the id of its request.
        key: the key under which it was sent, and may be sent again.
        after: the id of the event after which those of its request come.
        again: whether it was there before, under the same key.
    """

    request: str
    key: str
    after: str
    again: bool = False


@dataclass(frozen=True, slots=True)
class Reason:
    """A reason why a message needs an approval.

    Args:
        guard: the guard that asks.
        lines: its words; none for those who may not see them.
    """

    guard: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PendingApproval:
    """A message that waits for a person.

    Args:
        id: of the approval.
        digest: of the message, as it was shown: an answer counts for this message alone.
        conversation: where it waits.
        request: the request that it belongs to.
        sender: the listener that wants to send it.
        to: its receiver.
        payload: the name of its payload.
        value: the payload as a JSON value; None where it has no JSON form, or may not be seen.
        xml: the payload as markup where it has no JSON form; else empty.
        at: when it was asked, in seconds since the epoch.
        until: when the answer is no, in seconds since the epoch.
        reasons: why it needs an approval.
    """

    id: str
    digest: str
    conversation: str
    request: str
    sender: str
    to: str
    payload: str
    value: Any
    xml: str
    at: float
    until: float
    reasons: tuple[Reason, ...]


LIMITS: Final = JsonLimits(bytes=1 << 26, values=300_000, members=100_000)
"""The limits of an answer: the lists of a server are long."""


def read_object(data: bytes | str) -> Mapping[str, Any]:
    """A JSON object. Raises ProtocolError for anything else."""
    found = parse_json(data, LIMITS)
    if isinstance(found, RefusedJson):
        raise ProtocolError(f"the answer cannot be read: it {found.rule}")
    if not isinstance(found, dict):
        raise ProtocolError("the answer is no JSON object")
    return found


def text(found: Mapping[str, Any], name: str) -> str:
    """A text of an object. Raises ProtocolError when it is not there."""
    return _field(found, name, str)


def event(found: Mapping[str, Any]) -> Event | None:
    """An event of a stream; None for a kind that is not known here."""
    match found.get("type"):
        case "reply":
            return reply(found)
        case "done":
            return DoneEvent(text(found, "request"), _field(found, "answered", bool), text(found, "place"))
        case "progress":
            return ProgressEvent(text(found, "request"), text(found, "from"), found.get("text") or "")
    return None


def reply(found: Mapping[str, Any]) -> ReplyEvent:
    """A reply."""
    return ReplyEvent(
        text(found, "request"), text(found, "from"), text(found, "payload"), found.get("value"),
        found.get("xml") or "", text(found, "place"),
    )  # fmt: skip


def waiting(found: Mapping[str, Any]) -> tuple[WaitingMessage, ...]:
    """The messages that an answer to an accepted message says to be waiting."""
    waits = found.get("waits")
    return tuple(
        WaitingMessage(text(one, "approval"), text(one, "to"), _number(one, "until"))
        for one in (waits if isinstance(waits, list) else ())
        if isinstance(one, dict)
    )


def approval(found: Any) -> PendingApproval:
    """A message that waits."""
    if not isinstance(found, dict):
        raise ProtocolError("an approval is no object")
    return PendingApproval(
        text(found, "id"), text(found, "digest"), text(found, "conversation"), text(found, "request"),
        text(found, "from"), text(found, "to"), text(found, "payload"), found.get("value"), found.get("xml") or "",
        _number(found, "at"), _number(found, "until"), tuple(map(_reason, _field(found, "questions", list))),
    )  # fmt: skip


def _reason(found: Any) -> Reason:
    if not isinstance(found, dict):
        raise ProtocolError("a question is no object")
    return Reason(text(found, "guard"), tuple(map(str, found.get("why") or ())))


def _field(found: Mapping[str, Any], name: str, kind: type[V]) -> V:
    value = found.get(name)
    if not isinstance(value, kind):
        raise ProtocolError(f"the answer has no {name}")
    return value


def _number(found: Mapping[str, Any], name: str) -> float:
    value = found.get(name)
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise ProtocolError(f"the answer has no {name}")
    return float(value)
