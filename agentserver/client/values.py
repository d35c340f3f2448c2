"""Values that the door sends, and their derived codecs.

A missing or mistyped field is a ProtocolError; an unknown one is ignored.
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
    """Answer, or another message to the principal.

    Args:
        request: id of its request.
        sender: the listener that sent it.
        payload: the name of its payload.
        place: id of the event, or empty.
        value: the payload as a JSON value; None if it has no JSON form or is hidden.
        xml: the payload as markup if it has no JSON form; else empty.
        again: for the answer of ``ask``, whether its message was sent before with the same key. False for an event of a
            stream, which its place identifies.
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
    """End of a request, after which no event of it follows.

    Args:
        request: its id.
        answered: whether there was a reply.
        place: id of the event, or empty.
    """

    request: str
    answered: bool
    place: str


@dataclass(frozen=True, slots=True)
class ProgressEvent:
    """Progress report of a listener. May be lost.

    Args:
        request: id of its request.
        sender: the listener.
        text: its words.
    """

    request: str
    sender: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class DeltaEvent:
    """Piece of an answer that is not committed yet, or a call. May be lost; the ``ReplyEvent`` alone counts.

    Args:
        request: id of its request.
        sender: the listener.
        kind: ``text``, ``call``, ``result``, ``reset`` or ``difference``. The last two void the text so far.
        text: the piece; of a result, the code of a refusal, or empty; of a reset, the reason.
        offset: characters of the answer before the piece.
        id: of a call and its result.
        name: the listener that is called.
    """

    request: str
    sender: str
    kind: str
    text: str = ""
    offset: int = 0
    id: str = ""
    name: str = ""


Event: TypeAlias = ReplyEvent | DoneEvent | ProgressEvent | DeltaEvent


@dataclass(frozen=True, slots=True)
class SentMessage:
    """Message that was accepted.

    Args:
        request: id of its request.
        key: idempotency key with which it was sent, and may be sent again.
        after: id of the event before the first one of its request.
        again: whether it was sent before, with the same key.
    """

    request: str
    key: str
    after: str
    again: bool = False


@dataclass(frozen=True, slots=True)
class Reason:
    """Reason why a message needs an approval.

    Args:
        guard: the guard that asks.
        lines: its explanation; empty for callers who may not see it.
    """

    guard: str
    lines: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PendingApproval:
    """Message that waits for a person.

    Args:
        id: of the approval.
        digest: of the message as shown; an answer is valid only for it.
        conversation: where it waits.
        request: id of its request.
        sender: the listener that wants to send it.
        to: its receiver.
        payload: the name of its payload.
        at: when it was asked, in seconds since the epoch.
        until: when it is denied, in seconds since the epoch.
        reasons: why it needs an approval.
        value: the payload as a JSON value; None if it has no JSON form or is hidden.
        xml: the payload as markup if it has no JSON form; else empty.
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
"""Limits of an answer, which may contain long lists."""


def read_object(data: bytes | str) -> Mapping[str, Any]:
    """Parse a JSON object. Raises ProtocolError for anything else."""
    found = parse_json(data, LIMITS)
    if isinstance(found, RefusedJson):
        raise ProtocolError(f"the answer cannot be read: it {found.rule}")
    if not isinstance(found, dict):
        raise ProtocolError("the answer is not a JSON object")
    return found


_STYLE: Final = ValueStyle(
    by_name=True,
    tag="type",
    tags={ReplyEvent: "reply", DoneEvent: "done", ProgressEvent: "progress", DeltaEvent: "delta"},
    names={"sender": "from", "reasons": "questions", "lines": "why"},
    lenient=True,
)
_EVENTS: Final[ValueCodec[Event]] = ValueCodec(Event, style=_STYLE)
_REPLIES: Final[ValueCodec[ReplyEvent]] = ValueCodec(ReplyEvent, style=_STYLE)
_APPROVALS: Final[ValueCodec[tuple[PendingApproval, ...]]] = ValueCodec(
    tuple[PendingApproval, ...], style=_STYLE
)
_WAITS: Final[ValueCodec[tuple[WaitingMessage, ...]]] = ValueCodec(tuple[WaitingMessage, ...], style=_STYLE)


def _read_value(codec: ValueCodec[T], plain: Any) -> T:
    try:
        return codec.value(plain)
    except ValueRefusedError as error:
        raise ProtocolError(f"the answer cannot be read: {error}") from None


def read_text(found: Mapping[str, Any], name: str) -> str:
    """Read a text field of an object. Raises ProtocolError if it is missing."""
    value = found.get(name)
    if not isinstance(value, str):
        raise ProtocolError(f"the answer has no {name}")
    return value


def read_event(found: Mapping[str, Any]) -> Event | None:
    """Read an event of a stream; None for an unknown kind. Raises ProtocolError."""
    return _read_value(_EVENTS, found) if found.get(_STYLE.tag) in _STYLE.tags.values() else None


def read_reply(found: Mapping[str, Any]) -> ReplyEvent:
    """Read a reply. Raises ProtocolError."""
    return _read_value(_REPLIES, found)


def read_waiting_messages(found: Mapping[str, Any]) -> tuple[WaitingMessage, ...]:
    """Read the waiting_messages messages of an accepted message's response. Raises ProtocolError."""
    return _read_value(_WAITS, found.get("waits", []))


def read_approvals(found: Mapping[str, Any]) -> tuple[PendingApproval, ...]:
    """Read the messages that wait. Raises ProtocolError."""
    return _read_value(_APPROVALS, found.get("approvals"))
