"""The server's side of workers elsewhere: tickets in a queue, and the desk at which workers take and bring calls.

Owns the tickets and what becomes of a call whose worker says nothing any more, or what is no word: what becomes of one
whose process dies here. Refuses to believe what workers say (``worker.reading``) and to answer anywhere but in the
inbox of the listener that speaks, which the broker's permissions hold. The queue is a stream of its own and no log: its
tickets hold nothing, are put into it again while no worker has taken them, and may be lost.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import secrets
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import anyio

from agentserver.broker.address import BrokerError
from agentserver.broker.link import PermissionDeniedError, SilenceError, connected
from agentserver.broker.remedies import explained
from agentserver.ports.tasks import ended
from agentserver.worker import frames, reading
from agentserver.worker.pool import QUESTIONS, Here, Outcome
from agentserver.worker.remote.making import made
from agentserver.worker.remote.speech import AliveFrame, HeardFrame, Spelling, TakeFrame
from agentserver.worker.running import WorkerError

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable
    from types import TracebackType

    from nats.aio.msg import Msg

    from agentserver.broker.address import BrokerAddress
    from agentserver.broker.link import Link
    from agentserver.broker.words import Subjects
    from agentserver.contract import Invocation
    from agentserver.core.decide.decisions import Accepted
    from agentserver.core.messages import Failed, Returned
    from agentserver.payload.codec import Codecs
    from agentserver.wire.envelope import Bounds

__all__ = ["Distant", "TicketDesk", "longest"]

BEAT = 2.0
"""Seconds between two words of a worker that works."""
LOST = 7.0
"""Seconds without a word after which a worker that has taken a call is lost."""
AGAIN = 10.0
"""Seconds after which a ticket that no worker has taken is put into the queue again, unless it is there."""
BEHIND = 1 << 26
"""Bytes of words of one listener that may wait to be read."""
FROM_ITS_ACCOUNT = "_R_."
"""The beginning of the subject that the broker puts in the place of a reply subject of another account. It refuses it
from a user, who could mean another's."""

logger = logging.getLogger("agentserver.worker")


def longest(payload: int, storage: int) -> int:
    """Bytes of a word, from the limits of the organism."""
    return 4 * (payload + storage) + (1 << 16)


@dataclass(eq=False)
class _Ticket:
    """A call that waits for a worker, or has one."""

    listener: str
    number: int
    accepted: Accepted
    current: Invocation
    counterpart: Here
    over: asyncio.Future[Outcome]
    taken: asyncio.Event = field(default_factory=asyncio.Event)
    taker: str = ""
    call: frames.CallFrame | None = None
    heard: float = 0.0
    place: int = 0
    questions: dict[int, asyncio.Task[frames.CompletedFrame]] = field(default_factory=dict)
    replies: dict[int, str] = field(default_factory=dict)

    def break_off(self, why: str) -> None:
        """End it as the death of a worker would."""
        if not self.over.done():
            self.over.set_exception(WorkerError(why))


@dataclass(eq=False, slots=True)
class Distant:
    """A listener whose handler has workers on other machines.

    Args:
        desk: where they come to.
        listener: its name.
        codecs: of the server.
        bounds: of one payload.
        storage: bytes that a thread may store.
    """

    desk: TicketDesk
    listener: str
    codecs: Codecs
    bounds: Bounds
    storage: int

    async def call(self, accepted: Accepted, current: Invocation) -> Returned | Failed:
        """Let a worker handle a delivery. It waits for one until it is cancelled, which its deadline does."""
        try:
            answer = await self.desk.outcome(self.listener, accepted, current, self.codecs)
        except WorkerError as error:
            return reading.broken(str(error))
        return reading.believed(answer, accepted, self.codecs, self.bounds, self.storage)


class TicketDesk:
    """An async context manager: entering connects, makes the queue and listens. Raises BrokerError when it cannot.

    Args:
        address: of the broker.
        subjects: of the organism.
        listeners: that have workers elsewhere.
        longest: bytes of a word.
    """

    def __init__(
        self, address: BrokerAddress, subjects: Subjects, listeners: Iterable[str], longest: int
    ) -> None:
        self._address, self._subjects, self._listeners = address, subjects, tuple(listeners)
        self._spelling = Spelling(longest)
        self._name = secrets.token_hex(8)
        self._tickets: dict[str, _Ticket] = {}
        self._numbers = itertools.count(1)
        self._link: Link | None = None
        self._since = 0.0
        self._made, self._making = 0.0, asyncio.Lock()
        self._tasks: set[asyncio.Task[Any]] = set()

    async def __aenter__(self) -> Self:
        """Connect and listen."""
        self._loop = asyncio.get_running_loop()
        ready: asyncio.Future[None] = self._loop.create_future()
        self._do(self._stay(ready))
        self._do(self._watch())
        try:
            await ready
        finally:
            if not ready.done() or ready.cancelled() or ready.exception() is not None:
                await self.__aexit__(None, None, None)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give up what waits, and leave the broker."""
        for ticket in self._tickets.values():
            ticket.break_off("the server ends")
        with anyio.CancelScope(shield=True):
            while self._tasks:
                await ended(self._tasks)

    async def outcome(
        self, listener: str, accepted: Accepted, current: Invocation, codecs: Codecs
    ) -> Outcome:
        """The end of a call. Raises WorkerError when its worker is lost or cannot be believed."""
        ticket = _Ticket(
            listener,
            next(self._numbers),
            accepted,
            current,
            Here(current, codecs),
            self._loop.create_future(),
        )
        call = secrets.token_hex(16)  # names it to those alone who pull the listener's tickets
        self._tickets[call] = ticket
        offering = self._do(self._offer(call, ticket))
        try:
            return await ticket.over
        finally:
            del self._tickets[call]
            offering.cancel()
            for question in ticket.questions.values():
                question.cancel()
            if not ticket.taken.is_set() and ticket.place:
                self._do(self._withdraw(ticket.place))

    def _do(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _stay(self, ready: asyncio.Future[None]) -> None:
        """Be connected, for ever; a first time that fails is told and is the last."""
        while True:
            try:
                why = await self._connected(ready)
            except BrokerError as error:
                if not ready.done():
                    ready.set_exception(BrokerError(explained(str(error), self._address)))
                    return
                why = str(error)
            self._link = None
            logger.error("workers elsewhere are out of reach: %s", why)
            await asyncio.sleep(1)

    async def _connected(self, ready: asyncio.Future[None]) -> str:
        """Listen until the connection is over, and give the reason. Raises BrokerError."""
        async with connected(self._address, name=f"server of {self._subjects.organism}") as link:
            await self._open(link)
            self._link, self._since = link, self._loop.time()
            if not ready.done():
                ready.set_result(None)
            return await link.over

    async def _open(self, link: Link) -> None:
        for listener in self._listeners:
            said = self._subjects.done(listener, self._name, "*")
            await link.hear(said, partial(self._hear, listener), BEHIND)
        await made(link, self._subjects, self._listeners, self._address.replicas)

    async def _offer(self, call: str, ticket: _Ticket) -> None:
        """Put a ticket into the queue, and again while no worker comes with it."""
        subject = self._subjects.ticket(ticket.listener, self._name, call)
        told = ""
        while not ticket.taken.is_set():
            pause = AGAIN
            try:
                await self._put(subject, ticket)
            except PermissionDeniedError as error:
                ticket.break_off(str(error))
                return
            except SilenceError:  # the broker has begun anew, or an operator has removed it
                await self._again()
                pause = 0.2
            except BrokerError as error:
                if told != str(error):
                    told = str(error)
                    logger.warning("a call of %s waits for the broker: %s", ticket.listener, told)
                pause = 1.0
            with suppress(TimeoutError):
                await asyncio.wait_for(ticket.taken.wait(), pause)
            if pause == AGAIN and not ticket.taken.is_set():
                await self._again()

    async def _again(self) -> None:
        """Make the queue again, once for all that wait; what is in the way is met by the next ticket."""
        async with self._making:
            link = self._link
            if link is not None and link.stands and self._loop.time() - self._made > 1:
                self._made = self._loop.time()
                with suppress(BrokerError):
                    await made(link, self._subjects, self._listeners, self._address.replicas)

    async def _put(self, subject: str, ticket: _Ticket) -> None:
        link = self._link
        if link is None:
            raise BrokerError("it is out of reach")
        ticket.place = await link.put(subject, BEAT) or ticket.place

    async def _withdraw(self, place: int) -> None:
        link = self._link
        if link is not None:
            with suppress(BrokerError):
                await link.say(f"$JS.API.STREAM.MSG.DELETE.{self._subjects.stream}", b'{"seq":%d}' % place)

    async def _watch(self) -> None:
        """Give up on workers that say nothing, for as long as this server could have heard them."""
        while True:
            await asyncio.sleep(BEAT / 2)
            now, link = self._loop.time(), self._link
            if link is None or not link.stands:
                self._since = now
                continue
            for ticket in self._tickets.values():
                if ticket.call is not None and now - max(ticket.heard, self._since) > LOST:
                    ticket.break_off(f"nothing was heard of it for {LOST:g} s")

    async def _hear(self, listener: str, msg: Msg) -> None:
        """Something that a worker of this listener says, as the broker's permissions have it."""
        call = msg.subject.rpartition(".")[2]
        ticket = self._tickets.get(call)
        inbox = self._subjects.inbox(listener) + "."
        if msg.reply and not msg.reply.startswith((inbox, FROM_ITS_ACCOUNT)):
            return  # an answer there would be in the server's name
        answer: Any = frames.CancelFrame(0)
        if ticket is not None and ticket.listener == listener and not ticket.over.done():
            try:
                spoken = self._spelling.spoken(msg.data)
            except frames.FrameError as error:
                if ticket.call is not None:
                    ticket.break_off(f"it sent {error}")
            else:
                ticket.heard = self._loop.time()
                answer = self._answer(ticket, spoken, msg.reply)
        if answer is not None and msg.reply:
            await self._reply(msg.reply, answer, ticket)

    def _answer(self, ticket: _Ticket, spoken: Any, reply: str) -> Any:
        """The answer that is given at once; None where it comes later."""
        if isinstance(spoken, TakeFrame):
            return self._give(ticket, spoken)
        if ticket.call is None or spoken.call != ticket.number:
            if ticket.call is not None:
                ticket.break_off("it spoke out of turn")
            return frames.CancelFrame(0)
        if isinstance(spoken, frames.CompleteFrame):
            self._question(ticket, spoken, reply)
            return None
        if isinstance(spoken, frames.ProgressFrame):
            ticket.counterpart.tell(spoken.text)
        elif not isinstance(spoken, AliveFrame):
            ticket.over.set_result(spoken)
        return HeardFrame(ticket.number)

    def _give(
        self, ticket: _Ticket, spoken: TakeFrame
    ) -> frames.CallFrame | frames.CancelFrame | frames.FailedFrame:
        if spoken.version != frames.VERSION:
            told = (
                f"this server speaks version {frames.VERSION} of the frames, and the worker {spoken.version}"
            )
            logger.warning("a worker of %s is not understood: %s", ticket.listener, told)
            return frames.FailedFrame(0, told, [])
        if ticket.taker not in ("", spoken.taker):
            return frames.CancelFrame(0)
        ticket.taker, ticket.call = (
            spoken.taker,
            reading.asked(ticket.number, ticket.accepted, ticket.current),
        )
        ticket.taken.set()
        return ticket.call

    def _question(self, ticket: _Ticket, asked: frames.CompleteFrame, reply: str) -> None:
        """Ask a model once, however often the worker asks again under the same number."""
        task = ticket.questions.get(asked.number)
        ticket.replies[asked.number] = reply
        if task is not None:
            if task.done():
                self._answered(ticket, asked.number, task)
            return
        if sum(not each.done() for each in ticket.questions.values()) >= QUESTIONS:
            ticket.break_off("it asked out of turn")
            return
        for number in [number for number, each in ticket.questions.items() if each.done()][:-QUESTIONS]:
            del ticket.questions[number], ticket.replies[number]
        task = ticket.questions[asked.number] = self._do(ticket.counterpart.complete(asked))
        task.add_done_callback(partial(self._answered, ticket, asked.number))

    def _answered(self, ticket: _Ticket, number: int, task: asyncio.Task[frames.CompletedFrame]) -> None:
        reply = ticket.replies[number]
        if reply and not task.cancelled() and not ticket.over.done():
            self._do(self._reply(reply, task.result(), ticket))

    async def _reply(self, to: str, answer: Any, ticket: _Ticket | None) -> None:
        link = self._link
        if link is None:
            return
        try:
            await link.say(to, frames.written(answer))
        except BrokerError as error:
            if ticket is not None and isinstance(answer, frames.CallFrame | frames.CompletedFrame):
                ticket.break_off(f"what it asked for cannot be sent: {error}")
