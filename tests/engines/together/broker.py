"""A broker in this process: one log, claims of partitions with leases on a clock that a test sets, names and tokens.

Owns the order of entries, who may append to a partition, and who is alive. Refuses to read an entry.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple, Self

from agentserver.ports import EngineError, FencedError, Share

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path
    from types import TracebackType

LEASE = 2.0
"""Seconds, by the broker's clock, after which a process that has not told that it lives has nothing any more."""


class LogEntry(NamedTuple):
    """One entry of the log.

    Args:
        place: in the log, from 1.
        partition: that it is of.
        epoch: of the claim under which it was appended; None for one that anybody may append.
        body: what it says; empty for a claim, of which ``place`` is the epoch.
        id: under which it was appended.
        at: the broker's time.
    """

    place: int
    partition: int
    epoch: int | None
    body: bytes
    id: str
    at: float


class _Owner(NamedTuple):
    name: str
    epoch: int


class MemoryBroker:
    """The storage of several processes in one.

    Args:
        partitions: that conversations fall into.
    """

    def __init__(self, partitions: int = 8) -> None:
        self.partitions = partitions
        self.now = 0.0
        self.entries: list[LogEntry] = []
        self.owners: dict[int, _Owner] = {}
        self.members: dict[str, MemoryLog] = {}
        self.logs: dict[str, MemoryLog] = {}
        self.away = False
        self.copy: tuple[int, bytes] | None = None
        self._ids: dict[str, int] = {}
        self._names: dict[str, str] = {}
        self._tokens: dict[str, str] = {}
        self.notes: dict[str, str] = {}
        self.marks: dict[str, list[str]] = {}
        self._grown = asyncio.Event()

    # Time and life

    def join(self, log: MemoryLog) -> None:
        """A process begins: partitions that fall to it become its own."""
        self.members[log.name] = self.logs[log.name] = log
        log.renewed = self.now
        self.balance()

    def leave(self, name: str) -> None:
        """A process is gone, cleanly: others have its partitions at once."""
        self._lose(name)

    def come_back(self) -> None:
        """The storage is not away any more."""
        self.away = False
        self._grow()

    def advance(self, seconds: float) -> None:
        """Let time pass. Who lives has told so meanwhile; who does not has nothing once its lease is over."""
        self.now += seconds
        for log in self.members.values():
            if not log.still and not self.away:
                log.renewed = self.now
        for name in [name for name, log in self.members.items() if self.now - log.renewed > LEASE]:
            self._lose(name)

    def still(self, name: str) -> None:
        """Stop a process as SIGSTOP does: it hears nothing, and nothing is heard of it."""
        self.members[name].pause()

    def moving(self, log: MemoryLog) -> None:
        """Let a stopped process go on. Past its lease it comes back as one that has nothing."""
        log.go_on()
        self.join(log)

    def _lose(self, name: str) -> None:
        if self.members.pop(name, None) is not None:
            for token in [token for token, who in self._tokens.items() if who == name]:
                self.release(token, name)
            self.balance()

    # Claims

    def balance(self) -> None:
        """Have each partition with the living process that it falls to."""
        for partition in range(self.partitions):
            if self.members:
                self.claim(partition, max(self.members, key=lambda name: _weight(name, partition)))

    def claim(self, partition: int, name: str) -> None:
        """Give a partition to a process, if another has it; that one is told when it hears."""
        before = self.owners.get(partition)
        if before is None or before.name != name:
            place = self._write(partition, None, b"", f"claim {len(self.entries)}")
            self.owners[partition] = _Owner(name, place)
            for log in self.members.values():
                log.look()

    def held(self, name: str) -> frozenset[Share]:
        """What a process has."""
        return frozenset(
            Share(partition, owner.epoch) for partition, owner in self.owners.items() if owner.name == name
        )

    def owned(self) -> frozenset[Share]:
        """What any process has."""
        return frozenset(Share(partition, owner.epoch) for partition, owner in self.owners.items())

    # The log

    def append(self, partition: int, epoch: int | None, body: bytes, id_: str) -> int:
        """Append an entry; one of the same id is there already. Raises FencedError and EngineError."""
        if self.away:
            raise EngineError("the storage is away")
        if id_ in self._ids:
            return self._ids[id_]
        owner = self.owners.get(partition)
        if epoch is not None and (owner is None or owner.epoch != epoch):
            raise FencedError("somebody else has this partition")
        self._ids[id_] = self._write(partition, epoch, body, id_)
        return self._ids[id_]

    def _write(self, partition: int, epoch: int | None, body: bytes, id_: str) -> int:
        self.entries.append(LogEntry(len(self.entries) + 1, partition, epoch, body, id_, self.now))
        self._grow()
        return len(self.entries)

    def _grow(self) -> None:
        grown, self._grown = self._grown, asyncio.Event()
        grown.set()

    async def grown(self) -> None:
        """Wait for another entry."""
        await self._grown.wait()

    def once(self, name: str, value: str) -> str:
        """The value that was given for a name first."""
        return self._names.setdefault(name, value)

    # Tokens

    def take(self, token: str, name: str) -> bool:
        """Have a token, unless another process has it."""
        return self._tokens.setdefault(token, name) == name

    def release(self, token: str, name: str) -> None:
        """Have it no more."""
        if self._tokens.get(token) == name:
            del self._tokens[token]
            for log in self.members.values():
                log.look()


class MemoryLog:
    """The way of one process to the broker. An async context manager: entering joins, leaving leaves.

    Args:
        broker: that it leads to.
        name: of the process.
    """

    most = 1_000_000

    def __init__(self, broker: MemoryBroker, name: str) -> None:
        self.broker, self.name = broker, name
        self.renewed = 0.0
        self.still = self.resting = False
        self._news = asyncio.Event()
        self._hears = asyncio.Event()
        self._hears.set()

    async def __aenter__(self) -> Self:
        """Begin to live."""
        self.broker.join(self)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Have nothing any more."""
        self.broker.leave(self.name)

    @property
    def away(self) -> str:
        """Why nothing can be appended."""
        return "the storage is away" if self.broker.away else ""

    def pause(self) -> None:
        """Hear nothing."""
        self.still = True
        self._hears.clear()

    def go_on(self) -> None:
        """Hear again."""
        self.still = False
        self._hears.set()
        self.look()

    def look(self) -> None:
        """Something may be otherwise."""
        news, self._news = self._news, asyncio.Event()
        news.set()

    async def append(self, partition: int, epoch: int | None, entry: bytes, id: str) -> int:  # noqa: A002 - the Protocol's
        """Append an entry; gives its place. Raises FencedError and EngineError."""
        await asyncio.sleep(0)
        return self.broker.append(partition, epoch, entry, id)

    async def follow(self, after: int) -> AsyncIterator[LogEntry]:
        """Every entry after a place, for ever."""
        while True:
            await self._hears.wait()
            if after >= len(self.broker.entries) or self.broker.away:
                await self.broker.grown()
                continue
            yield self.broker.entries[after]
            after += 1

    async def bounds(self) -> tuple[int, int]:
        """Everything is there."""
        return 0, len(self.broker.entries)

    async def id_at(self, place: int) -> str:
        """The id of the entry at a place."""
        return self.broker.entries[place - 1].id if 0 < place <= len(self.broker.entries) else ""

    async def shares(self) -> AsyncIterator[frozenset[Share]]:
        """What this process has, now and after each change."""
        told: frozenset[Share] | None = None
        while True:
            await self._hears.wait()
            news, held = self._news, frozenset() if self.resting else self.broker.held(self.name)
            if held != told:
                told = held
                yield held
            else:
                await news.wait()

    @asynccontextmanager
    async def alone(self, name: str) -> AsyncIterator[None]:
        """Be the only one inside under a name."""
        while not self.broker.take(name, self.name):
            await self._news.wait()
        try:
            yield
        finally:
            self.broker.release(name, self.name)

    async def once(self, name: str, value: str) -> str:
        """The value that was given for a name first. Raises EngineError."""
        if self.broker.away:
            raise EngineError(self.away)
        return self.broker.once(name, value)

    async def belong(self, listeners: frozenset[str]) -> None:
        """Note the listeners. Raises EngineError."""
        await self.note("listeners", " ".join(sorted(listeners)))

    async def note(self, name: str, text: str) -> None:
        """Keep a text under a name. Raises EngineError."""
        await asyncio.sleep(0)
        if self.broker.away or self.still:
            raise EngineError("the storage is away")
        self.broker.notes[name] = text

    async def noted(self, name: str) -> str:
        """The text under a name. Raises EngineError."""
        await asyncio.sleep(0)
        if self.broker.away or self.still:
            raise EngineError("the storage is away")
        return self.broker.notes.get(name, "")

    async def mark(self, text: str) -> None:
        """Keep what runs here. Raises EngineError."""
        await asyncio.sleep(0)
        if self.broker.away or self.still:
            raise EngineError("the storage is away")
        self.broker.marks.setdefault(self.name, []).append(text)

    async def marked(self, name: str) -> str:
        """What runs in a process. Raises EngineError."""
        await asyncio.sleep(0)
        if self.broker.away or self.still:
            raise EngineError("the storage is away")
        return self.broker.marks.get(name, [""])[-1]

    def living(self, name: str) -> bool:
        """True for one that has not left, and is not past its lease."""
        return name in self.broker.members

    async def snapshot(self, place: int, file: Path) -> None:
        """Keep a copy."""
        self.broker.copy = place, file.read_bytes()  # noqa: ASYNC240 - a test's

    async def restore(self, file: Path) -> int | None:
        """Write the copy that is kept to a file."""
        if self.broker.copy is None:
            return None
        place, copied = self.broker.copy
        file.write_bytes(copied)  # noqa: ASYNC240 - a test's
        return place

    async def rest(self) -> None:
        """Have nothing for a while."""
        self.resting = True
        self.broker.leave(self.name)
        self.look()

    async def wake(self) -> None:
        """Have something again."""
        self.resting = False
        self.broker.join(self)
        self.look()

    async def give_up(self) -> None:
        """Have nothing any more, on purpose."""
        self.broker.leave(self.name)


def _weight(name: str, partition: int) -> bytes:
    return blake2b(f"{name} {partition}".encode(), digest_size=8).digest()
