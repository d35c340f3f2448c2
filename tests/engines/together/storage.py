"""Storage in memory that several engines of this process share: claims, leases on a clock that a test sets, an inbox.

Owns the claims of processes on conversations. The stored conversations are one memory engine's.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from agentserver.core.messages import UNDECIDED
from agentserver.core.records.audit import Event
from agentserver.core.state.conversation import is_at_work
from agentserver.engines.memory import MemoryEngine
from agentserver.ports import (
    NO_PREVIOUS_RUN,
    Arrival,
    ArrivalOutcome,
    Claim,
    EngineError,
    FencedError,
    GainedClaims,
    LostClaims,
    PreviousRun,
    RemoteStep,
    SleepingConversation,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping

    from agentserver.core.records.outcome import Outcome

LEASE = 5.0
REST = 30.0
_SETTLED = {Event.APPROVED, Event.WITHDRAWN, Event.DROPPED}


@dataclass
class Row:
    """The claim on one conversation. owner: a lease, 0 without one; previous: the lease before."""

    owner: int
    epoch: int
    rested: float
    previous: int = 0


@dataclass
class Lease:
    """One incarnation of a process, as other processes know it."""

    expires: float
    running: dict[int, str] = field(default_factory=dict)
    held: str = ""
    ended: bool = False


@dataclass
class Handed:
    """One row of the inbox."""

    arrival: Arrival
    fate: ArrivalOutcome | None = None
    asked: list[asyncio.Future[ArrivalOutcome]] = field(default_factory=list)


class Storage:
    """The storage. ``away`` has every process find it unreachable."""

    fencing = True

    def __init__(self) -> None:
        self.now, self.away = 0.0, False
        self.kept = MemoryEngine(recorded=True)
        self.rows: dict[str, Row] = {}
        self.closed: set[str] = set()
        self.leases: dict[int, Lease] = {}
        self.inbox: dict[str, Handed] = {}
        self.tokens: dict[str, int] = {}
        self.ends: dict[str, int] = {}
        self.engines: dict[str, SharedEngine] = {}

    def engine(self, name: str) -> SharedEngine:
        """The engine of a process of that name; to be entered."""
        self.engines[name] = SharedEngine(self)
        return self.engines[name]

    def advance(self, seconds: float) -> None:
        """Let time pass; processes that live and reach the storage renew their leases meanwhile."""
        self.now += seconds
        for engine in self.engines.values():
            if not engine.still and not self.away and engine.number in self.leases:
                self.leases[engine.number].expires = self.now + LEASE
        self.stir()

    def still(self, name: str) -> None:
        """Stop a process as SIGSTOP does, until its lease has expired."""
        self.engines[name].still = True
        self.advance(LEASE + 1)

    def moving(self, name: str) -> None:
        """Resume a stopped process."""
        self.engines[name].still = False
        self.stir()

    def stir(self) -> None:
        """Have every process poll for changes."""
        for engine in self.engines.values():
            engine.stir()

    def living(self, lease: int) -> bool:
        """True for a lease that is not over."""
        return lease in self.leases and self.leases[lease].expires > self.now

    def queued(self, conversation: str) -> bool:
        """True for a conversation in which a delivery is queued, or waits for a person."""
        one = self.kept._conversations.get(conversation)
        return one is not None and bool(is_at_work(one))

    def give(self, conversation: str, lease: int) -> Claim:
        """Have a process claim a conversation, whichever has it."""
        row = self.rows[conversation]
        row.previous, row.owner, row.epoch = row.owner or row.previous, lease, row.epoch + 1
        return Claim(lease, row.epoch)

    def move(self, conversation: str, name: str) -> None:
        """Have a conversation taken by a process with all that is queued in it, as from one taken for dead."""
        engine = self.engines[name]
        if self.rows[conversation].owner != engine.number:
            engine.gain({conversation: self.give(conversation, engine.number)})
            self.stir()


class SharedEngine(MemoryEngine):
    """The engine of one process. It reads the commits of every process at once."""

    shared = True
    at_once = False

    def __init__(self, storage: Storage) -> None:
        vars(self).update(vars(storage.kept))
        self.storage, self.still = storage, False
        self.number, self.marks = 0, self
        self.mine: dict[str, Claim] = {}
        self._given_up = False
        self._changes: asyncio.Queue[GainedClaims | LostClaims] = asyncio.Queue()
        self._news: asyncio.Queue[RemoteStep | None] = asyncio.Queue()
        self._wanted: Callable[[], Collection[str]] = tuple
        self._stirred = asyncio.Event()
        self._slots = 0
        self._asked: list[asyncio.Future[ArrivalOutcome]] = []
        self._owed: dict[str, ArrivalOutcome] = {}

    async def __aenter__(self) -> Self:
        self._begin()
        return self

    async def __aexit__(self, *_: object) -> None:
        """End as a killed process does: the lease stays until it expires."""
        self.still = True
        for asked in self._asked:
            asked.cancel()
        self._news.put_nowait(None)

    def _begin(self) -> None:
        """Begin an incarnation."""
        self.number = len(self.storage.leases) + 1
        self.storage.leases[self.number] = Lease(self.storage.now + LEASE)

    def stir(self) -> None:
        """Poll for changes, unless the process is stopped or does not reach the storage."""
        if self.still or self._given_up or self.storage.away or not self.number:
            return
        if not self.storage.living(self.number):
            self._begin()
        lost = {key for key, claim in self.mine.items() if not self._has(key, claim)}
        if lost:
            self.mine = {key: claim for key, claim in self.mine.items() if key not in lost}
            self._changes.put_nowait(LostClaims(frozenset(lost)))
        for group in self._left_over().values():
            self.gain({key: self.storage.give(key, self.number) for key in group})
        for handed in self.storage.inbox.values():
            if handed.fate is None and self._free(handed.arrival.conversation):
                key = handed.arrival.conversation
                self.mine[key] = self.storage.give(key, self.number)
        for key in list(self._owed):
            self._settle(key, self._owed.pop(key))
        stirred, self._stirred = self._stirred, asyncio.Event()
        stirred.set()

    def _left_over(self) -> Mapping[int, list[str]]:
        """Conversations that no process has and in which something is queued, by the lease that they were under."""
        found: dict[int, list[str]] = defaultdict(list)
        for key, row in self.storage.rows.items():
            if not self.storage.living(row.owner) and self.storage.queued(key):
                found[row.owner or row.previous].append(key)
        return found

    def gain(self, claims: Mapping[str, Claim]) -> None:
        """Have conversations that the pump is to take up."""
        self.mine.update(claims)
        previous = self.storage.rows[next(iter(claims))].previous
        self._changes.put_nowait(GainedClaims(claims, 0 if self.storage.living(previous) else previous))

    def _reach(self) -> None:
        if self.storage.away:
            raise EngineError("the storage is away")

    def _has(self, conversation: str, claim: Claim) -> bool:
        row = self.storage.rows.get(conversation)
        if row is None:  # nothing is committed in it yet, or another process has closed it
            return conversation not in self.storage.closed
        return (row.owner, row.epoch) == claim

    def _free(self, conversation: str) -> bool:
        row = self.storage.rows.get(conversation)
        if row is None or row.owner == self.number or self.storage.queued(conversation):
            return False
        return not self.storage.living(row.owner) or self.storage.now - row.rested >= REST

    # Claims

    def current_claim(self, conversation: str) -> Claim | None:
        return self.mine.get(conversation)

    async def claim(self, conversation: str) -> Claim | None:
        await asyncio.sleep(0)
        if conversation not in self.mine:
            self._reach()
            if self._given_up or not self._free(conversation):
                return None
            self.mine[conversation] = self.storage.give(conversation, self.number)
            self.storage.stir()
        return self.mine.get(conversation)

    def begin_claim(self, conversation: str) -> Claim:
        return self.mine.setdefault(conversation, Claim(self.number, 1))

    async def changes(self) -> AsyncIterator[GainedClaims | LostClaims]:
        self.stir()
        if self._changes.empty():
            yield GainedClaims({})
        while True:
            yield await self._changes.get()

    async def release(self, conversations: Collection[str]) -> None:
        given = {key: self.mine.pop(key) for key in conversations if key in self.mine}
        await asyncio.sleep(0)
        self._reach()
        unread = {one.arrival.conversation for one in self.storage.inbox.values() if one.fate is None}
        for key, claim in given.items():
            if key in self.storage.rows and self._has(key, claim):
                if key in unread:
                    self.mine.setdefault(key, claim)
                else:
                    self.storage.rows[key].owner, self.storage.rows[key].previous = 0, claim.owner
        self.storage.stir()

    async def give_up(self) -> None:
        self._reach()
        self._given_up = True
        self.mine.clear()
        for row in self.storage.rows.values():
            if row.owner == self.number:
                row.owner, row.previous = 0, self.number
        self.storage.leases[self.number].expires = 0.0
        self.storage.leases[self.number].ended = True
        self.storage.stir()

    # Work

    async def commit(self, claim: Claim, outcome: Outcome) -> None:
        await asyncio.sleep(0)
        self._reach()
        key = outcome.conversation.id
        begins = not (outcome.before or key in self.storage.rows or self._given_up)
        if self.storage.fencing and not (begins or self._keeps(key, claim)):
            if self.mine.get(key) == claim:
                del self.mine[key]
            raise FencedError("another process has the conversation")
        await super().commit(self._own_claim, outcome)
        row = self.storage.rows.setdefault(key, Row(*claim, self.storage.now))
        row.rested = self.storage.now
        if outcome.conversation.closed:
            del self.storage.rows[key]
            self.storage.closed.add(key)
            self.mine.pop(key, None)
            self.storage.stir()
        asks = bool(outcome.approvals) or any(record.event in _SETTLED for record in outcome.records)
        for engine in self.storage.engines.values():
            if engine is not self:
                place = max((event.place for event in outcome.replies), default=UNDECIDED)
                engine.hear(RemoteStep(key, place, asks))

    def _keeps(self, conversation: str, claim: Claim) -> bool:
        return conversation in self.storage.rows and self._has(conversation, claim)

    async def open_conversations(self) -> AsyncIterator[tuple[str, str]]:
        for nothing in self._nothing:
            yield nothing

    async def open_count(self, principal: str) -> int | None:
        await asyncio.sleep(0)
        return sum(one.principal == principal for one in self._conversations.values())

    async def idle(self, before: float) -> AsyncIterator[str]:
        async for key in super().idle(before):
            if key in self.mine or not self.storage.living(self.storage.rows[key].owner):
                yield key

    async def list_sleeping(self, most):
        found = [
            SleepingConversation(one.sleeps_until, key)
            for key, one in self._conversations.items()
            if one.sleeps_until is not None
        ]
        free = [
            each
            for each in found
            if each.id in self.mine or not self.storage.living(self.storage.rows[each.id].owner)
        ]
        return sorted(free)[:most]

    # Other processes

    def hear(self, news: RemoteStep) -> None:
        """A step was taken by another process."""
        if news.asks or news.conversation in self._wanted():
            self._news.put_nowait(news)

    async def news(self, wanted: Callable[[], Collection[str]]) -> AsyncIterator[RemoteStep]:
        self._wanted = wanted
        while (news := await self._news.get()) is not None:
            yield news

    async def hand_in(self, arrival: Arrival) -> asyncio.Future[ArrivalOutcome]:
        await asyncio.sleep(0)
        self._reach()
        handed = self.storage.inbox.setdefault(arrival.id, Handed(arrival))
        asked: asyncio.Future[ArrivalOutcome] = asyncio.get_running_loop().create_future()
        self._asked.append(asked)
        if handed.fate is None:
            handed.asked.append(asked)
        else:
            asked.set_result(handed.fate)
        self.storage.stir()
        return asked

    async def arrivals(self) -> AsyncIterator[Arrival]:
        given: dict[str, Claim] = {}
        while True:
            stirred = self._stirred
            for arrival in list(self._unread()):
                over = arrival.conversation not in self.storage.rows
                claim = Claim(0, 0) if over else self.mine.get(arrival.conversation)
                if claim is not None and not self.still and given.get(arrival.id) != claim:
                    given[arrival.id] = claim
                    yield arrival
                    break
            else:
                await stirred.wait()

    def _unread(self) -> Iterator[Arrival]:
        return (one.arrival for one in self.storage.inbox.values() if one.fate is None)

    def settle(self, arrival: Arrival, fate: ArrivalOutcome) -> None:
        self._settle(arrival.id, fate)

    def _settle(self, id_: str, fate: ArrivalOutcome) -> None:
        handed = self.storage.inbox[id_]
        if self.storage.away:
            self._owed[id_] = fate
        elif handed.fate is None:
            handed.fate = fate
            for asked in handed.asked:
                if not asked.done():
                    asked.set_result(fate)

    @asynccontextmanager
    async def exclusive(self, name: str) -> AsyncIterator[None]:
        tokens = self.storage.tokens
        while self.storage.living(tokens.get(name, 0)) and tokens[name] != self.number:
            await self._stirred.wait()
        tokens[name] = mine = self.number
        try:
            yield
        finally:
            if tokens.get(name) == mine:
                del tokens[name]
            self.storage.stir()

    # Marks

    async def previous_run(self, previous: int) -> PreviousRun:
        lease = self.storage.leases.get(previous)
        if lease is None or lease.ended:
            return NO_PREVIOUS_RUN._replace(ends=dict(self.storage.ends))
        return PreviousRun(frozenset(lease.running.values()), lease.held, dict(self.storage.ends))

    async def begin(self, suspects: Mapping[str, int], calls: int) -> None:
        self.storage.ends.update(suspects)

    def enter(self, delivery: str, conversation: str) -> int:
        self._slots += 1
        self.storage.leases[self.number].running[self._slots] = delivery
        return self._slots

    async def wait_until_marked(self, slot: int) -> None:
        await asyncio.sleep(0)

    def leave(self, slot: int) -> None:
        for lease in self.storage.leases.values():
            lease.running.pop(slot, None)

    def acquit(self, delivery: str) -> None:
        self.storage.ends.pop(delivery, None)

    def hold(self, delivery: str) -> None:
        self.storage.leases[self.number].held = delivery

    def end(self) -> None:
        self.storage.leases[self.number].ended = True
