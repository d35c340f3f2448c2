"""A replicated log on NATS JetStream.

Owns its lifetime: connected, looked at, made when it is not there, left. Refuses to know what an entry says.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import socket
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NoReturn, Self, TypeVar

from agentserver.broker.address import BrokerAddress, BrokerError
from agentserver.broker.link import PermissionDeniedError, connected
from agentserver.broker.remedies import ROOM, explained
from agentserver.engines.nats.answers import ENOUGH, OversizeError, UnsettledError, store, unkept
from agentserver.engines.nats.durability import relaxed
from agentserver.engines.nats.keeping import Keeping
from agentserver.engines.nats.life import Life
from agentserver.engines.nats.listeners import NOTE, objection, words
from agentserver.engines.nats.settings import otherwise
from agentserver.engines.nats.stream import (
    AGAIN,
    HEADERS,
    AbsentError,
    FinalError,
    LogStream,
    api,
)
from agentserver.engines.nats.subjects import ID, LAST, OBJECT, LogSubjects
from agentserver.engines.replica.entries.form import LARGEST
from agentserver.extras import require
from agentserver.ports import EngineError, FencedError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path
    from types import TracebackType

    from agentserver.broker.link import Link
    from agentserver.engines.replica.log import LogEntry
    from agentserver.ports.sharing import Share

logger = logging.getLogger("agentserver.broker")

T = TypeVar("T")

ELECTION: Final = 15.0
"""Seconds for which a broker is asked again at the start: a stream that was just made has no leader yet."""

_REMEMBERED: Final = 600_000_000_000
"""Nanoseconds for which the broker knows an id again. What comes later is known by the replicas."""

_OLD: Final = 7 * 86_400 * 1_000_000_000
"""Nanoseconds after which it is forgotten what ran in a process that has written nothing of it since."""


@dataclass(frozen=True, slots=True)
class LogOptions:
    """The log of an organism, and how its broker is to be.

    Args:
        organism: its name, and that of the log.
        address: of the broker.
        lease: seconds of silence after which a process counts as dead.
        monitoring: URLs of the monitoring of each node.
        relaxed: whether a broker is taken that does not wait for its disk.
        listeners: the names of the organism's listeners; none where they do not matter.
    """

    organism: str
    address: BrokerAddress
    lease: float = 2.0
    monitoring: tuple[str, ...] = ()
    relaxed: bool = False
    listeners: frozenset[str] = frozenset()


class NatsLog:
    """The log of one process. Raises MissingExtraError without the extra ``nats``.

    Args:
        options: where it is.
    """

    most = LARGEST

    def __init__(self, options: LogOptions) -> None:
        require("engine: nats", "nats")
        import nats.js.object_store  # noqa: F401 - here, and not while others wait for the loop

        self.name = f"{socket.gethostname().replace('.', '-')[:40]}-{os.getpid()}-{secrets.token_hex(4)}"
        self._options = options
        self._subjects = LogSubjects(options.organism)
        self._inside: dict[str, asyncio.Lock] = {}
        self._stack = AsyncExitStack()
        self._link: Link
        self._stream: LogStream
        self._life: Life
        self._keeping: Keeping

    async def __aenter__(self) -> Self:
        """Connect, look at the broker, and have what falls to this process. Raises EngineError."""
        try:
            async with AsyncExitStack() as stack:
                await self._begin(stack)
                self._stack = stack.pop_all()
        except BrokerError as error:
            raise self._told(error) from error
        return self

    def _told(self, error: Exception | str) -> EngineError:
        return EngineError(explained(str(error), self._options.address))

    async def _begin(self, stack: AsyncExitStack) -> None:
        why = await relaxed(self._options.monitoring)
        if why is not None and not self._options.relaxed:
            raise self._told(
                f"{why}: what is acknowledged may be lost with the power. Set sync_interval: always at each node,"
                " name their monitoring, or say durability: relaxed"
            )
        if why is not None:
            logger.warning("%s: what is acknowledged may be lost with the power (durability: relaxed)", why)
        link = self._link = await stack.enter_async_context(connected(self._options.address, name=self.name))
        replicas = self._options.address.replicas
        self._keeping = Keeping(link, self._subjects, replicas)
        self._stream = LogStream(link, self._subjects, self._keeping.get)
        await self._patiently(partial(self._make, replicas))
        await self._patiently(self._belong)
        lease = self._options.lease
        self._life = Life(link, self._subjects, self._stream, self.name, lease, self._make_life)
        stack.push_async_callback(self._life.give_up)

    async def _make(self, replicas: int) -> None:
        """Make the streams of the log that are not there."""
        log = {
            "subjects": [self._subjects.log("*"), self._subjects.own("*")],
            "duplicate_window": _REMEMBERED,
        }
        await self._stream_of(self._subjects.stream, log, replicas)
        await self._bucket_of(self._subjects.once, {}, replicas)
        await self._make_notes()
        await self._make_life()
        await self._make_marks()

    async def _belong(self) -> None:
        """Note which listeners the servers of this log have. Raises FinalError where they are another organism's."""
        mine = self._options.listeners
        if not mine:
            return
        before = await self.noted(NOTE)
        why = objection(before, mine)
        if why:
            raise FinalError(why)
        if before != words(mine):
            await self.belong(mine)

    async def belong(self, listeners: frozenset[str]) -> None:
        """Note the listeners of the organism."""
        await self.note(NOTE, words(listeners))

    async def _make_notes(self) -> None:
        """Make the bucket of notes beside the log."""
        await self._bucket_of(self._subjects.notes, {}, self._options.address.replicas)

    async def _make_life(self) -> None:
        """Make the bucket of who lives and has which token."""
        await self._bucket_of(self._subjects.life, {}, self._options.address.replicas)

    async def _make_marks(self) -> None:
        """Make the bucket of what runs in each process. What one has written of it long ago is of no server's use."""
        await self._bucket_of(
            self._subjects.marks, {"storage": "memory", "max_age": _OLD}, self._options.address.replicas
        )

    async def _bucket_of(self, name: str, more: dict[str, Any], replicas: int) -> None:
        bucket = {"max_msgs_per_subject": 1, "allow_rollup_hdrs": True, "deny_delete": True}
        await self._stream_of(f"KV_{name}", {"subjects": [f"$KV.{name}.>"], **bucket, **more}, replicas)

    async def _stream_of(self, name: str, config: dict[str, Any], replicas: int) -> None:
        whole = {
            "name": name,
            "retention": "limits",
            "storage": "file",
            "discard": "new",
            "num_replicas": replicas,
            "allow_direct": True,
            **config,
        }
        try:
            await api(self._link, f"STREAM.CREATE.{name}", whole)
        except BrokerError as error:
            try:
                found = await api(self._link, f"STREAM.INFO.{name}", {})
            except AbsentError:
                raise error from None
            other = otherwise(found.get("config"), whole)
            if other:
                raise FinalError(
                    f"the stream {name} is there with other settings: {other}; correct it at the broker, or name"
                    " another log with engine.nats.name"
                ) from error

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give up what is held, and disconnect."""
        await self._stack.aclose()

    @property
    def away(self) -> str:
        """The reason that nothing can be appended at present."""
        if not self._link.stands:
            return "the broker cannot be reached"
        return self._life.trouble

    async def append(self, partition: int, epoch: int | None, entry: bytes, id: str) -> int:  # noqa: A002 - the Protocol's
        """Append an entry; gives its place."""
        unknown, large, refused = False, False, 0
        why: EngineError
        while True:
            large = large or len(entry) > self._link.most - HEADERS
            try:
                if large:
                    await self._keeping.put(id, entry)
                    return await self._stream.append(partition, epoch, b"", {ID: id, OBJECT: id})
                return await self._stream.append(partition, epoch, entry, {ID: id})
            except OversizeError as error:  # the broker takes less than it did, or less than any entry needs
                unknown, why = unknown or error.unknown, error
                if large and not unknown:
                    raise
            except FencedError:
                raise
            except UnsettledError as error:
                self._give_back(partition, epoch, error)
            except EngineError as error:
                why = error
                if not unknown:
                    raise
            refused += 1
            if refused >= ENOUGH:
                self._give_back(partition, epoch, why)
            await asyncio.sleep(AGAIN)

    def _give_back(self, partition: int, epoch: int | None, why: EngineError) -> NoReturn:
        """Wait no more for an entry that may have been kept, and that the broker refuses now.

        Raises FencedError, once the partition is let go to be claimed anew: the replicas drop what comes under an
        earlier claim. An entry without a claim is refused (EngineError), and may count yet.
        """
        told = "%s: an entry of the partition %d was sent, and is refused since: %s (%s)"
        logger.error(told, self._subjects.stream, partition, why, ROOM)
        if epoch is None:
            raise EngineError(f"it may have been kept, and the broker refuses it now: {why}")
        self._life.renounce(partition, epoch)
        raise FencedError("the partition is claimed anew")

    async def follow(self, after: int) -> AsyncIterator[LogEntry]:
        """The entries after a place, for ever."""
        async for entry in self._stream.follow(after):
            if not entry.body:
                self._life.overtaken(entry.partition, entry.place)
            yield entry

    async def bounds(self) -> tuple[int, int]:
        """The place up to which the log is forgotten, and its end."""
        return await self._patiently(self._bounds)

    async def _bounds(self) -> tuple[int, int]:
        copied = await self._keeping.copied()
        try:
            forgotten = 0 if copied is None else copied.forgotten
            return forgotten or await self._stream.forgotten(), await self._stream.last()
        except BrokerError as error:
            raise EngineError(str(error)) from error

    async def id_at(self, place: int) -> str:
        """The id of the entry at a place."""
        try:
            return await self._stream.id_at(place)
        except BrokerError as error:
            raise EngineError(str(error)) from error

    async def shares(self) -> AsyncIterator[frozenset[Share]]:
        """The held shares: first those that are to be had at once."""
        try:
            await self._life.begin()
        except BrokerError as error:
            raise EngineError(str(error)) from error
        async for held in self._life.shares():
            yield held

    @asynccontextmanager
    async def alone(self, name: str) -> AsyncIterator[None]:
        """Be the only one inside under a name."""
        lock = self._inside.setdefault(name, asyncio.Lock())  # a token is had by a process, and this is one
        async with lock:
            place = await self._life.take(name)
            try:
                yield
            finally:
                await asyncio.shield(self._life.leave(name, place))

    async def once(self, name: str, value: str) -> str:
        """The value that a name has from now on."""
        return await self._patiently(partial(self._given, name, value))

    async def _given(self, name: str, value: str) -> str:
        subject = self._subjects.given(name)
        answer = await store(self._link, subject, value.encode(), {LAST: "0"})
        if answer is not None and not answer.error:
            return value
        found = await self._last(self._subjects.once, subject)
        if not found:
            told = f"{self._subjects.once}: the broker does not say what {name} is"
            raise EngineError(f"{told}: remove the bucket at the broker, and it is given again")
        return found

    async def note(self, name: str, text: str) -> None:
        """Keep a text under a name."""
        answer = await store(self._link, self._subjects.note(name), text.encode(), {})
        if answer is not None and not answer.error:
            return
        with suppress(BrokerError):  # an operator may have removed it
            await self._make_notes()
        raise EngineError(f"{self._subjects.notes}: the broker keeps nothing: {unkept(answer)}")

    async def noted(self, name: str) -> str:
        """The text under a name."""
        return await self._last(self._subjects.notes, self._subjects.note(name))

    async def mark(self, text: str) -> None:
        """Keep what runs in this process."""
        answer = await store(self._link, self._subjects.mark(self.name), text.encode(), {})
        if answer is not None and not answer.error:
            return
        with suppress(BrokerError):  # a broker that has begun anew has nothing of what it had in its memory
            await self._make_marks()
        raise EngineError(f"{self._subjects.marks}: the broker keeps nothing: {unkept(answer)}")

    async def marked(self, name: str) -> str:
        """The text of a process."""
        return await self._last(self._subjects.marks, self._subjects.mark(name))

    async def _last(self, bucket: str, subject: str) -> str:
        """The last words on a subject; empty where there are none. Raises EngineError."""
        from nats.js.errors import Error, NotFoundError

        try:
            said = await self._link.stream.get_last_msg(f"KV_{bucket}", subject)
        except NotFoundError:
            return ""
        except (Error, OSError, TimeoutError) as error:
            raise EngineError(f"the broker does not say what {subject} is: {error}") from error
        return (said.data or b"").decode("utf-8", "replace")

    def living(self, name: str) -> bool:
        """True for a process that is not known to be gone."""
        return self._life.living(name)

    async def snapshot(self, place: int, file: Path) -> None:
        """Keep a copy of a replica, and forget of the log what the copy before it was of."""
        await self._keeping.copy(place, file)

    async def restore(self, file: Path) -> int | None:
        """Write the kept copy to a file."""
        return await self._keeping.restore(file)

    async def rest(self) -> None:
        """Hold nothing for a while."""
        await self._life.rest()

    async def wake(self) -> None:
        """Take a part again."""
        await self._life.wake()

    async def give_up(self) -> None:
        """Hold nothing any more."""
        await self._life.give_up()

    async def _patiently(self, work: Callable[[], Awaitable[T]]) -> T:
        """Do something that a broker may not be ready for yet. Raises EngineError with what ``work`` raised last."""
        loop = asyncio.get_running_loop()
        end = loop.time() + ELECTION
        while True:
            try:
                return await work()
            except (BrokerError, EngineError) as error:
                final = isinstance(error, PermissionDeniedError | FinalError)
                if final or loop.time() > end:
                    raise self._told(error) from error
            await asyncio.sleep(0.2)
