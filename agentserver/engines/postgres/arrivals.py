"""Arrivals and fates as the inbox keeps them, and as hints carry them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from agentserver.core.encoding.codecs import derive_kept
from agentserver.core.messages import (
    Cancellation,
    ConversationClosing,
    Done,
    EventPlace,
    OutsideMessage,
    Reply,
    RequeuedLetter,
)
from agentserver.core.state.approvals import ApprovalAnswer
from agentserver.ports import Arrival, Fate

if TYPE_CHECKING:
    from agentserver.codec import ValueCodec
    from agentserver.ports.claims import Arriving


class KeptArrival(NamedTuple):
    """An arrival without the conversation and the key, which are columns of its row."""

    principal: str | None
    content: Arriving


class ArrivalHint(NamedTuple):
    """An arrival as a hint carries it, and the incarnation that waits for its fate."""

    asker: int
    id: str
    conversation: str
    principal: str | None
    content: Arriving


class FateHint(NamedTuple):
    """The fate of an arrival as a hint carries it."""

    id: str
    fate: Fate


class Tail(NamedTuple):
    """The latest events of a conversation: all that left it after ``since``, up to a version."""

    conversation: str
    version: int
    since: EventPlace
    events: tuple[Reply | Done, ...]


_ARRIVING: Final = {
    "Arriving": OutsideMessage | Cancellation | ConversationClosing | ApprovalAnswer | RequeuedLetter,
    "RequeuedLetter": RequeuedLetter,
}
_ARRIVALS: Final[ValueCodec[KeptArrival]] = derive_kept(KeptArrival, _ARRIVING)
_FATES: Final[ValueCodec[Fate]] = derive_kept(Fate)
_ARRIVAL_HINTS: Final[ValueCodec[ArrivalHint]] = derive_kept(ArrivalHint, _ARRIVING)
_FATE_HINTS: Final[ValueCodec[FateHint]] = derive_kept(FateHint)
_TAILS: Final[ValueCodec[Tail]] = derive_kept(Tail)


def dump(arrival: Arrival) -> bytes:
    """Write an arrival. Raises TypeError for one that has no form."""
    return _ARRIVALS.dump(KeptArrival(arrival.principal, arrival.content))


def load(key: str, conversation: str, data: bytes) -> Arrival:
    """Read an arrival. Raises ValueError."""
    return Arrival(key, conversation, *_ARRIVALS.load(data))


def dump_fate(fate: Fate) -> str:
    """Write a fate."""
    return _FATES.dump(fate).decode()


def load_fate(text: str) -> Fate:
    """Read a fate. Raises ValueError."""
    return _FATES.load(text)


def dump_arrival_hint(arrival: Arrival, asker: int) -> str:
    """Write an arrival for a hint. Raises TypeError for one that has no form."""
    return _ARRIVAL_HINTS.dump(ArrivalHint(asker, *arrival)).decode()


def load_arrival_hint(text: str) -> tuple[int, Arrival]:
    """Read an arrival and its asker. Raises ValueError."""
    hint = _ARRIVAL_HINTS.load(text)
    return hint.asker, Arrival(*hint[1:])


def dump_fate_hint(key: str, fate: Fate) -> str:
    """Write a fate for a hint."""
    return _FATE_HINTS.dump(FateHint(key, fate)).decode()


def load_fate_hint(text: str) -> FateHint:
    """Read a fate. Raises ValueError."""
    return _FATE_HINTS.load(text)


def dump_tail(tail: Tail) -> str:
    """Write the latest events of a conversation for a hint."""
    return _TAILS.dump(tail).decode()


def load_tail(text: str) -> Tail:
    """Read the latest events of a conversation. Raises ValueError."""
    return _TAILS.load(text)
