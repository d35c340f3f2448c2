"""Hints between servers that there is something to look at, so that they need not wait for their next look.

Owns the channels of ``NOTIFY``. A hint may be missing, late or for nothing: whoever waits for one looks by itself after
a bounded time. Hints are sent by a statement of their own, several at once, since ``NOTIFY`` takes a lock of the whole
database. Refuses to carry anything but a topic.
"""

from __future__ import annotations

import asyncio
import hashlib
from contextlib import suppress
from enum import StrEnum
from typing import TYPE_CHECKING

from agentserver.engines.postgres.addresses import is_pooled
from agentserver.engines.postgres.connection import DRIVER
from agentserver.ports import EngineError

if TYPE_CHECKING:
    from agentserver.engines.postgres.connection import Connection, Link
    from agentserver.engines.postgres.options import PostgresOptions

EVERYBODY = 0
"""The number under which every server hears."""

_TELL = "select pg_notify(channel, topic) from unnest($1::text[], $2::text[]) as hint(channel, topic)"


class Topic(StrEnum):
    """Things that there are to look at."""

    INBOX = "inbox"
    FATES = "fates"
    NEWS = "news"
    LEASES = "leases"
    TOKENS = "tokens"


class Hints:
    """Sends hints, and waits for them.

    Args:
        options: of the database.
        link: for sending.
    """

    def __init__(self, options: PostgresOptions, link: Link) -> None:
        digest = hashlib.blake2b(options.schema.encode(), digest_size=6).hexdigest()
        self._prefix = f"agentserver_{digest}_"
        self._link = link
        self._events = {topic: asyncio.Event() for topic in Topic}
        self._due: set[tuple[int, Topic]] = set()
        self._some = asyncio.Event()

    async def listen(self, connection: Connection, incarnation: int) -> None:
        """Hear on a connection what is meant for an incarnation, and for every server.

        A backend that a pooler gives to others next would keep listening, and tell whoever has it.
        """
        for number in () if is_pooled(connection) else {incarnation, EVERYBODY}:
            await connection.add_listener(f"{self._prefix}{number}", self._hear)
        self.stir()

    def _hear(self, _connection: object, _pid: int, _channel: str, topic: object) -> None:
        with suppress(ValueError):
            self._events[Topic(str(topic))].set()

    def stir(self, *topics: Topic) -> None:
        """Have this process look, at everything without a topic."""
        for topic in topics or Topic:
            self._events[topic].set()

    def tell(self, incarnation: int, topic: Topic) -> None:
        """Send a hint soon."""
        self._due.add((incarnation, topic))
        self._some.set()

    async def until(self, topic: Topic, seconds: float) -> None:
        """Wait for a hint, and so long at most."""
        event = self._events[topic]
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await event.wait()
        event.clear()

    async def send(self) -> None:
        """Send what is due, for ever. What cannot be sent is not sent later: the others look by themselves."""
        while True:
            await self._some.wait()
            self._some.clear()
            await self.flush()

    async def flush(self) -> None:
        """Send what is due."""
        due, self._due = self._due, set()
        channels = [f"{self._prefix}{number}" for number, _ in due]
        with suppress(EngineError, *DRIVER):
            await self._link.fetch(_TELL, channels, [topic.value for _, topic in due])
