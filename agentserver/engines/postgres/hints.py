"""Hints between servers that there is something to look at, so that they need not wait for their next look.

Owns the channels of ``NOTIFY``. A hint may be missing, late or for nothing: each server looks by itself after a bounded
time. A hint may carry what the look would find, so that no statement is needed. Hints are sent by a statement of their
own, several at once, since ``NOTIFY`` takes a lock of the whole database. Every role of the database may send one, so
the names of the channels contain a secret that only those know who may read the tables.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from enum import StrEnum
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
from agentserver.engines.postgres.connection import DRIVER, Trouble, classify, is_pooled
from agentserver.ports import Arrival, EngineError, Fate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentserver.codec import ValueCodec
    from agentserver.engines.postgres.connection import Connection, Link
    from agentserver.ports.claims import Arriving


EVERYBODY = 0
"""The number under which every server hears."""

MOST = 7_900
"""Bytes of a hint with its data. Postgres takes less than 8,000."""

HEARD = 1_000
"""Hints with data that wait to be read. With more of them a look is cheaper."""

_TELL = "select pg_notify(channel, topic) from unnest($1::text[], $2::text[]) as hint(channel, topic)"


class Topic(StrEnum):
    """Things that there are to look at."""

    INBOX = "inbox"
    FATES = "fates"
    NEWS = "news"
    LEASES = "leases"
    TOKENS = "tokens"


class HintBatch(NamedTuple):
    """Hints that arrived since the last wait.

    Args:
        data: of those that carry any, in order.
        look: whether there may be more to find.
    """

    data: list[str]
    look: bool


LOOK_DUE: Final = HintBatch([], look=True)
"""The batch before the first wait."""


class Hints:
    """Sends hints, and waits for them.

    Args:
        link: for sending.

    ``secret`` is read from the tables before the first hint is sent or heard.
    """

    def __init__(self, link: Link) -> None:
        self.secret = ""
        self._link = link
        self._events = {topic: asyncio.Event() for topic in Topic}
        self._data: dict[Topic, list[str]] = {topic: [] for topic in Topic}
        self._look = set(Topic)
        self._due: dict[tuple[int, str], None] = {}
        self._some = asyncio.Event()

    async def listen(self, connection: Connection, incarnation: int) -> None:
        """Hear on a connection what is meant for an incarnation, and for every server.

        A backend that a pooler gives to others next would keep listening, and tell whoever has it.
        """
        for number in () if is_pooled(connection) else {incarnation, EVERYBODY}:
            await connection.add_listener(self._channel(number), self._hear)
        self.stir()

    def _channel(self, incarnation: int) -> str:
        return f"agentserver_{self.secret}_{incarnation}"

    def _hear(self, _connection: object, _pid: int, _channel: str, payload: object) -> None:
        name, _, data = str(payload).partition(" ")
        with suppress(ValueError):
            topic = Topic(name)
            if data and len(self._data[topic]) < HEARD:
                self._data[topic].append(data)
                self._events[topic].set()
            else:
                self.stir(topic)

    def stir(self, *topics: Topic) -> None:
        """Have this process look, at everything without a topic."""
        for topic in topics or Topic:
            self._look.add(topic)
            self._events[topic].set()

    def tell(self, incarnation: int, topic: Topic, data: str = "") -> None:
        """Send a hint soon, with what there is to find where that is short enough."""
        text = f"{topic.value} {data}" if data else topic.value
        self._due[incarnation, text if len(text.encode()) <= MOST else topic.value] = None
        self._some.set()

    async def until(self, topic: Topic, seconds: float) -> HintBatch:
        """Wait for a hint, at most so long."""
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
        """Send what is due, for ever. What cannot be sent is not sent later: the others look by themselves."""
        while True:
            await self._some.wait()
            self._some.clear()
            await self.flush()

    async def flush(self) -> None:
        """Send what is due."""
        due, self._due = list(self._due), {}
        try:
            await self._send(due)
        except (EngineError, *DRIVER) as error:
            if classify(error) is Trouble.ROW:  # the encoding of the database lacks a character
                with suppress(EngineError, *DRIVER):
                    await self._send([(number, text.partition(" ")[0]) for number, text in due])

    async def _send(self, due: Sequence[tuple[int, str]]) -> None:
        await self._link.fetch(_TELL, [self._channel(number) for number, _ in due], [text for _, text in due])


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


def dump_arrival(arrival: Arrival) -> bytes:
    """Write an arrival. Raises TypeError for one that has no form."""
    return _ARRIVALS.dump(KeptArrival(arrival.principal, arrival.content))


def load_arrival(key: str, conversation: str, data: bytes) -> Arrival:
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
