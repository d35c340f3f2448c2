"""Order of deliveries: run queue, concurrency limits of listeners, and messages that want to come in.

Principals take turns, and in each of them its conversations.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from time import monotonic
from types import coroutine
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

    from agentserver.core.messages import Delivery


class KeyedLock:
    """Lock by key, first come first served. A key without holder takes no memory."""

    def __init__(self) -> None:
        self.inside: dict[str, deque[asyncio.Future[None]] | None] = {}
        """Keys that have a holder, with those who wait, if any have."""

    async def enter(self, key: str) -> None:
        """Acquire the lock of a key; ``leave`` releases it."""
        if key not in self.inside:
            self.inside[key] = None
            return
        turn = asyncio.get_running_loop().create_future()
        waiting = self.inside[key] = self.inside[key] or deque()
        waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.leave(key)
            raise

    def take(self, key: str) -> None:
        """Acquire a lock that is free."""
        self.inside[key] = None

    def leave(self, key: str) -> None:
        """Release the lock to the next waiter that has not given up."""
        waiting = self.inside[key]
        while waiting:
            turn = waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        del self.inside[key]


T = TypeVar("T")


class Rounds(Generic[T]):
    """Fair queue by principal and conversation. Items of one conversation keep their order.

    However much one principal or conversation has waiting, the next item of another comes after at most one of each.
    Both operations take constant time.
    """

    def __init__(self) -> None:
        self._owners: OrderedDict[str, OrderedDict[str, deque[T]]] = OrderedDict()
        self._only: tuple[str, str, T] | None = None
        """The item that came into the empty queue: it has no turn to wait for, so no round is made for it."""
        self.count = 0

    def __len__(self) -> int:
        return self.count

    def put(self, principal: str, conversation: str, item: T) -> None:
        """Add an item. A principal or conversation without items joins at the end of the round."""
        self.count += 1
        if self.count == 1:
            self._only = principal, conversation, item
            return
        if self._only is not None:
            self._join_only()
        self._join(principal, conversation, item)

    def _join_only(self) -> None:
        """Make a round for the only item, if there is one."""
        if self._only is not None:
            only, self._only = self._only, None
            self._join(*only)

    def _join(self, principal: str, conversation: str, item: T) -> None:
        conversations = self._owners.get(principal)
        if conversations is None:
            conversations = self._owners[principal] = OrderedDict()
        items = conversations.get(conversation)
        if items is None:
            items = conversations[conversation] = deque()
        items.append(item)

    def take(self) -> T:
        """Remove and return the next item. Raises LookupError if the queue is empty."""
        if self._only is not None:
            (_, _, only), self._only, self.count = self._only, None, 0
            return only
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
        """Remove and return the items of some conversations."""
        self._join_only()
        removed: list[T] = []
        for principal, conversations in list(self._owners.items()):
            for conversation in unwanted & conversations.keys():
                removed += conversations.pop(conversation)
            if not conversations:
                del self._owners[principal]
        self.count -= len(removed)
        return removed


BACKOFF = 0.1
"""Seconds before the first retry of a failed invocation; doubled with each further one."""

BACKOFF_LIMIT = 5.0
"""Seconds before a retry, at most."""


def backoff(failures: int) -> float:
    """Return the seconds to wait after so many failures in a row."""
    return float(min(BACKOFF * 2.0 ** (failures - 1), BACKOFF_LIMIT))


class Ticket(NamedTuple):
    """Runnable delivery, and the principal that it runs for."""

    principal: str
    delivery: Delivery


class Schedule:
    """Passes each delivery on as soon as its listener has room; parked deliveries take turns.

    Args:
        limits: concurrency by listener.
        hand_on: receives a delivery whose turn has come; it counts as running until ``release``.

    ``tokens`` has the tokens of exclusive listeners that this process holds, each until an invocation is done.
    """

    def __init__(self, limits: Mapping[str, int], hand_on: Callable[[Ticket], None]) -> None:
        self._limits, self._room = limits, dict(limits)
        self._parked: dict[str, Rounds[Ticket]] = {name: Rounds() for name in limits}
        self._hand_on = hand_on
        self.tokens: dict[str, asyncio.Event] = {}

    def put(self, ticket: Ticket) -> None:
        """Pass the delivery on, or park it until its listener has room."""
        listener = ticket.delivery.to
        if self._room[listener] > 0:
            self._room[listener] -= 1
            self._hand_on(ticket)
        else:
            self._parked[listener].put(ticket.principal, ticket.delivery.conversation, ticket)

    def release(self, listener: str) -> None:
        """Give the room of a finished invocation to the next parked delivery."""
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
        """Change listeners and limits. Returns the parked deliveries of removed listeners.

        Running invocations continue: a listener with a lower limit has no room until enough of them are done.
        """
        removed: list[Ticket] = []
        self._limits = limits
        for name in self._room.keys() | limits:
            parked = self._parked.setdefault(name, Rounds())
            maximum = limits.get(name)
            self._room[name] = self._room.get(name, 0) + (maximum or 0) - before.get(name, 0)
            while parked.count and (maximum is None or self._room[name] > 0):
                if maximum is None:
                    removed.append(parked.take())
                else:
                    self._room[name] -= 1
                    self._hand_on(parked.take())
        return removed

    def queues(self) -> dict[str, tuple[int, int]]:
        """Return for each listener the parked deliveries, and those that were passed on and are not done."""
        return {
            name: (self._parked[name].count, limit - self._room[name]) for name, limit in self._limits.items()
        }


SPELL = 0.0003
"""Seconds after which a worker takes no further delivery before the event loop turns."""

WOKEN = 4
"""Idle workers that are woken in one turn of the event loop."""


class RunQueue:
    """Fair queue that workers take deliveries from.

    Idle workers are woken at the end of the loop's turn for the deliveries that are left: a worker that returns
    meanwhile finds the next message of its chain without another worker being woken for it, as asyncio.Queue would. So
    a gateway that has submitted a message gets a turn before its handler, and misses nothing that the handler reports.
    Once all workers together have taken deliveries for SPELL seconds, the next caller lets the loop turn.

    Args:
        steady: seconds, by a clock that cannot be set.
    """

    def __init__(self, steady: Callable[[], float] = monotonic) -> None:
        self._steady = steady
        self._ready: Rounds[Delivery] = Rounds()
        self._idle: deque[asyncio.Future[None]] = deque()
        self._dealing = self._turning = False
        self._until = 0.0
        """When the loop has to turn."""

    def put(self, ticket: Ticket) -> None:
        """Add a delivery."""
        delivery = ticket.delivery
        self._ready.put(ticket.principal, delivery.conversation, delivery)
        if not self._dealing:
            self._deal_soon()

    def drop(self, conversations: set[str]) -> list[Delivery]:
        """Remove and return the deliveries of some conversations."""
        return self._ready.drop(conversations)

    async def take(self) -> Delivery:
        """Wait for the next delivery and return it."""
        ready = self._ready
        while not ready.count or self._steady() >= self._until:
            if self._turning or not ready.count:
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
            if ready.count:
                break  # the loop has turned, even if others took the whole spell: else a sender could starve workers
        delivery = ready.take()
        if ready.count and not self._dealing:
            self._deal_soon()  # who takes this one may not be back for long
        return delivery

    def _deal_soon(self) -> None:
        self._dealing = True
        asyncio.get_running_loop().call_soon(self._deal)

    def _deal(self) -> None:
        """Wake as many idle workers as may take a delivery, minus the one that let the loop turn."""
        self._dealing = False
        self._until = self._steady() + SPELL
        wanted = min(self._ready.count, WOKEN) - self._turning
        while wanted > 0 and self._idle:
            idle = self._idle.popleft()
            if not idle.done():
                idle.set_result(None)
                wanted -= 1


@coroutine
def turn() -> Generator[None, None, None]:
    """Let the event loop turn once."""
    yield


ARRIVALS = 2
"""Outside messages that are admitted before the event loop turns."""


class ArrivalQueue:
    """Queue in which messages from outside wait for a turn of the event loop; their principals take turns.

    One that comes in after another was admitted in the same turn of the loop waits for a later turn, so that sending
    without a pause starves nothing. Messages of one conversation are handled one after another (``lock``): its messages
    at work and its workers never wait for more than one of them.
    """

    def __init__(self) -> None:
        self._waiters: Rounds[asyncio.Future[None]] = Rounds()
        self._entering = self._released = 0
        self._opening = self._admitted = False
        self.lock = KeyedLock()

    async def enter(self, principal: str, conversation: str) -> None:
        """Wait for admission."""
        if self._entering < ARRIVALS and not self._waiters.count:
            if self._admitted or self._entering or self._released:  # or it would overtake one that waits
                self._entering += 1
                try:
                    await turn()
                finally:
                    self._entering -= 1
            if not self._admitted:
                self._admitted = True
                asyncio.get_running_loop().call_soon(self._begin_turn)
            return
        waiting = asyncio.get_running_loop().create_future()
        self._waiters.put(principal, conversation, waiting)
        self._open_soon()
        try:
            await waiting
        finally:
            self._released -= waiting.done() and not waiting.cancelled()

    def _begin_turn(self) -> None:
        self._admitted = False

    def _open_soon(self) -> None:
        if not self._opening:
            self._opening = True
            asyncio.get_running_loop().call_soon(self._open)

    def _open(self) -> None:
        """Admit the next callers that have not given up."""
        self._opening = False
        room = ARRIVALS
        while room and self._waiters.count:
            waiting = self._waiters.take()
            if not waiting.done():
                waiting.set_result(None)
                self._released += 1
                room -= 1
        if self._waiters.count:
            self._open_soon()
