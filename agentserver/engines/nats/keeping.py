"""The bucket beside the stream of a log: copies of replicas, and entries that are too large for a message.

Owns the bucket, and for how long it holds what. Refuses to know what is in a copy.
"""

from __future__ import annotations

import asyncio
import json
import logging
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, BinaryIO, Final, NamedTuple

from agentserver.broker.address import BrokerError
from agentserver.broker.link import SilenceError, troubles
from agentserver.engines.nats.stream import AGAIN, HEADERS, api
from agentserver.engines.replica.log import PARTITIONS, BrokenLogError
from agentserver.ports import EngineError
from agentserver.ports.tasks import ended

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from agentserver.broker.link import Link
    from agentserver.engines.nats.subjects import LogSubjects

logger = logging.getLogger("agentserver.broker")

_PATIENCE: Final = (0.5, 0.5, 1.0, 2.0, 4.0)
"""Seconds for an answer, each time it is asked for."""

STILL: Final = 15.0
"""Seconds without a piece of something after which no more of it comes."""

ATTEMPTS: Final = 3
"""Times that a copy is fetched: another one may take its place meanwhile."""

PIECE: Final = 128 << 10
"""Bytes of a piece."""

COPY: Final = "replica"
"""The name of the copy."""

HELD: Final = timedelta(days=1)
"""The time for which a large entry is held at least beyond what the log has: it is put before its entry is."""


class KeptCopy(NamedTuple):
    """The copy that is kept.

    Args:
        place: that it is as of.
        forgotten: the place up to which the log was forgotten when it was put.
    """

    place: int
    forgotten: int


class Keeping:
    """The bucket of a log.

    Args:
        link: to the broker.
        subjects: of the log.
        replicas: how many nodes keep it.
    """

    def __init__(self, link: Link, subjects: LogSubjects, replicas: int) -> None:
        self._link = link
        self._subjects = subjects
        self._replicas = replicas
        self._bucket: Any = None

    async def put(self, name: str, data: bytes) -> None:
        """Keep something under a name, for as long as it takes. Raises EngineError.

        A bucket without a leader says nothing of what it is to keep: an entry of the log waits for one as well.
        """
        from nats.js.errors import NotFoundError

        while True:
            with _told(), suppress(SilenceError), troubles(name):
                try:
                    await (await self._store()).put(name, data, self._about(name))
                except NotFoundError:  # an operator has removed the bucket
                    self._bucket = None
                else:
                    return
            await asyncio.sleep(AGAIN)

    def _about(self, name: str, description: str | None = None) -> Any:
        """Says of something that is put how it is cut: into pieces that are messages of the broker's."""
        from nats.js.api import ObjectMeta, ObjectMetaOptions

        options = ObjectMetaOptions(max_chunk_size=max(1, min(PIECE, self._link.most - HEADERS)))
        return ObjectMeta(name=name, description=description, options=options)

    async def get(self, name: str) -> bytes:
        """The bytes kept under a name. Raises BrokerError, and BrokenLogError when there are none."""
        from nats.js.errors import NotFoundError

        for pause in _PATIENCE:  # a node that is behind the others may not have it yet
            with troubles(name):
                try:
                    data: bytes = (await self._fetched(name, None)).data
                except NotFoundError:
                    await asyncio.sleep(pause)
                else:
                    return data
        raise BrokenLogError(f"the content of the entry {name} is gone from the broker")

    async def copied(self) -> KeptCopy | None:
        """The copy that is kept; None when none is. Raises EngineError."""
        from nats.js.errors import NotFoundError

        with _told():
            try:
                info = await self._asked()
            except NotFoundError:
                return None
            try:
                place, forgotten = json.loads(info.description or "")
                return KeptCopy(int(place), int(forgotten))
            except (ValueError, TypeError, OverflowError, RecursionError):
                raise EngineError("the kept copy of a replica does not say what it is of") from None

    async def _asked(self) -> Any:
        """The copy, as the bucket knows it. One that is being made has no leader and never answers: ask again."""
        for seconds in _PATIENCE:
            with suppress(TimeoutError):
                return await asyncio.wait_for((await self._store()).get_info(COPY), seconds)
        raise TimeoutError

    async def restore(self, file: Path) -> int | None:
        """Write the copy to a file; gives its place. None when there is none. Raises EngineError.

        One that is replaced meanwhile is fetched again, a few times.
        """
        for _ in range(ATTEMPTS):
            copied = await self.copied()
            if copied is None:
                return None
            await asyncio.to_thread(_private, file)
            try:
                with _told(), file.open("wb") as target:
                    await self._fetched(COPY, target)
            except EngineError as error:
                why = error
            else:
                return copied.place
        raise EngineError(f"the kept copy of a replica cannot be fetched: {why}") from why

    async def _fetched(self, name: str, target: BinaryIO | None) -> Any:
        """Fetch something, for as long as pieces of it come. The library waits for ever for those that are gone."""
        fetching = asyncio.ensure_future((await self._store()).get(name, writeinto=target))
        try:
            came = -1
            while not fetching.done():
                now = 0 if target is None else target.tell()
                if now == came:
                    raise TimeoutError
                came = now
                await asyncio.wait([fetching], timeout=STILL)
            return fetching.result()
        finally:
            await ended([fetching])

    async def copy(self, place: int, file: Path) -> None:
        """Keep a copy in place of the one before, and forget what only that one needed. Raises EngineError."""
        before = await self.copied()
        if before is not None and place <= before.place:
            return  # another process had the first partition meanwhile, and has kept a later one
        forgotten = 0 if before is None else before.place
        meta = self._about(COPY, json.dumps([place, forgotten]))
        with _told():
            self._bucket = None  # made anew where an operator has removed it
            with await asyncio.to_thread(file.open, "rb") as source:
                await (await self._store()).put(COPY, source, meta)
            if forgotten:
                await self._forget(self._subjects.log("*"), forgotten + 1)
                for partition in range(PARTITIONS):
                    await self._forget_claims(self._subjects.own(partition), forgotten)
            await self._clear(forgotten)

    async def _forget(self, subject: str, before: int) -> None:
        """Forget what the log has of a subject before a place."""
        request = {"filter": subject, "seq": before}
        await api(self._link, f"STREAM.PURGE.{self._subjects.stream}", request)

    async def _forget_claims(self, subject: str, forgotten: int) -> None:
        """Forget the claims of a partition up to a place, but for the last one, by which commits are measured."""
        try:
            last = await api(self._link, f"STREAM.MSG.GET.{self._subjects.stream}", {"last_by_subj": subject})
            await self._forget(subject, min(int(last["message"]["seq"]), forgotten + 1))
        except (BrokerError, LookupError, TypeError, ValueError):
            return  # it was never claimed, or cannot be asked now: the next copy asks again

    async def _clear(self, forgotten: int) -> None:
        """Forget large entries that the log has no more: those from well before what it has after a place."""
        request = {"seq": forgotten + 1, "next_by_subj": self._subjects.log("*")}
        try:
            found = await api(self._link, f"STREAM.MSG.GET.{self._subjects.stream}", request)
            first = datetime.fromisoformat(found["message"]["time"])
        except (BrokerError, LookupError, TypeError, ValueError):
            return  # there is none, or it cannot be asked now: the next copy asks again
        bucket, border = await self._store(), min(first, datetime.now(UTC)) - HELD
        for info in await bucket.list(ignore_deletes=True):
            if info.name != COPY and _when(info.mtime) < border:
                await bucket.delete(info.name)

    async def _store(self) -> Any:
        if self._bucket is None:
            from nats.js.api import ObjectStoreConfig

            config = ObjectStoreConfig(bucket=self._subjects.objects, replicas=self._replicas)
            self._bucket = await self._link.stream.create_object_store(self._subjects.objects, config)
        return self._bucket


def _private(file: Path) -> None:
    """Make a file that is its owner's alone, empty. Raises EngineError."""
    try:
        file.unlink(missing_ok=True)
        file.touch(0o600, exist_ok=False)
    except OSError as error:
        raise EngineError(f"{file}: {error.strerror}") from error


def _when(text: object) -> datetime:
    try:
        return datetime.fromisoformat(str(text))
    except ValueError:
        return datetime.now(UTC)


@contextmanager
def _told() -> Iterator[None]:
    """Turn troubles of the broker and the disk into EngineError."""
    from nats.js.errors import Error

    try:
        with troubles("what is kept beside the log"):
            yield
    except (BrokerError, Error, OSError) as error:
        raise EngineError(f"the broker: {error}") from error
