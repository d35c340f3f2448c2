"""Hints between servers by ``NOTIFY``, which replace waiting for the next poll.

A hint may be missing, late or spurious: each server polls at a bounded interval. A hint may carry the row that a poll
would find. Hints are sent in batches by their own statement, since ``NOTIFY`` takes a lock on the whole database. Every
role of the database may send one, so channel names contain a secret that only readers of the tables know.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from agentserver.core.encoding.codecs import derive_stored
from agentserver.core.messages import (
    Cancellation,
    ConversationClosing,
    Done,
    EffectVerdict,
    EventPlace,
    OutsideMessage,
    Reply,
    RequeuedLetter,
)
from agentserver.core.state.approvals import ApprovalAnswer
from agentserver.engines.postgres.connection import DRIVER, StatementFailure, classify, is_pooled
from agentserver.ports import Arrival, ArrivalOutcome, EngineError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentserver.codec import ValueCodec
    from agentserver.engines.postgres.connection import Connection, Link
    from agentserver.ports.claims import Arriving


EVERYBODY = 0
"""The channel number of all servers."""

MOST = 7_900
"""Most bytes of a hint with its data. Postgres limits a payload to less than 8,000."""

UNREAD = 1_000
"""Most unread hints with data. Beyond that, a poll is cheaper."""

_TELL = "select pg_notify(channel, topic) from unnest($1::text[], $2::text[]) as hint(channel, topic)"


class Topic(StrEnum):
    """Subject of a poll."""

    INBOX = "inbox"
    FATES = "fates"
    NEWS = "news"
    LEASES = "leases"
    TOKENS = "tokens"


class HintBatch(NamedTuple):
    """Batch of hints since the last wait.

    Args:
        data: of hints that carry any, in order.
        look: whether a poll is due.
    """

    data: list[str]
    look: bool


LOOK_DUE: Final = HintBatch([], look=True)
"""The batch before the first wait."""


class Hints:
    """Sends and receives hints.

    Args:
        link: for sending.

    ``secret`` is read from the tables before the first hint is sent or received. ``listening`` is whether hints reach
    this process, as none do through a pooler.
    """

    def __init__(self, link: Link) -> None:
        self.secret, self.listening = "", False
        self._link = link
        self._events = {topic: asyncio.Event() for topic in Topic}
        self._data: dict[Topic, list[str]] = {topic: [] for topic in Topic}
        self._look = set(Topic)
        self._due: dict[tuple[int, str], None] = {}
        self._some = asyncio.Event()

    async def listen(self, connection: Connection, incarnation: int) -> None:
        """Listen on a connection to the channels of an incarnation and of all servers.

        Not through a pooler: its backend would keep listening for its next client.
        """
        self.listening = not is_pooled(connection)
        for number in {incarnation, EVERYBODY} if self.listening else ():
            await connection.add_listener(self._format_channel(number), self._receive_hint)
        self.stir()

    def _format_channel(self, incarnation: int) -> str:
        return f"agentserver_{self.secret}_{incarnation}"

    def _receive_hint(self, _connection: object, _pid: int, _channel: str, payload: object) -> None:
        name, _, data = str(payload).partition(" ")
        with suppress(ValueError):
            topic = Topic(name)
            if data and len(self._data[topic]) < UNREAD:
                self._data[topic].append(data)
                self._events[topic].set()
            else:
                self.stir(topic)

    def stir(self, *topics: Topic) -> None:
        """Make this process poll some topics, or all."""
        for topic in topics or Topic:
            self._look.add(topic)
            self._events[topic].set()

    def tell(self, incarnation: int, topic: Topic, data: str = "") -> bool:
        """Queue a hint, with its data if that is short enough. Returns whether it is."""
        text = f"{topic.value} {data}" if data else topic.value
        short = len(text.encode()) <= MOST
        self._due[incarnation, text if short else topic.value] = None
        self._some.set()
        return short

    async def wait(self, topic: Topic, seconds: float) -> HintBatch:
        """Wait for a hint, or for some seconds."""
        event = self._events[topic]
        try:
            async with asyncio.timeout(seconds):
                await event.wait()
        except TimeoutError:
            self._look.add(topic)
        event.clear()
        data, self._data[topic] = self._data[topic], []
        look = topic in self._look
        self._look.discard(topic)
        return HintBatch(data, look)

    async def send(self) -> None:
        """Send queued hints, in a loop. A hint that fails is not sent again, since receivers poll."""
        while True:
            await self._some.wait()
            self._some.clear()
            await self.flush()

    async def flush(self) -> None:
        """Send queued hints."""
        due, self._due = list(self._due), {}
        try:
            await self._send(due)
        except (EngineError, *DRIVER) as error:
            if classify(error) is StatementFailure.ROW:  # the database's encoding lacks a character
                with suppress(EngineError, *DRIVER):
                    await self._send([(number, text.partition(" ")[0]) for number, text in due])

    async def _send(self, due: Sequence[tuple[int, str]]) -> None:
        await self._link.fetch(
            _TELL, [self._format_channel(number) for number, _ in due], [text for _, text in due]
        )


class StoredArrival(NamedTuple):
    """Arrival without its conversation and key, which are columns of its row."""

    principal: str | None
    content: Arriving


class ArrivalHint(NamedTuple):
    """Arrival in a hint, with the incarnation that waits for its fate, and whether the inbox has it."""

    asker: int
    stored: bool
    id: str
    conversation: str
    principal: str | None
    content: Arriving


class PendingArrival(NamedTuple):
    """Arrival that awaits its decision.

    Args:
        conversation: that it is for.
        asker: incarnation that waits for its fate.
        stored: whether the inbox has a row of it.
    """

    conversation: str
    asker: int
    stored: bool


class OutcomeHint(NamedTuple):
    """Fate of an arrival in a hint."""

    id: str
    fate: ArrivalOutcome


class Tail(NamedTuple):
    """Latest events of a conversation: all after ``since``, up to a version."""

    conversation: str
    version: int
    since: EventPlace
    events: tuple[Reply | Done, ...]


_ARRIVING: Final = {
    "Arriving": OutsideMessage
    | Cancellation
    | ConversationClosing
    | ApprovalAnswer
    | RequeuedLetter
    | EffectVerdict,
    "RequeuedLetter": RequeuedLetter,
}
_ARRIVALS: Final[ValueCodec[StoredArrival]] = derive_stored(StoredArrival, _ARRIVING)
_FATES: Final[ValueCodec[ArrivalOutcome]] = derive_stored(ArrivalOutcome)
_ARRIVAL_HINTS: Final[ValueCodec[ArrivalHint]] = derive_stored(ArrivalHint, _ARRIVING)
_FATE_HINTS: Final[ValueCodec[OutcomeHint]] = derive_stored(OutcomeHint)
_TAILS: Final[ValueCodec[Tail]] = derive_stored(Tail)


def dump_arrival(arrival: Arrival) -> bytes:
    """Encode an arrival. Raises TypeError for unsupported content."""
    return _ARRIVALS.dump(StoredArrival(arrival.principal, arrival.content))


def load_arrival(key: str, conversation: str, data: bytes) -> Arrival:
    """Decode an arrival. Raises ValueError."""
    return Arrival(key, conversation, *_ARRIVALS.load(data))


def dump_fate(fate: ArrivalOutcome) -> str:
    """Encode a fate."""
    return _FATES.dump(fate).decode()


def load_fate(text: str) -> ArrivalOutcome:
    """Decode a fate. Raises ValueError."""
    return _FATES.load(text)


def dump_arrival_hint(arrival: Arrival, asker: int, *, stored: bool) -> str:
    """Encode an arrival for a hint. Raises TypeError for unsupported content."""
    return _ARRIVAL_HINTS.dump(ArrivalHint(asker, stored, *arrival)).decode()


def load_arrival_hint(text: str) -> tuple[PendingArrival, Arrival]:
    """Decode an arrival, and what is pending of it. Raises ValueError."""
    hint = _ARRIVAL_HINTS.load(text)
    return PendingArrival(hint.conversation, hint.asker, hint.stored), Arrival(*hint[2:])


def dump_fate_hint(key: str, fate: ArrivalOutcome) -> str:
    """Encode a fate for a hint."""
    return _FATE_HINTS.dump(OutcomeHint(key, fate)).decode()


def load_fate_hint(text: str) -> OutcomeHint:
    """Decode a fate. Raises ValueError."""
    return _FATE_HINTS.load(text)


def dump_tail(tail: Tail) -> str:
    """Encode the latest events of a conversation for a hint."""
    return _TAILS.dump(tail).decode()


def load_tail(text: str) -> Tail:
    """Decode the latest events of a conversation. Raises ValueError."""
    return _TAILS.load(text)
