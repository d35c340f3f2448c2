"""A process that shares its storage with others, as the checks of an engine see it: no pump, only decisions.

Owns waiting for what an engine tells by and by. Refuses to know which promise is tried.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self
from uuid import uuid4

from agentserver.core.decide import approving, decisions
from agentserver.core.messages import UNDECIDED, Outside
from agentserver.core.receipts import refused_with
from agentserver.core.state.approvals import ApprovalAnswer
from agentserver.engines.conformance.sample import BrokenPromiseError, hold
from agentserver.ports import Arrival, Fate, FencedError, RepeatedError
from agentserver.ports.tasks import ended

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
    from contextlib import AbstractAsyncContextManager
    from types import TracebackType

    from agentserver.core.messages import Done, Reply
    from agentserver.core.records.outcome import Outcome
    from agentserver.core.state.conversation import Conversation
    from agentserver.engines.conformance.sample import SampleConversation
    from agentserver.ports import Engine, Share

DRAWN = 10_000
"""Ids that are drawn for a conversation of one's own."""

SETTLED = 3
"""Looks in a row at which two processes hold what they held before: a busy storage hands over slowly."""

NAP = 0.01
"""Seconds between two looks at what an engine does not tell of by itself."""


@dataclass(frozen=True, slots=True)
class SharedSubject:
    """Storage that several engines share at once.

    Args:
        open: gives the engine of a process of that name, each of which has its own.
        still: stops a process, as SIGSTOP does, until its lease is over; returns when it is.
        moving: lets a stopped process go on.
        away: a context in which no process reaches the storage; it lasts ten seconds by the storage's own clock.
        prompt: seconds, less than a lease, in which what is given up on purpose is taken.
    """

    open: Callable[[str], Engine]
    still: Callable[[str], Awaitable[None]]
    moving: Callable[[str], Awaitable[None]]
    away: Callable[[], AbstractAsyncContextManager[None]]
    prompt: float = 1.0


class Process:
    """One engine on shared storage. An async context manager: entering opens the engine.

    Args:
        engine: of the process; not yet open.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.held: frozenset[Share] = frozenset()
        self._following: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        """Open the engine, and follow what it holds."""
        await self.engine.__aenter__()
        self._following = asyncio.create_task(self._follow())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the engine."""
        assert self._following is not None
        await ended([self._following])
        await self.engine.__aexit__(kind, error, trace)

    async def _follow(self) -> None:
        async for held in self.engine.shares():
            self.held = held

    async def until(self, there: Callable[[], bool]) -> None:
        """Wait until something is so."""
        while not there():  # noqa: ASYNC110 - what is awaited has no event of its own
            await asyncio.sleep(NAP)

    async def begun(self) -> None:
        """Wait until this process holds something."""
        await self.until(lambda: bool(self.held))

    async def settled(self, other: Process) -> None:
        """Wait until both hold something, and nothing moves between them any more."""
        before, looks = (self.held, other.held), 0
        while looks < SETTLED:
            await asyncio.sleep(10 * NAP)
            now = self.held, other.held
            looks = looks + 1 if all(now) and now == before else 0
            before = now

    async def owning(self, conversation: str) -> None:
        """Wait until a conversation is this process's."""
        await self.until(lambda: self.engine.share_of(conversation) in self.held)

    async def sees(self, outcome: Outcome) -> None:
        """Wait until a commit of another process can be read here."""
        while await self.engine.load(outcome.conversation.id) != outcome.conversation:  # noqa: ASYNC110 - what is awaited has no event of its own
            await asyncio.sleep(NAP)

    def share(self, outcome: Outcome) -> Share:
        """The share of what is to be committed here."""
        share = self.engine.share_of(outcome.conversation.id)
        hold(share is not None, "an owner has a share")
        assert share is not None
        return share

    async def commit(self, outcome: Outcome) -> None:
        """Commit as the owner."""
        await self.engine.commit(self.share(outcome), outcome)

    def begin(self, sample: SampleConversation) -> Conversation:
        """A new conversation that is this process's."""
        for _ in range(DRAWN):
            conversation = sample.opened()
            if self.engine.homely(conversation.id):
                return conversation
        raise BrokenPromiseError("a process that holds a share finds ids in it")

    @asynccontextmanager
    async def deciding(self, sample: SampleConversation) -> AsyncIterator[list[Outcome]]:
        """Decide about what is handed in for this process, as an owner does; gives the outcomes."""
        decided: list[Outcome] = []
        task = asyncio.create_task(self._decide(sample, decided))
        try:
            yield decided
        finally:
            await ended([task])

    async def _decide(self, sample: SampleConversation, decided: list[Outcome]) -> None:
        tasks: dict[Share, asyncio.Task[None]] = {}
        try:
            while True:
                for share in self.held - tasks.keys():
                    tasks[share] = asyncio.create_task(self._take(share, sample, decided))
                await asyncio.sleep(NAP)
        finally:
            for task in tasks.values():
                await ended([task])

    async def _take(self, share: Share, sample: SampleConversation, decided: list[Outcome]) -> None:
        async for arrival in self.engine.arrivals(share):
            with suppress(FencedError):
                fate = await self._fate(share, arrival, sample, decided)
                self.engine.arrived(share, arrival, fate)

    async def _fate(
        self, share: Share, arrival: Arrival, sample: SampleConversation, decided: list[Outcome]
    ) -> Fate:
        now, what = await self.engine.load(arrival.conversation), arrival.what
        if now is None:
            return Fate("over")
        if isinstance(what, ApprovalAnswer):
            outcome = approving.decide(now, what, sample.rules, sample.moment())
            if outcome is None:
                return Fate("no")
            await self.engine.commit(share, outcome)
            decided.append(outcome)
            return Fate()
        hold(isinstance(what, Outside), "what was handed in comes as it was")
        assert isinstance(what, Outside)
        if what.request in now.requests:  # an owner before this one has decided, and its word was lost
            return Fate(request=what.request)
        outcome = decisions.receive(now, what, sample.rules, sample.moment())
        try:
            await self.engine.commit(share, outcome)
        except RepeatedError as error:
            return Fate(
                error.receipt.code, error.receipt.request, again=error.receipt.request != what.request
            )
        decided.append(outcome)
        return Fate(refused_with(outcome.records), what.request, outcome.before)

    @asynccontextmanager
    async def hearing(self, conversation: str) -> AsyncIterator[Hearing]:
        """Read what leaves a conversation of another process whenever there is news of it."""
        hearing = Hearing(self, conversation)
        task = asyncio.create_task(hearing.listen())
        try:
            yield hearing
        finally:
            await ended([task])


class Hearing:
    """A gateway's view of a conversation that another process has.

    Args:
        process: of the gateway.
        conversation: the id.
    """

    def __init__(self, process: Process, conversation: str) -> None:
        self._process, self._conversation = process, conversation
        self._events: list[Reply | Done] = []
        self._over = False

    async def listen(self) -> None:
        """Read after each piece of news."""
        engine = self._process.engine
        async for heard in engine.heard():
            conversation = heard.conversation
            if conversation != self._conversation:
                continue
            last = self._events[-1].place if self._events else UNDECIDED
            while page := await engine.left(conversation, last, 2):
                self._events += page
                last = page[-1].place
            found = await engine.standing(conversation)
            self._over = found is not None and found.over

    async def until(self, events: Sequence[Reply | Done], *, over: bool = False) -> None:
        """Wait until so many events were read; they are these."""
        await self._process.until(lambda: len(self._events) >= len(events) and self._over >= over)
        plain = [event._replace(redelivered=False) for event in self._events]
        hold(plain == list(events), "what leaves elsewhere is read once, in order")


def handed_in(conversation: Conversation, what: Outside | ApprovalAnswer) -> Arrival:
    """An arrival for a conversation, from an operator."""
    return Arrival(str(uuid4()), conversation.id, None, what)
