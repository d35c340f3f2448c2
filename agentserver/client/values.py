"""Things that the door says, as values.

Owns their reading, which is derived: a field that is missing or of another type is a ProtocolError, one that is not
known here is left out. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from agentserver.client.errors import ProtocolError, WaitingMessage
from agentserver.codec import ValueCodec, ValueRefusedError, ValueStyle
from agentserver.foreign_json.reading import JsonLimits, RefusedJson, parse_json

if TYPE_CHECKING:
    from collections.abc import Mapping

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ReplyEvent:
    """An answer, or another message to the principal.

    Args:
        request: the request that it belongs to.
        sender: the listener that has sent it.
        payload: the name of its payload.
        place: the id of the event; empty for none.
        value: the payload as a JSON value; None where it has no JSON form, or may not be seen.
        xml: the payload as markup where it has no JSON form; else empty.
        again: for the answer of ``ask``, whether its message was there before under the same key. False for an event of
            a stream, which is known by its place.
    """

    request: str
    sender: str
    payload: str
    place: str
    value: Any = None
    xml: str = ""
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
    text: str = ""


Event: TypeAlias = ReplyEvent | DoneEvent | ProgressEvent


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
    lines: tuple[str, ...] = ()


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
        at: when it was asked, in seconds since the epoch.
        until: when the answer is no, in seconds since the epoch.
        reasons: why it needs an approval.
        value: the payload as a JSON value; None where it has no JSON form, or may not be seen.
        xml: the payload as markup where it has no JSON form; else empty.
    """

    id: str
    digest: str
    conversation: str
    request: str
    sender: str
    to: str
    payload: str
    at: float
    until: float
    reasons: tuple[Reason, ...]
    value: Any = None
    xml: str = ""


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


_STYLE: Final = ValueStyle(
    named=True,
    tag="type",
    tags={ReplyEvent: "reply", DoneEvent: "done", ProgressEvent: "progress"},
    names={"sender": "from", "reasons": "questions", "lines": "why"},
    lenient=True,
)
_EVENTS: Final[ValueCodec[Event]] = ValueCodec(Event, style=_STYLE)
_REPLIES: Final[ValueCodec[ReplyEvent]] = ValueCodec(ReplyEvent, style=_STYLE)
_APPROVALS: Final[ValueCodec[tuple[PendingApproval, ...]]] = ValueCodec(
    tuple[PendingApproval, ...], style=_STYLE
)
_WAITS: Final[ValueCodec[tuple[WaitingMessage, ...]]] = ValueCodec(tuple[WaitingMessage, ...], style=_STYLE)


def _value(codec: ValueCodec[T], plain: Any) -> T:
    try:
        return codec.value(plain)
    except ValueRefusedError as error:
        raise ProtocolError(f"the answer cannot be read: {error}") from None


def text(found: Mapping[str, Any], name: str) -> str:
    """Read a text of an object. Raises ProtocolError when it is not there."""
    value = found.get(name)
    if not isinstance(value, str):
        raise ProtocolError(f"the answer has no {name}")
    return value


def event(found: Mapping[str, Any]) -> Event | None:
    """Read an event of a stream; None for a kind that is not known here. Raises ProtocolError."""
    return _value(_EVENTS, found) if found.get(_STYLE.tag) in _STYLE.tags.values() else None


def reply(found: Mapping[str, Any]) -> ReplyEvent:
    """Read a reply. Raises ProtocolError."""
    return _value(_REPLIES, found)


def waiting(found: Mapping[str, Any]) -> tuple[WaitingMessage, ...]:
    """Read the messages that an answer to an accepted message says to be waiting. Raises ProtocolError."""
    return _value(_WAITS, found.get("waits", []))


def approvals(found: Mapping[str, Any]) -> tuple[PendingApproval, ...]:
    """Read the messages that wait. Raises ProtocolError."""
    return _value(_APPROVALS, found.get("approvals"))
