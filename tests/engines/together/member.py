"""An engine that shares its storage with others in this process: a memory engine that follows a common log.

Owns what an entry says. Refuses to know who may append one: the broker does.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar

from agentserver.core.messages import UNDECIDED, EventPlace
from agentserver.core.records.audit import Event
from agentserver.core.state.elapsed import STEADY, Calendar
from agentserver.engines.memory import MemoryEngine
from agentserver.ports import Arrival, EngineError, Fate, Heard, Share
from tests.engines.together.broker import MemoryLog

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence
    from types import TracebackType

    from agentserver.core.messages import Done, Reply
    from agentserver.core.receipts import Receipt
    from agentserver.core.records.outcome import Outcome
    from agentserver.core.state.conversation import Conversation
    from agentserver.ports import Answers, ConversationFound, EngineReader, Marks
    from tests.engines.together.broker import LogEntry, MemoryBroker

T = TypeVar("T")


class Said(NamedTuple):
    """What an entry says: the name of what is done with a replica, and with what."""

    what: str
    args: tuple[Any, ...]


class Storage:
    """What several engines have in common: a broker, and what its entries say, which are values of this process."""

    def __init__(self, broker: MemoryBroker) -> None:
        self.broker = broker
        self.said: list[Said] = []

    def engine(self, name: str) -> MemberEngine:
        """The engine of a process of that name; to be entered."""
        return MemberEngine(self, name)

    def write(self, said: Said) -> bytes:
        """An entry that says this."""
        self.said.append(said)
        return str(len(self.said) - 1).encode()


class MemberEngine:
    """The engine of one process. Its replica is what the log says up to where it has come."""

    marks: Marks | None = None
    answers: Answers | None = None
    prompt = False
    durable = False

    def __init__(self, storage: Storage, name: str) -> None:
        self.storage, self.name = storage, name
        self._broker = storage.broker
        self.log = MemoryLog(self._broker, name)
        self._replica = MemoryEngine(recorded=True)
        self._share = Share(0, 0)
        self._applied = 0
        self._epochs: dict[int, int] = {}
        self._claims: dict[int, int] = {}
        self._fates: dict[str, Fate] = {}
        self._waiting: dict[int, asyncio.Future[None]] = {}
        self._asked: dict[str, list[asyncio.Future[Fate]]] = {}
        self._pending: dict[int, dict[str, Arrival]] = {n: {} for n in range(self._broker.partitions)}
        self._heard: asyncio.Queue[Heard | None] = asyncio.Queue()
        self._stirred = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._later: set[asyncio.Task[None]] = set()
        self._count = 0

    async def __aenter__(self) -> Self:
        """Join, and follow the log up to where it is."""
        (self._share,) = await anext(self._replica.shares())
        await self.log.__aenter__()
        self._tasks = [asyncio.create_task(self._follow()), asyncio.create_task(self._hold())]
        while self._applied < len(self._broker.entries):  # noqa: ASYNC110 - what is awaited has no event of its own
            await asyncio.sleep(0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End as a process that was killed: whoever waits is let go, and the lease stays until it is over."""
        for task in (*self._tasks, *self._later):
            task.cancel()
        for waiting in (*self._waiting.values(), *(one for each in self._asked.values() for one in each)):
            waiting.cancel()
        self._heard.put_nowait(None)
        self.log.pause()

    # The log

    async def _follow(self) -> None:
        async for entry in self.log.follow(0):
            self._apply_entry(entry, await self._try(entry))

    async def _try(self, entry: LogEntry) -> Exception | None:
        if not entry.body:
            self._claims[entry.partition] = entry.place
            if self._epochs.get(entry.partition, entry.place) != entry.place:
                del self._epochs[entry.partition]
            return None
        what, args = self.storage.said[int(entry.body)]
        try:
            await getattr(self, f"_apply_{what}")(entry, *args)
        except EngineError as error:
            return error
        return None

    def _apply_entry(self, entry: LogEntry, error: Exception | None) -> None:
        self._applied = entry.place
        waiting = self._waiting.pop(entry.place, None)
        if waiting is not None and not waiting.done():
            if error is None:
                waiting.set_result(None)
            else:
                waiting.set_exception(error)
        self._stir()

    def _stir(self) -> None:
        stirred, self._stirred = self._stirred, asyncio.Event()
        stirred.set()

    async def _hold(self) -> None:
        async for held in self.log.shares():
            while any(share.epoch > self._applied for share in held):
                await self._stirred.wait()
            self._epochs = {
                share.partition: share.epoch for share in held if self._claims[share.partition] == share.epoch
            }
            self._stir()

    async def _append(self, partition: int, epoch: int | None, said: Said, id_: str = "") -> None:
        """Append an entry, and wait until it is applied here. Raises what applying it did."""
        self._count += 1
        place = await self.log.append(
            partition, epoch, self.storage.write(said), id_ or f"{self.name} {self._count}"
        )
        if place > self._applied:
            waiting = self._waiting.setdefault(place, asyncio.get_running_loop().create_future())
            await asyncio.shield(waiting)

    def _soon(self, conversation: str, what: str, *args: object) -> None:
        """Append an entry of which nobody waits to hear."""

        async def append() -> None:
            with suppress(EngineError):
                await self._append(self._of(conversation), None, Said(what, (conversation, *args)))

        task = asyncio.create_task(append())
        self._later.add(task)
        task.add_done_callback(self._later.discard)

    def _of(self, conversation: str) -> int:
        return partition_of(conversation, self._broker.partitions)

    # What entries say

    async def _apply_commit(self, entry: LogEntry, outcome: Outcome) -> None:
        await self._replica.commit(self._share, outcome)
        asks = bool(outcome.asked) or any(record.event in _SETTLED for record in outcome.records)
        news = outcome.replies or asks or outcome.conversation.closed
        if news and self._epochs.get(entry.partition) != entry.epoch:
            place = max((event.place for event in outcome.replies), default=UNDECIDED)
            self._heard.put_nowait(Heard(outcome.conversation.id, place, asks))

    async def _apply_aside(self, entry: LogEntry, conversation: str, reason: str, at: float) -> None:
        await self._replica.set_aside(conversation, reason, at)
        if self._epochs.get(entry.partition) != entry.epoch:
            self._heard.put_nowait(Heard(conversation, UNDECIDED, asks=True))

    async def _apply_claim(self, _entry: LogEntry, name: str, conversation: str, at: float) -> None:
        await self._replica.claim(name, conversation, at)

    async def _apply_discard(self, _entry: LogEntry, delivery: str) -> None:
        await self._replica.discard(delivery)

    async def _apply_acknowledge(self, _entry: LogEntry, conversation: str, place: EventPlace) -> None:
        self._replica.acknowledge(conversation, place)

    async def _apply_confirm(self, _entry: LogEntry, conversation: str, place: EventPlace) -> None:
        self._replica.confirm(conversation, place)

    async def _apply_abandon(self, _entry: LogEntry, conversation: str) -> None:
        self._replica.abandon(conversation)

    async def _apply_arrival(self, entry: LogEntry, arrival: Arrival) -> None:
        if arrival.id not in self._fates:
            self._pending[entry.partition].setdefault(arrival.id, arrival)

    async def _apply_arrived(self, entry: LogEntry, id_: str, fate: Fate) -> None:
        if self._pending[entry.partition].pop(id_, None) is not None:
            self._fates[id_] = fate
            for asked in self._asked.pop(id_, ()):
                if not asked.done():
                    asked.set_result(fate)

    # Who works on what

    @property
    def held(self) -> frozenset[Share]:
        """What this process has."""
        return frozenset(Share(*each) for each in self._epochs.items())

    async def shares(self) -> AsyncIterator[frozenset[Share]]:
        """What this process has, and after each change."""
        told: frozenset[Share] | None = None
        while True:
            stirred = self._stirred
            held = self.held
            if held != told:
                told = held
                yield held
            else:
                await stirred.wait()

    def share_of(self, conversation: str) -> Share | None:
        """The share that a conversation is in, if it is this process's."""
        partition = self._of(conversation)
        epoch = self._epochs.get(partition)
        return None if epoch is None else Share(partition, epoch)

    def homely(self, conversation: str) -> bool:
        """True for an id in a partition of this process."""
        return self._of(conversation) in self._epochs

    def minted(self, conversation: str) -> str:
        """The id with a digit that stands for the others."""
        return f"{conversation[:-7]}{sum(conversation[:-7].encode()) % 10}{conversation[-6:]}"

    async def give_up(self) -> None:
        """Have nothing any more: others take it at once."""
        await self.log.give_up()

    # Work

    async def commit(self, share: Share, outcome: Outcome) -> None:
        """Append an outcome. Raises what the broker does, and the replica when it is applied."""
        await self._append(share.partition, share.epoch, Said("commit", (outcome,)))

    async def load(self, conversation: str) -> Conversation | None:
        """The conversation as far as the log was followed."""
        return await self._replica.load(conversation)

    async def set_aside(self, conversation: str, reason: str, at: float) -> tuple[Reply | Done, ...]:
        """Set a conversation aside."""
        share = self.share_of(conversation)
        before = [event.place async for event in self._replica.outbox(conversation)]
        epoch = None if share is None else share.epoch
        await self._append(self._of(conversation), epoch, Said("aside", (conversation, reason, at)))
        return tuple(
            [event async for event in self._replica.outbox(conversation) if event.place not in before]
        )

    async def at_work(self, share: Share) -> AsyncIterator[str]:
        """Conversations of a share in which something waits."""
        async for key in self._replica.at_work(self._share):
            if self._of(key) == share.partition:
                yield key

    async def open_conversations(self, share: Share) -> AsyncIterator[tuple[str, str]]:
        """Open conversations of a share."""
        async for key, principal in self._replica.open_conversations(self._share):
            if self._of(key) == share.partition:
                yield key, principal

    async def idle(self, share: Share, before: float) -> AsyncIterator[str]:
        """Conversations of a share that nothing touched since."""
        async for key in self._replica.idle(self._share, before):
            if self._of(key) == share.partition:
                yield key

    # Conversations that another process has

    async def hand_in(self, arrival: Arrival) -> asyncio.Future[Fate]:
        """Append an arrival; the future is what became of it."""
        asked = asyncio.get_running_loop().create_future()
        self._asked.setdefault(arrival.id, []).append(asked)
        try:
            await self._append(self._of(arrival.conversation), None, Said("arrival", (arrival,)), arrival.id)
        except BaseException:
            self._asked[arrival.id].remove(asked)
            raise
        if arrival.id in self._fates and not asked.done():
            asked.set_result(self._fates[arrival.id])
        return asked

    async def arrivals(self, share: Share) -> AsyncIterator[Arrival]:
        """What was handed in for a share, until it is lost."""
        given: set[str] = set()
        while self._epochs.get(share.partition) == share.epoch:
            stirred = self._stirred
            new = [one for key, one in self._pending[share.partition].items() if key not in given]
            for one in new:
                given.add(one.id)
                yield one
            if not new:
                await stirred.wait()

    def arrived(self, share: Share, arrival: Arrival, fate: Fate) -> None:
        """Append what became of an arrival."""

        async def append() -> None:
            with suppress(EngineError):  # it comes again, to the next owner
                await self._append(share.partition, share.epoch, Said("arrived", (arrival.id, fate)))

        task = asyncio.create_task(append())
        self._later.add(task)
        task.add_done_callback(self._later.discard)

    async def heard(self) -> AsyncIterator[Heard]:
        """Each conversation of others that something has left."""
        while (heard := await self._heard.get()) is not None:
            yield heard

    @asynccontextmanager
    async def alone(self, name: str) -> AsyncIterator[None]:
        """Be the only one in the organism that has a token."""
        async with self.log.alone(name):
            yield

    # Names, events and readings

    async def claimed(self, name: str) -> str | None:
        """The conversation that has a name."""
        return await self._replica.claimed(name)

    async def claim(self, name: str, conversation: str, at: float) -> str:
        """Give a conversation a name, unless another has it."""
        found = await self.log.once(name, conversation)
        if found == conversation:
            await self._append(self._of(conversation), None, Said("claim", (name, conversation, at)))
        return found

    async def discard(self, delivery: str) -> bool:
        """Take a dead letter off the list."""
        there = any(letter.delivery.id == delivery for letter in self._replica.reader().dead(prefix=delivery))
        await self._append(0, None, Said("discard", (delivery,)))
        return there

    def acknowledge(self, conversation: str, place: EventPlace) -> None:
        """An event was passed on."""
        self._soon(conversation, "acknowledge", place)

    def confirm(self, conversation: str, place: EventPlace) -> None:
        """Everything up to a place was taken."""
        self._soon(conversation, "confirm", place)

    def abandon(self, conversation: str) -> None:
        """Nothing is wanted of what has left."""
        self._soon(conversation, "abandon")

    async def read(self, work: Callable[[EngineReader], T]) -> T:
        """Read the replica."""
        return await self._replica.read(work)

    async def calendar(self) -> Calendar:
        """Nothing is known of the clock."""
        return Calendar()

    async def keep_calendar(self, calendar: Calendar) -> None:
        """Nothing is kept of it."""

    async def expire(self, now: float, calendar: Calendar = STEADY) -> int:
        """Nothing closed is kept."""
        return await self._replica.expire(now, calendar)

    def conversations_of(self, principal: str) -> AsyncIterator[str]:
        """The principal's conversations."""
        return self._replica.conversations_of(principal)

    def outbox(self, conversation: str) -> AsyncIterator[Reply | Done]:
        """What was not acknowledged."""
        return self._replica.outbox(conversation)

    async def standing(self, conversation: str) -> ConversationFound | None:
        """Whose a conversation is."""
        return await self._replica.standing(conversation)

    async def left(
        self, conversation: str, after: EventPlace, most: int, *, gaps: bool = False
    ) -> Sequence[Reply | Done]:
        """The events after a place."""
        return await self._replica.left(conversation, after, most, gaps=gaps)

    async def receipt(self, conversation: str, name: str) -> Receipt | None:
        """The receipt of a commit under a key."""
        return await self._replica.receipt(conversation, name)

    def told(self, conversation: str, request: str) -> AsyncIterator[Reply | Done]:
        """Everything that left for a request with a key."""
        return self._replica.told(conversation, request)


_SETTLED = {Event.APPROVED, Event.WITHDRAWN, Event.DROPPED}


def partition_of(conversation: str, partitions: int) -> int:
    """The partition that a conversation falls into."""
    return int(conversation.replace("-", "")[-6:] or "0", 16) % partitions if _hex(conversation) else 0


def _hex(conversation: str) -> bool:
    return all(letter in "0123456789abcdef-" for letter in conversation)
