"""The worker's side: tickets are pulled, calls taken to a process behind the wall, and what it says is passed on.

Owns how long a server that says nothing is believed to wait. Refuses to import anything of the project (its processes
do, behind their wall), and to run what no server has given it for a ticket: what stands in the queue may be anybody's.
"""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Any

from agentserver.broker.address import BrokerError
from agentserver.broker.link import PermissionDeniedError, SilenceError, connected, troubles
from agentserver.broker.words import word
from agentserver.completion import CompletionFault
from agentserver.ports.tasks import ended
from agentserver.worker import frames
from agentserver.worker.remote.queue import BEAT, LOST
from agentserver.worker.remote.speech import AliveFrame, Answer, Spelling, TakeFrame
from agentserver.worker.running import WorkerError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from nats.aio.msg import Msg
    from nats.js.client import JetStreamContext

    from agentserver.broker.address import BrokerAddress
    from agentserver.broker.link import Link
    from agentserver.broker.words import Subjects
    from agentserver.worker.pool import Workers

__all__ = ["RemoteWorker", "VersionError"]

PULL = 20.0
"""Seconds for which the broker is asked for one ticket."""
NOW = b'{"batch": 1, "no_wait": true}'
"""Asks the broker for a ticket, or for the word that there is none."""
ABSENT = "503"
"""The broker's word for a queue that is not there."""
PAUSE = 1.0
"""Seconds before a broker that had none too soon is asked again."""
TAKE = 3.0
"""Seconds for which a call is asked for; a server that lives puts its ticket into the queue again."""
BRING = 60.0
"""Seconds for which the end of a call is brought to a server that does not answer."""
FIRST = 0.3
"""Seconds before something is said again to a server that was not there."""
ASKED = 10.0
"""Seconds after which a question to a model is said again, in case that its answer was lost on the way."""
_TICKET = re.compile(r"[0-9a-f]{1,64}\.[0-9a-f]{1,64}")

logger = logging.getLogger("agentserver.worker")


class VersionError(Exception):
    """The server and this worker speak different versions of the frames."""


class _UnwantedError(Exception):
    """No server waits for this call any more."""


@dataclass(frozen=True, slots=True)
class RemoteWorker:
    """Handles calls of one listener until it is cancelled.

    Args:
        address: of the broker.
        subjects: of the organism.
        listener: its name.
        workers: its processes, entered and left by who has made them.
        longest: bytes of what a server says.
    """

    address: BrokerAddress
    subjects: Subjects
    listener: str
    workers: Workers
    longest: int

    async def serve(self, many: int, ending: asyncio.Event, tell: Callable[[str], None]) -> None:
        """Handle so many calls at once until it is to end; what runs then comes to its end.

        A broker that is lost is looked for until it is there again. ``tell`` is told what is waited for, and once calls
        are handled: not before there is a queue from which they are taken.

        Raises BrokerError when it is not there at first, PermissionDeniedError when it refuses what this user needs,
        and VersionError.
        """
        met = False
        tell(f"looks for the broker at {self.address.url}")
        while not ending.is_set():
            try:
                name, inbox = f"worker of {self.listener}", self.subjects.inbox(self.listener)
                async with connected(self.address, name=name, inbox=inbox) as link:
                    met = True
                    logger.info("%s: takes calls of %s", self.address.url, self.listener)
                    why = await self._meet(link, many, ending, tell)
            except PermissionDeniedError:
                raise
            except BrokerError as error:
                if not met:
                    raise
                why = str(error)
            if why:
                logger.error("the broker is lost: %s", why)
                await asyncio.sleep(PAUSE)

    async def _meet(self, link: Link, many: int, ending: asyncio.Event, tell: Callable[[str], None]) -> str:
        """Handle calls over a connection, once there are any; gives why no more come, or nothing at the end."""
        first = await self._reached(link, ending, tell)
        if ending.is_set():
            return ""
        return await self._work(
            link, [self._slot(link, ending, None if n else first) for n in range(many)], tell
        )

    async def _reached(self, link: Link, ending: asyncio.Event, tell: Callable[[str], None]) -> Msg | None:
        """Wait for the queue of this listener's calls, which a server makes; gives a ticket that was in it.

        Raises BrokerError and PermissionDeniedError.
        """
        came: asyncio.Queue[Msg] = asyncio.Queue()
        inbox, told = f"{self.subjects.inbox(self.listener)}.{secrets.token_hex(8)}", ""
        nobody = f"waits for a server of {self.subjects.organism} that has calls of {self.listener}"
        away = f"the broker at {self.address.url} does not answer, and is asked again"
        await link.hear(inbox, came.put, self.longest)
        while not ending.is_set():
            if link.stands:
                with troubles(inbox):
                    await link.client.publish(self.subjects.pull(self.listener), NOW, reply=inbox)
            msg = await _first(came, link)
            status = (msg.headers or {}).get("Status") if msg is not None else ""
            if msg is not None and status != ABSENT:
                return None if status else msg
            before, told = told, nobody if status else away
            if told != before:
                tell(told)
            await asyncio.sleep(PAUSE)
        return None

    async def _work(
        self, link: Link, work: list[Coroutine[Any, Any, None]], tell: Callable[[str], None]
    ) -> str:
        """Handle calls until the connection is over, and give the reason; none once the last call has ended."""
        slots = [asyncio.create_task(each) for each in work]
        running, stands = set(slots), True
        tell(f"handles calls of {self.listener}, {len(slots)} at once")
        try:
            while running and not link.over.done():
                if stands != link.stands:
                    stands = link.stands
                    found = "is there again" if stands else "is away, and is looked for"
                    tell(f"the broker at {self.address.url} {found}")
                waited: set[asyncio.Future[Any]] = {*running, link.over, link.denied}
                await asyncio.wait(waited, timeout=PAUSE, return_when=asyncio.FIRST_COMPLETED)
                if link.denied.done():
                    raise PermissionDeniedError(link.denied.result())
                for slot in [each for each in running if each.done()]:
                    running.discard(slot)
                    slot.result()
            return link.over.result() if link.over.done() else ""
        finally:
            await ended(slots)

    async def _slot(self, link: Link, ending: asyncio.Event, first: Msg | None) -> None:
        if first is not None:
            await self._take(link, first)
        with troubles(self.subjects.pull(self.listener)):
            inbox = f"{self.subjects.inbox(self.listener)}.".encode()
            queue = await link.stream.pull_subscribe_bind(
                word(self.listener), self.subjects.stream, inbox_prefix=inbox
            )
        while not ending.is_set():
            pulling, over = asyncio.ensure_future(self._next(queue)), asyncio.ensure_future(ending.wait())
            either: set[asyncio.Future[Any]] = {pulling, over}
            try:
                await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            finally:
                over.cancel()
                if not pulling.done():  # a ticket that comes too late is another worker's after TURN
                    pulling.cancel()
            msg = None if pulling.cancelled() or not pulling.done() else pulling.result()
            if msg is not None:
                await self._take(link, msg)

    async def _take(self, link: Link, msg: Msg) -> None:
        """Take the call of a ticket, which then leaves the queue, and make it.

        Raises VersionError, PermissionDeniedError and the BrokerError of a connection that is over.
        """
        begins = self.subjects.of_listener(self.listener).removesuffix(">")
        rest = msg.subject.removeprefix(begins)
        turn = given = None
        if rest != msg.subject and _TICKET.fullmatch(rest) is not None:
            turn = _Turn(self, link, rest)
            given = await turn.taken()
        # One that was lost all the same is put into the queue again by the server that waits.
        with suppress(BrokerError), troubles(msg.subject):
            await msg.ack()
        if turn is not None and given is not None:
            await turn.run(given)

    async def _next(self, queue: JetStreamContext.PullSubscription) -> Msg | None:
        """The next ticket; None for none yet."""
        began = asyncio.get_running_loop().time()
        try:
            with troubles(self.subjects.pull(self.listener)):
                (msg,) = await queue.fetch(1, timeout=PULL)
        except SilenceError:
            msg = None
        except BrokerError as error:
            logger.info("no ticket: %s", error)
            msg = None
        if msg is None:
            if asyncio.get_running_loop().time() - began < PULL / 2:
                await asyncio.sleep(PAUSE)  # the queue is not made yet, or the broker is busy with itself
            return None
        return msg


async def _first(came: asyncio.Queue[Msg], link: Link) -> Msg | None:
    """The answer to what was asked; None for none yet. Raises BrokerError and PermissionDeniedError."""
    coming = asyncio.ensure_future(came.get())
    try:
        either: set[asyncio.Future[Any]] = {coming, link.denied, link.over}
        await asyncio.wait(either, timeout=TAKE, return_when=asyncio.FIRST_COMPLETED)
        if link.denied.done():
            raise PermissionDeniedError(link.denied.result())
        if link.over.done():
            raise BrokerError(link.over.result())
        return coming.result() if coming.done() else None
    finally:
        coming.cancel()


class _Turn:
    """One ticket: its call is taken, made and brought back."""

    def __init__(self, worker: RemoteWorker, link: Link, ticket: str) -> None:
        server, _, call = ticket.partition(".")
        self._worker, self._link = worker, link
        self._to = worker.subjects.done(worker.listener, server, call)
        self._taker = secrets.token_hex(8)
        self._spelling = Spelling(worker.longest)
        self._call = 0
        self._telling: asyncio.Task[None] | None = None

    async def taken(self) -> frames.CallFrame | None:
        """The call, if a server waits for it and no other worker has it. Raises VersionError and BrokerError."""
        try:
            given = await self._told(TakeFrame(frames.VERSION, self._taker), TAKE)
        except (_UnwantedError, SilenceError):
            return None
        except frames.FrameError as error:
            logger.warning("a server of %s is not understood: %s", self._worker.listener, error)
            return None
        if isinstance(given, frames.FailedFrame):
            raise VersionError(given.detail)
        return given if isinstance(given, frames.CallFrame) else None

    async def run(self, given: frames.CallFrame) -> None:
        """Make the call and bring its end. Raises PermissionDeniedError and BrokerError."""
        self._call = given.call
        with suppress(_UnwantedError, SilenceError, frames.FrameError):
            await self._bring(await self._made(given))

    async def _made(self, given: frames.CallFrame) -> Any:
        """The end of the call. Raises _UnwantedError when the server waits no longer, and as ``_told`` does."""
        making = asyncio.ensure_future(self._worker.workers.exchange(lambda: given, self))
        living = asyncio.ensure_future(self._live())
        both: set[asyncio.Future[Any]] = {making, living}
        try:
            # Its deadline is the server's to keep; this is for a server that is gone.
            await asyncio.wait(both, timeout=given.seconds + LOST, return_when=asyncio.FIRST_COMPLETED)
            if not making.done():
                if living.done():
                    living.result()
                raise _UnwantedError
            return making.result()
        except WorkerError as error:
            return frames.FailedFrame(given.call, str(error), [])
        finally:
            await ended([making, living])

    async def _live(self) -> None:
        """Tell the server that the call is worked on. Raises _UnwantedError when it does not wait for it."""
        while True:
            await asyncio.sleep(BEAT)
            await self._told(AliveFrame(self._call), LOST)

    async def _bring(self, answer: Any) -> None:
        try:
            await self._told(answer, BRING)
        except PermissionDeniedError:
            raise
        except SilenceError:
            logger.warning("the end of a call of %s was not heard by its server", self._worker.listener)
        except BrokerError as error:
            await self._told(frames.FailedFrame(self._call, f"the result cannot be sent: {error}", []), BRING)

    async def _told(self, what: Any, seconds: float, each: float = BEAT) -> Answer:
        """The server's answer; what is not answered is said again, for as long.

        Args:
            what: is said.
            seconds: until it is given up.
            each: seconds that one answer is waited for.

        Raises _UnwantedError, SilenceError, PermissionDeniedError, BrokerError and FrameError.
        """
        loop = asyncio.get_running_loop()
        last, data = loop.time() + seconds, frames.written(what)
        while True:
            try:
                msg = await self._link.ask(self._to, data, min(each, max(last - loop.time(), FIRST)))
                break
            except SilenceError:
                if loop.time() + FIRST > last:
                    raise
                await asyncio.sleep(FIRST)
        answer = self._spelling.answer(msg.data)
        if isinstance(answer, frames.CancelFrame):
            raise _UnwantedError
        return answer

    def tell(self, text: str) -> None:
        """Pass on a line of progress; one that is not gone by the next is let go."""
        if self._telling is None or self._telling.done():
            self._telling = asyncio.ensure_future(self._pass_on(frames.ProgressFrame(self._call, text)))

    async def _pass_on(self, line: frames.ProgressFrame) -> None:
        with suppress(BrokerError):
            await self._link.say(self._to, frames.written(line))

    async def complete(self, asked: frames.CompleteFrame) -> frames.CompletedFrame:
        """Have the server ask a model. An answer that was lost on the way is asked for again, and paid once."""
        try:
            answer = await self._told(asked, inf, ASKED)
        except (BrokerError, frames.FrameError, _UnwantedError) as error:
            told = str(error) or "the server does not wait for this call any more"
            return self._unanswered(asked, told)
        if isinstance(answer, frames.CompletedFrame) and answer.number == asked.number:
            return answer
        return self._unanswered(asked, "the server answered something else")

    def _unanswered(self, asked: frames.CompleteFrame, why: str) -> frames.CompletedFrame:
        fault = CompletionFault.UNAVAILABLE.value
        return frames.CompletedFrame(asked.call, asked.number, "", [], (0, 0, 0), None, "", None, fault, why)
