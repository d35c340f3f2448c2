"""Order of deliveries: run queue, concurrency limits of listeners, and messages that want to come in.

Principals take turns, and in each of them its conversations.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from types import coroutine
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

    from agentserver.core.messages import Delivery


class Alone:
    """Lets in one at a time by key, in the order in which they came. Of a key without any nothing is kept."""

    def __init__(self) -> None:
        self.inside: dict[str, deque[asyncio.Future[None]]] = {}

    async def enter(self, key: str) -> None:
        """Wait for a turn; ``leave`` ends it."""
        if key not in self.inside:
            self.take(key)
            return
        turn = asyncio.get_running_loop().create_future()
        self.inside[key].append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.leave(key)
            raise

    def take(self, key: str) -> None:
        """Go in where none is inside."""
        self.inside[key] = deque()

    def leave(self, key: str) -> None:
        """Let the next in, not counting those that have given up."""
        waiting = self.inside[key]
        while waiting:
            turn = waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        del self.inside[key]


T = TypeVar("T")


class Rounds(Generic[T]):
    """A queue of items by principal and conversation. Each owner's items keep their order."""

    def __init__(self) -> None:
        self._owners: OrderedDict[str, OrderedDict[str, deque[T]]] = OrderedDict()
        self.count = 0

    def __len__(self) -> int:
        return self.count

    def put(self, principal: str, conversation: str, item: T) -> None:
        """Add an item behind those of its conversation. An owner that had none waits for a whole round."""
        conversations = self._owners.get(principal)
        if conversations is None:
            conversations = self._owners[principal] = OrderedDict()
        items = conversations.get(conversation)
        if items is None:
            items = conversations[conversation] = deque()
        items.append(item)
        self.count += 1

    def take(self) -> T:
        """Remove the item whose turn it is. Raises LookupError when there is none."""
        if not self._owners:
            raise LookupError("nothing waits")
        principal, conversations = next(iter(self._owners.items()))
        conversation, items = next(iter(conversations.items()))
        item = items.popleft()
        self.count -= 1
        if items:
            conversations.move_to_end(conversation)
        else:
            del conversations[conversation]
        if conversations:
            self._owners.move_to_end(principal)
        else:
            del self._owners[principal]
        return item

    def drop(self, unwanted: set[str]) -> list[T]:
        """Remove the items of some conversations, and give them."""
        gone: list[T] = []
        for principal, conversations in list(self._owners.items()):
            for conversation in unwanted & conversations.keys():
                gone += conversations.pop(conversation)
            if not conversations:
                del self._owners[principal]
        self.count -= len(gone)
        return gone


BACKOFF = 0.1
"""Seconds before the first repetition of a failed invocation; each further one waits twice as long."""

BACKOFF_LIMIT = 5.0
"""Seconds that a repetition waits at most."""


def backoff(failures: int) -> float:
    """Seconds to wait after so many failures in a row."""
    return float(min(BACKOFF * 2.0 ** (failures - 1), BACKOFF_LIMIT))


class Ticket(NamedTuple):
    """A runnable delivery and the principal on whose account it runs."""

    principal: str
    delivery: Delivery


class Schedule:
    """Hands each delivery on as soon as its listener has room; those that are parked take turns.

    Args:
        limits: invocations at once by listener.
        hand_on: called with a delivery whose turn has come; it counts as running until ``done``.

    ``tokens`` are those that this process has of listeners that are exclusive, each until an invocation is done.
    """

    def __init__(self, limits: Mapping[str, int], hand_on: Callable[[Ticket], None]) -> None:
        self._limits, self._room = limits, dict(limits)
        self._parked: dict[str, Rounds[Ticket]] = {name: Rounds() for name in limits}
        self._hand_on = hand_on
        self.tokens: dict[str, asyncio.Event] = {}

    def put(self, ticket: Ticket) -> None:
        """Hand the delivery on, or park it until its listener has room."""
        listener = ticket.delivery.to
        if self._room[listener] > 0:
            self._room[listener] -= 1
            self._hand_on(ticket)
        else:
            self._parked[listener].put(ticket.principal, ticket.delivery.conversation, ticket)

    def done(self, listener: str) -> None:
        """One invocation of a listener is over: its room goes to the next that is parked."""
        if listener in self.tokens:
            self.tokens.pop(listener).set()
        parked = self._parked[listener]
        if parked.count and self._room[listener] >= 0:
            self._hand_on(parked.take())
        else:
            self._room[listener] += 1

    def drop(self, conversations: set[str]) -> None:
        """Forget the parked deliveries of some conversations."""
        for parked in self._parked.values():
            parked.drop(conversations)

    def resize(self, before: Mapping[str, int], limits: Mapping[str, int]) -> list[Ticket]:
        """Have other listeners, or others at once, from now on; gives what is parked for those that are gone.

        What runs runs on: a listener with less room than before has none until so many are done.
        """
        gone: list[Ticket] = []
        self._limits = limits
        for name in self._room.keys() | limits:
            parked = self._parked.setdefault(name, Rounds())
            most = limits.get(name)
            self._room[name] = self._room.get(name, 0) + (most or 0) - before.get(name, 0)
            while parked.count and (most is None or self._room[name] > 0):
                if most is None:
                    gone.append(parked.take())
                else:
                    self._room[name] -= 1
                    self._hand_on(parked.take())
        return gone

    def queues(self) -> dict[str, tuple[int, int]]:
        """By listener, the deliveries that are parked and those that were handed on and are not over."""
        return {
            name: (self._parked[name].count, limit - self._room[name]) for name, limit in self._limits.items()
        }


BATCH = 4
"""Deliveries that workers take in a row before everything else on the event loop gets a turn."""


class RunQueue:
    """The queue that workers take from; principals and conversations take turns in it.

    Idle workers are woken at the end of the event loop's turn, for what is then left: a worker that comes back
    meanwhile finds the next message of its chain without another one being woken for it, as asyncio.Queue would. Once
    all workers together have taken a stretch, the one that wants more lets the loop turn.
    """

    def __init__(self) -> None:
        self._ready: Rounds[Delivery] = Rounds()
        self._idle: deque[asyncio.Future[None]] = deque()
        self._dealing = self._turning = False
        self._stretch = 0

    def put(self, ticket: Ticket) -> None:
        """Add a delivery."""
        delivery = ticket.delivery
        self._ready.put(ticket.principal, delivery.conversation, delivery)
        if not self._dealing:
            self._deal_soon()

    def drop(self, conversations: set[str]) -> list[Delivery]:
        """Forget the deliveries of some conversations, and give them."""
        return self._ready.drop(conversations)

    async def take(self) -> Delivery:
        """The next delivery, when there is one."""
        while not self._ready.count or self._stretch >= BATCH:
            if self._turning or not self._ready.count:
                idle = asyncio.get_running_loop().create_future()
                self._idle.append(idle)
                await idle
                continue
            if not self._dealing:
                self._deal_soon()
            self._turning = True
            try:
                await turn()
            finally:
                self._turning = False
        self._stretch += 1
        delivery = self._ready.take()
        if self._stretch >= BATCH and self._ready.count and not self._dealing:
            self._deal_soon()  # who takes the next may not be back for long
        return delivery

    def _deal_soon(self) -> None:
        self._dealing = True
        asyncio.get_running_loop().call_soon(self._deal)

    def _deal(self) -> None:
        """The loop has come round: wake as many idle workers as may take a delivery, less the one that let it turn."""
        self._dealing = False
        self._stretch = 0
        wanted = min(self._ready.count, BATCH) - self._turning
        while wanted > 0 and self._idle:
            idle = self._idle.popleft()
            if not idle.done():
                idle.set_result(None)
                wanted -= 1


@coroutine
def turn() -> Generator[None, None, None]:
    """Let the event loop come round once."""
    yield


ARRIVALS = 2
"""Messages from outside that are let in before everything else on the event loop gets a turn."""


class Door:
    """The place where messages from outside wait for the event loop to come round; their principals take turns.

    Each is let in in a later turn of the loop than the one it came in, so that sending without a pause stops nothing.
    Those of one conversation are dealt with one after another, ``alone``: what a conversation already has in hand never
    waits for more than one of them, nor does a worker of it.
    """

    def __init__(self) -> None:
        self._waiting: Rounds[asyncio.Future[None]] = Rounds()
        self._entering = 0
        self._opening = False
        self.alone = Alone()

    async def enter(self, principal: str, conversation: str) -> None:
        """Wait for a turn."""
        if self._entering < ARRIVALS and not self._waiting.count:
            self._entering += 1
            try:
                await turn()
            finally:
                self._entering -= 1
            return
        waiting = asyncio.get_running_loop().create_future()
        self._waiting.put(principal, conversation, waiting)
        self._open_soon()
        await waiting

    def _open_soon(self) -> None:
        if not self._opening:
            self._opening = True
            asyncio.get_running_loop().call_soon(self._open)

    def _open(self) -> None:
        """Let the next in, not counting those that have given up."""
        self._opening = False
        room = ARRIVALS
        while room and self._waiting.count:
            waiting = self._waiting.take()
            if not waiting.done():
                waiting.set_result(None)
                room -= 1
        if self._waiting.count:
            self._open_soon()
