"""The partitions of each process, kept up by beats over a bucket of the broker.

Owns this process's beats, its claims, and what it lets go. What it holds is for liveness: whether an entry counts is
decided by the log. Refuses to know entries.
"""

from __future__ import annotations

import asyncio
import logging
from base64 import b64decode
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from agentserver.broker.address import BrokerError
from agentserver.engines.nats.answers import store
from agentserver.engines.nats.members import BEATS, Beat, Members
from agentserver.engines.nats.stream import api
from agentserver.engines.nats.subjects import LAST
from agentserver.ports.sharing import Share
from agentserver.ports.tasks import ended

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine

    from nats.aio.msg import Msg

    from agentserver.broker.link import Link
    from agentserver.engines.nats.stream import LogStream
    from agentserver.engines.nats.subjects import LogSubjects

logger = logging.getLogger("agentserver.broker")

_GONE: Final = {"KV-Operation": "DEL"}
SHORT: Final = 2.0
"""Seconds for an answer that is not waited for longer."""

SILENT: Final = 8.0
"""Seconds without an answer to a beat after which another node is tried: a new leader takes less, and this one may have
lost the others, while its connections stand."""

_HEARD: Final = 1 << 20
"""Bytes of beats that may wait to be looked at."""


class LastWords(NamedTuple):
    """The last words on a subject: empty where there are none, or none any more."""

    holder: str
    place: int


class Life:
    """The life of one process among those of a log.

    Args:
        link: to the broker.
        subjects: of the log.
        stream: where claims go.
        name: of this process.
        lease: seconds of silence after which a process counts as dead.
        make: makes the bucket when it is not there; raises BrokerError.
    """

    def __init__(
        self,
        link: Link,
        subjects: LogSubjects,
        stream: LogStream,
        name: str,
        lease: float,
        make: Callable[[], Awaitable[None]],
    ) -> None:
        self._link = link
        self._make = make
        self._subjects = subjects
        self._stream = stream
        self._pause = lease / BEATS
        self._members = Members(name)
        self._held: dict[int, Share] = {}
        self._told = asyncio.Event()
        self._urgent = asyncio.Event()
        self._news = asyncio.Event()
        self._last_claims: dict[int, int] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._over = self._resting = False
        self._unanswered = 0
        self.trouble = ""

    @property
    def name(self) -> str:
        """The name of this process."""
        return self._members.name

    async def begin(self) -> None:
        """Learn who lives, and have what falls to this process. Raises BrokerError."""
        beginning = self._subjects.alive("")
        await self._link.hear(f"$KV.{self._subjects.life}.>", self._hear, _HEARD)
        for name in await self._known(beginning):
            said = await self._last(self._subjects.alive(name))
            if said.holder:
                self._members.hear(Beat.load(name, said.holder.encode()))
        await self._beat()
        await self._divide()
        self._begin(self._live())
        self._begin(self._keep_dividing())

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _known(self, beginning: str) -> list[str]:
        """The names of the processes that have not said that they are gone."""
        request = {"subjects_filter": f"{beginning}*"}
        found = await api(self._link, f"STREAM.INFO.KV_{self._subjects.life}", request)
        try:
            names = dict(found["state"].get("subjects") or {})
        except (LookupError, TypeError, ValueError, AttributeError):
            raise BrokerError("the broker does not say who lives") from None
        return [subject.removeprefix(beginning) for subject in names if isinstance(subject, str)]

    async def _hear(self, message: Msg) -> None:
        """Another process, or this one, has said something."""
        _, _, kind, name = message.subject.split(".", 3)
        if kind == "process":
            if not message.data:
                self._members.leave(name)
            else:
                self._members.hear(Beat.load(name, message.data))
            if name != self.name:
                self._urgent.set()
        news, self._news = self._news, asyncio.Event()
        news.set()

    async def _live(self) -> None:
        while True:
            await asyncio.sleep(self._pause)
            self._begin(
                self._beat()
            )  # its answer may be long in coming, and the next beat does not wait for it

    async def _keep_dividing(self) -> None:
        while True:
            self._urgent.clear()
            await self._divide()
            await _for(self._urgent, self._pause)

    async def _beat(self) -> None:
        if self._resting:
            return
        beat = Beat(self.name, frozenset(self._held))
        answer = await store(self._link, self._subjects.alive(self.name), beat.dump(), {}, SHORT)
        self._unanswered = 0 if answer is not None else self._unanswered + 1
        if answer is None:
            self.trouble = "the broker does not answer"
            if self._unanswered * self._pause >= SILENT:
                self._unanswered = 0
                logger.warning("the node of the broker does not answer: another one is tried")
                with suppress(BrokerError):
                    await self._link.elsewhere()
                with suppress(BrokerError):  # an operator may have removed it: what is in it is said again
                    await self._make()
        else:
            self.trouble = f"the broker keeps nothing: {answer.words}" if answer.error else ""

    async def _divide(self) -> None:
        """Let go what falls to others, and claim what falls to this process and none holds."""
        if self._resting:
            return
        for name in self._members.dead():
            logger.warning("the process %s is silent: what it had is taken", name)
            await self._remove(name)
        claim, loose = self._members.change(frozenset(self._held))
        for partition in loose:
            del self._held[partition]
        if loose:
            self._tell()
        if claim and self._takes():
            epochs = await asyncio.gather(*(self._stream.claim(one, self.name) for one in claim))
            for partition, epoch in zip(claim, epochs, strict=True):
                if epoch is not None and self._takes() and epoch >= self._last_claims.get(partition, 0):
                    self._held[partition] = Share(partition, epoch)
        if claim or loose:
            self._tell()
            self._begin(self._beat())

    def _takes(self) -> bool:
        return not (self._over or self._resting)

    def _tell(self) -> None:
        told, self._told = self._told, asyncio.Event()
        told.set()

    def renounce(self, partition: int, epoch: int) -> None:
        """Let a partition go that is held under a claim, to claim it anew."""
        share = self._held.get(partition)
        if share is not None and share.epoch == epoch:
            del self._held[partition]
            self._tell()
            self._urgent.set()

    def overtaken(self, partition: int, epoch: int) -> None:
        """A partition was claimed: what is held of it from earlier is not any more."""
        self._last_claims[partition] = epoch
        share = self._held.get(partition)
        if share is not None and share.epoch < epoch:
            del self._held[partition]
            self._tell()

    async def shares(self) -> AsyncIterator[frozenset[Share]]:
        """The held shares, now and after each change."""
        while True:
            told, held = self._told, frozenset(self._held.values())
            yield held
            if held == frozenset(self._held.values()):
                await told.wait()

    async def rest(self) -> None:
        """Hold nothing, and count as gone, until ``wake``."""
        self._resting = True
        self._held.clear()
        self._tell()
        await self._remove(self.name)

    async def wake(self) -> None:
        """Live again."""
        self._resting = False
        await self._beat()
        self._urgent.set()

    async def give_up(self) -> None:
        """Hold nothing any more, and say so."""
        self._over = True
        self._held.clear()
        self._tell()
        await ended(self._tasks)
        if self._link.stands:
            await self._remove(self.name)

    async def _remove(self, name: str) -> None:
        """Say that a process is gone, and keep nothing of it."""
        subject = self._subjects.alive(name)
        await store(self._link, subject, b"", _GONE, SHORT)
        with suppress(BrokerError):
            await api(self._link, f"STREAM.PURGE.KV_{self._subjects.life}", {"filter": subject}, SHORT)

    def living(self, name: str) -> bool:
        """True for a process that is not known to be gone."""
        return self._members.living(name)

    # Tokens

    async def take(self, name: str) -> int:
        """Have a token once no living process has it; gives its place."""
        subject, said = self._subjects.token(name), LastWords("", 0)
        while True:
            news, had = self._news, said.holder
            if not had or had == self.name or not self._members.living(had):
                answer = await store(self._link, subject, self.name.encode(), {LAST: str(said.place)})
                if answer is not None and not answer.error:
                    return answer.place
            else:
                await _for(news, self._pause)
            said = await self._last(subject)

    async def leave(self, name: str, place: int) -> None:
        """Have a token no more."""
        headers = {**_GONE, LAST: str(place)}
        await store(self._link, self._subjects.token(name), b"", headers, SHORT)

    async def _last(self, subject: str) -> LastWords:
        """The last words on a subject."""
        try:
            found = await api(
                self._link, f"STREAM.MSG.GET.KV_{self._subjects.life}", {"last_by_subj": subject}
            )
            message = found["message"]
            data = b64decode(message.get("data") or "")
            return LastWords(data.decode("utf-8", "replace"), int(message["seq"]))
        except (BrokerError, LookupError, TypeError, ValueError, AttributeError, OverflowError):
            return LastWords("", 0)


async def _for(event: asyncio.Event, seconds: float) -> None:
    """Wait for something for so long."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
